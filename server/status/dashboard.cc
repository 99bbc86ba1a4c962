// The page at /. Everything that comes from outside enters it by textContent, never as HTML.
#include "server/status/pages.h"

namespace tally {

absl::string_view DashboardHtml() {
  static constexpr absl::string_view kHtml = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tally</title>
<style>
:root { color-scheme: light dark; --line: #8884; --dim: #888; --bar: #2a78d6; --bad: #d33; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
.dim { color: var(--dim); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line);
         white-space: nowrap; vertical-align: top; }
th { font-weight: 600; } td.reason { white-space: normal; min-width: 12rem; }
progress { width: 9rem; accent-color: var(--bar); vertical-align: middle; }
</style>
</head>
<body>
<h1>Tally</h1>
<p class="dim" id="server">loading …</p>
<h2>Jobs</h2>
<div class="scroll"><table>
<thead><tr><th>Job</th><th>Name</th><th>State</th><th>Rounds</th><th>Left</th><th>Loss</th>
<th>Accuracy</th><th title="payload bits a parameter in the last round">Bits up / down</th>
<th>Workers</th><th></th></tr></thead>
<tbody id="jobs"></tbody></table></div>
<h2>Workers</h2>
<div class="scroll"><table>
<thead><tr><th>Worker</th><th>Device</th><th>Job</th><th>Data sets</th><th>Labels</th>
<th>Heartbeat</th><th>Address</th><th>Version</th></tr></thead>
<tbody id="workers"></tbody></table></div>
<script>
"use strict";
const element = (name, text) => {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  return e;
};
const row = cells => {
  const tr = element("tr");
  for (const cell of cells) tr.append(cell instanceof Node ? cell : element("td", cell));
  return tr;
};
const fill = (id, rows, columns, none) => {
  if (rows.length === 0) {
    const td = element("td", none);
    td.colSpan = columns;
    td.className = "dim";
    rows = [row([td])];
  }
  document.getElementById(id).replaceChildren(...rows);
};
const number = (x, digits) => x === null ? "not finite" : x.toFixed(digits);
const duration = s => {
  if (s === null || s < 0) return "";
  s = Math.round(s);
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h ? `${h} h ${m} min` : m ? `${m} min ${s % 60} s` : `${s} s`;
};
const progress = job => {
  const td = element("td"), bar = element("progress");
  bar.max = Math.max(job.spec.rounds, 1);
  bar.value = job.round;
  td.append(bar, ` ${job.round} / ${job.spec.rounds}`);
  return td;
};
const stateCell = job => {
  const more = job.held ? "held" : job.queue_position || "";
  const td = element("td", more ? `${job.state} (${more})` : job.state);
  if (job.state === "FAILED") td.className = "bad";
  return td;
};
const places = job => {
  const want = job.spec.workers, attached = job.workers.filter(w => w.attached).length;
  return `${attached} / ${want.count}` + (want.max > want.count ? ` to ${want.max}` : "");
};
const jobRow = job => {
  const link = element("td"), a = element("a", job.job_id), reason = element("td", job.reason);
  a.href = "/jobs/" + encodeURIComponent(job.job_id);
  link.append(a);
  reason.className = "reason dim";
  const e = job.evaluation, ended = job.finished_at > 0;
  return row([link, job.spec.name, stateCell(job), progress(job),
              ended ? "" : duration(job.seconds_left),
              job.round ? number(job.loss, 4) : "",
              e.count ? (100 * e.correct / e.count).toFixed(2) + " %" : "",
              job.round ? `${number(job.bits_up, 2)} / ${number(job.bits_down, 2)}` : "",
              places(job), reason]);
};
const work = w => w.drained ? (w.job_id ? w.job_id + " (drained)" : "drained") : w.job_id || "free";
const workerRow = w => row([w.name, w.device, work(w), w.data_sets.join(", "),
  Object.entries(w.labels).map(([k, v]) => `${k}=${v}`).join(", "),
  w.connected ? number(w.heartbeat_age, 1) + " s" : "not connected", w.address, w.version]);
const show = status => {
  const line = document.getElementById("server");
  line.className = "dim";
  line.textContent = `version ${status.version} · gRPC ${status.address} · up ` +
      duration(status.uptime_seconds);
  fill("jobs", status.jobs.map(jobRow), 10, "no jobs yet");
  fill("workers", status.workers.map(workerRow), 8, "no workers connected");
};
const refresh = async () => {
  try {
    const answer = await fetch("/status", {cache: "no-store", signal: AbortSignal.timeout(5000)});
    if (!answer.ok) throw new Error("HTTP " + answer.status);
    show(await answer.json());
  } catch (error) {
    const line = document.getElementById("server");
    line.className = "bad";
    line.textContent = "The server does not answer (" + error.message + "); what you see is old.";
  }
  setTimeout(refresh, 2000);
};
refresh();
</script>
</body>
</html>
)html";
  return kHtml;
}

}  // namespace tally

#include "client/job_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text.h"

namespace tally {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

std::string Method(const v1::MethodSpec& method) {
  std::string text = method.name();
  for (const std::string& part : {method.aggregation(), method.ties()}) {
    if (!part.empty()) absl::StrAppend(&text, ", ", part);
  }
  return text;
}

// "local steps, 1 of 4 contributions here".
std::string Phase(const v1::JobStatus& job) {
  if (job.phase().empty()) return "";
  const auto taken = std::count_if(job.workers().begin(), job.workers().end(),
                                   [](const auto& worker) { return !worker.name().empty(); });
  return absl::StrCat(job.phase(), ", ", job.round_contributions(), " of ", taken,
                      " contributions here");
}

std::string MaskText(const v1::JobStatus& job) {
  if (job.mask_size() == 0 || job.parameters() == 0) return "";
  return absl::StrFormat("%d of %d parameters (%.3g%%)", job.mask_size(), job.parameters(),
                         100.0 * static_cast<double>(job.mask_size()) /
                             static_cast<double>(job.parameters()));
}

std::string SoupText(const v1::JobStatus& job) {
  if (job.soup().empty()) return "";
  return absl::StrCat("workers ", absl::StrJoin(job.soup(), ", "));
}

// What a worker is at in the open round.
std::string Doing(const v1::JobStatus& job, const v1::JobWorker& worker) {
  if (worker.contributed()) return "contributed";
  if (worker.chunks_received() > 0) {
    return absl::StrCat("sent ", worker.chunks_received(), "/", job.round_chunks());
  }
  const v1::LocalProgress& progress = worker.progress();
  if (progress.total() == 0) return "";
  const std::string done = absl::StrCat(progress.done(), "/", progress.total());
  return progress.loss() == 0 ? done : absl::StrFormat("%s, loss %.3f", done, progress.loss());
}

std::string EvaluationText(const v1::JobStatus& job) {
  const v1::Evaluation& evaluation = job.evaluation();
  if (evaluation.count() == 0) return "";
  return absl::StrFormat("%s (%d of %d), loss %.4f, after round %d", Accuracy(job),
                         evaluation.correct(), evaluation.count(),
                         evaluation.loss_sum() / static_cast<double>(evaluation.count()),
                         evaluation.round());
}

std::string Bits(const v1::JobStatus& job) {
  if (job.bits_up() <= 0) return "";
  return absl::StrFormat("%.3f up, %.3f down per parameter and worker", job.bits_up(),
                         job.bits_down());
}

std::string Digest(const v1::JobStatus& job) {
  if (job.parameters_digest().empty()) return "";
  return absl::StrCat(job.parameters_digest(), " after round ", job.parameters_digest_round());
}

// "2 attached, 3 of 5 places taken; quorum 2, minimum 1".
std::string Places(const v1::JobStatus& job) {
  if (job.workers().empty()) return "";
  const auto& workers = job.workers();
  const auto taken = std::count_if(workers.begin(), workers.end(),
                                   [](const auto& worker) { return !worker.name().empty(); });
  const auto attached = std::count_if(workers.begin(), workers.end(),
                                      [](const auto& worker) { return worker.attached(); });
  const v1::WorkersSpec& spec = job.spec().workers();
  return absl::StrCat(attached, " attached, ", taken, " of ", std::max(spec.max(), spec.count()),
                      " places taken; quorum ", spec.quorum(), ", minimum ", spec.minimum());
}

Lines Describe(const v1::JobStatus& job, absl::TimeZone zone) {
  const auto count = [](uint64_t n) { return n == 0 ? "" : absl::StrCat(n); };
  return {{"job", job.job_id()},
          {"name", job.spec().name()},
          {"state", StateText(job)},
          {"reason", job.reason()},
          {"queue", count(job.queue_position())},
          {"workers", Places(job)},
          {"model", job.spec().model().architecture()},
          {"parameters", count(job.parameters())},
          {"data", job.spec().data().name()},
          {"method", Method(job.spec().method())},
          {"mask", MaskText(job)},
          {"round", Rounds(job)},
          {"phase", Phase(job)},
          {"soup", SoupText(job)},
          {"loss", Loss(job)},
          {"accuracy", EvaluationText(job)},
          {"samples", count(job.samples())},
          {"bits", Bits(job)},
          {"time left", job.state() == v1::RUNNING ? ShortDuration(job.seconds_left()) : ""},
          {"digest", Digest(job)},
          {"mismatches", count(job.mismatches())},
          {"kept", job.first_kept_round() > 1
                       ? absl::StrCat("rounds from ", job.first_kept_round(), " on")
                       : ""},
          {"submitted", ShortTime(job.submitted_at(), zone)},
          {"started", ShortTime(job.started_at(), zone)},
          {"finished", ShortTime(job.finished_at(), zone)}};
}

std::vector<std::string> Row(const v1::JobStatus& job, const v1::JobWorker& worker) {
  return {worker.name().empty() ? "(vacant)" : worker.name(),
          absl::StrCat(worker.index()),
          worker.attached() ? "yes" : "no",
          absl::StrCat(worker.last_round()),
          absl::StrCat(worker.contributions()),
          absl::StrCat(worker.refused()),
          ShortBytes(worker.bytes_up()),
          ShortBytes(worker.bytes_down()),
          Doing(job, worker)};
}

}  // namespace

std::string JobText(const v1::JobStatus& job, absl::TimeZone zone) {
  std::string text;
  for (const auto& [key, value] : Describe(job, zone)) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-11s %s\n", key, Printable(value));
  }
  if (job.workers().empty()) return text;
  std::vector<std::vector<std::string>> rows;
  for (const v1::JobWorker& worker : job.workers()) rows.push_back(Row(job, worker));
  return text + "\n" +
         Table({"WORKER", "INDEX", "ATTACHED", "ROUND", "COUNTED", "REFUSED", "SENT", "RECEIVED",
                "NOW"},
               rows);
}

}  // namespace tally

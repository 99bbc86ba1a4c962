#include "client/progress.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text.h"

namespace tally {
namespace {

constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 10;

double Share(const v1::JobStatus& job) {
  if (job.spec().rounds() == 0) return 0;
  return std::clamp(static_cast<double>(job.round()) / static_cast<double>(job.spec().rounds()),
                    0.0, 1.0);
}

std::string Bar(double share, int width) {
  const int full = static_cast<int>(share * width);
  std::string bar(full, '=');
  if (full < width) bar += '>';
  bar.resize(width, ' ');
  return absl::StrCat("[", bar, "]");
}

void AddIfAny(std::vector<std::string>& fields, const char* name, const std::string& value) {
  if (!value.empty()) fields.push_back(absl::StrCat(name, " ", value));
}

// Most important first.
std::vector<std::string> Fields(const v1::JobStatus& job) {
  std::vector<std::string> fields;
  AddIfAny(fields, "loss", Loss(job));
  AddIfAny(fields, "acc", Accuracy(job));
  const bool running = job.state() == v1::RUNNING;
  if (running && (job.phase() == "local steps" || job.phase() == "scores for a mask")) {
    AddIfAny(fields, "in:", job.phase());
  }
  AddIfAny(fields, "left", running ? ShortDuration(job.seconds_left()) : "");
  if (job.queue_position() > 0) AddIfAny(fields, "queue", absl::StrCat(job.queue_position()));
  if (job.bits_up() > 0) {
    fields.push_back(
        absl::StrFormat("bits/param up %.2f down %.2f", job.bits_up(), job.bits_down()));
  }
  if (job.state() != v1::RUNNING) AddIfAny(fields, "-", Printable(job.reason()));
  return fields;
}

bool IsNotable(const v1::JobStatus& before, const v1::JobStatus& now) {
  const auto tenth = [](const v1::JobStatus& job) { return static_cast<int>(Share(job) * 10); };
  return before.state() != now.state() || before.held() != now.held() || before.reason() != now.reason() ||
         before.evaluation().round() != now.evaluation().round() ||
         before.evaluation().count() != now.evaluation().count() || tenth(before) != tenth(now);
}

}  // namespace

std::string ProgressLine(const v1::JobStatus& job, int width) {
  const std::string head =
      absl::StrCat(Printable(job.spec().name()).substr(0, 24), " ", StateText(job), " ");
  const std::string rounds = absl::StrCat(" ", Rounds(job));
  const int spare = width - static_cast<int>(head.size() + rounds.size()) - 2;
  std::string line = head;
  if (spare >= kNarrowestBar) {
    const int bar = std::clamp(spare / 3, kNarrowestBar, kWidestBar);
    line += Bar(Share(job), bar);
  }
  line += rounds;
  for (const std::string& field : Fields(job)) {
    if (static_cast<int>(line.size() + 2 + field.size()) > width) break;
    absl::StrAppend(&line, "  ", field);
  }
  return line.substr(0, std::max(width, 0));
}

std::optional<std::string> NotableLine(const v1::JobStatus* before, const v1::JobStatus& now) {
  if (before != nullptr && !IsNotable(*before, now)) return std::nullopt;
  std::string line = absl::StrCat(StateText(now), "  round ", Rounds(now));
  for (const std::string& field : Fields(now)) absl::StrAppend(&line, "  ", field);
  return line;
}

std::string VerifyLine(const v1::VerifyProgress& progress, int width) {
  const uint64_t all = progress.last_round() - progress.first_round();
  const uint64_t done = progress.round() - progress.first_round();
  const double share = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
  std::string line = "verifying ";
  if (width >= 2 * kNarrowestBar + 30) {
    line += Bar(std::clamp(share, 0.0, 1.0), std::clamp(width / 3, kNarrowestBar, kWidestBar));
  }
  absl::StrAppend(&line, " ", progress.round(), "/", progress.last_round(), "  digests ",
                  progress.worker_digests() + progress.snapshot_digests());
  if (progress.difference_count() > 0) {
    absl::StrAppend(&line, "  differences ", progress.difference_count());
  }
  return line.substr(0, static_cast<size_t>(std::max(width, 0)));
}

std::string VerifySummary(const v1::VerifyProgress& result) {
  const auto number = [](uint64_t count, const char* noun) {
    return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
  };
  std::string text = absl::StrCat(
      "rounds ", result.first_round(), "..", result.round(), " replayed; ",
      number(result.worker_digests(), "worker digest"), " and ",
      number(result.snapshot_digests(), "snapshot"), " compared: ",
      result.difference_count() == 0 ? "all equal" : number(result.difference_count(), "difference"));
  if (result.round() < result.last_round()) {
    absl::StrAppend(&text, "\nthe replay ends before round ", result.round() + 1, " of ",
                    result.last_round());
  } else if (!result.parameters_digest().empty()) {
    absl::StrAppend(&text, "\nparameters after round ", result.round(), ": ",
                    result.parameters_digest());
  }
  return text;
}

}  // namespace tally

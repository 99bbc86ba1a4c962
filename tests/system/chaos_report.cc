#include "tests/system/chaos_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tally::testing {
namespace {

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

}  // namespace

void ChaosReport::Begin(const Fault& fault, uint64_t round) {
  lines_.push_back({fault, round, absl::Now(), absl::InfiniteDuration(), ""});
}

void ChaosReport::StartClock(uint64_t round) {
  lines_.back().round = round;
  lines_.back().since = absl::Now();
  lines_.back().recovery = absl::InfiniteDuration();
}

void ChaosReport::Note(const std::string& note) { lines_.back().note = note; }

void ChaosReport::Observe(uint64_t round) {
  // The clock of the last one may start anew; the others' have the same order as their rounds.
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    if (line->recovery != absl::InfiniteDuration()) continue;
    if (round > line->round) line->recovery = absl::Now() - line->since;
  }
}

size_t ChaosReport::recovered() const {
  return static_cast<size_t>(std::count_if(lines_.begin(), lines_.end(), [](const Line& line) {
    return line.recovery != absl::InfiniteDuration();
  }));
}

std::string ChaosReport::Line::ToString() const {
  return absl::StrCat(fault.ToString(), ", came at ", round, ", recovery ", Seconds(recovery),
                      note.empty() ? "" : ", ", note);
}

std::string ChaosReport::Events() const {
  std::string events;
  for (size_t i = 0; i < lines_.size(); ++i) {
    absl::StrAppend(&events, i, ". ", lines_[i].ToString(), "\n");
  }
  return events;
}

std::string ChaosReport::Summary() const {
  std::map<FaultKind, int> counts;
  std::vector<const Line*> lines;
  for (const Line& line : lines_) {
    ++counts[line.fault.kind];
    lines.push_back(&line);
  }
  std::string summary = absl::StrCat(lines.size(), " faults:");
  for (const auto& [kind, count] : counts) {
    absl::StrAppend(&summary, " ", NameOf(kind), " ", count, ",");
  }
  if (lines.empty()) return summary;
  std::sort(lines.begin(), lines.end(),
            [](const Line* a, const Line* b) { return a->recovery < b->recovery; });
  absl::StrAppend(&summary, " recovery median ", Seconds(lines[lines.size() / 2]->recovery),
                  ", worst ", Seconds(lines.back()->recovery), " (", lines.back()->ToString(), ")");
  return summary;
}

}  // namespace tally::testing

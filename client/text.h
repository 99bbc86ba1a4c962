// Small pieces of text for people. All pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// On one line: line ends become "; ", other control characters, which a terminal would obey, '?'.
// UTF-8 stays.
std::string Printable(absl::string_view text);

// "42s", "3m05s", "1h02m", "2d03h"; "" if negative.
std::string ShortDuration(double seconds);
// Local time, "2026-01-31 09:05:00"; "" for 0.
std::string ShortTime(double seconds_since_epoch, absl::TimeZone zone);
// "812 B", "1.5 MiB".
std::string ShortBytes(uint64_t bytes);

std::string StateName(v1::JobState state);
// "RUNNING (held)": with what a person said.
std::string StateText(const v1::JobStatus& job);
bool IsTerminal(v1::JobState state);

// "84.20%", "" without an evaluation.
std::string Accuracy(const v1::JobStatus& job);
// "0.4321", "" before the first round.
std::string Loss(const v1::JobStatus& job);
// "412/1000".
std::string Rounds(const v1::JobStatus& job);

// At most `columns` characters of it, the last one "…" if some were cut.
std::string Cut(const std::string& text, size_t columns);

// Columns aligned, two spaces between them; cells are made Printable. Every line ends in a newline.
std::string Table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows);
// The same in `width` columns if cutting the cells of `column` to no less than 8 achieves that.
std::string TableWithin(int width, size_t column, const std::vector<std::string>& header,
                        std::vector<std::vector<std::string>> rows);

}  // namespace tally

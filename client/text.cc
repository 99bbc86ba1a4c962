#include "client/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace tally {
namespace {

// Characters, not bytes: UTF-8 continuation bytes take no column.
size_t Columns(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](unsigned char c) { return (c & 0xC0) != 0x80; });
}

std::string Row(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool last = i + 1 == cells.size();
    absl::StrAppend(&line, cells[i]);
    if (!last) line.append(widths[i] - Columns(cells[i]) + 2, ' ');
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return line + "\n";
}

}  // namespace

std::string Printable(absl::string_view text) {
  // Several problems of one file come a line each; they stay apart on one line.
  std::string printable =
      absl::StrReplaceAll(absl::StripTrailingAsciiWhitespace(text), {{"\n", "; "}});
  std::replace_if(
      printable.begin(), printable.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); },
      '?');
  return printable;
}

std::string ShortDuration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "";
  const auto total = static_cast<int64_t>(std::llround(seconds));
  const int64_t minutes = total / 60, hours = total / 3600, days = total / 86400;
  if (days > 0) return absl::StrFormat("%dd%02dh", days, hours % 24);
  if (hours > 0) return absl::StrFormat("%dh%02dm", hours, minutes % 60);
  if (minutes > 0) return absl::StrFormat("%dm%02ds", minutes, total % 60);
  return absl::StrFormat("%ds", total);
}

std::string ShortTime(double seconds_since_epoch, absl::TimeZone zone) {
  if (!(seconds_since_epoch > 0)) return "";
  const absl::Time time = absl::UnixEpoch() + absl::Seconds(seconds_since_epoch);
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, zone);
}

std::string ShortBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

std::string StateName(v1::JobState state) {
  if (!v1::JobState_IsValid(state)) return absl::StrCat("STATE_", static_cast<int>(state));
  return v1::JobState_Name(state);
}

std::string StateText(const v1::JobStatus& job) {
  return absl::StrCat(StateName(job.state()), job.held() ? " (held)" : "");
}

bool IsTerminal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

std::string Accuracy(const v1::JobStatus& job) {
  const v1::Evaluation& evaluation = job.evaluation();
  if (evaluation.count() == 0) return "";
  const double share =
      static_cast<double>(evaluation.correct()) / static_cast<double>(evaluation.count());
  return absl::StrFormat("%.2f%%", 100 * share);
}

std::string Loss(const v1::JobStatus& job) {
  return job.round() == 0 ? "" : absl::StrFormat("%.4f", job.loss());
}

std::string Rounds(const v1::JobStatus& job) {
  return absl::StrCat(job.round(), "/", job.spec().rounds());
}

std::string Cut(const std::string& text, size_t columns) {
  if (Columns(text) <= columns) return text;
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && ++seen == columns) break;
  }
  return text.substr(0, end) + "…";
}

std::string TableWithin(int width, size_t column, const std::vector<std::string>& header,
                        std::vector<std::vector<std::string>> rows) {
  constexpr size_t kNarrowest = 8;
  size_t widest = 0;  // of the column
  size_t line = 0;
  const std::string table = Table(header, rows);
  for (const absl::string_view each : absl::StrSplit(table, '\n')) line = std::max(line, Columns(each));
  const auto limit = static_cast<size_t>(std::max(width, 0));
  if (line <= limit) return table;
  for (std::vector<std::string>& row : rows) {
    row[column] = Printable(row[column]);
    widest = std::max(widest, Columns(row[column]));
  }
  const size_t excess = line - limit;
  const size_t fit = std::max(kNarrowest, widest - std::min(widest, excess));
  for (std::vector<std::string>& row : rows) row[column] = Cut(row[column], fit);
  return Table(header, rows);
}

std::string Table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> lines = {header};
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<size_t> widths(header.size());
  for (auto& line : lines) {
    line.resize(header.size());
    for (size_t i = 0; i < line.size(); ++i) {
      line[i] = Printable(line[i]);
      widths[i] = std::max(widths[i], Columns(line[i]));
    }
  }
  std::string table;
  for (const auto& line : lines) table += Row(line, widths);
  return table;
}

}  // namespace tally

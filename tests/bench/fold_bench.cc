// The fold's speed: parameters times rounds a second, one round a pass and 16 rounds a pass, each
// against a plain pass that reads and writes the same parameters. Turn by turn in one run, one core,
// medians of the thread's own time; majority rounds. In memory, and in a working file as the server
// folds in.
//
// fold_bench [--parameters=67108864] [--repetitions=9] [--folder=/tmp]
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/update/apply_round.h"
#include "server/ledger/working_array.h"
#include "tests/bench/bench_rounds.h"

namespace tally::bench {
namespace {

constexpr size_t kRounds = 16;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Row {
  std::string name;
  double rounds;  // of one call
  std::function<void()> run;
  std::vector<double> seconds = {};
};

// Reads and writes each parameter once.
void PlainPass(absl::Span<float> parameters) {
  for (float& x : parameters) x = -x;
}

// Times the rows in turn after one run of each to warm up.
void Measure(std::vector<Row>& rows, int repetitions) {
  for (int i = -1; i < repetitions; ++i) {
    for (Row& row : rows) {
      const double start = ThreadSeconds();
      row.run();
      if (i >= 0) row.seconds.push_back(ThreadSeconds() - start);
    }
  }
}

// The last column: passes over memory that a pass of the fold takes the time of.
void Print(const std::vector<Row>& rows, double parameters) {
  const double plain = Median(rows.front().seconds);
  std::printf("%-28s %10s %14s %12s\n", "", "ms a pass", "G param*rounds", "plain passes");
  for (const Row& row : rows) {
    const double seconds = Median(row.seconds);
    std::printf("%-28s %10.2f %14.2f %12.2f\n", row.name.c_str(), seconds * 1e3,
                row.rounds * parameters / seconds / 1e9, seconds / plain);
  }
}

void Run(uint64_t parameters, int repetitions, const std::string& folder) {
  const Layout layout = OneBlock(parameters);
  std::vector<BenchRound> rounds;
  for (uint64_t number = 1; number <= kRounds; ++number) {
    rounds.push_back(MajorityRound(layout, number));
  }
  std::vector<LedgerStep> steps;
  for (const BenchRound& round : rounds) steps.push_back({&round.spec, round.spans});
  std::vector<float> values(parameters, 1.0f);
  const absl::Span<float> x = absl::MakeSpan(values);
  auto working = WorkingArray::CopyOf(folder, values);
  Check(working.status());
  const auto apply_to = [&](absl::Span<float> to, size_t first, size_t count) {
    Check(ApplyRounds(layout, absl::MakeSpan(steps).subspan(first, count), to, {}));
  };
  const auto apply = [&](size_t first, size_t count) { apply_to(x, first, count); };
  std::vector<Row> rows;
  rows.push_back({"plain read and write", 0, [&] { PlainPass(x); }});
  rows.push_back({"1 round a pass", 1, [&] { apply(0, 1); }});
  rows.push_back({"4 rounds a pass", 4, [&] { apply(0, 4); }});
  rows.push_back({"16 rounds a pass", kRounds, [&] { apply(0, kRounds); }});
  rows.push_back({"16 rounds, 16 passes", kRounds, [&] {
                    for (size_t i = 0; i < kRounds; ++i) apply(i, 1);
                  }});
  rows.push_back({"1 round a pass, in a file", 1, [&] { apply_to(working->values(), 0, 1); }});
  rows.push_back({"16 rounds a pass, in a file", kRounds,
                  [&] { apply_to(working->values(), 0, kRounds); }});
  Measure(rows, repetitions);
  Print(rows, static_cast<double>(parameters));
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  uint64_t parameters = 64u << 20;
  int repetitions = 9;
  std::string folder = "/tmp";
  CLI::App app("The speed of the fold");
  app.add_option("--parameters", parameters)->check(CLI::PositiveNumber);
  app.add_option("--repetitions", repetitions)->check(CLI::PositiveNumber);
  app.add_option("--folder", folder)->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  tally::bench::Run(parameters, repetitions, folder);
  return 0;
}

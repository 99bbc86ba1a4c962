#include "server/status/metrics.h"

#include <cmath>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/status/fake_source.h"

namespace tally {
namespace {

using testing::MakeSnapshot;
using ::testing::HasSubstr;
using ::testing::Not;

// The value of the line "SERIES VALUE".
double ValueOf(const std::string& text, const std::string& series) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, series + " ") && absl::SimpleAtod(line, &value)) return value;
  }
  ADD_FAILURE() << "no " << series << " in\n" << text;
  return -1;
}

TEST(Metrics, EverythingIsThereBeforeAnythingHappened) {
  const std::string text = Metrics().Text(StatusSnapshot());
  for (const char* series :
       {"tally_rounds_closed_total", "tally_contribution_bytes_total", "tally_aggregate_bytes_total",
        "tally_jobs_submitted_total", "tally_round_duration_seconds_count",
        "tally_contributions_refused_total{reason=\"late\"}",
        "tally_contributions_refused_total{reason=\"damaged\"}",
        "tally_contributions_refused_total{reason=\"abstained\"}", "tally_jobs{state=\"PENDING\"}",
        "tally_jobs{state=\"CANCELLED\"}", "tally_workers{state=\"free\"}",
        "tally_workers{state=\"busy\"}", "tally_workers{state=\"drained\"}", "tally_uptime_seconds"}) {
    EXPECT_EQ(ValueOf(text, series), 0) << series;
  }
  EXPECT_GT(ValueOf(text, "tally_resident_memory_bytes"), 1e6);
}

TEST(Metrics, Counts) {
  Metrics metrics;
  metrics.RoundClosed(absl::Milliseconds(3));
  metrics.RoundClosed(absl::Seconds(3));
  metrics.RoundClosed(absl::Hours(1));
  metrics.ContributionBytes(100);
  metrics.ContributionBytes(uint64_t{1} << 40);
  metrics.AggregateBytes(25);
  metrics.Refused("late");
  metrics.Refused("late");
  metrics.JobSubmitted();
  const std::string text = metrics.Text(MakeSnapshot());
  EXPECT_EQ(ValueOf(text, "tally_rounds_closed_total"), 3);
  EXPECT_EQ(ValueOf(text, "tally_contribution_bytes_total"), 100 + std::ldexp(1, 40));
  EXPECT_EQ(ValueOf(text, "tally_aggregate_bytes_total"), 25);
  EXPECT_EQ(ValueOf(text, "tally_contributions_refused_total{reason=\"late\"}"), 2);
  EXPECT_EQ(ValueOf(text, "tally_contributions_refused_total{reason=\"damaged\"}"), 0);
  EXPECT_EQ(ValueOf(text, "tally_jobs_submitted_total"), 1);
  EXPECT_EQ(ValueOf(text, "tally_round_duration_seconds_count"), 3);
  EXPECT_DOUBLE_EQ(ValueOf(text, "tally_round_duration_seconds_sum"), 3603.003);
  EXPECT_EQ(ValueOf(text, "tally_round_duration_seconds_bucket{le=\"0.00390625\"}"), 1);
  EXPECT_EQ(ValueOf(text, "tally_round_duration_seconds_bucket{le=\"4\"}"), 2);
  EXPECT_EQ(ValueOf(text, "tally_round_duration_seconds_bucket{le=\"+Inf\"}"), 3);
}

TEST(Metrics, GaugesOfTheSnapshot) {
  const std::string text = Metrics().Text(MakeSnapshot());
  EXPECT_EQ(ValueOf(text, "tally_jobs{state=\"RUNNING\"}"), 1);
  EXPECT_EQ(ValueOf(text, "tally_jobs{state=\"SUCCEEDED\"}"), 1);
  EXPECT_EQ(ValueOf(text, "tally_jobs{state=\"FAILED\"}"), 0);
  EXPECT_EQ(ValueOf(text, "tally_workers{state=\"free\"}"), 2);
  EXPECT_EQ(ValueOf(text, "tally_workers{state=\"busy\"}"), 1);
  EXPECT_EQ(ValueOf(text, "tally_uptime_seconds"), 1.5);
}

TEST(Metrics, NoLabelNamesAJobOrAWorker) {
  const std::string text = Metrics().Text(MakeSnapshot());
  for (const char* name : {"job-1", "job-2", "alpha", "fashion"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(Metrics, EveryFamilyHasHelpAndType) {
  const std::string text = Metrics().Text(MakeSnapshot());
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "# TYPE ")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    EXPECT_THAT(text, HasSubstr(absl::StrCat("# HELP ", words[0], " ")));
    EXPECT_EQ(words[1] == "counter", absl::EndsWith(words[0], "_total")) << line;
  }
}

TEST(Metrics, ManyThreads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) {
        metrics.RoundClosed(absl::Milliseconds(1));
        metrics.Refused("damaged");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.Text(StatusSnapshot());
  EXPECT_EQ(ValueOf(text, "tally_rounds_closed_total"), 4000);
  EXPECT_EQ(ValueOf(text, "tally_contributions_refused_total{reason=\"damaged\"}"), 4000);
}

TEST(Metrics, DrainedWorkersAreNeitherFreeNorBusy) {
  StatusSnapshot snapshot = MakeSnapshot();
  for (v1::WorkerInfo& worker : snapshot.workers) worker.set_drained(true);
  const std::string text = Metrics().Text(snapshot);
  EXPECT_EQ(ValueOf(text, "tally_workers{state=\"free\"}"), 0);
  EXPECT_EQ(ValueOf(text, "tally_workers{state=\"busy\"}"), 0);
  EXPECT_EQ(ValueOf(text, "tally_workers{state=\"drained\"}"), 3);
}

}  // namespace
}  // namespace tally

#include "client/text.h"

#include "client/job_text.h"
#include "client/json.h"
#include "client/progress.h"
#include "gmock/gmock.h"

namespace tally {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::JobStatus Running() {
  v1::JobStatus job;
  job.set_job_id("j1");
  job.mutable_spec()->set_name("demo");
  job.mutable_spec()->set_rounds(100);
  job.set_state(v1::RUNNING);
  job.set_round(50);
  job.set_loss(0.43214);
  job.mutable_evaluation()->set_correct(842);
  job.mutable_evaluation()->set_count(1000);
  job.set_seconds_left(80);
  job.set_bits_up(1.004);
  job.set_bits_down(1);
  return job;
}

TEST(Text, Durations) {
  EXPECT_EQ(ShortDuration(-1), "");
  EXPECT_EQ(ShortDuration(0), "0s");
  EXPECT_EQ(ShortDuration(59.6), "1m00s");
  EXPECT_EQ(ShortDuration(3720), "1h02m");
  EXPECT_EQ(ShortDuration(2 * 86400 + 3 * 3600), "2d03h");
}

TEST(Text, BytesAndTimes) {
  EXPECT_EQ(ShortBytes(812), "812 B");
  EXPECT_EQ(ShortBytes(1536), "1.5 KiB");
  EXPECT_EQ(ShortBytes(uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(ShortTime(0, absl::UTCTimeZone()), "");
  EXPECT_EQ(ShortTime(86400, absl::UTCTimeZone()), "1970-01-02 00:00:00");
}

TEST(Text, PrintableKeepsProblemsApartOnOneLine) {
  EXPECT_EQ(Printable("a: unknown key\nb: unknown key\n"), "a: unknown key; b: unknown key");
  EXPECT_EQ(Printable("a\tb\x1b[2J"), "a?b?[2J");
}

TEST(Text, TableAlignsByCharacters) {
  EXPECT_EQ(Table({"A", "B"}, {{"å", "1"}, {"long", "2"}, {"x\x1b", ""}}),
            "A     B\nå     1\nlong  2\nx?\n");
}

TEST(Text, ProgressLineShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(ProgressLine(Running(), 120),
            "demo RUNNING [===============>              ] 50/100  loss 0.4321  acc 84.20%  left "
            "1m20s  bits/param up 1.00 down 1.00");
}

TEST(Text, ProgressLineNeverExceedsTheWidth) {
  for (int width = 0; width < 150; ++width) {
    EXPECT_LE(ProgressLine(Running(), width).size(), static_cast<size_t>(width));
  }
  EXPECT_THAT(ProgressLine(Running(), 60), AllOf(HasSubstr("50/100"), Not(HasSubstr("bits"))));
}

TEST(Text, ProgressLineOfOddStatuses) {
  v1::JobStatus job;
  EXPECT_THAT(ProgressLine(job, 80), HasSubstr("0/0"));
  job = Running();
  job.set_round(200);  // more than the spec says
  EXPECT_THAT(ProgressLine(job, 80), HasSubstr("=]"));
  job.mutable_spec()->set_name("a\x1b[2Jb");
  EXPECT_THAT(ProgressLine(job, 80), Not(HasSubstr("\x1b")));
}

TEST(Text, NotableChanges) {
  const v1::JobStatus before = Running();
  v1::JobStatus now = before;
  EXPECT_TRUE(NotableLine(nullptr, now).has_value());
  now.set_round(59);
  EXPECT_FALSE(NotableLine(&before, now).has_value());
  now.set_round(60);
  EXPECT_TRUE(NotableLine(&before, now).has_value());
  now = before;
  now.set_state(v1::PAUSED);
  EXPECT_TRUE(NotableLine(&before, now).has_value());
  now = before;
  now.mutable_evaluation()->set_round(50);
  EXPECT_TRUE(NotableLine(&before, now).has_value());
}

TEST(Text, JobTextLeavesOutWhatIsNotThere) {
  v1::JobStatus job = Running();
  v1::JobWorker& worker = *job.add_workers();
  worker.set_name("w1");
  worker.set_bytes_up(2048);
  const std::string text = JobText(job, absl::UTCTimeZone());
  EXPECT_THAT(text, AllOf(HasSubstr("state       RUNNING\n"), HasSubstr("84.20% (842 of 1000)"),
                          HasSubstr("2.0 KiB"), Not(HasSubstr("finished"))));
}

TEST(Text, JobTextShowsPlacesAndHolds) {
  v1::JobStatus job = Running();
  job.set_held(true);
  job.set_first_kept_round(51);
  job.mutable_spec()->mutable_workers()->set_count(2);
  job.mutable_spec()->mutable_workers()->set_max(3);
  job.mutable_spec()->mutable_workers()->set_quorum(2);
  job.mutable_spec()->mutable_workers()->set_minimum(1);
  job.add_workers()->set_name("w1");
  job.mutable_workers(0)->set_attached(true);
  job.add_workers()->set_index(1);
  EXPECT_THAT(JobText(job, absl::UTCTimeZone()),
              AllOf(HasSubstr("state       RUNNING (held)\n"),
                    HasSubstr("1 attached, 1 of 3 places taken; quorum 2, minimum 1"),
                    HasSubstr("(vacant)"), HasSubstr("rounds from 51 on")));
  EXPECT_THAT(ProgressLine(job, 80), HasSubstr("RUNNING (held)"));
}

TEST(Text, CutLeavesTheWidth) {
  EXPECT_EQ(Cut("abcdef", 6), "abcdef");
  EXPECT_EQ(Cut("abcdef", 5), "abcd…");
  EXPECT_EQ(Cut("äöüß", 3), "äö…");
  EXPECT_EQ(Cut("ab", 1), "…");
}

TEST(Text, TableIsCutToTheWidthWhereItCanBe) {
  const std::vector<std::string> header = {"JOB", "NAME", "STATE"};
  const std::string name(100, 'n');
  const std::vector<std::vector<std::string>> rows = {{"job-1", name, "RUNNING"},
                                                      {"job-2", "short", "PENDING"}};
  EXPECT_EQ(TableWithin(200, 1, header, rows), Table(header, rows));
  const std::string cut = TableWithin(40, 1, header, rows);
  EXPECT_THAT(cut, AllOf(HasSubstr("job-1  " + std::string(23, 'n') + "…  RUNNING\n"),
                         HasSubstr("short")));
  EXPECT_THAT(TableWithin(5, 1, header, rows), HasSubstr("nnnnnnn…  RUNNING"));
}

TEST(Json, NumbersStayNumbers) {
  v1::JobStatus job = Running();
  (*job.mutable_spec()->mutable_workers()->mutable_labels())["a"] = "b";
  job.set_samples(uint64_t{1} << 60);
  const auto json = ToJson(job);
  EXPECT_EQ(json["samples"], uint64_t{1} << 60);
  EXPECT_EQ(json["state"], "RUNNING");
  EXPECT_EQ(json["spec"]["workers"]["labels"]["a"], "b");
  EXPECT_EQ(json["mismatches"], 0);
  EXPECT_TRUE(json["workers"].is_array());
}

TEST(Json, NanIsNullAndBadTextIsReplaced) {
  v1::JobStatus job;
  job.set_loss(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(ToJson(job)["loss"].is_null());
  EXPECT_EQ(JsonLine("\xff"), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace tally

#include "client/progress.h"
#include "nlohmann/json.hpp"
#include "tests/client/command_test.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::VerifyProgress Progress(uint64_t round, bool done = false) {
  v1::VerifyProgress progress;
  progress.set_last_round(40);
  progress.set_round(round);
  progress.set_worker_digests(round / 5 * 2);
  progress.set_snapshot_digests(round / 20);
  progress.set_done(done);
  if (done) progress.set_parameters_digest("0123456789abcdef");
  return progress;
}

v1::Difference Differs(uint64_t round, const std::string& block, const std::string& source) {
  v1::Difference difference;
  difference.set_round(round);
  difference.set_block(block);
  difference.set_source(source);
  difference.set_expected("00000000000000aa");
  difference.set_found("00000000000000bb");
  return difference;
}

class Verify : public CommandTest {
 protected:
  Verify() { service().verification = {Progress(0), Progress(20), Progress(40, true)}; }
  // Adds a difference to each of the messages from the second on.
  void AddDifferences() {
    auto& messages = service().verification;
    *messages[1].add_differences() = Differs(20, "layer.1", "snapshot");
    messages[1].set_difference_count(1);
    *messages[2].add_differences() = Differs(35, "", "bob");
    messages[2].set_difference_count(3);
  }
};

TEST_F(Verify, AllEqual) {
  const Result result = Run({"verify", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kOk) << result.err;
  EXPECT_EQ(result.out,
            "rounds 0..40 replayed; 16 worker digests and 2 snapshots compared: all equal\n"
            "parameters after round 40: 0123456789abcdef\n");
  EXPECT_EQ(service().verified.job_id(), "job-1");
  EXPECT_FALSE(service().verified.has_from_round());
}

TEST_F(Verify, FromARound) {
  EXPECT_EQ(Run({"verify", "job-1", "--from", "0"}).code, ExitCode::kOk);
  EXPECT_TRUE(service().verified.has_from_round());
  EXPECT_EQ(Run({"verify", "job-1", "--from", "17"}).code, ExitCode::kOk);
  EXPECT_EQ(service().verified.from_round(), 17u);
  EXPECT_EQ(Run({"verify", "job-1", "--from", "x"}).code, ExitCode::kBadArguments);
}

TEST_F(Verify, DifferencesAreATableAndExitCode1) {
  AddDifferences();
  const Result result = Run({"verify", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kFailed);
  EXPECT_THAT(result.out, HasSubstr("compared: 3 differences\n"));
  EXPECT_THAT(result.out, HasSubstr("ROUND  BLOCK    SOURCE    EXPECTED          FOUND"));
  EXPECT_THAT(result.out, HasSubstr("20     layer.1  snapshot  00000000000000aa  00000000000000bb"));
  EXPECT_THAT(result.out, HasSubstr("35     -        bob       00000000000000aa"));
  EXPECT_THAT(result.out, HasSubstr("and 1 more\n"));
  EXPECT_THAT(result.err, HasSubstr("job-1: 3 differences"));
}

TEST_F(Verify, AReplayThatEndsEarlySaysSo) {
  service().verification = {Progress(20, true)};
  v1::VerifyProgress& last = service().verification.back();
  last.clear_parameters_digest();
  last.add_differences()->set_problem("ledger/0000000021.seg: at offset 40: \n\x1b[31mround 21");
  last.set_difference_count(1);
  const Result result = Run({"verify", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kFailed);
  EXPECT_THAT(result.out, HasSubstr("the replay ends before round 21 of 40\n"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("0000000021.seg: at offset 40"), Not(HasSubstr("\x1b"))));
}

TEST_F(Verify, JsonHasEverything) {
  AddDifferences();
  const Result result = Run({"verify", "job-1", "--json"});
  EXPECT_EQ(result.code, ExitCode::kFailed);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("differences").size(), 2u);
  EXPECT_EQ(json.at("differences")[0].at("block"), "layer.1");
  EXPECT_EQ(json.at("difference_count"), 3);
  EXPECT_EQ(json.at("worker_digests"), 16);
  EXPECT_EQ(json.at("parameters_digest"), "0123456789abcdef");
}

TEST_F(Verify, TheServersRefusal) {
  service().verification.clear();
  service().verify_error = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "at 2 verifications");
  const Result result = Run({"verify", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kFailed);
  EXPECT_THAT(result.err, HasSubstr("at 2 verifications"));
  EXPECT_EQ(result.out, "");
}

TEST_F(Verify, ABarOnATerminalThatTheSummaryReplaces) {
  std::ostringstream out, err;
  const ExitCode code = RunCli({"verify", "job-1", "--server", fake_.address},
                               {.out = out, .err = err, .terminal = true, .width = 80}, interrupt_);
  EXPECT_EQ(code, ExitCode::kOk);
  EXPECT_THAT(out.str(), HasSubstr("\rverifying [=============>            ] 20/40"));
  EXPECT_THAT(out.str(), HasSubstr("\r\x1b[Krounds 0..40 replayed"));
}

// An end without the message that has `done` is no success.
TEST_F(Verify, CutShort) {
  service().verification.pop_back();
  EXPECT_EQ(Run({"verify", "job-1"}).code, ExitCode::kFailed);
}

TEST(VerifyLineTest, FitsTheWidth) {
  v1::VerifyProgress progress = Progress(20);
  EXPECT_EQ(VerifyLine(progress, 60),
            "verifying [==========>         ] 20/40  digests 9");
  progress.set_difference_count(2);
  EXPECT_THAT(VerifyLine(progress, 80), HasSubstr("differences 2"));
  for (int width = 0; width < 80; ++width) {
    EXPECT_LE(VerifyLine(progress, width).size(), static_cast<size_t>(width));
  }
}

}  // namespace
}  // namespace tally::testing

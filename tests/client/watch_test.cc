#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/client/command_test.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Watch : public CommandTest {};

TEST_F(Watch, LinesForNotableChangesOnly) {
  std::vector<v1::JobStatus> statuses;
  for (uint64_t round = 1; round <= 9; ++round) {
    statuses.push_back(StatusOf(v1::RUNNING, round));
    statuses.push_back(StatusOf(v1::RUNNING, round));
  }
  statuses.push_back(StatusOf(v1::SUCCEEDED, 10));
  service().watches = {statuses};
  const Result result = Run({"watch", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 10) << result.out;
}

TEST_F(Watch, JsonLines) {
  service().watches = {{StatusOf(v1::RUNNING, 1), StatusOf(v1::SUCCEEDED, 10)}};
  const Result result = Run({"watch", "job-1", "--json"});
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(lines[1]).at("state"), "SUCCEEDED");
}

TEST_F(Watch, FailedAndCancelledJobsFailTheCommand) {
  v1::JobStatus failed = StatusOf(v1::FAILED, 3);
  failed.set_reason("below the minimum");
  service().watches = {{failed}, {StatusOf(v1::CANCELLED, 3)}};
  const Result result = Run({"watch", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kFailed);
  EXPECT_THAT(result.err, HasSubstr("tally: job-1 FAILED: below the minimum"));
  EXPECT_EQ(Run({"watch", "job-1"}).code, ExitCode::kFailed);
}

TEST_F(Watch, TakesUpALostConnection) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED}) {
    FakeServer fake;
    fake.service.watches = {{StatusOf(v1::RUNNING, 1)}, {StatusOf(v1::SUCCEEDED, 10)}};
    fake.service.watch_error = grpc::Status(code, "going down");
    const Result result = RunWithoutServer({"watch", "job-1", "--server", fake.address});
    EXPECT_EQ(result.code, ExitCode::kOk) << result.err;
    EXPECT_THAT(result.err, HasSubstr("trying again"));
    EXPECT_THAT(result.out, AllOf(HasSubstr("round 1/10"), HasSubstr("SUCCEEDED")));
  }
}

TEST_F(Watch, NeverConnectedIsNoConnection) {
  fake_.server->Shutdown();
  EXPECT_EQ(Run({"watch", "job-1"}).code, ExitCode::kNoConnection);
}

TEST_F(Watch, TimeIsOver) {
  service().watches = {{StatusOf(v1::RUNNING, 1)}};
  service().hang = true;
  EXPECT_EQ(Run({"watch", "job-1", "--timeout", "0.3"}).code, ExitCode::kTimeout);
}

TEST_F(Watch, CtrlCSaysThatTheJobGoesOn) {
  service().watches = {{StatusOf(v1::RUNNING, 1)}};
  service().hang = true;
  service().on_watch = [this] { interrupt_.Trigger(); };
  const Result result = Run({"watch", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kInterrupted);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the job goes on"), HasSubstr("tally cancel job-1")));
}

TEST_F(Watch, OneLineRedrawnOnATerminal) {
  service().watches = {{StatusOf(v1::RUNNING, 1), StatusOf(v1::SUCCEEDED, 10)}};
  std::ostringstream out, err;
  const ExitCode code =
      RunCli({"watch", "job-1", "--server", fake_.address},
             {.out = out, .err = err, .terminal = true, .width = 100}, interrupt_);
  EXPECT_EQ(code, ExitCode::kOk);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace tally::testing

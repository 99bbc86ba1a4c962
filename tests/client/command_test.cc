#include "tests/client/command_test.h"

#include <algorithm>
#include <fstream>

#include "nlohmann/json.hpp"

namespace tally::testing {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string CommandTest::File(const std::string& name, const std::string& contents) {
  const std::string path = folder_ + "/" + name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::vector<std::string> CommandTest::NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

TEST_F(CommandTest, ListForPeopleAndPrograms) {
  *service().jobs.add_jobs() = StatusOf(v1::RUNNING, 3);
  const Result table = Run({"list"});
  EXPECT_EQ(table.code, ExitCode::kOk);
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("JOB    NAME  STATE"), HasSubstr("RUNNING"), HasSubstr("3/10")));
  const auto json = nlohmann::json::parse(Run({"list", "--json"}).out);
  EXPECT_EQ(json.at(0).at("round"), 3);
  EXPECT_EQ(json.at(0).at("state"), "RUNNING");
  EXPECT_EQ(json.at(0).at("spec").at("rounds"), 10);
}

TEST_F(CommandTest, StatusShowsTheJob) {
  *service().jobs.add_jobs() = StatusOf(v1::FAILED, 3);
  service().jobs.mutable_jobs(0)->set_reason("no\x1b[31m workers");
  const Result result = Run({"status", "job-1"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_THAT(result.out, AllOf(HasSubstr("FAILED"), HasSubstr("no?[31m workers")));
  EXPECT_EQ(nlohmann::json::parse(Run({"--json", "status", "job-1"}).out).at("job_id"), "job-1");
}

TEST_F(CommandTest, UnknownJobIsAFailure) {
  const Result result = Run({"status", "nope"});
  EXPECT_EQ(result.code, ExitCode::kFailed);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("no job nope"));
}

TEST_F(CommandTest, CancelSendsTheReason) {
  const Result result = Run({"cancel", "job-1", "--reason", "wrong data"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out, "CANCELLED\n");
  EXPECT_EQ(service().cancelled.reason(), "wrong data");
}

TEST_F(CommandTest, LogsAreLinesAndJsonLines) {
  v1::JobEvent event;
  event.set_sequence(1);
  event.set_level("info");
  event.set_worker("w1");
  event.set_message("attached\nto");
  service().events = {event};
  EXPECT_THAT(Run({"logs", "job-1"}).out, HasSubstr("INFO    w1: attached; to\n"));
  EXPECT_EQ(nlohmann::json::parse(Run({"logs", "job-1", "-f", "--json"}).out).at("worker"), "w1");
}

TEST_F(CommandTest, OutputThatCannotBeWrittenIsAnError) {
  std::ofstream full("/dev/full");
  std::ostringstream err;
  EXPECT_EQ(RunCli({"list", "--server", fake_.address}, {.out = full, .err = err}, interrupt_),
            ExitCode::kFailed);
  EXPECT_THAT(err.str(), HasSubstr("standard output"));
}

TEST_F(CommandTest, WorkersAreListed) {
  v1::WorkerInfo& worker = *service().workers.add_workers();
  worker.set_name("w1");
  worker.set_device("cpu");
  worker.set_connected(true);
  (*worker.mutable_labels())["rack"] = "a";
  EXPECT_THAT(Run({"workers"}).out,
              AllOf(HasSubstr("WORKER  DEVICE"), HasSubstr("free"), HasSubstr("rack=a")));
  const auto json = nlohmann::json::parse(Run({"workers", "--json"}).out);
  EXPECT_EQ(json.at(0).at("labels").at("rack"), "a");
}

TEST_F(CommandTest, DrainedWorkersAreListedAlsoWhenTheyAreGone) {
  v1::WorkerInfo& leaving = *service().workers.add_workers();
  leaving.set_name("w1");
  leaving.set_connected(true);
  leaving.set_drained(true);
  leaving.set_job_id("job-7");
  v1::WorkerInfo& gone = *service().workers.add_workers();
  gone.set_name("w2");
  gone.set_drained(true);
  EXPECT_THAT(Run({"workers"}).out,
              AllOf(HasSubstr("job-7 (drained)"), HasSubstr("drained          not connected")));
}

TEST_F(CommandTest, PauseAndResumeSayWhatTheJobIsNow) {
  const Result paused = Run({"pause", "job-1", "--reason", "lunch"});
  EXPECT_EQ(paused.code, ExitCode::kOk);
  EXPECT_EQ(paused.out, "RUNNING (held)\n");
  EXPECT_EQ(service().paused.job_id(), "job-1");
  EXPECT_EQ(service().paused.reason(), "lunch");
  EXPECT_EQ(nlohmann::json::parse(Run({"pause", "job-1", "--json"}).out).at("held"), true);
  EXPECT_EQ(Run({"resume", "job-1"}).out, "PAUSED\n");
  EXPECT_EQ(service().resumed.job_id(), "job-1");
}

TEST_F(CommandTest, DrainSaysWhatItMeansForTheJob) {
  v1::JobStatus& job = *service().jobs.add_jobs();
  job = StatusOf(v1::RUNNING, 3);
  job.mutable_spec()->mutable_workers()->set_quorum(2);
  job.mutable_spec()->mutable_workers()->set_minimum(2);
  for (const char* name : {"w1", "w2", "w3"}) {
    job.add_workers()->set_name(name);
    job.mutable_workers(job.workers_size() - 1)->set_attached(true);
  }
  v1::WorkerInfo& worker = *service().workers.add_workers();
  worker.set_name("w1");
  worker.set_job_id("job-1");
  const Result result = Run({"workers", "drain", "w1", "--reason", "new disk"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out,
            "w1 is drained and gets no new job; job-1 goes on with 2 workers, quorum 2\n");
  EXPECT_EQ(service().drained.reason(), "new disk");
  service().answers_until_free = 3;
  EXPECT_THAT(Run({"workers", "drain", "w1", "--wait"}).out, HasSubstr("w1 has left job-1\n"));
  EXPECT_EQ(service().answers_until_free, 0);
  EXPECT_EQ(nlohmann::json::parse(Run({"workers", "drain", "w1", "--json"}).out).at("drained"),
            true);
}

TEST_F(CommandTest, UndrainAndTheListStillWork) {
  EXPECT_EQ(Run({"workers", "undrain", "w1"}).out, "w1 takes jobs\n");
  EXPECT_EQ(service().undrained.name(), "w1");
  EXPECT_THAT(Run({"workers"}).out, HasSubstr("WORKER  DEVICE"));
  EXPECT_EQ(Run({"workers", "--json"}).out, "[]\n");
}

TEST_F(CommandTest, VersionOfBothSides) {
  EXPECT_THAT(Run({"version"}).out, AllOf(HasSubstr("client "), HasSubstr("server 9.8.7"),
                                          HasSubstr("http://127.0.0.1:8080/")));
  EXPECT_EQ(nlohmann::json::parse(Run({"version", "--json"}).out).at("server").at("version"),
            "9.8.7");
}

TEST_F(CommandTest, BadArguments) {
  const std::vector<std::vector<std::string>> all = {{},
                                                     {"frobnicate"},
                                                     {"status"},
                                                     {"status", ""},
                                                     {"status", "../x"},
                                                     {"status", std::string(5000, 'x')},
                                                     {"list", "--no-such-flag"},
                                                     {"list", "--timeout", "soon"},
                                                     {"list", "--timeout", "0"},
                                                     {"list", "--timeout", "-3"},
                                                     {"list", "--ca", "/no/such/file.pem"},
                                                     {"download", "job-1"},
                                                     {"pause"},
                                                     {"resume", "../x"},
                                                     {"workers", "drain"},
                                                     {"workers", "drain", "a/b"},
                                                     {"workers", "drain", std::string(65, 'w')},
                                                     {"workers", "undrian", "w1"},
                                                     {"submit", "/no/such/job.yaml"}};
  for (const auto& arguments : all) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, ExitCode::kBadArguments) << ::testing::PrintToString(arguments);
    EXPECT_THAT(result.err, ::testing::Not(IsEmpty())) << ::testing::PrintToString(arguments);
    EXPECT_EQ(result.out, "") << ::testing::PrintToString(arguments);
  }
}

TEST_F(CommandTest, UnknownCommandsAreNamed) {
  EXPECT_THAT(Run({"frobnicate"}).err, HasSubstr("frobnicate"));
  EXPECT_THAT(RunWithoutServer({}).err, HasSubstr("submit"));
}

TEST_F(CommandTest, BadAddresses) {
  for (const char* address : {"host:99999", "::1:50051", "host", "host:0"}) {
    const Result result = RunWithoutServer({"list", "--server", address});
    EXPECT_EQ(result.code, ExitCode::kBadArguments) << address;
    EXPECT_THAT(result.err, HasSubstr(address));
  }
}

TEST_F(CommandTest, HelpAndVersionFlagAreData) {
  EXPECT_THAT(RunWithoutServer({"--help"}).out, HasSubstr("submit"));
  EXPECT_EQ(RunWithoutServer({"--version"}).code, ExitCode::kOk);
}

TEST_F(CommandTest, ServerNotReachable) {
  fake_.server->Shutdown();
  const Result result = Run({"list"});
  EXPECT_EQ(result.code, ExitCode::kNoConnection);
  EXPECT_THAT(result.err, AllOf(HasSubstr(fake_.address), HasSubstr("Connection refused")));
  const Result version = Run({"version"});
  EXPECT_EQ(version.code, ExitCode::kNoConnection);
  EXPECT_THAT(version.out, HasSubstr("client "));
}

TEST_F(CommandTest, ExitCodesFollowTheServersStatus) {
  const std::vector<std::pair<grpc::StatusCode, ExitCode>> expected = {
      {grpc::StatusCode::UNAUTHENTICATED, ExitCode::kNoConnection},
      {grpc::StatusCode::PERMISSION_DENIED, ExitCode::kNoConnection},
      {grpc::StatusCode::INTERNAL, ExitCode::kFailed},
      {grpc::StatusCode::UNKNOWN, ExitCode::kFailed},
      {grpc::StatusCode::FAILED_PRECONDITION, ExitCode::kFailed},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, ExitCode::kFailed},
      {grpc::StatusCode::DEADLINE_EXCEEDED, ExitCode::kTimeout},
      {grpc::StatusCode::INVALID_ARGUMENT, ExitCode::kBadArguments}};
  for (const auto& [code, exit_code] : expected) {
    service().error = grpc::Status(code, "its words");
    EXPECT_EQ(Run({"list"}).code, exit_code) << code;
  }
}

TEST_F(CommandTest, InterruptedBeforeTheCall) {
  interrupt_.Trigger();
  EXPECT_EQ(Run({"list"}).code, ExitCode::kInterrupted);
}

}  // namespace
}  // namespace tally::testing

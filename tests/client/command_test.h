// Runs the command in this process against a FakeServer.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli.h"
#include "gmock/gmock.h"
#include "tests/client/fake_server.h"

namespace tally::testing {

inline constexpr char kJobYaml[] = R"(name: demo
model: {architecture: mlp, config: {hidden: [8]}}
data: {name: digits}
method: {name: distributed_lion}
learning_rate: {peak: 1e-3}
rounds: 10
batch_size: 4
workers: {count: 2}
)";

inline v1::JobStatus StatusOf(v1::JobState state, uint64_t round) {
  v1::JobStatus job;
  job.set_job_id("job-1");
  job.mutable_spec()->set_name("demo");
  job.mutable_spec()->set_rounds(10);
  job.set_state(state);
  job.set_round(round);
  return job;
}

class CommandTest : public ::testing::Test {
 protected:
  struct Result {
    ExitCode code;
    std::string out;
    std::string err;
  };

  CommandTest() {
    char folder[] = "/tmp/tally_command_XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  Result Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", fake_.address});
    return RunWithoutServer(arguments);
  }
  Result RunWithoutServer(const std::vector<std::string>& arguments) {
    std::ostringstream out, err;
    const ExitCode code = RunCli(arguments, {.out = out, .err = err}, interrupt_);
    return {code, out.str(), err.str()};
  }
  FakeService& service() { return fake_.service; }
  // Writes a file into folder() and returns its path.
  std::string File(const std::string& name, const std::string& contents);
  // Names in `folder`, sorted.
  static std::vector<std::string> NamesIn(const std::string& folder);
  const std::string& folder() const { return folder_; }

  Interrupt interrupt_;
  FakeServer fake_;

 private:
  std::string folder_;
};

}  // namespace tally::testing

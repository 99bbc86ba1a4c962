#include "tests/system/cluster.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "gtest/gtest.h"
#include "tests/system/data_set.h"

namespace tally::testing {
namespace {

constexpr char kClient[] = TALLY_CLIENT_PROGRAM;
constexpr size_t kShownLog = 4000;  // bytes of a log's end

void Write(const std::string& path, const std::string& text) {
  const absl::Status written = WriteFileAtomically(path, text);
  if (!written.ok()) GiveUp(std::string(written.message()));
}

bool IsTerminal(const std::string& state) {
  return state == "SUCCEEDED" || state == "FAILED" || state == "CANCELLED";
}

// What stands behind `mark` in its last line of the log.
std::string After(const std::string& log, const std::string& mark) {
  const size_t at = log.rfind(mark);
  if (at == std::string::npos) return "";
  const size_t begin = at + mark.size();
  return log.substr(begin, log.find_first_of("/\n", begin) - begin);
}

}  // namespace

std::string Contents(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadFile(path);
  return contents.ok() ? *contents : "";
}

size_t CountLines(const std::string& path, const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(Contents(path), '\n');
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
    return absl::StrContains(line, text);
  }));
}

std::string JobText::Yaml() const {
  return absl::StrCat("name: ", name, "\nmodel: ", model, "\ndata: ", data, "\nmethod: ", method,
                      "\nlearning_rate: ", learning_rate, "\nworkers: ", workers,
                      "\nrounds: ", rounds, "\nbatch_size: ", batch_size, "\n", more, "\n");
}

Cluster::Cluster(std::string heartbeat, std::string listen)
    : Cluster(ClusterSettings{.heartbeat = std::move(heartbeat), .listen = std::move(listen)}) {}

Cluster::Cluster(ClusterSettings settings)
    : settings_(std::move(settings)), address_(settings_.listen) {
  const absl::Status data = WriteDataSet(folder_.File("data"));
  if (!data.ok()) GiveUp(std::string(data.message()));
  StartServer();
}

Cluster::~Cluster() {
  workers_.clear();
  server_.reset();
  if (!::testing::Test::HasFailure()) return;
  for (const std::string& name : folder_.Names()) {
    if (!absl::EndsWith(name, ".log")) continue;
    const std::string log = Contents(File(name));
    std::cerr << "---- " << name << "\n"
              << log.substr(log.size() - std::min(log.size(), kShownLog)) << std::endl;
  }
}

std::string Cluster::WriteServerYaml(const std::string& listen, const std::string& status,
                                     const std::string& state) {
  const std::string path = File(absl::StrCat("server-", commands_++, ".yaml"));
  Write(path, absl::StrCat("listen: \"", listen, "\"\nstatus: \"", status, "\"\nstate_dir: ", state,
                           "\nheartbeat: ", settings_.heartbeat, "\nlog: {level: debug}\n",
                           settings_.server_yaml, "\n"));
  return path;
}

void Cluster::StartServer() {
  LaunchServer();
  AwaitServer();
}

void Cluster::LaunchServer() {
  server_.reset();
  server_starts_ = CountLines(ServerLog(), "status on ");
  server_ = std::make_unique<Process>(
      std::vector<std::string>{settings_.server_program,
                               WriteServerYaml(address_, status_address_, server_state())},
      ServerLog(), ServerLog(), settings_.server_environment);
}

void Cluster::AwaitServer() {
  WaitUntil(
      [&] {
        return !server_->running() || CountLines(ServerLog(), "status on ") > server_starts_;
      },
      [&] { return "the server's start: " + Contents(ServerLog()); });
  if (!server_->running()) GiveUp("the server did not start: " + Contents(ServerLog()));
  const std::string log = Contents(ServerLog());
  address_ = After(log, "serving on ");
  status_address_ = After(log, "status on http://");
}

std::string Cluster::WriteWorkerYaml(const std::string& name, const std::string& state) {
  const std::string path = File(absl::StrCat(state, ".yaml"));
  const std::string& server =
      settings_.worker_connects.empty() ? address_ : settings_.worker_connects;
  Write(path, absl::StrCat("server: \"", server, "\"\nname: ", name,
                           "\ndevice: cpu\nthreads: 1\nstate_dir: ", File(state),
                           "\nlog: {level: debug}\ndata:\n  tiny: {format: safetensors, path: ",
                           File("data"), "}\n", settings_.worker_yaml, "\n"));
  return path;
}

void Cluster::LaunchWorker(const std::string& name) {
  const std::string yaml = WriteWorkerYaml(name, "state-" + name);
  const std::string log = WorkerLog(name);
  workers_[name].reset();
  workers_[name] =
      std::make_unique<Process>(std::vector<std::string>{settings_.worker_program, yaml}, log, log,
                                settings_.worker_environment);
}

void Cluster::AwaitWorker(const std::string& name, size_t joined) {
  Process& process = worker(name);
  const std::string log = WorkerLog(name);
  WaitUntil([&] { return !process.running() || CountLines(log, "joined ") > joined; },
            [&] { return absl::StrCat("worker ", name, " to join"); });
  if (!process.running()) GiveUp("the worker did not start: " + Contents(log));
}

void Cluster::StartWorker(const std::string& name) {
  const size_t joined = CountLines(WorkerLog(name), "joined ");
  LaunchWorker(name);
  AwaitWorker(name, joined);
}

void Cluster::StartWorkers(int count) {
  std::map<std::string, size_t> joined;
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    joined[name] = CountLines(WorkerLog(name), "joined ");
    LaunchWorker(name);
  }
  for (const auto& [name, times] : joined) AwaitWorker(name, times);
}

Output Cluster::Run(std::vector<std::string> command, const Environment& environment) {
  const std::string base = File(absl::StrCat("command-", commands_++));
  Process process(std::move(command), base + ".out", base + ".err", environment);
  const int exit_code = process.Wait();
  return {exit_code, Contents(base + ".out"), Contents(base + ".err")};
}

Output Cluster::Tally(std::vector<std::string> arguments, const Environment& environment) {
  arguments.insert(arguments.begin(), {kClient, "--server", address_});
  return Run(std::move(arguments), environment);
}

std::unique_ptr<Process> Cluster::StartTally(std::vector<std::string> arguments,
                                             const std::string& log) {
  arguments.insert(arguments.begin(), {kClient, "--server", address_});
  return std::make_unique<Process>(std::move(arguments), File(log), File(log));
}

Json Cluster::TallyJson(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const Output output = Tally(arguments);
  if (output.exit_code != 0) GiveUp(absl::StrCat("tally ", arguments[0], ": ", output.err));
  Json json = Json::parse(output.out, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) GiveUp(absl::StrCat("no JSON: ", output.out));
  return json;
}

std::string Cluster::WriteJob(const JobText& job) {
  const std::string path = File(absl::StrCat("job-", commands_++, ".yaml"));
  Write(path, job.Yaml());
  return path;
}

std::string Cluster::Submit(const JobText& job) {
  return TallyJson({"submit", WriteJob(job)})["job_id"];
}

Json Cluster::WaitForStatus(const std::string& job_id, const std::string& what,
                            const std::function<bool(const Json&)>& condition) {
  Json status;
  WaitUntil(
      [&] {
        status = Status(job_id);
        if (condition(status)) return true;
        if (IsTerminal(status["state"])) {
          GiveUp(absl::StrCat("the job ended, no ", what, ": ", status.dump()));
        }
        return false;
      },
      [&] { return absl::StrCat(what, ": ", status.dump()); });
  return status;
}

Json Cluster::WaitForState(const std::string& job_id, const std::string& state) {
  return WaitForStatus(job_id, state,
                       [&](const Json& status) { return status["state"] == state; });
}

Json Cluster::WaitForRound(const std::string& job_id, uint64_t round) {
  return WaitForStatus(job_id, absl::StrCat("round ", round),
                       [&](const Json& status) { return status["round"] >= round; });
}

std::vector<std::string> Cluster::Events(const std::string& job_id) {
  const Output output = Tally({"logs", job_id, "--json"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  std::vector<std::string> messages;
  for (const absl::string_view line : absl::StrSplit(output.out, '\n', absl::SkipEmpty())) {
    const Json event = Json::parse(line);
    const std::string worker = event["worker"];
    messages.push_back(absl::StrCat(worker, worker.empty() ? "" : ": ",
                                    event["message"].get<std::string>()));
  }
  return messages;
}

void Cluster::WaitForFreeWorkers(size_t count) {
  Json workers;
  WaitUntil(
      [&] {
        workers = TallyJson({"workers"});
        return workers.size() == count &&
               std::all_of(workers.begin(), workers.end(),
                           [](const Json& worker) { return worker["job_id"] == ""; });
      },
      [&] { return absl::StrCat(count, " free workers: ", workers.dump()); });
}

std::string Cluster::Download(const std::string& job_id) {
  const std::string folder = File(absl::StrCat("model-", commands_++));
  const Output output = Tally({"download", job_id, "-o", folder});
  if (output.exit_code != 0) GiveUp(absl::StrCat("download: ", output.err));
  return folder;
}

}  // namespace tally::testing

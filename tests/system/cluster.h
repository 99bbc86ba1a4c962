// A server, workers and the command on this machine, each a real process, in a folder of its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/common/base/temp_folder.h"
#include "tests/system/process.h"

namespace tally::testing {

using Json = nlohmann::json;
using Environment = std::map<std::string, std::string>;

// What the command said.
struct Output {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// A job file's sections, each as YAML.
struct JobText {
  std::string name = "job";
  std::string model =
      "{architecture: mlp, config: {input_size: 192, hidden_sizes: [16, 8], num_labels: 4,"
      " hidden_act: relu}}";
  std::string data = "{name: tiny, shuffle_buffer: 64}";
  std::string method = "{name: distributed_lion, weight_decay: 0.1}";
  std::string learning_rate = "{schedule: cosine, peak: 1e-2, warmup_rounds: 5}";
  std::string workers = "{count: 2}";
  std::string rounds = "40";
  std::string batch_size = "8";
  std::string more = "digest_every: 10";  // further keys, one a line

  std::string Yaml() const;
};

inline constexpr char kServerProgram[] = TALLY_SERVER_PROGRAM;
inline constexpr char kServerWithFaults[] = TALLY_SERVER_WITH_FAULTS;
inline constexpr char kWorkerProgram[] = TALLY_WORKER_PROGRAM;
inline constexpr char kWorkerWithFaults[] = TALLY_WORKER_WITH_FAULTS;

// How the processes are started. A change holds from the next start on.
struct ClusterSettings {
  std::string heartbeat = "1s";  // a lease is four of them
  std::string listen = "127.0.0.1:0";
  std::string server_program = kServerProgram;
  std::string worker_program = kWorkerProgram;
  std::string server_yaml = "";      // further keys, one a line
  std::string worker_yaml = "";
  std::string server_state = "";     // its state_dir; "": a folder of the cluster's
  std::string worker_connects = "";  // host:port that the workers are told; "": the server's own
  Environment server_environment = {};
  Environment worker_environment = {};
};

class Cluster {
 public:
  // Starts the server.
  explicit Cluster(std::string heartbeat = "1s", std::string listen = "127.0.0.1:0");
  explicit Cluster(ClusterSettings settings);
  // Nothing that it started is left running. Shows the logs' ends if the test has failed.
  ~Cluster();
  ClusterSettings& settings() { return settings_; }

  // On the same state folder, and the same ports if there was one before.
  void StartServer();
  // The same in two steps: the first does not wait, the second gives up if the server ends instead.
  void LaunchServer();
  void AwaitServer();
  Process& server() { return *server_; }
  const std::string& address() const { return address_; }
  // host:port of the HTTP status endpoint.
  const std::string& status_address() const { return status_address_; }
  std::string server_state() const {
    return settings_.server_state.empty() ? folder_.File("server") : settings_.server_state;
  }

  // Starts it, or starts it again, and waits until it has joined.
  void StartWorker(const std::string& name);
  // Does not wait.
  void LaunchWorker(const std::string& name);
  void StartWorkers(int count);  // worker-0, worker-1, ..., all at once
  Process& worker(const std::string& name) { return *workers_.at(name); }
  // Configuration files, for a daemon that the cluster is not to start. `state` is its folder.
  std::string WriteWorkerYaml(const std::string& name, const std::string& state);
  std::string WriteServerYaml(const std::string& listen, const std::string& status,
                              const std::string& state);

  // `tally --server ADDRESS ARGUMENTS`, to its end.
  Output Tally(std::vector<std::string> arguments, const Environment& environment = {});
  // The same in the background, its output in File(log).
  std::unique_ptr<Process> StartTally(std::vector<std::string> arguments, const std::string& log);
  // What it prints with --json; gives up unless it succeeds.
  Json TallyJson(std::vector<std::string> arguments);
  // Any program to its end.
  Output Run(std::vector<std::string> command, const Environment& environment = {});

  // Writes the job to NAME.yaml.
  std::string WriteJob(const JobText& job);
  // The new job's id.
  std::string Submit(const JobText& job);
  Json Status(const std::string& job_id) { return TallyJson({"status", job_id}); }
  // Its status once it is in that state; gives up at once in another terminal one.
  Json WaitForState(const std::string& job_id, const std::string& state);
  Json WaitForRound(const std::string& job_id, uint64_t round);
  Json WaitForStatus(const std::string& job_id, const std::string& what,
                     const std::function<bool(const Json&)>& condition);
  // Messages of the job's log, in order.
  std::vector<std::string> Events(const std::string& job_id);
  // Waits until every worker that is connected is free, and there are so many.
  void WaitForFreeWorkers(size_t count);
  // The folder that the job's result was downloaded to.
  std::string Download(const std::string& job_id);

  std::string File(const std::string& name) const { return folder_.File(name); }
  std::string WorkerLog(const std::string& name) const { return Log("worker-" + name); }
  std::string ServerLog() const { return Log("server"); }

 private:
  // Until its log tells of more than `joined` times that it joined.
  void AwaitWorker(const std::string& name, size_t joined);
  std::string Log(const std::string& program) const { return folder_.File(program + ".log"); }

  TempFolder folder_;
  ClusterSettings settings_;
  std::string address_;
  std::string status_address_ = "127.0.0.1:0";
  std::unique_ptr<Process> server_;
  size_t server_starts_ = 0;  // that the log told of before this one
  std::map<std::string, std::unique_ptr<Process>> workers_;
  int commands_ = 0;
};

// "" if there is no such file.
std::string Contents(const std::string& path);
// The number of lines of the file with `text`.
size_t CountLines(const std::string& path, const std::string& text);

}  // namespace tally::testing

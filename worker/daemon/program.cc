#include "worker/daemon/program.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "common/base/logging.h"
#include "common/base/stop_signals.h"
#include "common/rpc/grpc_log.h"
#include "spdlog/spdlog.h"
#include "worker/daemon/check_machine.h"
#include "worker/daemon/daemon.h"
#include "worker/daemon/evaluate.h"

namespace tally {
namespace {

// Exit codes of all Tally programs: docs/errors.md.
constexpr int kServerError = 1;
constexpr int kBadArguments = 4;

int Fail(int code, const absl::Status& status) {
  std::fprintf(stderr, "tally-worker: %s\n", std::string(status.message()).c_str());
  return code;
}

int Evaluate(const WorkerConfig& config, const EvaluateOptions& options) {
  const absl::StatusOr<Score> score = EvaluateModel(config, options);
  if (!score.ok()) return Fail(kServerError, score.status());
  const auto count = static_cast<double>(score->count);
  std::printf("accuracy %.2f%%  loss %.4f  examples %llu\n",
              100.0 * static_cast<double>(score->correct) / count, score->loss_sum / count,
              static_cast<unsigned long long>(score->count));
  return 0;
}

int Check(const WorkerConfig& config) {
  if (const absl::Status checked = CheckMachine(config); !checked.ok()) {
    return Fail(kBadArguments, checked);
  }
  std::fputs(config.resolved.c_str(), stdout);
  return 0;
}

int Work(WorkerConfig config) {
  const absl::Duration grace = config.stop_grace;
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Create(std::move(config));
  if (!daemon.ok()) return Fail(kServerError, daemon.status());
  const StopSignals signals([&] {
    spdlog::info("stopping (a second signal ends at once)");
    (*daemon)->Stop();
  });
  const absl::Status status = (*daemon)->Run();
  const int code = status.ok() ? 0 : Fail(kServerError, status);
  (*daemon)->Stop();
  if ((*daemon)->WaitForWork(grace)) return code;
  // A step cannot be interrupted, and half of one is no state to keep: the checkpoint of before
  // stands.
  spdlog::warn("the step at work did not end within {} (stop_grace): leaving without it",
               absl::FormatDuration(grace));
  spdlog::default_logger()->flush();
  std::_Exit(code);
}

}  // namespace

int RunProgram(int argc, char** argv) {
  CLI::App app("Tally's worker daemon");
  std::string path;
  bool check = false;
  app.add_option("config", path, "worker.yaml; see docs/operating.md")->required();
  app.add_flag("--check", check,
               "read the configuration, look at the files it names, print it resolved, and exit");
  EvaluateOptions evaluate;
  CLI::Option* model = app.add_option("--evaluate", evaluate.model,
                                      "score this model directory on a test split, and exit");
  CLI::Option* architecture =
      app.add_option("--architecture", evaluate.architecture, "of the model to score")->needs(model);
  CLI::Option* data_set =
      app.add_option("--data-set", evaluate.data_set, "to score it on")->needs(model);
  model->needs(architecture)->needs(data_set);
  app.set_version_flag("--version", std::string("tally-worker ") + TALLY_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kBadArguments;
  }
  absl::StatusOr<WorkerConfig> config = ReadWorkerConfig(path);
  if (!config.ok()) return Fail(kBadArguments, config.status());
  if (check) return Check(*config);
  if (model->count() > 0) return Evaluate(*config, evaluate);
  if (const absl::Status logging = StartLogging(config->log, "tally-worker");
      !logging.ok()) {
    return Fail(kBadArguments, logging);
  }
  spdlog::info("tally-worker {} with this configuration:\n{}", TALLY_VERSION, config->resolved);
  RouteGrpcLog();
  StopSignals::Block();
  return Work(*std::move(config));
}

}  // namespace tally

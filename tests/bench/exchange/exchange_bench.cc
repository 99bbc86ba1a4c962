// One round's exchange of N workers on loopback, each a process, against a bare gRPC bidirectional
// stream that moves the same bytes. Prints ratios; asserts nothing about time.
//
//   exchange_bench [--parameters 100000000] [--workers 4] [--rounds 12] [--repetitions 3] [--apply]
//                  [--method vote|float32|bf16]
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/bench/exchange/child.h"
#include "tests/bench/exchange/sides.h"

namespace tally::bench {
namespace {

struct Outcome {
  std::vector<double> seconds;  // a round
  double bits_up = 0;
  double bits_down = 0;
  double idle_bytes = 0;  // server, anonymous, before anybody has connected
  double peak_bytes = 0;  // server, anonymous, at most from the second round to the last but one
};

std::vector<std::string> Arguments(const std::string& role, const Size& size,
                                   const std::string& server, uint32_t index) {
  return {absl::StrCat("--role=", role),
          absl::StrCat("--parameters=", size.parameters),
          absl::StrCat("--workers=", size.workers),
          absl::StrCat("--rounds=", size.rounds),
          absl::StrCat("--apply=", size.apply ? 1 : 0),
          absl::StrCat("--method=", size.method),
          absl::StrCat("--server=", server),
          absl::StrCat("--index=", index)};
}

std::string AddressOf(Child& server) {
  const std::string line = server.ReadLine();
  return absl::StrCat("127.0.0.1:", line.substr(line.find(' ') + 1));
}

// The kernel keeps the peak, so nothing between two looks is missed. Not of the last round: then the
// fold begins and maps the ledger.
void LookAtMemory(const Child& server, const Size& size, Outcome& outcome) {
  const size_t rounds = outcome.seconds.size();
  if (rounds == 1) ForgetPeak(server.pid());
  if (rounds < 2 || rounds >= size.rounds) return;
  outcome.peak_bytes =
      StatusBytes(server.pid(), "VmHWM") - StatusBytes(server.pid(), "RssFile");
}

// Reads a worker's lines to their end; the server's memory is looked at after each round.
void Follow(Child& worker, const Child& server, const Size& size, Outcome& outcome) {
  for (std::string line = worker.ReadLine(); !line.empty(); line = worker.ReadLine()) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "ROUND") {
      outcome.seconds.push_back(std::stod(words[1]));
      LookAtMemory(server, size, outcome);
    }
    if (words[0] == "BITS") {
      outcome.bits_up = std::stod(words[1]);
      outcome.bits_down = std::stod(words[2]);
    }
  }
}

Outcome RunSide(const std::string& side, const Size& size) {
  Outcome outcome;
  Child server(Arguments(side + "-server", size, "", 0));
  const std::string address = AddressOf(server);
  outcome.idle_bytes = StatusBytes(server.pid(), "RssAnon");
  std::vector<std::unique_ptr<Child>> workers;
  for (uint32_t i = 0; i < size.workers; ++i) {
    workers.push_back(std::make_unique<Child>(Arguments(side + "-worker", size, address, i)));
  }
  if (side == "tally" && SubmitTallyJob(size, address) != 0) return outcome;
  // Worker 0 sends the base; any other shows what all others do.
  Follow(*workers.back(), server, size, outcome);
  return outcome;
}

void Report(const Size& size, const Outcome& tally, const Outcome& bare) {
  const double ours = Median(tally.seconds);
  const double theirs = Median(bare.seconds);
  const double in_flight =
      static_cast<double>(size.parameters * size.bits()) / 8 * (size.workers + 1);  // contributions and aggregate
  std::printf("%s, %llu parameters, %u workers, %zu rounds a side%s\n", size.method.c_str(),
              static_cast<unsigned long long>(size.parameters), size.workers, tally.seconds.size(),
              size.apply ? ", aggregates applied" : "");
  std::printf("round, median seconds      tally %.4f  bare stream %.4f  ratio %.2f\n", ours, theirs,
              ours / theirs);
  std::printf("bits a parameter, frames included  up %.4f  down %.4f\n", tally.bits_up,
              tally.bits_down);
  const double memory = tally.peak_bytes - tally.idle_bytes;
  std::printf("server memory in a round  %.1f MB above idle, %.2f of the chunks in flight "
              "(%.1f MB)\n",
              memory / 1e6, memory / in_flight, in_flight / 1e6);
}

int Compare(const Size& size, uint32_t repetitions) {
  Outcome tally;
  Outcome bare;
  for (uint32_t i = 0; i < repetitions; ++i) {
    const Outcome ours = RunSide("tally", size);
    const Outcome theirs = RunSide("bare", size);
    if (ours.seconds.empty() || theirs.seconds.empty()) {
      std::fprintf(stderr, "exchange_bench: a side finished no round\n");
      return 1;
    }
    tally.seconds.insert(tally.seconds.end(), ours.seconds.begin(), ours.seconds.end());
    bare.seconds.insert(bare.seconds.end(), theirs.seconds.begin(), theirs.seconds.end());
    if (ours.peak_bytes - ours.idle_bytes >= tally.peak_bytes - tally.idle_bytes) {
      tally.peak_bytes = ours.peak_bytes;
      tally.idle_bytes = ours.idle_bytes;
    }
    tally.bits_up = ours.bits_up;
    tally.bits_down = ours.bits_down;
  }
  Report(size, tally, bare);
  return 0;
}

int ServeTally() {
  std::string folder = std::filesystem::temp_directory_path() / "tally-exchange-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const int code = RunTallyServer(folder);
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  CLI::App app("One round's exchange against a bare gRPC stream");
  Size size;
  size.parameters = 100'000'000;
  uint32_t repetitions = 3;
  uint32_t index = 0;
  std::string role;
  std::string server;
  app.add_option("--parameters", size.parameters)->check(CLI::PositiveNumber);
  app.add_option("--workers", size.workers)->check(CLI::Range(1, 64));
  app.add_option("--rounds", size.rounds)->check(CLI::Range(3, 100000));
  app.add_option("--repetitions", repetitions)->check(CLI::Range(1, 100));
  app.add_flag("--apply", size.apply, "Tally's workers also apply each aggregate");
  app.add_option("--method", size.method, "A vote, or a lo-fi finish in float32 or bf16")
      ->check(CLI::IsMember({"vote", "float32", "bf16"}));
  app.add_option("--role", role)->group("");
  app.add_option("--server", server)->group("");
  app.add_option("--index", index)->group("");
  CLI11_PARSE(app, argc, argv);
  // A role outlives its bench for no reason, not even the bench's own violent end.
  if (!role.empty()) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (role == "tally-server") return ServeTally();
  if (role == "tally-worker") return RunTallyWorker(size, server, index);
  if (role == "bare-server") return RunBareServer(size);
  if (role == "bare-worker") return RunBareWorker(size, server);
  return Compare(size, repetitions);
}

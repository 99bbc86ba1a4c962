// A worker that joins late: the rounds that it missed, read from the ledger and sent by Tally, against
// a bare gRPC stream that reads the same files and sends the same bytes. Prints ratios; asserts nothing
// about time.
//
//   catch_up_bench [--parameters 1000000] [--missed 1000] [--repetitions 5]
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/bench/catch_up/sides.h"
#include "tests/bench/exchange/child.h"

namespace tally::bench {
namespace {

std::vector<std::string> Arguments(const std::string& role, const MissedRounds& missed,
                                   const std::string& folder, const std::string& server) {
  std::vector<std::string> arguments = {absl::StrCat("--role=", role),
                                        absl::StrCat("--parameters=", missed.parameters),
                                        absl::StrCat("--missed=", missed.rounds)};
  if (!folder.empty()) arguments.push_back(absl::StrCat("--folder=", folder));
  if (!server.empty()) arguments.push_back(absl::StrCat("--server=", server));
  return arguments;
}

// Seconds that a joiner took; 0 if it broke.
double Join(Child& server, const std::string& joiner, const MissedRounds& missed) {
  const std::string port = server.ReadLine();
  if (port.empty()) return 0;
  const std::string address = absl::StrCat("127.0.0.1:", port.substr(port.find(' ') + 1));
  Child worker(Arguments(joiner, missed, "", address));
  const std::vector<std::string> words = absl::StrSplit(worker.ReadLine(), ' ');
  return words.size() == 2 && words[0] == "CAUGHT" ? std::stod(words[1]) : 0;
}

struct Seconds {
  std::vector<double> received;
  std::vector<double> applied;
  std::vector<double> bare;
};

bool Measure(const MissedRounds& missed, const std::string& folder, Seconds& seconds) {
  const auto time = [&](const std::string& server, const std::string& joiner,
                        std::vector<double>& to) {
    Child child(Arguments(server, missed, folder, ""));
    to.push_back(Join(child, joiner, missed));
    return to.back() > 0;
  };
  return time("bare-server", "bare-joiner", seconds.bare) &&
         time("tally-server", "joiner", seconds.received) &&
         time("tally-server", "applying-joiner", seconds.applied);
}

int Compare(const MissedRounds& missed, uint32_t repetitions) {
  std::string folder = std::filesystem::temp_directory_path() / "tally-catch-up-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  Seconds seconds;
  bool good = WriteMissedRounds(missed, folder).ok();
  for (uint32_t i = 0; good && i < repetitions; ++i) good = Measure(missed, folder, seconds);
  const double megabytes = static_cast<double>(LedgerBytes(folder)) / 1e6;
  std::filesystem::remove_all(folder);
  if (!good) {
    std::fprintf(stderr, "catch_up_bench: a side broke\n");
    return 1;
  }
  const double bare = Median(seconds.bare);
  std::printf("%llu rounds of %llu parameters missed, %.1f MB of ledger, %u runs, medians\n",
              static_cast<unsigned long long>(missed.rounds),
              static_cast<unsigned long long>(missed.parameters), megabytes, repetitions);
  std::printf("read and streamed bare %.4f s; by Tally, received and checked %.4f s, speed %.2f of "
              "bare; applied too %.4f s, %.2f of bare\n",
              bare, Median(seconds.received), bare / Median(seconds.received),
              Median(seconds.applied), bare / Median(seconds.applied));
  return 0;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  CLI::App app("A late joiner's catch-up against a bare gRPC stream of the same bytes");
  MissedRounds missed;
  uint32_t repetitions = 5;
  std::string role;
  std::string folder;
  std::string server;
  app.add_option("--parameters", missed.parameters)->check(CLI::PositiveNumber);
  app.add_option("--missed", missed.rounds)->check(CLI::Range(1, 1000000));
  app.add_option("--repetitions", repetitions)->check(CLI::Range(1, 100));
  app.add_option("--role", role)->group("");
  app.add_option("--folder", folder)->group("");
  app.add_option("--server", server)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!role.empty()) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (role == "tally-server") return ServeMissedRounds(missed, folder);
  if (role == "bare-server") return StreamFiles(folder);
  if (role == "joiner") return JoinLate(missed, server, /*apply=*/false);
  if (role == "applying-joiner") return JoinLate(missed, server, /*apply=*/true);
  if (role == "bare-joiner") return ReceiveStream(server);
  return Compare(missed, repetitions);
}

// What a restart costs: opening a ledger and folding it to its end, against reading the same bytes.
// Both find the page cache in the same state, warm or (--cold) emptied of the ledger's segments.
// Turn by turn in one run, one core, medians of the clock on the wall.
//
// recovery_bench [--parameters=1000000] [--rounds=1000] [--repetitions=7] [--folder=/tmp] [--cold]
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/update/history.h"
#include "server/ledger/fold.h"
#include "server/ledger/record.h"
#include "server/ledger/writer.h"
#include "tests/bench/bench_rounds.h"

namespace tally::bench {
namespace {

struct Sizes {
  uint64_t parameters = 1'000'000;
  uint64_t rounds = 1000;
  int repetitions = 7;
  std::string folder = "/tmp";
  bool cold = false;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// A ledger of majority rounds and its base, in a folder that goes with it.
class Recovery {
 public:
  explicit Recovery(const Sizes& sizes) : sizes_(sizes), layout_(OneBlock(sizes.parameters)) {
    std::string pattern = sizes.folder + "/recovery_bench.XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) Check(ErrnoStatus(errno, "making", pattern));
    folder_ = pattern;
    const auto snapshots = SnapshotStore::Open(folder_ + "/snapshots", layout_);
    Check(snapshots.status());
    Check(snapshots->Write(0, std::vector<float>(sizes.parameters, 1.0f), {}, "{}"));
    auto writer = LedgerWriter::Open(folder_ + "/ledger", layout_.digest());
    Check(writer.status());
    for (uint64_t number = 1; number <= sizes.rounds; ++number) AppendRound(**writer, number);
    Check((*writer)->Sync());
  }
  ~Recovery() { std::filesystem::remove_all(folder_); }
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  // Seconds until the ledger is open, the newest snapshot too, and all rounds are folded.
  struct Times {
    double ledger, snapshot, fold;
    double all() const { return ledger + snapshot + fold; }
  };
  Times Recover(const PassLimits& limits) {
    Prepare();
    Times times;
    double start = Now();
    const auto writer = LedgerWriter::Open(folder_ + "/ledger", layout_.digest());
    Check(writer.status());
    times.ledger = Now() - start;
    start = Now();
    const auto snapshots = SnapshotStore::Open(folder_ + "/snapshots", layout_);
    const auto snapshot = snapshots->Latest();
    Check(snapshot.status());
    times.snapshot = Now() - start;
    start = Now();
    Fold fold = Fold::FromSnapshot(layout_, **snapshot);
    while (fold.round() < sizes_.rounds) {
      Check(fold.AdvanceOnce((*writer)->reader(), sizes_.rounds, limits));
    }
    times.fold = Now() - start;
    return times;
  }

  // Seconds for reading every segment into one buffer.
  double ReadBytes() {
    Prepare();
    std::vector<char> buffer(1 << 20);
    const double start = Now();
    for (const std::string& path : Segments()) {
      const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      while (::read(fd.get(), buffer.data(), buffer.size()) > 0) continue;
    }
    return Now() - start;
  }
  double bytes() const {
    double sum = 0;
    for (const std::string& path : Segments()) {
      sum += static_cast<double>(std::filesystem::file_size(path));
    }
    return sum;
  }

 private:
  void AppendRound(LedgerWriter& writer, uint64_t number) {
    const BenchRound round = MajorityRound(layout_, number);
    std::vector<uint64_t> digests;
    for (const Bytes& payload : round.payloads) {
      digests.push_back(Digest64(payload.data(), payload.size()));
    }
    v1::RoundClosed closed;
    closed.set_round(number);
    closed.set_chunks(static_cast<uint32_t>(digests.size()));
    closed.set_digest(DigestOfChunks(digests));
    closed.set_history(RoundHistory(writer.last_history(), closed));
    Check(writer.Append(round.spec, closed, round.spans));
  }
  std::vector<std::string> Segments() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/ledger")) {
      paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  void Prepare() const {
    if (!sizes_.cold) return;
    for (const std::string& path : Segments()) {
      const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }

  const Sizes sizes_;
  const Layout layout_;
  std::string folder_;
};

void Print(const std::string& name, const std::vector<Recovery::Times>& times, double read) {
  std::vector<double> ledger, snapshot, fold, all;
  for (const Recovery::Times& time : times) {
    ledger.push_back(time.ledger);
    snapshot.push_back(time.snapshot);
    fold.push_back(time.fold);
    all.push_back(time.all());
  }
  std::printf("%-20s %9.1f %10.1f %9.1f %9.1f %9.2f\n", name.c_str(), Median(ledger) * 1e3,
              Median(snapshot) * 1e3, Median(fold) * 1e3, Median(all) * 1e3, Median(all) / read);
}

void Run(const Sizes& sizes) {
  Recovery recovery(sizes);
  recovery.ReadBytes();
  std::vector<double> read;
  std::vector<Recovery::Times> one, sixteen;
  for (int i = 0; i < sizes.repetitions; ++i) {
    read.push_back(recovery.ReadBytes());
    sixteen.push_back(recovery.Recover({}));
    one.push_back(recovery.Recover({.rounds = 1}));
  }
  std::printf("%.1f MB of ledger, %s; reading them takes %.1f ms\n", recovery.bytes() / 1e6,
              sizes.cold ? "cold" : "warm", Median(read) * 1e3);
  std::printf("%-20s %9s %10s %9s %9s %9s\n", "", "open, ms", "snapshot", "fold", "all", "reads");
  Print("16 rounds a pass", sixteen, Median(read));
  Print("1 round a pass", one, Median(read));
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Sizes sizes;
  CLI::App app("What a restart costs");
  app.add_option("--parameters", sizes.parameters)->check(CLI::PositiveNumber);
  app.add_option("--rounds", sizes.rounds)->check(CLI::PositiveNumber);
  app.add_option("--repetitions", sizes.repetitions)->check(CLI::PositiveNumber);
  app.add_option("--folder", sizes.folder)->check(CLI::ExistingDirectory);
  app.add_flag("--cold", sizes.cold);
  CLI11_PARSE(app, argc, argv);
  tally::bench::Run(sizes);
  return 0;
}

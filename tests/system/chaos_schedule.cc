#include "tests/system/chaos_schedule.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"

namespace tally::testing {
namespace {

constexpr const char* kPoints[] = {
    "round.after_reduction",  "round.mid_broadcast",    "round.before_announce",
    "round.after_announce",   "ledger.before_append",   "ledger.mid_record",
    "ledger.after_append",    "ledger.before_sync",     "ledger.after_sync",
    "segment.before_rename",  "snapshot.mid_write",     "snapshot.before_rename",
    "snapshot.after_rename",  "fold.mid_pass"};

constexpr uint64_t kShortest = 20, kLongest = 1500;  // milliseconds

using Kinds = std::vector<FaultKind>;

const Kinds& WorkerKinds() {
  static const Kinds& kinds = *new Kinds{FaultKind::kKillWorker, FaultKind::kStopWorker};
  return kinds;
}

const Kinds& ServerKinds() {
  static const Kinds& kinds = *new Kinds{FaultKind::kKillServer, FaultKind::kCrashServer,
                                         FaultKind::kLoseTail, FaultKind::kStopServer};
  return kinds;
}

// That end no process.
const Kinds& GentleKinds() {
  static const Kinds& kinds =
      *new Kinds{FaultKind::kCutOne, FaultKind::kCutAll,       FaultKind::kStall,
                 FaultKind::kFreezeWorker, FaultKind::kFreezeServer, FaultKind::kPauseJob};
  return kinds;
}

Kinds Both(const Kinds& one, const Kinds& other) {
  Kinds kinds = one;
  kinds.insert(kinds.end(), other.begin(), other.end());
  return kinds;
}

// The standard leaves distributions and shuffles to the library; a seed is to mean the same
// everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

 private:
  std::mt19937_64 random_;
};

Kinds Part(const Kinds& allowed, size_t count, Dice& dice) {
  Kinds part;
  for (size_t i = 0; i < count; ++i) {
    part.push_back(i < allowed.size() ? allowed[i] : allowed[dice.Below(allowed.size())]);
  }
  dice.Shuffle(part);
  return part;
}

Kinds AllParts(size_t count, Dice& dice) {
  Kinds kinds = Part(Both(WorkerKinds(), GentleKinds()), count / 3, dice);
  for (const FaultKind kind : Part(Both(ServerKinds(), GentleKinds()), count / 3, dice)) {
    kinds.push_back(kind);
  }
  const Kinds all = Both(Both(ServerKinds(), WorkerKinds()), GentleKinds());
  for (const FaultKind kind : Part(all, count - kinds.size(), dice)) kinds.push_back(kind);
  if (!kinds.empty()) kinds[std::min<size_t>(kinds.size() / 6, kinds.size() - 1)] =
      FaultKind::kAddWorker;
  return kinds;
}

}  // namespace

absl::Span<const char* const> CrashPoints() { return kPoints; }

absl::string_view NameOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillWorker: return "kill worker";
    case FaultKind::kStopWorker: return "stop worker";
    case FaultKind::kFreezeWorker: return "freeze worker";
    case FaultKind::kCutOne: return "cut one connection";
    case FaultKind::kCutAll: return "cut all connections";
    case FaultKind::kStall: return "stall the network";
    case FaultKind::kFreezeServer: return "freeze server";
    case FaultKind::kKillServer: return "kill server";
    case FaultKind::kCrashServer: return "crash server";
    case FaultKind::kLoseTail: return "lose unsynced rounds";
    case FaultKind::kStopServer: return "stop server";
    case FaultKind::kPauseJob: return "pause job";
    case FaultKind::kAddWorker: return "add worker";
  }
  return "";
}

std::string Fault::ToString() const {
  return absl::StrCat("round ", round, ": ", NameOf(kind), point.empty() ? "" : " at ", point,
                      " (number ", number, ", ", length, " ms)");
}

std::vector<Fault> MakeSchedule(uint64_t seed, size_t count, uint64_t rounds) {
  Dice dice(seed);
  const Kinds kinds = AllParts(count, dice);
  std::vector<uint64_t> at;
  for (size_t i = 0; i < count; ++i) at.push_back(1 + dice.Below(rounds * 9 / 10));
  std::sort(at.begin(), at.end());
  std::vector<Fault> faults;
  for (size_t i = 0; i < count; ++i) {
    Fault& fault = faults.emplace_back(Fault{kinds[i], at[i], dice.Below(1000),
                                             kShortest + dice.Below(kLongest - kShortest), ""});
    const uint64_t point = dice.Below(std::size(kPoints));
    if (fault.kind == FaultKind::kCrashServer) fault.point = kPoints[point];
  }
  return faults;
}

}  // namespace tally::testing

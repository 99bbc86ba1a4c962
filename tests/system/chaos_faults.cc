#include "tests/system/chaos_faults.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally::testing {
namespace {

using ::testing::AnyOf;

// The disk has lost what the last sync did not cover: the point to die at for that.
constexpr char kBeforeSync[] = "ledger.before_sync";
// A point that is not passed within this is not going to be: a snapshot, a segment's end.
constexpr absl::Duration kPointLimit = absl::Seconds(5);

}  // namespace

std::map<std::string, FaultSwitch> PointSwitches::MakeSwitches() {
  std::map<std::string, FaultSwitch> switches;
  for (const char* point : CrashPoints()) switches.try_emplace(point);
  return switches;
}

std::string PointSwitches::Rules() const {
  return absl::StrJoin(switches_, ",", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second.Rule(entry.first + ":kill"));
  });
}

Chaos::Chaos(Cluster* cluster, Proxy* proxy, const PointSwitches* points, std::string job_id,
             int workers)
    : cluster_(*cluster),
      proxy_(*proxy),
      points_(*points),
      job_id_(std::move(job_id)),
      ledger_(LedgerFolder(*cluster, job_id_)),
      workers_(workers),
      watch_(ledger_) {}

uint64_t Chaos::Observe() {
  const uint64_t round = watch_.Now();
  report_.Observe(round);
  return round;
}

bool Chaos::Await(const std::function<bool()>& condition, absl::Duration limit) {
  const absl::Time end = absl::Now() + limit;
  while (!condition()) {
    Observe();
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(2));  // other processes are watched: there is only polling
  }
  return true;
}

void Chaos::WaitForRound(uint64_t round) {
  uint64_t seen = Observe();
  while (!Await([&] { return Observe() >= round; }, kPatience / 10)) {
    if (Observe() > seen) {
      seen = Observe();
      continue;
    }
    const Json status = cluster_.Status(job_id_);
    if (!Await([&] { return Observe() > seen; }, kPatience)) {
      GiveUp(absl::StrCat("no round after ", seen, ": ", status.dump()));
    }
  }
}

void Chaos::WaitForAll() {
  cluster_.WaitForStatus(job_id_, "all workers at work", [&](const Json& status) {
    const Json& workers = status["workers"];
    Observe();
    return status["state"] == "RUNNING" && workers.size() == static_cast<size_t>(workers_) &&
           std::all_of(workers.begin(), workers.end(),
                       [](const Json& worker) { return worker["attached"] == true; });
  });
}

void Chaos::CheckWorkers() {
  for (int i = 0; i < workers_; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    if (!cluster_.worker(name).running()) GiveUp(name + " has ended by itself");
  }
}

void Chaos::Do(const Fault& fault) {
  WaitForRound(fault.round);
  report_.Begin(fault, Observe());
  Inject(fault);
  CheckWorkers();
  Observe();
}

void Chaos::Inject(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kKillWorker: {
      cluster_.worker(Victim(fault)).Kill();
      StartClock();
      return cluster_.LaunchWorker(Victim(fault));
    }
    case FaultKind::kStopWorker: return StopWorker(Victim(fault));
    case FaultKind::kFreezeWorker: return FreezeWorker(fault);
    case FaultKind::kCutOne: return proxy_.CutOne(fault.number);
    case FaultKind::kCutAll: return proxy_.CutAll();
    case FaultKind::kStall: return Stall(fault);
    case FaultKind::kFreezeServer: return FreezeServer(fault);
    case FaultKind::kKillServer: return KillServer();
    case FaultKind::kCrashServer: return CrashServer(fault.point);
    case FaultKind::kLoseTail: return LoseTail(fault);
    case FaultKind::kStopServer: return StopServer();
    case FaultKind::kPauseJob: return PauseJob();
    case FaultKind::kAddWorker: return AddWorker();
  }
}

std::string Chaos::Victim(const Fault& fault) const {
  return absl::StrCat("worker-", fault.number % static_cast<uint64_t>(workers_));
}

// A signal that comes before the process can catch it ends it, too.
void Chaos::StopWorker(const std::string& name) {
  cluster_.worker(name).Signal(SIGTERM);
  EXPECT_THAT(cluster_.worker(name).Wait(), AnyOf(0, -SIGTERM)) << name;
  StartClock();
  cluster_.LaunchWorker(name);
}

// A freeze lasts a while, or until the others have closed some rounds without it.
void Chaos::FreezeWorker(const Fault& fault) {
  Process& victim = cluster_.worker(Victim(fault));
  const uint64_t round = Observe();
  victim.Signal(SIGSTOP);
  Await([&] { return Observe() >= round + 5; }, absl::Milliseconds(fault.length));
  victim.Signal(SIGCONT);
  StartClock();
}

void Chaos::FreezeServer(const Fault& fault) {
  cluster_.server().Signal(SIGSTOP);
  Await([] { return false; }, absl::Milliseconds(fault.length));
  cluster_.server().Signal(SIGCONT);
  StartClock();
}

void Chaos::Stall(const Fault& fault) {
  proxy_.Stall();
  Await([] { return false; }, absl::Milliseconds(fault.length));
  proxy_.Resume();
  StartClock();
}

void Chaos::KillServer() {
  cluster_.server().Kill();
  StartClock();
  cluster_.StartServer();
}

void Chaos::StopServer() {
  cluster_.server().Signal(SIGTERM);
  EXPECT_EQ(cluster_.server().Wait(), 0);
  StartClock();
  cluster_.StartServer();
}

bool Chaos::DieAt(const std::string& point) {
  points_.at(point).On();
  const bool died = Await([&] { return !cluster_.server().running(); }, kPointLimit);
  if (!died) cluster_.server().Kill();
  points_.at(point).Off();
  EXPECT_EQ(cluster_.server().Wait(), -SIGKILL);
  if (!died) report_.Note("not passed: killed");
  StartClock();
  return died;
}

void Chaos::CrashServer(const std::string& point) {
  DieAt(point);
  cluster_.StartServer();
}

// Before a sync the last record tells what the sync before it covered: a disk may lose all later
// rounds, or some, and a part of a record.
void Chaos::LoseTail(const Fault& fault) {
  if (DieAt(kBeforeSync)) {
    const RecordAt last = ListRecords(ledger_).back();
    const uint64_t lost = std::min(last.round - last.synced, 1 + fault.number % 8);
    const uint64_t torn = fault.number % 2 == 0 ? 0 : (last.end - last.begin) / 2;
    LoseRoundsAfter(ledger_, last.round - lost, torn);
    watch_ = RoundWatch(ledger_);
    report_.Note(absl::StrCat("lost ", lost, " rounds up to ", last.round));
    StartClock();
  }
  cluster_.StartServer();
}

void Chaos::PauseJob() {
  const Output paused = cluster_.Tally({"pause", job_id_});
  EXPECT_EQ(paused.exit_code, 0) << paused.err;
  const Output resumed = cluster_.Tally({"resume", job_id_});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  StartClock();
}

void Chaos::AddWorker() { cluster_.LaunchWorker(absl::StrCat("worker-", workers_++)); }

}  // namespace tally::testing

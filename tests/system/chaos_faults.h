// Does what a schedule says to a cluster whose workers reach the server through a proxy.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tests/system/chaos_report.h"
#include "tests/system/chaos_schedule.h"
#include "tests/system/cluster.h"
#include "tests/system/fault_switch.h"
#include "tests/system/ledger_files.h"
#include "tests/system/proxy.h"

namespace tally::testing {

// Switches the fault points of a server that is started with Rules(): dormant until armed.
class PointSwitches {
 public:
  // For TALLY_FAULT: all points that schedules name.
  std::string Rules() const;
  const FaultSwitch& at(const std::string& point) const { return switches_.at(point); }

 private:
  const std::map<std::string, FaultSwitch> switches_ = MakeSwitches();
  static std::map<std::string, FaultSwitch> MakeSwitches();
};

class Chaos {
 public:
  // All outlive it. The job runs on `workers` workers: worker-0, worker-1, ...
  Chaos(Cluster* cluster, Proxy* proxy, const PointSwitches* points, std::string job_id,
        int workers);

  // Once the ledger has the fault's round, or at once if it is past.
  void Do(const Fault& fault);
  // Until the ledger has that round. Gives up if the job ends before, or nothing moves.
  void WaitForRound(uint64_t round);
  // Until every worker takes part in the job's rounds.
  void WaitForAll();
  // Every worker's process lives.
  void CheckWorkers();

  int workers() const { return workers_; }
  const ChaosReport& report() const { return report_; }

 private:
  void Inject(const Fault& fault);
  void FreezeWorker(const Fault& fault);
  void FreezeServer(const Fault& fault);
  void StopWorker(const std::string& name);
  void Stall(const Fault& fault);
  void KillServer();
  void StopServer();
  void CrashServer(const std::string& point);
  void LoseTail(const Fault& fault);
  void PauseJob();
  void AddWorker();

  std::string Victim(const Fault& fault) const;
  // Waits for the condition while watching the ledger; false after `limit`.
  bool Await(const std::function<bool()>& condition, absl::Duration limit);
  // The server dies at the point. False: it did not pass there, and was killed.
  bool DieAt(const std::string& point);
  uint64_t Observe();
  void StartClock() { report_.StartClock(Observe()); }

  Cluster& cluster_;
  Proxy& proxy_;
  const PointSwitches& points_;
  const std::string job_id_;
  const std::string ledger_;
  int workers_;
  RoundWatch watch_;
  ChaosReport report_;
};

}  // namespace tally::testing

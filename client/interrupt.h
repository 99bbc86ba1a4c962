// Ctrl-C as something that calls and waits can end for.
#pragma once

#include <set>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"

namespace tally {

// Thread-safe.
class Interrupt {
 public:
  // Ends every guarded call and every wait, now and later.
  void Trigger();
  bool triggered() const;
  // True when the time is over, false when interrupted.
  bool WaitFor(absl::Duration time) const;

  // Has the call cancelled by Trigger; the context outlives the guard.
  class Guard {
   public:
    Guard(Interrupt& interrupt, grpc::ClientContext& context);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Interrupt& interrupt_;
    grpc::ClientContext& context_;
  };

 private:
  mutable absl::Mutex mutex_;
  bool triggered_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

// From now on SIGINT and SIGTERM trigger `interrupt`; a second one ends the process at once with
// 130. Call it once, before any other thread starts. `interrupt` outlives the process.
void TriggerOnSignals(Interrupt& interrupt);

}  // namespace tally

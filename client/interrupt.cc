#include "client/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "client/exit_code.h"

namespace tally {

void Interrupt::Trigger() {
  const absl::MutexLock lock(&mutex_);
  triggered_ = true;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

bool Interrupt::triggered() const {
  const absl::MutexLock lock(&mutex_);
  return triggered_;
}

bool Interrupt::WaitFor(absl::Duration time) const {
  const absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&triggered_), time);
}

Interrupt::Guard::Guard(Interrupt& interrupt, grpc::ClientContext& context)
    : interrupt_(interrupt), context_(context) {
  const absl::MutexLock lock(&interrupt_.mutex_);
  interrupt_.contexts_.insert(&context_);
  if (interrupt_.triggered_) context_.TryCancel();
}

Interrupt::Guard::~Guard() {
  const absl::MutexLock lock(&interrupt_.mutex_);
  interrupt_.contexts_.erase(&context_);
}

void TriggerOnSignals(Interrupt& interrupt) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads to come inherit it
  std::thread([&interrupt, signals] {
    int signal = 0;
    sigwait(&signals, &signal);
    interrupt.Trigger();
    sigwait(&signals, &signal);
    _exit(static_cast<int>(ExitCode::kInterrupted));
  }).detach();
}

}  // namespace tally

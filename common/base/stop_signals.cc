#include "common/base/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace tally {
namespace {

constexpr int kInterrupted = 130;

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void StopSignals::Block() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

StopSignals::StopSignals(std::function<void()> on_stop)
    : on_stop_(std::move(on_stop)), thread_([this] { Wait(); }) {}

StopSignals::~StopSignals() {
  finished_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes the thread, and nobody else
  thread_.join();
}

void StopSignals::Wait() {
  const sigset_t signals = Signals();
  bool stopping = false;
  for (;;) {
    int received = 0;
    sigwait(&signals, &received);
    if (finished_) return;
    if (stopping) _exit(kInterrupted);
    stopping = true;
    on_stop_();
  }
}

}  // namespace tally

#include "common/base/stop_signals.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace tally {
namespace {

constexpr int kInterrupted = 130;

// From the handler, in whatever thread, to StopSignals' thread. Made once, never closed.
int signal_pipe[2] = {-1, -1};

void PassOn(int) {
  const int error = errno;
  const char byte = 0;
  (void)!::write(signal_pipe[1], &byte, 1);  // a full pipe holds signals enough
  errno = error;
}

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void StopSignals::Block() {
  std::signal(SIGPIPE, SIG_IGN);
  // Without descriptors the signals do what they do by default.
  if (signal_pipe[0] < 0 && ::pipe2(signal_pipe, O_CLOEXEC) != 0) return;
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  struct sigaction action = {};
  action.sa_handler = PassOn;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

StopSignals::StopSignals(std::function<void()> on_stop)
    : on_stop_(std::move(on_stop)), thread_([this] { Wait(); }) {}

StopSignals::~StopSignals() {
  finished_ = true;
  PassOn(0);
  thread_.join();
}

void StopSignals::Wait() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  bool stopping = false;
  for (;;) {
    char byte = 0;
    if (::read(signal_pipe[0], &byte, 1) != 1 || finished_) return;
    if (stopping) _exit(kInterrupted);
    stopping = true;
    on_stop_();
  }
}

}  // namespace tally

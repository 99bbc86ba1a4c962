// SIGINT and SIGTERM as a call on a thread of its own, not in the middle of anything.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace tally {

// The first signal calls `on_stop`; a second one ends the process at once, with code 130. One
// object at a time.
class StopSignals {
 public:
  // To be called before other threads are started: they all inherit the mask. Threads that
  // libraries start while they are loaded (OpenBLAS) do not, and may be given a signal as well: it
  // is passed on. Signals from here on are kept until there is an object. Also ignores SIGPIPE.
  static void Block();

  explicit StopSignals(std::function<void()> on_stop);
  ~StopSignals();

 private:
  void Wait();

  const std::function<void()> on_stop_;
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace tally

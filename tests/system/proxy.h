// A TCP proxy inside the test, for faults of the network that no signal to a process makes.
#pragma once

#include <poll.h>

#include <cstddef>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tally::testing {

// Listens on a loopback port of its own and passes bytes to and from `target` (127.0.0.1:port) on one
// thread. Where the target is not there, a client's connection is closed at once. Thread-safe.
class Proxy {
 public:
  explicit Proxy(const std::string& target);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  const std::string& address() const { return address_; }
  size_t connections() const;
  // Breaks every connection with a reset, or the `number`-th modulo how many there are.
  void CutAll();
  void CutOne(size_t number);
  // Nothing passes any more, in either direction, new connections included, until Resume.
  void Stall();
  void Resume();

 private:
  // One direction: what `from` sent and `to` has not got yet.
  struct Flow {
    int from;
    int to;
    std::string bytes;
  };
  // Owns its two sockets.
  struct Connection {
    Flow up;
    Flow down;
    bool ended = false;  // by one of the two ends
    bool cut = false;
  };

  void Run();
  std::vector<pollfd> Polled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Handle(const pollfd& one) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Serve(Connection& connection, int socket, short events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const std::string target_;
  std::string address_;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  mutable absl::Mutex mutex_;
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tally::testing

// A bounded number of long tasks, each on a thread of its own and not on one of gRPC's.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace tally {

// Thread-safe.
class TaskThreads {
 public:
  // Returns what is to be done once the task's place is free: to tell of its end, for one, so that
  // who hears of it may begin another.
  using Task = std::function<std::function<void()>()>;

  // `what` names the tasks in errors: "verifications".
  TaskThreads(size_t most, std::string what) : most_(most), what_(std::move(what)) {}
  // Waits for the tasks, which must have been told to end.
  ~TaskThreads();
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // RESOURCE_EXHAUSTED while as many run as may, or one with this key unless it is empty.
  absl::Status Start(const std::string& key, Task task);

 private:
  struct Running {
    std::string key;
    bool free = false;  // its place is
    std::thread thread;
  };
  // Takes out those whose place is free; to be joined without the lock.
  std::list<Running> TakeFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StartLocked(const std::string& key, Task task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  const std::string what_;
  absl::Mutex mutex_;
  std::list<Running> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tally

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
  // `what` names the tasks in errors: "verifications".
  TaskThreads(size_t most, std::string what) : most_(most), what_(std::move(what)) {}
  // Waits for the tasks, which must have been told to end.
  ~TaskThreads();
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // RESOURCE_EXHAUSTED while as many run as may, or one with this key unless it is empty.
  absl::Status Start(const std::string& key, std::function<void()> task);

 private:
  struct Task {
    std::string key;
    bool done = false;
    std::thread thread;
  };
  std::list<Task> TakeDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  const std::string what_;
  absl::Mutex mutex_;
  std::list<Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tally

#include "server/audit/task_threads.h"

#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tally {

TaskThreads::~TaskThreads() {
  std::list<Running> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  // A list's elements stay where they are: each thread finds its own.
  for (Running& task : tasks) task.thread.join();
}

std::list<TaskThreads::Running> TaskThreads::TakeFree() {
  std::list<Running> free;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    const auto next = std::next(it);
    if (it->free) free.splice(free.end(), tasks_, it);
    it = next;
  }
  return free;
}

absl::Status TaskThreads::Start(const std::string& key, Task task) {
  std::list<Running> free;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    free = TakeFree();
    status = StartLocked(key, std::move(task));
  }
  for (Running& other : free) other.thread.join();  // it is at its last word
  return status;
}

absl::Status TaskThreads::StartLocked(const std::string& key, Task task) {
  for (const Running& other : tasks_) {
    if (key.empty() || other.key != key) continue;
    return absl::ResourceExhaustedError(absl::StrCat(key, ": one of its ", what_, " is going on"));
  }
  if (tasks_.size() >= most_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server is at ", most_, " ", what_, ", as many as it does at once"));
  }
  Running* const running = &tasks_.emplace_back();
  running->key = key;
  try {
    running->thread = std::thread([this, running, task = std::move(task)]() mutable {
      const std::function<void()> last = task();
      task = nullptr;  // what it holds goes before its place is free
      {
        absl::MutexLock lock(&mutex_);
        running->free = true;
      }
      if (last != nullptr) last();
    });
  } catch (const std::system_error& error) {
    tasks_.pop_back();
    return absl::ResourceExhaustedError(absl::StrCat("no thread for ", what_, ": ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace tally

#include "server/audit/task_threads.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tally {

TaskThreads::~TaskThreads() {
  std::list<Task> tasks;
  {
    absl::MutexLock lock(&mutex_);
    const auto all_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (const Task& task : tasks_) {
        if (!task.done) return false;
      }
      return true;
    };
    mutex_.Await(absl::Condition(&all_done));
    tasks = std::move(tasks_);
  }
  for (Task& task : tasks) task.thread.join();
}

std::list<TaskThreads::Task> TaskThreads::TakeDone() {
  std::list<Task> done;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    const auto next = std::next(it);
    if (it->done) done.splice(done.end(), tasks_, it);
    it = next;
  }
  return done;
}

absl::Status TaskThreads::Start(const std::string& key, std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  for (Task& done : TakeDone()) done.thread.join();  // its last step is behind it
  for (const Task& task : tasks_) {
    if (key.empty() || task.key != key) continue;
    return absl::ResourceExhaustedError(absl::StrCat(key, ": one of its ", what_, " is going on"));
  }
  if (tasks_.size() >= most_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server is at ", most_, " ", what_, ", as many as it does at once"));
  }
  tasks_.emplace_back().key = key;
  const auto task = std::prev(tasks_.end());
  try {
    task->thread = std::thread([this, task, work = std::move(work)]() mutable {
      work();
      work = nullptr;  // what it holds goes before the task counts as done
      absl::MutexLock done(&mutex_);
      task->done = true;
    });
  } catch (const std::system_error& error) {
    tasks_.erase(task);
    return absl::ResourceExhaustedError(absl::StrCat("no thread for ", what_, ": ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace tally

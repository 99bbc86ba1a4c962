// A status source that shows what the test put in.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/status/status_source.h"

namespace tally::testing {

class FakeSource : public StatusSource {
 public:
  StatusSnapshot Get() override {
    absl::MutexLock lock(&mutex_);
    return snapshot_;
  }
  absl::StatusOr<v1::JobStatus> Job(const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    for (const v1::JobStatus& job : snapshot_.jobs) {
      if (job.job_id() == job_id) return job;
    }
    return absl::NotFoundError(absl::StrCat(job_id, ": no such job"));
  }
  absl::Status Health() override {
    absl::MutexLock lock(&mutex_);
    return health_;
  }

  void Set(StatusSnapshot snapshot) {
    absl::MutexLock lock(&mutex_);
    snapshot_ = std::move(snapshot);
  }
  void SetHealth(absl::Status health) {
    absl::MutexLock lock(&mutex_);
    health_ = std::move(health);
  }

 private:
  absl::Mutex mutex_;
  StatusSnapshot snapshot_ ABSL_GUARDED_BY(mutex_);
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
};

inline v1::JobStatus MakeJob(const std::string& job_id, v1::JobState state) {
  v1::JobStatus job;
  job.set_job_id(job_id);
  job.set_state(state);
  job.mutable_spec()->set_name("<b>fashion</b>");
  job.mutable_spec()->set_seed(UINT64_MAX);
  return job;
}

inline StatusSnapshot MakeSnapshot() {
  StatusSnapshot snapshot;
  snapshot.version = "1.2.3";
  snapshot.address = "127.0.0.1:7070";
  snapshot.uptime = absl::Milliseconds(1500);
  snapshot.jobs = {MakeJob("job-2", v1::RUNNING), MakeJob("job-1", v1::SUCCEEDED)};
  for (const char* name : {"alpha", "beta", "gamma"}) {
    snapshot.workers.emplace_back().set_name(name);
  }
  snapshot.workers[0].set_job_id("job-2");
  return snapshot;
}

}  // namespace tally::testing

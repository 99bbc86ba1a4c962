#include "common/spec/without_worker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tally {

std::string WorkerCount(uint64_t count) {
  return absl::StrCat(count, count == 1 ? " worker" : " workers");
}

std::string WithoutWorker(const v1::JobStatus& job, absl::string_view worker) {
  const auto left = static_cast<uint64_t>(
      std::count_if(job.workers().begin(), job.workers().end(), [&](const v1::JobWorker& each) {
        return each.attached() && each.name() != worker;
      }));
  const v1::WorkersSpec& spec = job.spec().workers();
  const bool begun = job.state() == v1::RUNNING || job.state() == v1::PAUSED;
  if (begun && left < spec.minimum()) {
    return absl::StrCat(job.job_id(), " pauses: ", WorkerCount(left), " attached, minimum ",
                        spec.minimum());
  }
  if (job.state() != v1::RUNNING) {
    return absl::StrCat(job.job_id(), " has ", WorkerCount(left), " left, minimum ",
                        spec.minimum());
  }
  return absl::StrCat(job.job_id(), " goes on with ", WorkerCount(left), ", quorum ",
                      spec.quorum());
}

}  // namespace tally

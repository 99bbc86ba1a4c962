#include "server/supervisor/messages.h"

#include <bit>

#include "common/base/digest.h"

namespace tally {

v1::SessionDown WelcomeMessage(absl::Duration heartbeat) {
  v1::SessionDown down;
  down.mutable_welcome()->set_heartbeat_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(heartbeat)));
  down.mutable_welcome()->set_server_version(TALLY_VERSION);
  return down;
}

v1::SessionDown AssignmentMessage(const v1::JobStatus& job, uint32_t index) {
  v1::SessionDown down;
  v1::Assignment* assignment = down.mutable_assignment();
  assignment->set_job_id(job.job_id());
  *assignment->mutable_spec() = job.spec();
  assignment->set_index(index);
  assignment->set_count(job.spec().workers().count());
  assignment->set_job_key(JobKey(job));
  for (const v1::JobWorker& place : job.workers()) {
    if (place.index() == index) assignment->set_contributions(place.contributions());
  }
  return down;
}

v1::SessionDown ReleaseMessage(const std::string& job_id, const std::string& reason) {
  v1::SessionDown down;
  down.mutable_release()->set_job_id(job_id);
  down.mutable_release()->set_reason(reason);
  return down;
}

uint64_t JobKey(const v1::JobStatus& job) {
  Digester digester;
  digester.Add(job.job_id());
  digester.AddUint64(std::bit_cast<uint64_t>(job.submitted_at()));
  return digester.Finish();
}

}  // namespace tally

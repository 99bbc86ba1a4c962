// Replaying a job's ledger and comparing it with every digest there is: the snapshots, and what
// workers reported (server/ledger/digest_log.h). docs/operating.md, "Verifying a job".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/tally/v1/control.pb.h"

namespace tally {

struct VerifyOptions {
  std::string job_id;
  std::string job_folder;
  // Begin at the newest whole snapshot up to this round; nothing: at the oldest one kept.
  std::optional<uint64_t> from_round = {};
  // The training round that the ledger must have come to at least; of a job that has ended well.
  uint64_t expected_step = 0;
};

// What has become known since the call before; the last one has `done`. False: stop.
using VerifyReport = std::function<bool(const v1::VerifyProgress&)>;

inline constexpr uint64_t kMostDifferences = 100;

// Changes nothing in the job's folder and may run beside the job: the rounds are those that are there
// at the start. Memory: Fold's. What is wrong with the job's files is a Difference; an error is
// CANCELLED (told to stop), ABORTED (retention took what was to be read), RESOURCE_EXHAUSTED (the
// fold's working files found no room), NOT_FOUND or FAILED_PRECONDITION (OpenJobFiles; no snapshot up
// to from_round), and tells no server's paths.
absl::Status VerifyJobFolder(const VerifyOptions& options, const VerifyReport& report);

}  // namespace tally

// What a worker keeps of a job on its own disk, so that its daemon can die and go on: a safetensors
// file, whole or absent.
//
//   tensors   parameters            F32 [layout size]
//             update_state.I        F32 [layout size]   the update rule's arrays, from 0
//             mask                  U8 [...]            the mask in force, a MaskProto
//             local.work            U8 [...]            LocalWork   } of a round that it is amid:
//             local.values          F32 [...]           what moves } as its local steps have left it
//             method.NAME           F32 [...]           the method's arrays, as momentum
//             contribution.spec     U8 [...]            RoundSpec  } of a contribution whose round
//             contribution.end      U8 [...]            ContributionEnd } was not closed yet
//             contribution.INDEX    U8 [...]            its chunks' payloads
//   metadata  format version        "tally-worker-checkpoint" "1"
//             job_key layout worker whose it is
//             round history         of the parameters
//             position last_samples batches used; samples of the last one
//             digest                Digest64 of all the rest: names, sizes, values, in order
//
// It is a consistent cut: the method's arrays are those after the step of the contribution kept, after
// the last step of the local work, or, without either, of the parameters' own round.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/exchange/outgoing_contribution.h"
#include "worker/method/method.h"

namespace tally {

// A checkpoint is of use only to the place in the job that it was written for.
struct CheckpointKey {
  uint64_t job_key = 0;
  uint64_t layout = 0;  // digest
  uint32_t worker = 0;  // index in the job
  bool operator==(const CheckpointKey&) const = default;
};

// A round of local steps half done. `values` are those of the parameters that it moves.
struct KeptLocalWork {
  v1::LocalWork work;
  std::vector<float> values;
};

struct JobCheckpoint {
  CheckpointKey key;
  uint64_t round = 0;
  uint64_t history = 0;
  uint64_t position = 0;
  uint64_t last_samples = 0;
  std::vector<float> parameters;
  std::vector<std::vector<float>> update_state;
  std::string mask;  // MaskProto; empty without one
  MethodStateCopy method_state;
  std::optional<KeptContribution> contribution;
  std::optional<KeptLocalWork> local;
};

// Temp file, fsync, rename. On an error the file of before is still there.
absl::Status WriteJobCheckpoint(const std::string& path, const JobCheckpoint& checkpoint);

// NOT_FOUND if there is none; DATA_LOSS, with the path and what is wrong, for one that is cut
// short, changed in any byte, or of another version.
absl::StatusOr<JobCheckpoint> ReadJobCheckpoint(const std::string& path);

}  // namespace tally

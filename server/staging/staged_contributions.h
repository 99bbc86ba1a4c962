// All contributions to one round on the server's disk (contribution_file.h): what its workers sent
// before a broken stream or a crash of the server is still there. Memory: a digest a chunk and worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/training.pb.h"
#include "server/staging/contribution_file.h"

namespace tally {

// What lies here of one worker's contribution.
struct StagedPart {
  uint32_t worker = 0;
  std::vector<std::optional<uint64_t>> digests;  // by chunk
  uint64_t bytes = 0;                            // of payloads
  std::optional<v1::ContributionEnd> end;        // it is complete
};

// Thread-safe. Workers are indices below 256.
class StagedContributions {
 public:
  // In `folder`, for the round of this spec with so many chunks. What lies there of the very same
  // round is taken up, what is of others is left alone.
  static absl::StatusOr<std::unique_ptr<StagedContributions>> Open(std::string folder,
                                                                   const v1::RoundSpec& spec,
                                                                   uint32_t chunks);
  // What was there at Open, by worker.
  const std::vector<StagedPart>& found() const { return found_; }

  // A later attempt than before begins the worker's contribution anew; a chunk of an earlier one is
  // dropped. What was found is attempt 0. Otherwise as ContributionFile.
  absl::Status Append(uint32_t worker, uint32_t attempt, uint32_t index, uint64_t digest,
                      ByteSpan payload);
  absl::Status End(uint32_t worker, uint32_t attempt, const v1::ContributionEnd& end);
  absl::StatusOr<Bytes> Read(uint32_t worker, uint32_t index) const;

 private:
  struct Entry {
    mutable absl::Mutex mutex;
    std::shared_ptr<ContributionFile> file ABSL_GUARDED_BY(mutex);
    uint32_t attempt ABSL_GUARDED_BY(mutex) = 0;
  };
  StagedContributions(std::string folder, const v1::RoundSpec& spec, uint32_t chunks);
  absl::Status TakeUp();
  ContributionKey KeyOf(uint32_t worker) const;
  absl::Status OpenFor(uint32_t worker, uint32_t attempt, Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.mutex);

  const std::string folder_;
  const uint64_t round_;
  const uint64_t spec_digest_;
  const uint32_t chunks_;
  std::array<Entry, 256> entries_;
  std::vector<StagedPart> found_;
};

}  // namespace tally

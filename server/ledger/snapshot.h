// Snapshots: the parameters as of a round, each a Hugging Face directory `RRRRRRRRRR/` of
//   model.safetensors   the layout's tensors in its order: the data section is the flat buffer
//   config.json
//   state.safetensors   the update rule's state, if it has any: float32 arrays slot.0, slot.1, ...
// Metadata: tally.round, tally.layout_digest, tally.parameters_digest (model), tally.state_digest
// (state). A snapshot is whole or absent: made in a temporary folder, synced, then renamed.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/checkpoint/safetensors.h"
#include "common/layout/layout.h"

namespace tally {

// One snapshot, mapped: pages come from the disk as they are touched and cost no other memory.
// Immutable; safe to read from several threads; outlives the removal of its files.
class Snapshot {
 public:
  uint64_t round() const { return round_; }
  // layout.size() elements.
  absl::Span<const float> parameters() const { return parameters_; }
  // Of layout.size() elements each.
  const std::vector<absl::Span<const float>>& state() const { return state_; }
  uint64_t parameters_digest() const { return parameters_digest_; }
  const std::string& config_json() const { return config_json_; }
  // The Hugging Face directory.
  const std::string& path() const { return path_; }

 private:
  friend class SnapshotStore;
  Snapshot() = default;

  uint64_t round_ = 0;
  std::string path_;
  std::string config_json_;
  std::unique_ptr<SafetensorsFile> model_;
  std::unique_ptr<SafetensorsFile> state_file_;  // null without state
  absl::Span<const float> parameters_;
  std::vector<absl::Span<const float>> state_;
  uint64_t parameters_digest_ = 0;
};

// The snapshots of one job. Thread-safe as long as two threads do not write or remove one round.
class SnapshotStore {
 public:
  // Makes the folder if it is absent and removes what a crash left half-made in it.
  static absl::StatusOr<SnapshotStore> Open(const std::string& folder, Layout layout);

  // Sizes must be the layout's. Replaces an older snapshot of that round. Call LedgerWriter::Sync()
  // before, so that no snapshot is ahead of the ledger after a crash.
  absl::Status Write(uint64_t round, absl::Span<const float> parameters,
                     absl::Span<const absl::Span<const float>> state,
                     const std::string& config_json) const;

  // Reads the snapshot once to check its digests. NOT_FOUND; DATA_LOSS for a damaged one;
  // FAILED_PRECONDITION for another layout's.
  absl::StatusOr<std::unique_ptr<Snapshot>> Open(uint64_t round) const;
  // The newest whole one of a round up to `at_or_before`. Damaged ones are skipped with a warning.
  absl::StatusOr<std::unique_ptr<Snapshot>> Latest(
      uint64_t at_or_before = std::numeric_limits<uint64_t>::max()) const;
  // Rounds, ascending; damaged ones included.
  absl::StatusOr<std::vector<uint64_t>> List() const;
  // Absent is OK.
  absl::Status Remove(uint64_t round) const;

  std::string PathOf(uint64_t round) const;
  const Layout& layout() const { return layout_; }

 private:
  SnapshotStore(std::string folder, Layout layout)
      : folder_(std::move(folder)), layout_(std::move(layout)) {}
  absl::Status WriteFiles(const std::string& path, uint64_t round,
                          absl::Span<const float> parameters,
                          absl::Span<const absl::Span<const float>> state,
                          const std::string& config_json) const;
  absl::Status OpenModel(Snapshot& snapshot) const;
  absl::Status OpenState(Snapshot& snapshot) const;

  std::string folder_;
  Layout layout_;
};

}  // namespace tally

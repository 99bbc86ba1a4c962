// Snapshots: the parameters as of a round, each a Hugging Face directory `RRRRRRRRRR/` of
//   model.safetensors   the layout's tensors in its order: the data section is the flat buffer
//   config.json
//   state.safetensors   the update rule's state, if it has any: float32 arrays slot.0, slot.1, ...
//   mask.pb             the mask in force, if there is one: a MaskProto
// Metadata: tally.round, tally.layout_digest, tally.parameters_digest, tally.mask_digest (model),
// tally.state_digest (state). A snapshot is whole or absent: made in a temporary folder, synced, then renamed.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/checkpoint/safetensors.h"
#include "common/layout/layout.h"
#include "common/update/mask.h"

namespace tally {

// What a name in the snapshots' folder begins with if it is nothing to keep after a crash.
inline constexpr char kSnapshotTemporaryPrefix[] = ".tmp.";

// One snapshot, mapped: pages come from the disk as they are touched and cost no other memory.
// Immutable; safe to read from several threads; outlives the removal of its files. A copy shares
// them.
class Snapshot {
 public:
  uint64_t round() const { return round_; }
  // layout.size() elements.
  absl::Span<const float> parameters() const { return parameters_; }
  // Of layout.size() elements each.
  const std::vector<absl::Span<const float>>& state() const { return state_; }
  // In force after the round; null if there is none.
  const MaskPointer& mask() const { return mask_; }
  uint64_t parameters_digest() const { return parameters_digest_; }
  // DenseChunkDigests of parameters().
  const std::vector<uint64_t>& chunk_digests() const { return chunk_digests_; }
  const std::string& config_json() const { return config_json_; }
  // The Hugging Face directory.
  const std::string& path() const { return path_; }

 private:
  friend class SnapshotStore;
  Snapshot() = default;

  uint64_t round_ = 0;
  std::string path_;
  std::string config_json_;
  std::shared_ptr<const SafetensorsFile> model_;
  std::shared_ptr<const SafetensorsFile> state_file_;  // null without state
  absl::Span<const float> parameters_;
  std::vector<absl::Span<const float>> state_;
  MaskPointer mask_;
  std::vector<uint64_t> chunk_digests_;
  uint64_t parameters_digest_ = 0;
};

// The snapshots of one job. Thread-safe as long as two threads do not write or remove one round.
class SnapshotStore {
 public:
  // Makes the folder if it is absent and removes what a crash left half-made in it.
  static absl::StatusOr<SnapshotStore> Open(const std::string& folder, Layout layout);
  // Touches nothing: for a folder that somebody else may be writing to.
  static SnapshotStore OpenToRead(const std::string& folder, Layout layout);

  // Sizes must be the layout's. Replaces an older snapshot of that round. Call LedgerWriter::Sync()
  // before, so that no snapshot is ahead of the ledger after a crash. `digest` is the parameters'
  // if the caller has it.
  absl::Status Write(uint64_t round, absl::Span<const float> parameters,
                     absl::Span<const absl::Span<const float>> state,
                     const std::string& config_json,
                     std::optional<uint64_t> digest = std::nullopt,
                     const Mask* mask = nullptr) const;

  // Reads the snapshot once to check its digests. NOT_FOUND; DATA_LOSS for a damaged one;
  // FAILED_PRECONDITION for another layout's.
  absl::StatusOr<std::unique_ptr<Snapshot>> Open(uint64_t round) const;
  // The newest whole one of a round up to `at_or_before`. Damaged ones are skipped with a warning.
  absl::StatusOr<std::unique_ptr<Snapshot>> Latest(
      uint64_t at_or_before = std::numeric_limits<uint64_t>::max()) const;
  // Rounds, ascending; damaged ones included.
  absl::StatusOr<std::vector<uint64_t>> List() const;
  // Whole or not at all, should there be a crash. Absent is OK.
  absl::Status Remove(uint64_t round) const;

  std::string PathOf(uint64_t round) const;
  const Layout& layout() const { return layout_; }

 private:
  SnapshotStore(std::string folder, Layout layout)
      : folder_(std::move(folder)), layout_(std::move(layout)) {}
  absl::Status WriteFiles(const std::string& path, uint64_t round,
                          absl::Span<const float> parameters,
                          absl::Span<const absl::Span<const float>> state,
                          const std::string& config_json, uint64_t digest,
                          const Mask* mask) const;
  absl::Status OpenModel(Snapshot& snapshot) const;
  absl::Status OpenState(Snapshot& snapshot) const;
  absl::Status OpenMask(Snapshot& snapshot) const;

  std::string folder_;
  Layout layout_;
};

}  // namespace tally

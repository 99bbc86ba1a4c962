// Which round comes next. A pure function of the job and of the last round in the ledger, so that
// a server back from a crash plans the same rounds.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "proto/tally/v1/job.pb.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

class RoundPlanner {
 public:
  // `spec` has passed CheckJobSpec. NOT_FOUND for a method that no reduction serves,
  // INVALID_ARGUMENT for a mask that does not fit the model.
  static absl::StatusOr<RoundPlanner> Create(const v1::JobSpec& spec, const Layout& layout);

  // The round after `last` (null: the first); nothing when the job's rounds are done.
  //
  // A model with buffers has a dense_mean round of them before each evaluation, comparison and
  // snapshot (METHODS: buffers are not voted on); those then belong to the buffers' round. FISH has a
  // mask round before its first training round and wherever the mask is due to be refreshed.
  std::optional<v1::RoundSpec> Next(const v1::RoundSpec* last) const;

  // Whether the fold writes a snapshot after this round.
  bool SnapshotAfter(const v1::RoundSpec& round) const;
  // Of the training rounds.
  const std::string& update_rule() const { return update_rule_; }

 private:
  RoundPlanner(v1::JobSpec spec, bool has_buffers) : spec_(std::move(spec)), buffers_(has_buffers) {}
  v1::RoundSpec NewRound(uint64_t number, uint64_t step, uint64_t mask_round) const;
  v1::RoundSpec TrainingRound(uint64_t number, uint64_t step, uint64_t mask_round) const;
  v1::RoundSpec BuffersRound(uint64_t number, uint64_t step, uint64_t mask_round) const;
  v1::RoundSpec MaskRound(uint64_t number, uint64_t step) const;
  void SetLocal(v1::RoundSpec& round) const;
  bool MaskDue(const v1::RoundSpec* last) const;
  absl::Status SizeMask(const Layout& layout);
  void MarkDue(uint64_t step, v1::RoundSpec& round) const;
  bool Due(uint64_t step, uint64_t every) const;
  bool AnythingDue(uint64_t step) const;

  v1::JobSpec spec_;
  bool buffers_;
  std::string reduction_;
  std::string update_rule_;
  uint64_t mask_size_ = 0;  // 0: the method has no mask
  uint32_t chunk_elements_ = 0;
  uint32_t buffers_chunk_elements_ = 0;
};

}  // namespace tally

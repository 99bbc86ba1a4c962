#include "worker/data/epoch_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "worker/data/shuffled_reader.h"
#include "worker/data/without_held_out.h"

namespace tally {

absl::Status EpochReader::OpenEpoch() {
  TALLY_ASSIGN_OR_RETURN(reader_, source_.Read(Split::kTrain, rows_));
  if (hold_out_every_ != 0) {
    reader_ = std::make_unique<WithoutHeldOut>(std::move(reader_), hold_out_every_);
  }
  read_ = 0;
  if (shuffle_buffer_ == 0) return absl::OkStatus();
  const uint64_t capacity = std::min<uint64_t>(shuffle_buffer_, examples());
  reader_ = std::make_unique<ShuffledReader>(
      std::move(reader_), source_.info().example.bytes(), capacity,
      StreamKey(seed_, worker_ + uint64_t{1}, epoch_, RandomPurpose::kShuffle));
  return absl::OkStatus();
}

absl::Status EpochReader::Next(char* elements, uint32_t* label) {
  if (reader_ == nullptr) TALLY_RETURN_IF_ERROR(OpenEpoch());
  TALLY_ASSIGN_OR_RETURN(const bool more, reader_->Next(elements, label));
  if (!more) {
    return absl::DataLossError(absl::StrCat("epoch ", epoch_, ": expected ", examples(),
                                            " rows, found ", read_));
  }
  if (++read_ == examples()) {
    reader_.reset();
    ++epoch_;
  }
  return absl::OkStatus();
}

}  // namespace tally

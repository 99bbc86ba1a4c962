#include "server/ledger/working_array.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/pending_file.h"
#include "server/ledger/snapshot.h"

namespace tally {

// The pending file is never committed: its destructor takes the name away, the mapping stays.
absl::StatusOr<WorkingArray> WorkingArray::Make(const std::string& folder, uint64_t count,
                                                absl::string_view contents) {
  TALLY_ASSIGN_OR_RETURN(
      PendingFile file,
      PendingFile::Create(absl::StrCat(folder, "/", kSnapshotTemporaryPrefix, "fold")));
  TALLY_RETURN_IF_ERROR(file.Reserve(count * sizeof(float)));
  TALLY_RETURN_IF_ERROR(file.Write(contents));
  TALLY_ASSIGN_OR_RETURN(auto mapping, MappedFile::OpenReadWrite(file.temporary()));
  const absl::Span<float> values(reinterpret_cast<float*>(mapping->mutable_data()), count);
  return WorkingArray(std::move(mapping), values);
}

absl::StatusOr<WorkingArray> WorkingArray::Zeros(const std::string& folder, uint64_t count) {
  return Make(folder, count, {});
}

absl::StatusOr<WorkingArray> WorkingArray::CopyOf(const std::string& folder,
                                                  absl::Span<const float> values) {
  return Make(folder, values.size(),
              absl::string_view(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float)));
}

}  // namespace tally

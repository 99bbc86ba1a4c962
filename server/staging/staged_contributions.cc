#include "server/staging/staged_contributions.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tally {
namespace {

uint64_t DigestOfSpec(v1::RoundSpec spec) {
  spec.clear_deadline_ms();  // may change over a restart
  return Digest64(spec.SerializeAsString());
}

}  // namespace

StagedContributions::StagedContributions(std::string folder, const v1::RoundSpec& spec,
                                         uint32_t chunks)
    : folder_(std::move(folder)),
      round_(spec.round()),
      spec_digest_(DigestOfSpec(spec)),
      chunks_(chunks) {}

absl::StatusOr<std::unique_ptr<StagedContributions>> StagedContributions::Open(
    std::string folder, const v1::RoundSpec& spec, uint32_t chunks) {
  std::unique_ptr<StagedContributions> staged(
      new StagedContributions(std::move(folder), spec, chunks));
  TALLY_RETURN_IF_ERROR(staged->TakeUp());
  return staged;
}

ContributionKey StagedContributions::KeyOf(uint32_t worker) const {
  return {round_, worker, spec_digest_, chunks_};
}

absl::Status StagedContributions::TakeUp() {
  TALLY_RETURN_IF_ERROR(MakeFolders(folder_));
  for (uint32_t worker = 0; worker < entries_.size(); ++worker) {
    if (!std::filesystem::exists(
            absl::StrCat(folder_, "/", absl::StrFormat("%010d.%03d", round_, worker)))) {
      continue;
    }
    Entry& entry = entries_[worker];
    absl::MutexLock lock(&entry.mutex);
    TALLY_RETURN_IF_ERROR(OpenFor(worker, 0, entry));
    const ContributionFile& file = *entry.file;
    if (file.held() == 0) continue;
    StagedPart part{worker, {}, file.bytes(), file.end()};
    for (uint32_t i = 0; i < chunks_; ++i) part.digests.push_back(file.digest(i));
    found_.push_back(std::move(part));
  }
  return absl::OkStatus();
}

absl::Status StagedContributions::OpenFor(uint32_t worker, uint32_t attempt, Entry& entry) {
  if (entry.file != nullptr && attempt == entry.attempt) return absl::OkStatus();
  if (entry.file != nullptr) TALLY_RETURN_IF_ERROR(entry.file->Remove());
  entry.file.reset();
  entry.attempt = attempt;
  TALLY_ASSIGN_OR_RETURN(entry.file, ContributionFile::Open(folder_, KeyOf(worker)));
  return absl::OkStatus();
}

absl::Status StagedContributions::Append(uint32_t worker, uint32_t attempt, uint32_t index,
                                         uint64_t digest, ByteSpan payload) {
  Entry& entry = entries_[worker];
  absl::MutexLock lock(&entry.mutex);
  if (attempt < entry.attempt) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(OpenFor(worker, attempt, entry));
  return entry.file->Append(index, digest, payload);
}

absl::Status StagedContributions::End(uint32_t worker, uint32_t attempt,
                                      const v1::ContributionEnd& end) {
  Entry& entry = entries_[worker];
  absl::MutexLock lock(&entry.mutex);
  if (attempt < entry.attempt) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(OpenFor(worker, attempt, entry));
  return entry.file->end().has_value() ? absl::OkStatus() : entry.file->End(end);
}

absl::StatusOr<Bytes> StagedContributions::Read(uint32_t worker, uint32_t index) const {
  const Entry& entry = entries_[worker];
  std::shared_ptr<ContributionFile> file;
  {
    absl::MutexLock lock(&entry.mutex);
    file = entry.file;
  }
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("no contribution of worker ", worker));
  }
  return file->Read(index);
}

}  // namespace tally

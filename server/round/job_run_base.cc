// The base model, sent once by the elected worker and kept as the snapshot of round 0.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/layout/chunk_grid.h"
#include "server/ledger/record.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"

namespace tally {
namespace {

absl::Status NotElected(const std::string& worker) {
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", worker, " sends a base model that it was not asked for"));
}

}  // namespace

absl::Status JobRun::OnBaseBegin(Attachment& from, const v1::BaseBegin& begin) {
  if (from.worker != elected_ || writer_ != nullptr) return NotElected(from.worker);
  TALLY_ASSIGN_OR_RETURN(const Layout layout, Layout::FromProto(begin.layout()));
  if (layout.digest() != layout_->digest()) {
    return absl::InvalidArgumentError("base model: its layout is not the job's");
  }
  base_config_json_ = begin.config_json();
  base_.assign(layout_->size(), 0);
  base_digests_.assign(DenseGrid(*layout_).size(), 0);
  return absl::OkStatus();
}

absl::Status JobRun::OnBaseChunk(Attachment& from, const v1::ChunkHeader& header,
                                 const Payload& payload) {
  if (from.worker != elected_ || base_.empty()) return NotElected(from.worker);
  const ChunkGrid grid = DenseGrid(*layout_);
  if (header.index() >= grid.size()) {
    return absl::InvalidArgumentError(absl::StrCat("base model: chunk ", header.index(),
                                                   ": expected an index below ", grid.size()));
  }
  const Chunk& chunk = grid[header.index()];
  if (payload.size() != chunk.count * sizeof(float) || payload.Digest() != header.digest()) {
    return absl::DataLossError(
        absl::StrCat("base model: chunk ", header.index(), ": wrong size or digest"));
  }
  payload.CopyTo(absl::MakeSpan(reinterpret_cast<unsigned char*>(base_.data() + chunk.first),
                                payload.size()));
  base_digests_[header.index()] = header.digest();
  return absl::OkStatus();
}

absl::Status JobRun::OnBaseEnd(Attachment& from, const v1::BaseEnd& end, Effects& effects) {
  if (from.worker != elected_ || base_.empty()) return NotElected(from.worker);
  if (end.chunks() != base_digests_.size() || end.digest() != DigestOfChunks(base_digests_)) {
    return absl::DataLossError("base model: chunks are missing, or their digest is another");
  }
  TALLY_RETURN_IF_ERROR(snapshots_->Write(0, base_, {}, base_config_json_));
  std::vector<float>().swap(base_);  // "= {}" would keep its memory
  if (const absl::Status opened = OpenLedger(); !opened.ok()) {
    sync_.reset();
    writer_.reset();
    return opened;
  }
  observer_->OnEvent("info", from.worker,
                     absl::StrCat("sent the base model, digest ", DigestToString(end.digest())));
  for (auto& [name, member] : members_) {
    if (member->phase != AttachmentPhase::kAwaitingBase) continue;
    if (name != elected_) member->Push(AttachedFrame(false));
    StartCatchUp(*member, name == elected_ ? std::make_optional<uint64_t>(0) : std::nullopt);
    effects.wakes.push_back(member->link);
  }
  return absl::OkStatus();
}

}  // namespace tally

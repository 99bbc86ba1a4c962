#include "common/update/mask.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/update/round_context.h"

namespace tally {

absl::StatusOr<std::shared_ptr<const Mask>> Mask::Create(const Layout& layout,
                                                         const v1::RoundSpec& spec,
                                                         absl::Span<const ByteSpan> aggregate) {
  std::shared_ptr<Mask> mask(new Mask);
  TALLY_ASSIGN_OR_RETURN(mask->grid_, GridForRound(layout, spec));
  if (aggregate.size() != mask->grid_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("mask: expected ", mask->grid_.size(),
                                                   " chunks, found ", aggregate.size()));
  }
  for (uint32_t i = 0; i < mask->grid_.size(); ++i) {
    auto set = DecodeIndexSet(mask->grid_[i].count, aggregate[i]);
    if (!set.ok()) return WithContext(set.status(), absl::StrCat("mask: chunk ", i));
    mask->size_ += set->indices.size();
    mask->sets_.push_back(*std::move(set));
  }
  if (mask->size_ != spec.mask_size()) {
    return absl::InvalidArgumentError(absl::StrCat("mask: expected ", spec.mask_size(),
                                                   " elements, found ", mask->size_));
  }
  mask->spec_ = spec;
  return mask;
}

std::string Mask::Serialize() const {
  v1::MaskProto proto;
  *proto.mutable_spec() = spec_;
  for (const IndexSet& set : sets_) {
    const Bytes bytes = EncodeIndexSet(set);
    proto.add_chunks(bytes.data(), bytes.size());
  }
  return proto.SerializeAsString();
}

absl::StatusOr<std::shared_ptr<const Mask>> Mask::Parse(const Layout& layout,
                                                        const std::string& bytes) {
  v1::MaskProto proto;
  if (!proto.ParseFromString(bytes)) return absl::DataLossError("mask: not a MaskProto");
  std::vector<ByteSpan> aggregate;
  for (const std::string& chunk : proto.chunks()) {
    aggregate.emplace_back(reinterpret_cast<const unsigned char*>(chunk.data()), chunk.size());
  }
  auto mask = Create(layout, proto.spec(), aggregate);
  if (!mask.ok()) return absl::DataLossError(mask.status().message());
  return mask;
}

const IndexSet* Mask::Find(const Chunk& chunk) const {
  const std::vector<Chunk>& chunks = grid_.chunks();
  const auto found = std::lower_bound(chunks.begin(), chunks.end(), chunk.first,
                                      [](const Chunk& c, uint64_t first) { return c.first < first; });
  if (found == chunks.end() || found->first != chunk.first || found->count != chunk.count) {
    return nullptr;
  }
  return &sets_[static_cast<size_t>(found - chunks.begin())];
}

std::vector<uint64_t> Mask::FlatIndices() const {
  std::vector<uint64_t> indices;
  indices.reserve(size_);
  for (uint32_t i = 0; i < grid_.size(); ++i) {
    for (const uint32_t index : sets_[i].indices) indices.push_back(grid_[i].first + index);
  }
  return indices;
}

absl::StatusOr<const IndexSet*> MaskOfChunk(const v1::RoundSpec& spec, const Mask* mask,
                                            const Chunk& chunk) {
  if (!IsSparse(spec)) return nullptr;
  if (mask == nullptr || mask->round() != spec.mask_round()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "round ", spec.round(), ": expected the mask of round ", spec.mask_round(), ", found ",
        mask == nullptr ? "none" : absl::StrCat("that of round ", mask->round())));
  }
  const IndexSet* set = mask->Find(chunk);
  if (set != nullptr) return set;
  return absl::InvalidArgumentError(
      absl::StrCat("round ", spec.round(), ": its chunks are not those of its mask"));
}

absl::Status CheckAggregateChunk(const v1::RoundSpec& spec, const Mask* mask, const Chunk& chunk,
                                 ByteSpan payload) {
  if (spec.mask_size() != 0) return DecodeIndexSet(chunk.count, payload).status();
  TALLY_ASSIGN_OR_RETURN(const Reduction* reduction, FindReduction(spec.reduction()));
  TALLY_ASSIGN_OR_RETURN(const IndexSet* set, MaskOfChunk(spec, mask, chunk));
  TALLY_ASSIGN_OR_RETURN(const ChunkContext context, AggregateContext(spec, chunk, set));
  return reduction->CheckAggregate(context, payload);
}

}  // namespace tally

#include "common/layout/layout.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/digest.h"
#include "common/base/status.h"

namespace tally {
namespace {

// Keeps every product and offset far from overflow.
constexpr uint64_t kMaxElements = uint64_t{1} << 40;

absl::StatusOr<uint64_t> ElementCount(const v1::TensorEntry& tensor) {
  uint64_t count = 1;
  for (const uint64_t extent : tensor.shape()) {
    if (extent == 0 || extent > kMaxElements || count > kMaxElements / extent) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout: tensor ", tensor.name(), ": expected 1 to 2^40 elements"));
    }
    count *= extent;
  }
  return count;
}

void AddText(Digester& digester, absl::string_view text) {
  digester.AddUint64(text.size());
  digester.Add(text);
}

uint64_t DigestOf(const std::vector<LayoutTensor>& tensors, const std::vector<LayoutBlock>& blocks,
                  bool has_buffers) {
  Digester digester;
  digester.AddUint64(has_buffers);
  digester.AddUint64(blocks.size());
  for (const LayoutBlock& block : blocks) {
    AddText(digester, block.name);
    digester.AddUint64(block.count);
  }
  digester.AddUint64(tensors.size());
  for (const LayoutTensor& tensor : tensors) {
    AddText(digester, tensor.name);
    digester.AddUint64(tensor.shape.size());
    for (const uint64_t extent : tensor.shape) digester.AddUint64(extent);
  }
  return digester.Finish();
}

absl::StatusOr<std::vector<LayoutTensor>> PlaceTensors(const v1::LayoutProto& proto) {
  std::vector<LayoutTensor> tensors;
  absl::flat_hash_set<absl::string_view> names;
  uint64_t first = 0;
  for (const v1::TensorEntry& entry : proto.tensors()) {
    if (entry.name().empty() || !names.insert(entry.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout: tensor ", tensors.size(), ": empty or repeated name \"",
                       entry.name(), "\""));
    }
    TALLY_ASSIGN_OR_RETURN(const uint64_t count, ElementCount(entry));
    tensors.push_back({entry.name(), {entry.shape().begin(), entry.shape().end()}, 0, first, count});
    first += count;
    if (first > kMaxElements) {
      return absl::InvalidArgumentError("layout: expected at most 2^40 elements in all");
    }
  }
  return tensors;
}

absl::StatusOr<std::vector<LayoutBlock>> PlaceBlocks(const v1::LayoutProto& proto,
                                                     std::vector<LayoutTensor>& tensors) {
  std::vector<LayoutBlock> blocks;
  absl::flat_hash_set<absl::string_view> names;
  size_t next = 0;
  for (const v1::BlockEntry& entry : proto.blocks()) {
    if (entry.name().empty() || !names.insert(entry.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("layout: block ", blocks.size(),
                                                     ": empty or repeated name \"", entry.name(),
                                                     "\""));
    }
    if (entry.tensors() == 0 || entry.tensors() > tensors.size() - next) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout: block ", entry.name(), ": expected 1 to ", tensors.size() - next,
                       " tensors, found ", entry.tensors()));
    }
    LayoutBlock block{entry.name(), tensors[next].first, 0};
    for (uint32_t i = 0; i < entry.tensors(); ++i, ++next) {
      tensors[next].block = static_cast<uint32_t>(blocks.size());
      block.count += tensors[next].count;
    }
    blocks.push_back(std::move(block));
  }
  if (next != tensors.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout: ", tensors.size() - next, " tensors belong to no block"));
  }
  return blocks;
}

}  // namespace

absl::StatusOr<Layout> Layout::FromProto(const v1::LayoutProto& proto) {
  Layout layout;
  TALLY_ASSIGN_OR_RETURN(layout.tensors_, PlaceTensors(proto));
  TALLY_ASSIGN_OR_RETURN(layout.blocks_, PlaceBlocks(proto, layout.tensors_));
  layout.has_buffers_ = proto.has_buffers();
  if (layout.blocks_.size() < (proto.has_buffers() ? 2u : 1u)) {
    return absl::InvalidArgumentError("layout: expected at least one block of parameters");
  }
  layout.size_ = layout.blocks_.back().first + layout.blocks_.back().count;
  layout.digest_ = DigestOf(layout.tensors_, layout.blocks_, layout.has_buffers_);
  return layout;
}

v1::LayoutProto Layout::ToProto() const {
  v1::LayoutProto proto;
  for (const LayoutBlock& block : blocks_) proto.add_blocks()->set_name(block.name);
  for (const LayoutTensor& tensor : tensors_) {
    v1::TensorEntry* entry = proto.add_tensors();
    entry->set_name(tensor.name);
    entry->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    v1::BlockEntry* block = proto.mutable_blocks(static_cast<int>(tensor.block));
    block->set_tensors(block->tensors() + 1);
  }
  proto.set_has_buffers(has_buffers_);
  return proto;
}

uint64_t Layout::trained_size() const {
  return has_buffers_ ? blocks_.back().first : size_;
}

LayoutBuilder& LayoutBuilder::AddBlock(std::string name) {
  proto_.add_blocks()->set_name(std::move(name));
  return *this;
}

LayoutBuilder& LayoutBuilder::AddBuffersBlock(std::string name) {
  proto_.set_has_buffers(true);
  return AddBlock(std::move(name));
}

LayoutBuilder& LayoutBuilder::AddTensor(std::string name, absl::Span<const uint64_t> shape) {
  v1::TensorEntry* entry = proto_.add_tensors();
  entry->set_name(std::move(name));
  entry->mutable_shape()->Add(shape.begin(), shape.end());
  if (proto_.blocks_size() > 0) {
    v1::BlockEntry* block = proto_.mutable_blocks(proto_.blocks_size() - 1);
    block->set_tensors(block->tensors() + 1);
  }
  return *this;
}

}  // namespace tally

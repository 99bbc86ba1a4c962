// The flat index space of a model: its tensors in order, each a run of float32 elements, grouped
// in contiguous blocks. If the model has float buffers (BatchNorm statistics) they are the last
// block, which no training round covers. docs/layout.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

struct LayoutTensor {
  std::string name;
  std::vector<uint64_t> shape;  // empty for a scalar
  uint32_t block = 0;           // index into blocks()
  uint64_t first = 0;           // flat index of its first element
  uint64_t count = 0;
};

struct LayoutBlock {
  std::string name;
  uint64_t first = 0;  // flat index of its first element
  uint64_t count = 0;  // never 0
};

// Immutable; copies are cheap enough to pass by value at a job's start.
class Layout {
 public:
  // INVALID_ARGUMENT naming the tensor or block: repeated or empty name, an element count of 0 or
  // above 2^40, blocks that do not cover the tensors, no block to train.
  static absl::StatusOr<Layout> FromProto(const v1::LayoutProto& proto);
  v1::LayoutProto ToProto() const;

  const std::vector<LayoutTensor>& tensors() const { return tensors_; }
  const std::vector<LayoutBlock>& blocks() const { return blocks_; }
  bool has_buffers() const { return has_buffers_; }
  // Blocks that training rounds may cover.
  uint32_t trained_blocks() const {
    return static_cast<uint32_t>(blocks_.size()) - (has_buffers_ ? 1 : 0);
  }
  // Elements in all, and without the buffers.
  uint64_t size() const { return size_; }
  uint64_t trained_size() const;
  // Of names, shapes and blocks in order; equal digests mean equal layouts.
  uint64_t digest() const { return digest_; }

 private:
  std::vector<LayoutTensor> tensors_;
  std::vector<LayoutBlock> blocks_;
  bool has_buffers_ = false;
  uint64_t size_ = 0;
  uint64_t digest_ = 0;
};

// Builds a layout block by block: AddBlock, then the tensors of that block.
class LayoutBuilder {
 public:
  LayoutBuilder& AddBlock(std::string name);
  // The last block, of float buffers.
  LayoutBuilder& AddBuffersBlock(std::string name);
  LayoutBuilder& AddTensor(std::string name, absl::Span<const uint64_t> shape);
  absl::StatusOr<Layout> Build() const { return Layout::FromProto(proto_); }

 private:
  v1::LayoutProto proto_;
};

}  // namespace tally

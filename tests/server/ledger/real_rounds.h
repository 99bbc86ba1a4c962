// Rounds that real reductions made of three workers' random values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "common/layout/layout.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally::testing {

inline std::vector<float> RandomFloats(size_t count, uint64_t key) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int64_t>(RandomWord(key, i)) * 0x1p-63);
  }
  return values;
}

// Blocks of 300, 200 and 1 elements, and buffers of 20.
inline Layout SmallLayout() {
  LayoutBuilder builder;
  builder.AddBlock("embeddings").AddTensor("embed.weight", {30, 10});
  builder.AddBlock("layer").AddTensor("layer.weight", {19, 10}).AddTensor("layer.bias", {10});
  builder.AddBlock("head").AddTensor("head.scale", {});
  builder.AddBuffersBlock("buffers").AddTensor("bn.running_mean", {20});
  return *builder.Build();
}

inline Bytes ReduceChunk(const v1::RoundSpec& spec, const Chunk& chunk) {
  const Reduction* reduction = *FindReduction(spec.reduction());
  std::vector<Bytes> payloads;
  for (uint64_t worker = 0; worker < 3; ++worker) {
    const uint64_t key = StreamKey(spec.round(), worker, chunk.first, RandomPurpose::kAugment);
    payloads.push_back(reduction->Pack({.first_lane = chunk.first_lane}, RandomFloats(chunk.count, key), key));
  }
  const std::vector<Contribution> contributions = {{payloads[0]}, {payloads[1]}, {payloads[2]}};
  const ChunkContext context{chunk.first_lane, chunk.count, spec.tie_key(), spec.zero_ties()};
  auto aggregate = reduction->Reduce(context, contributions);
  EXPECT_THAT(aggregate, IsOk());
  return *std::move(aggregate);
}

// Round `number` of a job with this reduction and rule; `first_active_block` is for training rounds.
inline TestRound RealRound(const Layout& layout, uint64_t number, const std::string& reduction,
                           const std::string& rule, uint32_t first_active_block = 0) {
  v1::RoundSpec spec;
  spec.set_round(number);
  spec.set_step(number);
  spec.set_reduction(reduction);
  spec.set_update_rule(rule);
  spec.set_learning_rate(0.01 / static_cast<double>(number));
  spec.set_weight_decay(0.1);
  spec.set_beta1(0.9);
  spec.set_beta2(0.99);
  spec.set_epsilon(1e-8);
  spec.set_chunk_elements(128);
  spec.set_tie_key(number * 1000);
  spec.set_buffers(rule == "assign");
  spec.set_first_active_block(spec.buffers() ? 0 : first_active_block);
  std::vector<Bytes> payloads;
  const auto grid = GridForRound(layout, spec);
  for (const Chunk& chunk : grid->chunks()) payloads.push_back(ReduceChunk(spec, chunk));
  return Close(std::move(spec), std::move(payloads));
}

}  // namespace tally::testing

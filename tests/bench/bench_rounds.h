// Rounds of a majority over one block, for measuring.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/base/random.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/reduction.h"
#include "common/reduction/sign_payload.h"
#include "proto/tally/v1/training.pb.h"

namespace tally::bench {

struct BenchRound {
  v1::RoundSpec spec;
  std::vector<Bytes> payloads;
  std::vector<ByteSpan> spans;  // of the payloads
};

inline Layout OneBlock(uint64_t parameters) {
  LayoutBuilder builder;
  return *builder.AddBlock("block").AddTensor("weight", {parameters}).Build();
}

// Random signs in chunks of the size that a job's planner chooses.
inline BenchRound MajorityRound(const Layout& layout, uint64_t number) {
  BenchRound round;
  round.spec.set_round(number);
  round.spec.set_step(number);
  round.spec.set_reduction("majority");
  round.spec.set_update_rule("sign_step");
  round.spec.set_learning_rate(1e-4);
  round.spec.set_weight_decay(0.1);
  round.spec.set_chunk_elements((*FindReduction("majority"))->max_chunk_elements());
  const ChunkGrid grid = *GridForRound(layout, round.spec);
  for (const Chunk& chunk : grid.chunks()) {
    std::vector<uint64_t> words(LaneCount(chunk.count));
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = RandomWord(number, chunk.first_lane + i);
    }
    words.back() &= LastWordBits(chunk.count);
    round.payloads.push_back(WriteSignPayload(words, {}));
  }
  round.spans = {round.payloads.begin(), round.payloads.end()};
  return round;
}

inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

}  // namespace tally::bench

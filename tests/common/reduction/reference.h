// The slow and obvious twins of the reductions, read from the format's description alone: one
// element, one voter, one bit at a time.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "common/base/random.h"
#include "common/reduction/reduction.h"

namespace tally::testing {

// What one voter says of each element: +1, -1, or 0 where its lane is silent.
using VoteList = std::vector<int>;

inline bool PayloadBit(ByteSpan payload, size_t word, size_t bit) {
  return (payload[8 + word * 8 + bit / 8] >> (bit % 8)) & 1;
}

inline VoteList ReferenceVotes(uint32_t count, ByteSpan payload) {
  const size_t words = (count + 63) / 64;
  VoteList votes(count);
  for (uint32_t i = 0; i < count; ++i) {
    const size_t lane = i / 64;
    const bool silent = payload[0] == 1 && !PayloadBit(payload, words + lane / 64, lane % 64);
    votes[i] = silent ? 0 : PayloadBit(payload, lane, i % 64) ? 1 : -1;
  }
  return votes;
}

inline Bytes ReferencePack(const VoteList& votes) {
  const size_t words = (votes.size() + 63) / 64;
  std::vector<uint64_t> signs(words), mask((words + 63) / 64);
  bool any_silent = false;
  for (size_t i = 0; i < votes.size(); ++i) {
    if (votes[i] > 0) signs[i / 64] |= uint64_t{1} << (i % 64);
    if (votes[i] != 0) mask[i / 64 / 64] |= uint64_t{1} << (i / 64 % 64);
    any_silent |= votes[i] == 0;
  }
  Bytes payload(8);
  payload[0] = any_silent;
  const auto append = [&](uint64_t word) {
    for (int k = 0; k < 8; ++k) payload.push_back(static_cast<unsigned char>(word >> (8 * k)));
  };
  for (uint64_t word : signs) append(word);
  if (any_silent) {
    for (uint64_t word : mask) append(word);
  }
  return payload;
}

inline std::vector<float> ReferenceMajority(const ChunkContext& context,
                                            const std::vector<VoteList>& voters) {
  std::vector<float> result(context.count);
  for (uint32_t i = 0; i < context.count; ++i) {
    int sum = 0, voting = 0;
    for (const VoteList& votes : voters) {
      sum += votes[i];
      voting += votes[i] != 0;
    }
    const uint64_t random = RandomWord(context.tie_key, context.first_lane + i / 64);
    if (sum != 0) {
      result[i] = sum > 0 ? 1 : -1;
    } else if (voting > 0 && !context.zero_ties) {
      result[i] = (random >> (i % 64)) & 1 ? 1 : -1;
    }
  }
  return result;
}

inline std::vector<float> ReferenceSignMean(const ChunkContext& context,
                                            const std::vector<VoteList>& voters) {
  std::vector<float> result(context.count);
  for (uint32_t i = 0; i < context.count; ++i) {
    int sum = 0, voting = 0;
    for (const VoteList& votes : voters) {
      sum += votes[i];
      voting += votes[i] != 0;
    }
    if (voting > 0) result[i] = static_cast<float>(sum) / static_cast<float>(voting);
  }
  return result;
}

// Votes at random; each lane silent with probability `silent`.
inline VoteList RandomVotes(size_t count, double silent, std::mt19937_64& random) {
  VoteList votes(count);
  bool lane_silent = false;
  for (size_t i = 0; i < count; ++i) {
    if (i % 64 == 0) lane_silent = std::uniform_real_distribution<>()(random) < silent;
    votes[i] = lane_silent ? 0 : random() & 1 ? 1 : -1;
  }
  return votes;
}

}  // namespace tally::testing

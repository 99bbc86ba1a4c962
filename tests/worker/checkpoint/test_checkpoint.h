#pragma once

#include <string>

#include "common/reduction/reduction.h"
#include "common/wire/frame.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/job_checkpoint.h"

namespace tally::testing {

// One with everything in it.
inline JobCheckpoint FullCheckpoint() {
  JobCheckpoint checkpoint;
  checkpoint.key = {0x1234567890abcdef, 0xfedcba0987654321, 3};
  checkpoint.round = 41;
  checkpoint.history = 0xffffffffffffffff;
  checkpoint.position = 57;
  checkpoint.last_samples = 8;
  checkpoint.parameters = {1.0f, -0.0f, 3.5f, 1e-40f, 7.0f};
  checkpoint.update_state = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
  checkpoint.method_state = {{"momentum", {0.25f, -0.5f, 0.125f}}};
  KeptContribution kept;
  kept.spec.set_round(42);
  kept.spec.set_learning_rate(0.1);
  kept.chunks = {{0, OwnedSlice({1, 2, 3})}, {2, OwnedSlice({4})}};
  kept.end.set_round(42);
  kept.end.set_samples(8);
  checkpoint.contribution = kept;
  return checkpoint;
}

inline Bytes BytesOf(const grpc::Slice& slice) { return Bytes(slice.begin(), slice.end()); }

inline void ExpectSame(const JobCheckpoint& found, const JobCheckpoint& expected) {
  EXPECT_TRUE(found.key == expected.key);
  EXPECT_EQ(found.round, expected.round);
  EXPECT_EQ(found.history, expected.history);
  EXPECT_EQ(found.position, expected.position);
  EXPECT_EQ(found.last_samples, expected.last_samples);
  EXPECT_EQ(found.parameters, expected.parameters);
  EXPECT_EQ(found.update_state, expected.update_state);
  EXPECT_EQ(found.method_state, expected.method_state);
  ASSERT_EQ(found.contribution.has_value(), expected.contribution.has_value());
  if (!expected.contribution.has_value()) return;
  EXPECT_EQ(found.contribution->spec.SerializeAsString(),
            expected.contribution->spec.SerializeAsString());
  EXPECT_EQ(found.contribution->end.SerializeAsString(),
            expected.contribution->end.SerializeAsString());
  ASSERT_EQ(found.contribution->chunks.size(), expected.contribution->chunks.size());
  for (size_t i = 0; i < expected.contribution->chunks.size(); ++i) {
    EXPECT_EQ(found.contribution->chunks[i].first, expected.contribution->chunks[i].first);
    EXPECT_EQ(BytesOf(found.contribution->chunks[i].second),
              BytesOf(expected.contribution->chunks[i].second));
  }
}

}  // namespace tally::testing

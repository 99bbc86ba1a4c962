// A job that is still going on while a test does something to it: some hundred rounds a second.
#pragma once

#include "tests/system/cluster.h"

namespace tally::testing {

inline constexpr char kSmallVit[] =
    "{architecture: vit, config: {image_size: 8, patch_size: 2, num_channels: 3, hidden_size: 32,"
    " num_hidden_layers: 4, num_attention_heads: 2, intermediate_size: 64, num_labels: 4}}";

inline JobText LongJob(const std::string& workers, const std::string& rounds) {
  return {.model = kSmallVit,
          .learning_rate = "{peak: 1e-3}",
          .workers = workers,
          .rounds = rounds,
          .more = "digest_every: 5\nsnapshot_every: 50\nevaluate_every: 0"};
}

}  // namespace tally::testing

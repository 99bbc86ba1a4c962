// Random numbers that replay: each stream is a function of (job seed, worker, round, purpose),
// and each value of its position in the stream, so that no state need be kept or sent.
#pragma once

#include <cstdint>

namespace tally {

// What a random stream is for. The numbers are part of the ledger's meaning: never reuse one.
enum class RandomPurpose : uint64_t {
  kTie = 1,           // breaking a tied vote; worker 0 by convention, equal everywhere
  kZero = 2,          // the sign sent for an exact zero
  kShuffle = 3,       // order of samples
  kDropout = 4,       // LibTorch's generator
  kInitialise = 5,    // a model made from its configuration
  kAugment = 6,       // data augmentation
  kFisher = 7,        // examples that a mask's scores are estimated on
  kRecalibrate = 8,   // batches that statistics are computed anew on
};

// SplitMix64's output function (Steele, Lea, Flood 2014): a bijection that mixes well.
constexpr uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  x ^= x >> 31;
  return x;
}

constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15ULL;

// The key of a stream. `worker` is the worker's index in the job plus one; 0 for what is common to all.
constexpr uint64_t StreamKey(uint64_t job_seed, uint64_t worker, uint64_t round,
                             RandomPurpose purpose) {
  uint64_t key = Mix64(job_seed + kGoldenGamma);
  key = Mix64(key ^ (worker + kGoldenGamma));
  key = Mix64(key ^ (round + kGoldenGamma));
  return Mix64(key ^ (static_cast<uint64_t>(purpose) + kGoldenGamma));
}

// 64 independent random bits at `position` of the stream.
constexpr uint64_t RandomWord(uint64_t key, uint64_t position) {
  return Mix64(key + (position + 1) * kGoldenGamma);
}

}  // namespace tally

// Speeds of the arithmetic as ratios to the plainest thing that touches the same memory, measured
// turn by turn in one run:
//   vote     against reading the same bytes
//   encode,  against memcpy moving as many bytes in and out
//   step
// Arrays are larger than the last cache (--megabytes), one core.
//
// kernels_bench [--megabytes=256] [--repetitions=9] [--chunk-elements=8388608]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/reduction.h"
#include "common/reduction/sparse_mean/sparse_payload.h"
#include "common/reduction/top_k/top_k.h"
#include "common/reduction/sign_payload.h"
#include "common/update/lion_encode.h"
#include "common/update/update_rule.h"
#include "tests/bench/read_bytes.h"

namespace tally::bench {
namespace {

struct Sizes {
  size_t megabytes = 256;  // of input in all, to be larger than the last cache
  int repetitions = 9;
  uint32_t chunk_elements = 8u << 20;  // of a vote
};

// What the optimiser may not remove.
volatile uint64_t sink;

// The thread's own time, so that other programs on the machine disturb less.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double SecondsOf(const std::function<void()>& body) {
  const double start = ThreadSeconds();
  body();
  return ThreadSeconds() - start;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Times both in turn after one run of each to warm up, and prints the medians as GB/s of `bytes`.
void Compare(const Sizes& sizes, const std::string& name, double bytes,
             const std::function<void()>& ours, const std::function<void()>& yardstick) {
  ours();
  yardstick();
  std::vector<double> our_seconds, yardstick_seconds;
  for (int i = 0; i < sizes.repetitions; ++i) {
    yardstick_seconds.push_back(SecondsOf(yardstick));
    our_seconds.push_back(SecondsOf(ours));
  }
  const double our_speed = bytes / Median(our_seconds) / 1e9;
  const double yardstick_speed = bytes / Median(yardstick_seconds) / 1e9;
  std::printf("%-34s %10.1f %12.1f %8.2f\n", name.c_str(), our_speed, yardstick_speed,
              our_speed / yardstick_speed);
  std::fflush(stdout);
}

const Reduction& Find(absl::string_view name) { return **FindReduction(name); }


void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// Payloads of `voters` for as many chunks as fill the memory asked for.
std::vector<Bytes> RandomPayloads(const Sizes& sizes, size_t voters, uint32_t count, bool dense) {
  const size_t bytes = dense ? DensePayloadBytes(count) : SignPayloadBytes(count, false);
  const size_t chunks = std::max<size_t>(1, (sizes.megabytes << 20) / (bytes * voters));
  std::mt19937_64 random(voters);
  std::vector<Bytes> payloads;
  for (size_t i = 0; i < chunks * voters; ++i) {
    if (dense) {
      std::vector<float> values(count);
      for (float& value : values) value = static_cast<float>(random() % 1000);
      payloads.push_back(WriteDense(values));
    } else {
      std::vector<uint64_t> words(LaneCount(count));
      for (uint64_t& word : words) word = random();
      words.back() &= LastWordBits(count);
      payloads.push_back(WriteSignPayload(words, {}));
    }
  }
  return payloads;
}

void BenchReduction(const Sizes& sizes, const std::string& name, size_t voters, uint32_t count) {
  const bool dense = name == "dense_mean";
  const std::vector<Bytes> payloads = RandomPayloads(sizes, voters, count, dense);
  std::vector<Contribution> contributions;
  for (const Bytes& payload : payloads) contributions.push_back({payload, 1});
  Bytes aggregate;
  const auto ours = [&] {
    for (size_t i = 0; i < contributions.size(); i += voters) {
      const auto chunk = absl::MakeConstSpan(contributions).subspan(i, voters);
      Check(Find(name).ReduceInto({.count = count, .tie_key = 7}, chunk, &aggregate));
      sink = sink + aggregate.back();
    }
  };
  const auto read = [&] {
    for (const Bytes& payload : payloads) sink = sink + ReadBytes(payload.data(), payload.size());
  };
  const double bytes = static_cast<double>(payloads.size() * payloads[0].size());
  Compare(sizes, name + ", " + std::to_string(voters) + " voters / read", bytes, ours, read);
}

// Of deltas: all elements of a chunk, or a tenth of a chunk ten times as large.
void BenchMean(const Sizes& sizes, bool sparse, ValueDtype dtype, size_t voters) {
  const uint32_t values = std::min(sizes.chunk_elements, kMaxDenseElements);
  IndexSet mask{10 * values, {}};
  for (uint32_t i = 0; i < values; ++i) mask.indices.push_back(10 * i + i % 7);
  ChunkContext context{.count = values, .dtype = dtype};
  if (sparse) context = {.count = mask.count, .dtype = dtype, .mask = &mask};
  const size_t bytes = DensePayloadBytes(values, dtype);
  const size_t chunks = std::max<size_t>(1, (sizes.megabytes << 20) / (bytes * voters));
  std::vector<float> floats(values);
  for (uint32_t i = 0; i < values; ++i) floats[i] = 1e-3f * static_cast<float>(i % 1000);
  std::vector<Bytes> payloads;
  for (size_t i = 0; i < chunks * voters; ++i) {
    payloads.push_back(sparse ? WriteSparse(context, {}, floats) : WriteDense(floats, dtype));
  }
  std::vector<Contribution> contributions;
  for (const Bytes& payload : payloads) contributions.push_back({payload, 2});
  const std::string name = sparse ? "sparse_mean" : "dense_mean";
  Bytes aggregate;
  const auto ours = [&] {
    for (size_t i = 0; i < contributions.size(); i += voters) {
      Check(Find(name).ReduceInto(
          context, absl::MakeConstSpan(contributions).subspan(i, voters), &aggregate));
      sink = sink + aggregate.back();
    }
  };
  const auto read = [&] {
    for (const Bytes& payload : payloads) sink = sink + ReadBytes(payload.data(), payload.size());
  };
  Compare(sizes,
          name + " " + std::string(ValueDtypeName(dtype)) + ", " + std::to_string(voters) + " / read",
          static_cast<double>(payloads.size() * bytes), ours, read);
}

// The selection of a mask against nth_element, which needs the scores once more and finds the bound alone.
void BenchTopK(const Sizes& sizes, double density) {
  const size_t count = (sizes.megabytes << 20) / sizeof(float);
  std::mt19937_64 random(1);
  std::exponential_distribution<float> score;
  std::vector<float> scores(count), copy(count);
  for (float& s : scores) s = score(random);
  const auto k = static_cast<size_t>(density * static_cast<double>(count));
  std::vector<uint32_t> indices;
  indices.reserve(k);
  const auto ours = [&] {
    indices.clear();
    TopKCut cut = TopKCut::Find(scores, k);
    cut.Select(scores, &indices);
    sink = sink + indices.size();
  };
  const auto nth = [&] {
    std::copy(scores.begin(), scores.end(), copy.begin());
    std::nth_element(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(k), copy.end(),
                     std::greater<float>());
    sink = sink + static_cast<uint64_t>(copy[k]);
  };
  Compare(sizes, "top-k " + std::to_string(density).substr(0, 5) + " / nth_element",
          static_cast<double>(count * sizeof(float)), ours, nth);
}

// memcpy of half of `bytes` moves `bytes` in and out.
class Copy {
 public:
  explicit Copy(size_t bytes) : from_(bytes / 2, 1), to_(bytes / 2) {}
  void operator()() {
    std::memcpy(to_.data(), from_.data(), from_.size());
    sink = sink + to_[to_.size() / 2];
  }

 private:
  Bytes from_, to_;
};

std::vector<float> RandomFloats(size_t count) {
  std::mt19937 random(1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) / 4.0e9f - 0.5f;
  return values;
}

void BenchEncode(const Sizes& sizes) {
  const size_t count = (sizes.megabytes << 20) / 8;
  const std::vector<float> gradient = RandomFloats(count);
  std::vector<float> momentum(count);
  Bytes payload(SignPayloadBytes(count, true));
  const size_t bytes = count * 12 + count / 8;
  Copy copy(bytes);
  const auto encode = [&] {
    Check(LionEncode(gradient, absl::MakeSpan(momentum), {}, absl::MakeSpan(payload)).status());
  };
  Compare(sizes, "lion_encode / copy", bytes, encode, [&] { copy(); });
}

void BenchStep(const Sizes& sizes, const std::string& reduction, size_t voters) {
  const size_t count = (sizes.megabytes << 20) / 8;
  std::vector<float> x = RandomFloats(count);
  std::vector<Bytes> votes;
  std::vector<Contribution> contributions;
  std::mt19937_64 random(2);
  for (size_t i = 0; i < voters; ++i) {
    std::vector<uint64_t> words(LaneCount(count));
    for (uint64_t& word : words) word = random();
    words.back() &= LastWordBits(count);
    votes.push_back(WriteSignPayload(words, {}));
  }
  for (const Bytes& vote : votes) contributions.push_back({vote, 1});
  const ChunkContext context{.count = static_cast<uint32_t>(count), .tie_key = 1};
  const Bytes aggregate = *Find(reduction).Reduce(context, contributions);
  const size_t bytes = count * 8 + aggregate.size();
  Copy copy(bytes);
  const auto step = [&] {
    Check((*FindUpdateRule("sign_step"))
              ->Apply({.learning_rate = 1e-3, .weight_decay = 0.1}, aggregate, absl::MakeSpan(x),
                      {}));
  };
  Compare(sizes, "sign_step, " + reduction + " / copy", bytes, step, [&] { copy(); });
}

void BenchDenseStep(const Sizes& sizes, const std::string& rule, size_t slots) {
  const size_t count = (sizes.megabytes << 20) / 16;
  const Bytes aggregate = WriteDense(RandomFloats(count));
  std::vector<std::vector<float>> buffers(slots, std::vector<float>(count));
  std::vector<absl::Span<float>> state;
  for (auto& buffer : buffers) state.push_back(absl::MakeSpan(buffer));
  std::vector<float> x = RandomFloats(count);
  const size_t bytes = count * (4 + 8 + 8 * slots);
  Copy copy(bytes);
  const auto step = [&] {
    Check((*FindUpdateRule(rule))->Apply({.learning_rate = 1e-3}, aggregate, absl::MakeSpan(x),
                                         state));
  };
  Compare(sizes, rule + " / copy", bytes, step, [&] { copy(); });
}

void Run(const Sizes& sizes) {
  std::printf("%-34s %10s %12s %8s\n", "", "GB/s", "yardstick", "ratio");
  for (const size_t voters : {4, 8, 16, 32, 64}) {
    BenchReduction(sizes, "majority", voters, sizes.chunk_elements);
  }
  for (const size_t voters : {4, 16, 64}) {
    BenchReduction(sizes, "sign_mean", voters, sizes.chunk_elements);
  }
  BenchReduction(sizes, "dense_mean", 4, std::min(sizes.chunk_elements, kMaxDenseElements));
  for (const bool sparse : {false, true}) {
    for (const ValueDtype dtype : {ValueDtype::kFloat32, ValueDtype::kBfloat16}) {
      for (const size_t voters : {4, 8, 32}) BenchMean(sizes, sparse, dtype, voters);
    }
  }
  for (const double density : {0.005, 0.1}) BenchTopK(sizes, density);
  BenchEncode(sizes);
  BenchStep(sizes, "majority", 4);
  BenchStep(sizes, "sign_mean", 4);
  BenchDenseStep(sizes, "lion_step", 1);
  BenchDenseStep(sizes, "adamw_step", 2);
  BenchDenseStep(sizes, "assign", 0);
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Sizes sizes;
  CLI::App app("Speeds of the kernels as ratios to reading or copying the same memory");
  app.add_option("--megabytes", sizes.megabytes)->check(CLI::PositiveNumber);
  app.add_option("--repetitions", sizes.repetitions)->check(CLI::Range(1, 1000));
  app.add_option("--chunk-elements", sizes.chunk_elements)->check(CLI::Range(64, 8 << 20));
  CLI11_PARSE(app, argc, argv);
  tally::bench::Run(sizes);
  return 0;
}

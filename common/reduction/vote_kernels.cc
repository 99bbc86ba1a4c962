#include "common/reduction/vote_kernels.h"

#include <algorithm>
#include <type_traits>

#include "common/base/random.h"
#include "hwy/cache_control.h"

// Vectors are kept in arrays, which scalable vectors cannot be.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/reduction/vote_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using WordTag = hn::ScalableTag<uint64_t>;
using OneWordTag = hn::CappedTag<uint64_t, 1>;

// Payload words at any alignment: LoadU and StoreU copy bytes and need none.
template <class D>
HWY_INLINE hn::Vec<D> LoadWords(D d, const unsigned char* words, size_t word) {
  return hn::LoadU(d, reinterpret_cast<const uint64_t*>(words) + word);
}

template <class D>
HWY_INLINE void StoreWords(D d, hn::Vec<D> value, unsigned char* words, size_t word) {
  hn::StoreU(value, d, reinterpret_cast<uint64_t*>(words) + word);
}

// Of each bit, what at least two of the three say.
template <class V>
HWY_INLINE V AtLeastTwo(V a, V b, V c) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (sizeof(V) == 64) {
    return V{_mm512_ternarylogic_epi64(a.raw, b.raw, c.raw, 0xE8)};
  }
#endif
  return hn::OrAnd(hn::And(a, b), c, hn::Xor(a, b));
}

// a + b + carry for each bit: returns the sum bit, leaves the carry bit.
template <class V>
HWY_INLINE V FullAdd(V a, V b, V& carry) {
  const V sum = hn::Xor3(a, b, carry);
  carry = AtLeastTwo(a, b, carry);
  return sum;
}

template <class V>
HWY_INLINE V HalfAdd(V a, V& carry) {
  const V sum = hn::Xor(a, carry);
  carry = hn::And(a, carry);
  return sum;
}

// bits[k] = bit k of the number of set bits among N voters. Two halves and one voter as the carry
// in: the fewest full adders there are.
template <size_t N, class D>
HWY_INLINE void CountVotes(D d, const unsigned char* const* voters, size_t word, hn::Vec<D>* bits) {
  if constexpr (N == 1) {
    bits[0] = LoadWords(d, voters[0], word);
  } else if constexpr (N % 2 == 1) {
    constexpr size_t kHalf = N / 2;
    constexpr size_t kBits = PlaneCount(kHalf);
    hn::Vec<D> left[kBits], right[kBits];
    CountVotes<kHalf>(d, voters, word, left);
    CountVotes<kHalf>(d, voters + kHalf, word, right);
    hn::Vec<D> carry = LoadWords(d, voters[N - 1], word);
    for (size_t k = 0; k < kBits; ++k) bits[k] = FullAdd(left[k], right[k], carry);
    bits[kBits] = carry;
  } else {
    constexpr size_t kBits = PlaneCount(N - 1);
    CountVotes<N - 1>(d, voters, word, bits);
    hn::Vec<D> carry = LoadWords(d, voters[N - 1], word);
    for (size_t k = 0; k < kBits; ++k) bits[k] = HalfAdd(bits[k], carry);
    if constexpr (PlaneCount(N) > kBits) bits[kBits] = carry;
  }
}

template <size_t N, class D>
HWY_INLINE void StartGroup(D d, const unsigned char* const* voters, size_t word, uint64_t* planes,
                           size_t stride) {
  hn::Vec<D> bits[PlaneCount(N)];
  CountVotes<N>(d, voters, word, bits);
  for (size_t k = 0; k < PlaneCount(N); ++k) hn::StoreU(bits[k], d, planes + k * stride + word);
}

// N voters onto planes that hold a count: the last voter is the carry in.
template <size_t N, class D>
HWY_INLINE void AddGroup(D d, const unsigned char* const* voters, size_t word, uint64_t* planes,
                         size_t stride, size_t plane_count) {
  constexpr size_t kBits = PlaneCount(N - 1);
  hn::Vec<D> bits[kBits + 1];
  if constexpr (N > 1) CountVotes<N - 1>(d, voters, word, bits);
  hn::Vec<D> carry = LoadWords(d, voters[N - 1], word);
  for (size_t k = 0; k < kBits; ++k) {
    uint64_t* plane = planes + k * stride + word;
    hn::StoreU(FullAdd(hn::LoadU(d, plane), bits[k], carry), d, plane);
  }
  for (size_t k = kBits; k < plane_count; ++k) {
    uint64_t* plane = planes + k * stride + word;
    hn::StoreU(HalfAdd(hn::LoadU(d, plane), carry), d, plane);
  }
}

// The words that the loop will want next, of each voter: with many streams at once, or where a
// block ends, the processor does not guess them by itself. Of all streams together as much as
// memory delivers within its own latency (40 GB/s for 200 ns). Beyond the payload's end a prefetch
// does nothing.
template <size_t N>
HWY_INLINE void PrefetchVotes(const unsigned char* const* voters, size_t word) {
  constexpr size_t kBytesAhead = 8192 / N;
  for (size_t i = 0; i < N; ++i) {
    hwy::Prefetch(voters[i] + word * sizeof(uint64_t) + kBytesAhead);
  }
}

// body(tag, word) over all words, by whole vectors and then one by one.
template <class Body>
HWY_INLINE void ForEachVector(size_t words, const Body& body) {
  const WordTag d;
  size_t word = 0;
  for (; word + hn::Lanes(d) <= words; word += hn::Lanes(d)) body(d, word);
  for (; word < words; ++word) body(OneWordTag(), word);
}

template <size_t N>
void CountGroup(const unsigned char* const* voters, size_t words, size_t before, uint64_t* planes,
                size_t stride) {
  const size_t plane_count = PlaneCount(before + N);
  ForEachVector(words, [&](auto d, size_t word) HWY_ATTR {
    PrefetchVotes<N>(voters, word);
    if (before == 0) {
      StartGroup<N>(d, voters, word, planes, stride);
    } else {
      AddGroup<N>(d, voters, word, planes, stride, plane_count);
    }
  });
}

// Sixteen streams at a time: fewer passes over the planes than eight, still few enough for the
// processor to prefetch.
constexpr size_t kGroup = 16;

size_t NextGroup(size_t left) { return left >= kGroup ? kGroup : std::min<size_t>(left, 8); }

// body(std::integral_constant of the size): a loop of its own for each size of a group.
template <class Body>
HWY_INLINE void WithGroupSize(size_t size, const Body& body) {
  switch (size) {
    case 1: return body(std::integral_constant<size_t, 1>());
    case 2: return body(std::integral_constant<size_t, 2>());
    case 3: return body(std::integral_constant<size_t, 3>());
    case 4: return body(std::integral_constant<size_t, 4>());
    case 5: return body(std::integral_constant<size_t, 5>());
    case 6: return body(std::integral_constant<size_t, 6>());
    case 7: return body(std::integral_constant<size_t, 7>());
    case 8: return body(std::integral_constant<size_t, 8>());
    default: return body(std::integral_constant<size_t, kGroup>());
  }
}

// One block of words, small enough for its planes to stay in a near cache.
void AddBlock(const unsigned char* const* voters, size_t voter_count, size_t words, size_t before,
              uint64_t* planes, size_t stride) {
  for (size_t k = PlaneCount(before); k < PlaneCount(before + voter_count); ++k) {
    std::fill_n(planes + k * stride, words, 0);
  }
  for (size_t done = 0; done < voter_count;) {
    const size_t size = NextGroup(voter_count - done);
    WithGroupSize(size, [&](auto n) HWY_ATTR {
      CountGroup<n.value>(voters + done, words, before + done, planes, stride);
    });
    done += size;
  }
}

// Mix64 of common/base/random.h.
template <class D>
HWY_INLINE hn::Vec<D> Mix(D d, hn::Vec<D> x) {
  x = hn::Xor(x, hn::ShiftRight<30>(x));
  x = hn::Mul(x, hn::Set(d, 0xBF58476D1CE4E5B9ULL));
  x = hn::Xor(x, hn::ShiftRight<27>(x));
  x = hn::Mul(x, hn::Set(d, 0x94D049BB133111EBULL));
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

// RandomWord(rule.key, rule.first_lane + word + i) in lane i.
template <class D>
HWY_INLINE hn::Vec<D> TieWords(D d, const TieRule& rule, size_t word) {
  const uint64_t first = rule.key + (rule.first_lane + word + 1) * kGoldenGamma;
  const auto steps = hn::Mul(hn::Iota(d, 0), hn::Set(d, kGoldenGamma));
  return Mix(d, hn::Add(hn::Set(d, first), steps));
}

// Counts compared with half of the voters, bit by bit from the lowest.
template <class D>
class Comparison {
 public:
  Comparison(D d, size_t voters)
      : d_(d), voters_(voters), above_(hn::Zero(d)), equal_(hn::Not(hn::Zero(d))) {}

  HWY_INLINE void Add(size_t k, hn::Vec<D> plane) {
    if ((voters_ / 2 >> k) & 1) {
      above_ = hn::And(above_, plane);
      equal_ = hn::And(equal_, plane);
    } else {
      above_ = hn::Or(above_, plane);
      equal_ = hn::AndNot(plane, equal_);
    }
  }

  HWY_INLINE hn::Vec<D> above() const { return above_; }
  HWY_INLINE hn::Vec<D> tied() const { return voters_ % 2 == 0 ? equal_ : hn::Zero(d_); }

  HWY_INLINE hn::Vec<D> WithRandomTies(const TieRule& rule, size_t word) const {
    if (voters_ % 2 == 1) return above_;
    return hn::OrAnd(above_, equal_, TieWords(d_, rule, word));
  }

 private:
  const D d_;
  const size_t voters_;
  hn::Vec<D> above_, equal_;
};

template <class D>
HWY_INLINE void DecideWords(D d, const uint64_t* planes, size_t stride, size_t voters,
                            const TieRule& rule, size_t word, unsigned char* signs,
                            unsigned char* nonzero) {
  Comparison<D> comparison(d, voters);
  for (size_t k = 0; k < PlaneCount(voters); ++k) {
    comparison.Add(k, hn::LoadU(d, planes + k * stride + word));
  }
  if (nonzero == nullptr) {
    StoreWords(d, comparison.WithRandomTies(rule, word), signs, word);
  } else {
    StoreWords(d, hn::Not(comparison.tied()), nonzero, word);
    StoreWords(d, comparison.above(), signs, word);
  }
}

void Decide(const uint64_t* planes, size_t stride, size_t words, size_t voters,
            const TieRule& rule, unsigned char* signs, unsigned char* nonzero) {
  ForEachVector(words, [&](auto d, size_t word) HWY_ATTR {
    DecideWords(d, planes, stride, voters, rule, word, signs, nonzero);
  });
}

// The decision of N voters that are all there are.
template <size_t N, class D>
HWY_INLINE hn::Vec<D> DecideAll(D d, const unsigned char* const* voters, size_t word,
                                const TieRule& rule) {
  hn::Vec<D> bits[PlaneCount(N)];
  CountVotes<N>(d, voters, word, bits);
  Comparison<D> comparison(d, N);
  for (size_t k = 0; k < PlaneCount(N); ++k) comparison.Add(k, bits[k]);
  return comparison.WithRandomTies(rule, word);
}

// The decision of N voters and those `before` in the planes, which are left as they are.
template <size_t N, class D>
HWY_INLINE hn::Vec<D> DecideWithPlanes(D d, const unsigned char* const* voters, size_t word,
                                       size_t before, const uint64_t* planes, size_t stride,
                                       const TieRule& rule) {
  constexpr size_t kBits = PlaneCount(N - 1);
  hn::Vec<D> bits[kBits + 1];
  if constexpr (N > 1) CountVotes<N - 1>(d, voters, word, bits);
  hn::Vec<D> carry = LoadWords(d, voters[N - 1], word);
  Comparison<D> comparison(d, before + N);
  for (size_t k = 0; k < kBits; ++k) {
    comparison.Add(k, FullAdd(hn::LoadU(d, planes + k * stride + word), bits[k], carry));
  }
  for (size_t k = kBits; k < PlaneCount(before + N); ++k) {
    comparison.Add(k, HalfAdd(hn::LoadU(d, planes + k * stride + word), carry));
  }
  return comparison.WithRandomTies(rule, word);
}

template <size_t N>
void DecideGroup(const unsigned char* const* voters, size_t words, size_t before,
                 const uint64_t* planes, size_t stride, const TieRule& rule,
                 unsigned char* signs) {
  ForEachVector(words, [&](auto d, size_t word) HWY_ATTR {
    PrefetchVotes<N>(voters, word);
    StoreWords(d,
               before == 0
                   ? DecideAll<N>(d, voters, word, rule)
                   : DecideWithPlanes<N>(d, voters, word, before, planes, stride, rule),
               signs, word);
  });
}

// A block's decision. `planes` is room for all counts of it.
void VoteBlock(const unsigned char* const* voters, size_t voter_count, size_t words,
               uint64_t* planes, size_t stride, const TieRule& rule, unsigned char* signs) {
  // The last group that AddBlock would form.
  size_t before = 0, size = NextGroup(voter_count);
  while (before + size < voter_count) {
    before += size;
    size = NextGroup(voter_count - before);
  }
  AddBlock(voters, before, words, 0, planes, stride);
  for (size_t k = PlaneCount(before); before > 0 && k < PlaneCount(voter_count); ++k) {
    std::fill_n(planes + k * stride, words, 0);
  }
  WithGroupSize(size, [&](auto n) HWY_ATTR {
    DecideGroup<n.value>(voters + before, words, before, planes, stride, rule, signs);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {

HWY_EXPORT(AddBlock);
HWY_EXPORT(Decide);
HWY_EXPORT(VoteBlock);

}  // namespace

void AddVotes(absl::Span<const unsigned char* const> voters, size_t words, size_t voters_before,
              uint64_t* planes, size_t stride) {
  const unsigned char* block[kMaxVoters];
  for (size_t word = 0; word < words; word += kBlockWords) {
    for (size_t i = 0; i < voters.size(); ++i) block[i] = voters[i] + word * sizeof(uint64_t);
    HWY_DYNAMIC_DISPATCH(AddBlock)
    (block, voters.size(), std::min(kBlockWords, words - word), voters_before, planes + word,
     stride);
  }
}

void DecideMajority(const uint64_t* planes, size_t stride, size_t words, size_t voters,
                    const TieRule& rule, unsigned char* signs, unsigned char* nonzero) {
  HWY_DYNAMIC_DISPATCH(Decide)(planes, stride, words, voters, rule, signs, nonzero);
}

void VoteMajority(absl::Span<const unsigned char* const> voters, size_t words, const TieRule& rule,
                  unsigned char* signs) {
  // One vector more than a block, so that the planes do not fall on the same sets of the cache.
  constexpr size_t kStride = kBlockWords + 8;
  alignas(64) uint64_t planes[kMaxPlanes * kStride];
  const unsigned char* block[kMaxVoters];
  for (size_t word = 0; word < words; word += kBlockWords) {
    for (size_t i = 0; i < voters.size(); ++i) block[i] = voters[i] + word * sizeof(uint64_t);
    const TieRule block_rule{rule.key, rule.first_lane + word};
    HWY_DYNAMIC_DISPATCH(VoteBlock)
    (block, voters.size(), std::min(kBlockWords, words - word), planes, kStride, block_rule,
     signs + word * sizeof(uint64_t));
  }
}

LaneMajority CompareLane(const uint64_t* planes, size_t stride, size_t plane_count, size_t lane,
                         size_t lane_voters) {
  LaneMajority result{0, ~uint64_t{0}};
  for (size_t k = plane_count; k-- > 0;) {
    const uint64_t plane = planes[k * stride + lane];
    if ((lane_voters / 2 >> k) & 1) {
      result.tied &= plane;
    } else {
      result.above |= result.tied & plane;
      result.tied &= ~plane;
    }
  }
  if (lane_voters % 2 == 1) result.tied = 0;
  return result;
}

}  // namespace tally
#endif  // HWY_ONCE

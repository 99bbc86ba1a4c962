#include "common/reduction/value_codec.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/reduction/value_codec.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Highway's LoadU and StoreU of a single lane go through the pointer as it is.
template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const unsigned char* from) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == 1) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return hn::Set(d, value);
  } else {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
}

template <class D>
HWY_INLINE void StoreBytes(D d, hn::Vec<D> value, unsigned char* to) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == 1) {
    const T lane = hn::GetLane(value);
    std::memcpy(to, &lane, sizeof lane);
  } else {
    hn::StoreU(value, d, reinterpret_cast<T*>(to));
  }
}

struct Float32 {
  static constexpr size_t kBytes = 4;
  static constexpr uint32_t kExponent = 0x7f800000;
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Bits(D /*d*/, const unsigned char* from) {
    return LoadBytes(hn::RebindToUnsigned<D>(), from);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const unsigned char* from) {
    return LoadBytes(d, from);
  }
  template <class D>
  static HWY_INLINE void Store(D d, hn::Vec<D> value, unsigned char* to) {
    StoreBytes(d, value, to);
  }
};

// What the two types of 16 bits share.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Load16(D /*d*/, const unsigned char* from) {
  return hn::PromoteTo(hn::RebindToUnsigned<D>(), LoadBytes(hn::Rebind<uint16_t, D>(), from));
}

// The low halves of 32-bit lanes.
template <class D>
HWY_INLINE void Store16(D /*d*/, hn::Vec<hn::RebindToUnsigned<D>> bits, unsigned char* to) {
  const hn::RebindToSigned<D> di;
  // DemoteTo saturates: the sign is spread first, so that every value lies in int16's range.
  const auto wide = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(di, bits)));
  const hn::Rebind<int16_t, D> half;
  StoreBytes(hn::Rebind<uint16_t, D>(),
             hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(half, wide)), to);
}

struct Bfloat16 {
  static constexpr size_t kBytes = 2;
  static constexpr uint32_t kExponent = 0x7f80;
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Bits(D d, const unsigned char* from) {
    return Load16(d, from);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const unsigned char* from) {
    return hn::BitCast(d, hn::ShiftLeft<16>(Load16(d, from)));
  }
  template <class D>
  static HWY_INLINE void Store(D d, hn::Vec<D> value, unsigned char* to) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    Store16(d, hn::ShiftRight<16>(rounded), to);
  }
};

// The mantissa and exponent of a half at the place of a float's are the value times 2^-112: one exact
// product gives it, denormals included.
struct Float16 {
  static constexpr size_t kBytes = 2;
  static constexpr uint32_t kExponent = 0x7c00;
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Bits(D d, const unsigned char* from) {
    return Load16(d, from);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const unsigned char* from) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = Load16(d, from);
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    const auto value = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
    return hn::BitCast(d, hn::Or(hn::BitCast(du, value), sign));
  }
  template <class D>
  static HWY_INLINE void Store(D d, hn::Vec<D> value, unsigned char* to) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, value);
    const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
    const auto magnitude = hn::Xor(bits, sign);
    // Below 2^-14: adding 2^-1 leaves a half's denormal in the low bits, rounded by the addition.
    const auto half = hn::Set(d, 0.5f);
    const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)),
                               hn::BitCast(du, half));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto normal = hn::ShiftRight<13>(
        hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0xc8000fffu))));  // exponent - 112, round
    const auto capped = hn::Min(normal, hn::Set(du, 0x7c00u));
    const auto is_small = hn::Lt(hn::BitCast(d, magnitude), hn::Set(d, 0x1p-14f));
    const auto result = hn::IfThenElse(hn::RebindMask(du, is_small), small, capped);
    Store16(d, hn::Or(result, hn::ShiftRight<16>(sign)), to);
  }
};

// `body` takes a tag of float lanes and the first element.
template <class Body>
HWY_INLINE void ForAll(size_t n, Body body) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) body(d, i);
  for (; i < n; ++i) body(hn::CappedTag<float, 1>(), i);
}

template <class Type>
void Encode(const float* values, size_t n, unsigned char* to) {
  ForAll(n, [&](auto d, size_t i) HWY_ATTR {
    Type::Store(d, LoadBytes(d, reinterpret_cast<const unsigned char*>(values + i)),
                to + i * Type::kBytes);
  });
}

template <class Type>
void Decode(const unsigned char* from, size_t n, float* values) {
  ForAll(n, [&](auto d, size_t i) HWY_ATTR {
    StoreBytes(d, Type::Load(d, from + i * Type::kBytes),
               reinterpret_cast<unsigned char*>(values + i));
  });
}

template <class Type, class D>
HWY_INLINE hn::Mask<hn::RebindToUnsigned<D>> NotFinite(D d, const unsigned char* from) {
  const hn::RebindToUnsigned<D> du;
  const auto exponent = hn::Set(du, Type::kExponent);
  return hn::Eq(hn::And(Type::Bits(d, from), exponent), exponent);
}

template <class Type>
size_t FindNotFinite(const unsigned char* from, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  while (i + hn::Lanes(d) <= n &&
         hn::AllFalse(hn::RebindToUnsigned<decltype(d)>(),
                      NotFinite<Type>(d, from + i * Type::kBytes))) {
    i += hn::Lanes(d);
  }
  while (i < n && hn::AllFalse(hn::RebindToUnsigned<decltype(one)>(),
                               NotFinite<Type>(one, from + i * Type::kBytes))) {
    ++i;
  }
  return i;
}

template <class Type, class D>
HWY_INLINE hn::Vec<D> Product(D d, const WeightedValues& addend, size_t i) {
  const hn::Rebind<float, D> df;
  return hn::Mul(hn::Set(d, addend.weight),
                 hn::PromoteTo(d, Type::Load(df, addend.values + i * Type::kBytes)));
}

// Division is the dearest step of a mean of few. By a power of two it is a product, of the same bits.
struct Divisor {
  explicit Divisor(double of) : total(of), inverse(1 / of) {
    int exponent;
    is_power_of_two = std::frexp(of, &exponent) == 0.5;
  }
  double total;
  double inverse;
  bool is_power_of_two;
};

template <class Type, class D>
HWY_INLINE void StoreMean(D d, hn::Vec<D> sum, const Divisor& by, unsigned char* to) {
  const hn::Rebind<float, D> df;
  const auto mean = by.is_power_of_two ? hn::Mul(sum, hn::Set(d, by.inverse))
                                       : hn::Div(sum, hn::Set(d, by.total));
  Type::Store(df, hn::DemoteTo(df, mean), to);
}

// The same for float64 lanes.
template <class Body>
HWY_INLINE void ForAllWide(size_t n, Body body) {
  const hn::ScalableTag<double> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) body(d, i);
  for (; i < n; ++i) body(hn::CappedTag<double, 1>(), i);
}

template <class Type>
void AddAll(const WeightedValues& addend, size_t n, double* sums) {
  ForAllWide(n, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), Product<Type>(d, addend, i)), d, sums + i);
  });
}

template <class Type>
void WriteAll(const double* sums, size_t n, double total, unsigned char* to) {
  const Divisor by(total);
  ForAllWide(n, [&](auto d, size_t i) HWY_ATTR {
    StoreMean<Type>(d, hn::LoadU(d, sums + i), by, to + i * Type::kBytes);
  });
}

template <class Type, class D>
HWY_INLINE void MeanAt(D d, const WeightedValues* addends, size_t count, size_t i,
                       const Divisor& by, unsigned char* to) {
  auto sum = hn::Zero(d);
  for (size_t k = 0; k < count; ++k) sum = hn::Add(sum, Product<Type>(d, addends[k], i));
  StoreMean<Type>(d, sum, by, to + i * Type::kBytes);
}

// A line of each addend at a time: one after the other would miss the prefetcher's streams.
template <class Type>
void MeanOfFew(const WeightedValues* addends, size_t count, size_t n, double total,
               unsigned char* to) {
  const Divisor by(total);
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (size_t k = 0; k < count; ++k) {
      s0 = hn::Add(s0, Product<Type>(d, addends[k], i));
      s1 = hn::Add(s1, Product<Type>(d, addends[k], i + lanes));
      s2 = hn::Add(s2, Product<Type>(d, addends[k], i + 2 * lanes));
      s3 = hn::Add(s3, Product<Type>(d, addends[k], i + 3 * lanes));
    }
    StoreMean<Type>(d, s0, by, to + i * Type::kBytes);
    StoreMean<Type>(d, s1, by, to + (i + lanes) * Type::kBytes);
    StoreMean<Type>(d, s2, by, to + (i + 2 * lanes) * Type::kBytes);
    StoreMean<Type>(d, s3, by, to + (i + 3 * lanes) * Type::kBytes);
  }
  for (; i < n; ++i) MeanAt<Type>(hn::CappedTag<double, 1>(), addends, count, i, by, to);
}

// So many at once are still streams of their own to the prefetcher.
constexpr size_t kStreams = 8;
// Elements whose sums stay in the first cache.
constexpr size_t kSums = 1024;

// Adds a group of addends to the sums of elements [first, first + n).
template <class Type>
void AddGroup(const WeightedValues* addends, size_t count, size_t first, size_t n, double* sums) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    auto s0 = hn::LoadU(d, sums + i), s1 = hn::LoadU(d, sums + i + lanes);
    for (size_t k = 0; k < count; ++k) {
      s0 = hn::Add(s0, Product<Type>(d, addends[k], first + i));
      s1 = hn::Add(s1, Product<Type>(d, addends[k], first + i + lanes));
    }
    hn::StoreU(s0, d, sums + i);
    hn::StoreU(s1, d, sums + i + lanes);
  }
  const hn::CappedTag<double, 1> one;
  for (; i < n; ++i) {
    auto sum = hn::LoadU(one, sums + i);
    for (size_t k = 0; k < count; ++k) sum = hn::Add(sum, Product<Type>(one, addends[k], first + i));
    hn::StoreU(sum, one, sums + i);
  }
}

template <class Type>
void MeanAll(const WeightedValues* addends, size_t count, size_t n, double total,
             unsigned char* to) {
  if (count <= kStreams) return MeanOfFew<Type>(addends, count, n, total, to);
  double sums[kSums];
  for (size_t first = 0; first < n; first += kSums) {
    const size_t size = n - first < kSums ? n - first : kSums;
    for (size_t i = 0; i < size; ++i) sums[i] = 0;
    for (size_t k = 0; k < count; k += kStreams) {
      const size_t group = count - k < kStreams ? count - k : kStreams;
      AddGroup<Type>(addends + k, group, first, size, sums);
    }
    WriteAll<Type>(sums, size, total, to + first * Type::kBytes);
  }
}

#define TALLY_FOR_TYPE(dtype, function, ...)                     \
  switch (dtype) {                                               \
    case ValueDtype::kBfloat16:                                  \
      return function<Bfloat16>(__VA_ARGS__);                    \
    case ValueDtype::kFloat16:                                   \
      return function<Float16>(__VA_ARGS__);                     \
    default:                                                     \
      return function<Float32>(__VA_ARGS__);                     \
  }

void EncodeAs(ValueDtype dtype, const float* values, size_t n, unsigned char* to) {
  TALLY_FOR_TYPE(dtype, Encode, values, n, to)
}
void DecodeAs(ValueDtype dtype, const unsigned char* from, size_t n, float* values) {
  TALLY_FOR_TYPE(dtype, Decode, from, n, values)
}
size_t FindNotFiniteAs(ValueDtype dtype, const unsigned char* from, size_t n) {
  TALLY_FOR_TYPE(dtype, FindNotFinite, from, n)
}
void AddAs(ValueDtype dtype, const WeightedValues& addend, size_t n, double* sums) {
  TALLY_FOR_TYPE(dtype, AddAll, addend, n, sums)
}
void WriteAs(ValueDtype dtype, const double* sums, size_t n, double total, unsigned char* to) {
  TALLY_FOR_TYPE(dtype, WriteAll, sums, n, total, to)
}
void MeanAs(ValueDtype dtype, const WeightedValues* addends, size_t count, size_t n, double total,
            unsigned char* to) {
  TALLY_FOR_TYPE(dtype, MeanAll, addends, count, n, total, to)
}
#undef TALLY_FOR_TYPE

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {
HWY_EXPORT(EncodeAs);
HWY_EXPORT(DecodeAs);
HWY_EXPORT(FindNotFiniteAs);
HWY_EXPORT(AddAs);
HWY_EXPORT(WriteAs);
HWY_EXPORT(MeanAs);
}  // namespace

void EncodeValues(ValueDtype dtype, absl::Span<const float> values, unsigned char* to) {
  HWY_DYNAMIC_DISPATCH(EncodeAs)(dtype, values.data(), values.size(), to);
}

void DecodeValues(ValueDtype dtype, const unsigned char* from, absl::Span<float> values) {
  HWY_DYNAMIC_DISPATCH(DecodeAs)(dtype, from, values.size(), values.data());
}

size_t FirstNotFinite(ValueDtype dtype, const unsigned char* from, size_t n) {
  return HWY_DYNAMIC_DISPATCH(FindNotFiniteAs)(dtype, from, n);
}

void AddWeighted(ValueDtype dtype, WeightedValues addend, absl::Span<double> sums) {
  HWY_DYNAMIC_DISPATCH(AddAs)(dtype, addend, sums.size(), sums.data());
}

void WriteMean(ValueDtype dtype, absl::Span<const double> sums, double total, unsigned char* to) {
  HWY_DYNAMIC_DISPATCH(WriteAs)(dtype, sums.data(), sums.size(), total, to);
}

void MeanOf(ValueDtype dtype, absl::Span<const WeightedValues> addends, size_t n, double total,
            unsigned char* to) {
  HWY_DYNAMIC_DISPATCH(MeanAs)(dtype, addends.data(), addends.size(), n, total, to);
}

}  // namespace tally
#endif  // HWY_ONCE

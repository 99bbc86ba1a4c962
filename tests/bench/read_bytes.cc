#include "tests/bench/read_bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/read_bytes.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tally::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

uint64_t ReadAll(const unsigned char* bytes, size_t size) {
  const hn::ScalableTag<uint64_t> d;
  const auto* words = reinterpret_cast<const uint64_t*>(bytes);
  const size_t step = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (size_t i = 0; (i + 4 * step) * sizeof(uint64_t) <= size; i += 4 * step) {
    a = hn::Xor(a, hn::LoadU(d, words + i));
    b = hn::Xor(b, hn::LoadU(d, words + i + step));
    c = hn::Xor(c, hn::LoadU(d, words + i + 2 * step));
    e = hn::Xor(e, hn::LoadU(d, words + i + 3 * step));
  }
  // The minimum, because the compiler's own sum of lanes adds signed and so may overflow.
  return hn::GetLane(hn::MinOfLanes(d, hn::Xor(hn::Xor(a, b), hn::Xor(c, e))));
}

}  // namespace HWY_NAMESPACE
}  // namespace tally::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally::bench {

HWY_EXPORT(ReadAll);

uint64_t ReadBytes(const unsigned char* bytes, size_t size) {
  return HWY_DYNAMIC_DISPATCH(ReadAll)(bytes, size);
}

}  // namespace tally::bench
#endif  // HWY_ONCE

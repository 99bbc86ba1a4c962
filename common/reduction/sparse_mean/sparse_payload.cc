#include "common/reduction/sparse_mean/sparse_payload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"
#include "common/reduction/value_codec.h"
#include "common/reduction/words.h"

namespace tally {
namespace {

constexpr absl::string_view kWhat = "sparse payload";
constexpr size_t kScaleBytes = 8;
// The largest number of bf16, in which signs are averaged.
constexpr float kMaxScale = 0x1.fep127F;

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(kWhat, ": ", message));
}

uint32_t LoadUint32(const unsigned char* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

size_t ValueBytes(ValueDtype dtype, size_t n) {
  return (dtype == ValueDtype::kSign ? kScaleBytes : 0) + BytesOfValues(dtype, n);
}

absl::Status CheckSparseHead(const ChunkContext& context, ByteSpan payload) {
  TALLY_RETURN_IF_ERROR(CheckHead(kWhat, context.count, payload.first(std::min(payload.size(), kHeadBytes)), 0xff, 8));
  if (payload[0] != static_cast<unsigned char>(context.dtype)) {
    return Invalid(absl::StrCat("head byte 0: expected dtype ", static_cast<int>(context.dtype), " (",
                                ValueDtypeName(context.dtype), "), found ",
                                static_cast<int>(payload[0])));
  }
  const int form = context.mask == nullptr ? 1 : 0;
  if (payload[1] != form) {
    return Invalid(absl::StrCat("head byte 1: expected form ", form, ", found ",
                                static_cast<int>(payload[1])));
  }
  if (payload[2] != 0 || payload[3] != 0) return Invalid("head bytes 2 and 3 are reserved: expected 0");
  const uint32_t set_bytes = LoadUint32(&payload[4]);
  if (set_bytes > payload.size() - kHeadBytes || (form == 0 && set_bytes != 0)) {
    return Invalid(absl::StrCat("an index set of ", set_bytes, " bytes in a payload of ",
                                payload.size()));
  }
  return absl::OkStatus();
}

absl::Status TakeScale(const unsigned char* from, SparseView& view) {
  std::memcpy(&view.scale, from, sizeof(view.scale));
  if (LoadUint32(from + 4) != 0) return Invalid("the 4 bytes behind the scale are reserved: expected 0");
  if (view.scale >= 0 && view.scale <= kMaxScale) return absl::OkStatus();
  return Invalid(absl::StrCat("scale: expected a number from 0 to ", kMaxScale, ", found ", view.scale));
}

void WriteSigns(absl::Span<const float> values, uint64_t zero_key, unsigned char* to) {
  double sum = 0;
  for (const float value : values) sum += std::fabs(value);
  const auto scale = static_cast<float>(sum / std::max<double>(1, static_cast<double>(values.size())));
  std::memcpy(to, &scale, sizeof(scale));
  std::memset(to + 4, 0, 4);
  for (size_t word = 0; word < LaneCount(values.size()); ++word) {
    const absl::Span<const float> lane = values.subspan(word * kLaneElements, kLaneElements);
    const uint64_t of_zeros = RandomWord(zero_key, word);
    uint64_t bits = 0;
    for (size_t i = 0; i < lane.size(); ++i) {
      const bool minus = lane[i] == 0 ? of_zeros >> i & 1 : lane[i] < 0;
      bits |= uint64_t{minus} << i;
    }
    StoreWord(to + kScaleBytes, word, bits);
  }
}

}  // namespace

void SparseView::Decode(size_t first, absl::Span<float> to) const {
  if (dtype != ValueDtype::kSign) {
    DecodeValues(dtype, values + BytesOfValues(dtype, first), to);
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) to[i] = WordBit(values, first + i) ? -scale : scale;
}

absl::StatusOr<SparseView> ParseSparse(const ChunkContext& context, ByteSpan payload) {
  TALLY_RETURN_IF_ERROR(CheckSparseHead(context, payload));
  const uint32_t set_bytes = LoadUint32(&payload[4]);
  SparseView view;
  view.dtype = context.dtype;
  view.mask = context.mask;
  if (view.mask == nullptr) {
    auto own = DecodeIndexSet(context.count, payload.subspan(kHeadBytes, set_bytes));
    if (!own.ok()) return WithContext(own.status(), kWhat);
    view.own = *std::move(own);
  }
  const size_t n = view.indices().size();
  TALLY_RETURN_IF_ERROR(
      CheckLength(kWhat, payload, kHeadBytes + set_bytes + ValueBytes(view.dtype, n)));
  view.values = payload.data() + kHeadBytes + set_bytes;
  if (view.dtype == ValueDtype::kSign) {
    TALLY_RETURN_IF_ERROR(TakeScale(view.values, view));
    view.values += kScaleBytes;
  }
  return view;
}

absl::Status CheckSparse(const ChunkContext& context, ByteSpan payload) {
  TALLY_ASSIGN_OR_RETURN(const SparseView view, ParseSparse(context, payload));
  const size_t n = view.indices().size();
  if (n == 0) return absl::OkStatus();
  if (view.dtype == ValueDtype::kSign) return CheckPadding(kWhat, "signs", view.values, n);
  const size_t bad = FirstNotFinite(view.dtype, view.values, n);
  if (bad == n) return absl::OkStatus();
  return Invalid(absl::StrCat("value ", bad, " of ", n, ", of element ", view.indices()[bad],
                              ", is not a finite number in ", ValueDtypeName(view.dtype)));
}

unsigned char* BeginSparse(const ChunkContext& context, const IndexSet& own, size_t n,
                           Bytes* payload) {
  const Bytes set = context.mask == nullptr ? EncodeIndexSet(own) : Bytes();
  payload->resize(kHeadBytes + set.size() + ValueBytes(context.dtype, n));
  std::fill_n(payload->begin(), kHeadBytes, static_cast<unsigned char>(0));
  (*payload)[0] = static_cast<unsigned char>(context.dtype);
  (*payload)[1] = context.mask == nullptr ? 1 : 0;
  const auto set_bytes = static_cast<uint32_t>(set.size());
  std::memcpy(payload->data() + 4, &set_bytes, sizeof(set_bytes));
  std::copy(set.begin(), set.end(), payload->begin() + kHeadBytes);
  return payload->data() + kHeadBytes + set.size();
}

Bytes WriteSparse(const ChunkContext& context, const IndexSet& own, absl::Span<const float> values,
                  uint64_t zero_key) {
  Bytes payload;
  unsigned char* to = BeginSparse(context, own, values.size(), &payload);
  if (context.dtype == ValueDtype::kSign) {
    WriteSigns(values, zero_key, to);
  } else {
    EncodeValues(context.dtype, values, to);
  }
  return payload;
}

size_t MaxSparseBytes(uint32_t count) {
  return kHeadBytes + MaxIndexSetBytes(count) +
         std::max(ValueBytes(ValueDtype::kFloat32, count), ValueBytes(ValueDtype::kSign, count));
}

}  // namespace tally

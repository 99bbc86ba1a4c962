#include "common/reduction/dense_mean/dense_payload.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"
#include "common/reduction/value_codec.h"

namespace tally {
namespace {

constexpr absl::string_view kWhat = "dense payload";

absl::StatusOr<ValueDtype> DtypeOf(unsigned char byte) {
  const auto dtype = static_cast<ValueDtype>(byte);
  if (dtype >= ValueDtype::kFloat32 && dtype <= ValueDtype::kFloat16) return dtype;
  return absl::InvalidArgumentError(
      absl::StrCat(kWhat, ": head byte 0: expected dtype 1 (float32), 2 (bf16) or 3 (fp16), found ",
                   static_cast<int>(byte)));
}

}  // namespace

absl::StatusOr<DenseView> ParseDense(uint32_t count, ByteSpan payload) {
  TALLY_RETURN_IF_ERROR(CheckHead(kWhat, count, payload, 0xff, 1));
  TALLY_ASSIGN_OR_RETURN(const ValueDtype dtype, DtypeOf(payload[0]));
  TALLY_RETURN_IF_ERROR(CheckLength(kWhat, payload, DensePayloadBytes(count, dtype)));
  return DenseView{count, payload.data() + kHeadBytes, dtype};
}

absl::Status CheckDense(uint32_t count, ValueDtype dtype, ByteSpan payload) {
  TALLY_ASSIGN_OR_RETURN(const DenseView view, ParseDense(count, payload));
  if (view.dtype != dtype) {
    return absl::InvalidArgumentError(absl::StrCat(kWhat, ": expected values in ",
                                                   ValueDtypeName(dtype), ", found ",
                                                   ValueDtypeName(view.dtype)));
  }
  const size_t bad = FirstNotFinite(dtype, view.values, view.count);
  if (bad == view.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(kWhat, ": value ", bad, " of ", view.count,
                                                 " is not a finite number in ",
                                                 ValueDtypeName(dtype)));
}

Bytes WriteDense(absl::Span<const float> values, ValueDtype dtype) {
  Bytes payload(DensePayloadBytes(values.size(), dtype));
  payload[0] = static_cast<unsigned char>(dtype);
  EncodeValues(dtype, values, payload.data() + kHeadBytes);
  return payload;
}

}  // namespace tally

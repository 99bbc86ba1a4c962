#include "common/reduction/dense_mean/dense_payload.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"

namespace tally {
namespace {

constexpr absl::string_view kWhat = "dense payload";

absl::Status CheckDtype(unsigned char dtype) {
  if (dtype == kDenseFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kWhat, ": head byte 0: expected dtype 1 (float32), found ",
                   static_cast<int>(dtype)));
}

}  // namespace

absl::StatusOr<DenseView> ParseDense(uint32_t count, ByteSpan payload) {
  TALLY_RETURN_IF_ERROR(CheckHead(kWhat, count, payload, 0xff, 1));
  TALLY_RETURN_IF_ERROR(CheckDtype(payload[0]));
  TALLY_RETURN_IF_ERROR(CheckLength(kWhat, payload, DensePayloadBytes(count)));
  return DenseView{count, payload.data() + kHeadBytes};
}

absl::Status CheckDense(uint32_t count, ByteSpan payload) {
  TALLY_ASSIGN_OR_RETURN(const DenseView view, ParseDense(count, payload));
  for (size_t i = 0; i < view.count; ++i) {
    if (!std::isfinite(view.value(i))) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWhat, ": value ", i, " is not finite: ", view.value(i)));
    }
  }
  return absl::OkStatus();
}

Bytes WriteDense(absl::Span<const float> values) {
  Bytes payload(DensePayloadBytes(values.size()));
  payload[0] = kDenseFloat32;
  if (!values.empty()) {
    std::memcpy(payload.data() + kHeadBytes, values.data(), values.size() * sizeof(float));
  }
  return payload;
}

}  // namespace tally

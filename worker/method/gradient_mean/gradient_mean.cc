#include "worker/method/gradient_mean/gradient_mean.h"

#include <cmath>
#include <vector>

#include "common/reduction/dense_mean/dense_payload.h"

namespace tally {
namespace {

class GradientMean : public Method {
 public:
  absl::StatusOr<Bytes> Encode(const v1::RoundSpec&, const Chunk&,
                               absl::Span<const float> gradient, EncodeStats* stats) override {
    // A mean has no room for a value that is not finite: it counts as zero, and is counted.
    std::vector<float> finite(gradient.begin(), gradient.end());
    for (float& value : finite) {
      if (std::isfinite(value)) continue;
      value = 0;
      ++stats->nonfinite;
    }
    return WriteDense(finite);
  }
};

}  // namespace

std::unique_ptr<Method> MakeGradientMean(const MethodOptions&, const Layout&) {
  return std::make_unique<GradientMean>();
}

}  // namespace tally

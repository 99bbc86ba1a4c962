#include "worker/method/distributed_lion/distributed_lion.h"

#include <utility>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/update/lion_encode.h"

namespace tally {
namespace {

class DistributedLion : public Method {
 public:
  DistributedLion(const MethodOptions& options, const Layout& layout)
      : options_(options), momentum_(layout.trained_size()) {}

  absl::StatusOr<Bytes> Encode(const v1::RoundSpec& round, const Chunk& chunk,
                               absl::Span<const float> gradient, EncodeStats* stats) override {
    LionEncodeOptions lion;
    lion.beta1 = round.beta1();
    lion.beta2 = round.beta2();
    lion.zero_key =
        StreamKey(options_.seed, options_.worker + 1, round.round(), RandomPurpose::kZero);
    lion.first_lane = chunk.first_lane;
    Bytes payload;
    TALLY_ASSIGN_OR_RETURN(
        const LionEncodeStats encoded,
        LionEncode(gradient, absl::MakeSpan(momentum_).subspan(chunk.first, chunk.count), lion,
                   &payload));
    stats->nonfinite += encoded.nonfinite;
    return payload;
  }

  std::vector<MethodState> State() override {
    return {{"momentum", absl::MakeSpan(momentum_)}};
  }

 private:
  const MethodOptions options_;
  std::vector<float> momentum_;
};

}  // namespace

std::unique_ptr<Method> MakeDistributedLion(const MethodOptions& options, const Layout& layout) {
  return std::make_unique<DistributedLion>(options, layout);
}

}  // namespace tally

#include "worker/method/lofi/lofi.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status.h"
#include "common/update/round_context.h"
#include "worker/local/local_optimiser.h"

namespace tally {
namespace {

// A count in float32 arrays, as a checkpoint has them: 24 bits each are exact.
constexpr uint64_t kDigit = uint64_t{1} << 24;

class Lofi : public Method {
 public:
  explicit Lofi(std::unique_ptr<LocalOptimiser> optimiser) : optimiser_(std::move(optimiser)) {}

  absl::StatusOr<Bytes> Encode(const v1::RoundSpec& round, const Chunk& chunk,
                               absl::Span<const float> delta, EncodeStats*) override {
    TALLY_ASSIGN_OR_RETURN(const ChunkContext context, ContributionContext(round, chunk));
    TALLY_ASSIGN_OR_RETURN(const Reduction* reduction, FindReduction(round.reduction()));
    Bytes payload = reduction->Pack(context, delta, 0);
    TALLY_RETURN_IF_ERROR(reduction->CheckContribution(context, payload));
    return payload;
  }

  absl::Status LocalStep(double rate, absl::Span<const float> gradient,
                         absl::Span<float> x) override {
    return optimiser_->Step(rate, gradient, x);
  }

  std::vector<MethodState> State() override {
    steps_ = {static_cast<float>(optimiser_->steps() % kDigit),
              static_cast<float>(optimiser_->steps() / kDigit)};
    std::vector<MethodState> states = {{"steps", absl::MakeSpan(steps_)}};
    for (const absl::Span<float> slot : optimiser_->state()) {
      states.push_back({absl::StrCat("optimiser.", states.size() - 1), slot});
    }
    return states;
  }

 private:
  void Restored() override {
    optimiser_->set_steps(static_cast<uint64_t>(steps_[0]) +
                          kDigit * static_cast<uint64_t>(steps_[1]));
  }

  std::unique_ptr<LocalOptimiser> optimiser_;
  std::array<float, 2> steps_{};
};

}  // namespace

std::unique_ptr<Method> MakeLofi(const MethodOptions& options, const Layout& layout) {
  const v1::MethodSpec& spec = options.spec;
  auto optimiser = LocalOptimiser::Create({spec.local().optimiser(), spec.local().momentum(),
                                           spec.beta1(), spec.beta2(),
                                           spec.epsilon() > 0 ? spec.epsilon() : 1e-8,
                                           spec.weight_decay()},
                                          layout.trained_size());
  if (!optimiser.ok()) return nullptr;  // the server has checked the job
  return std::make_unique<Lofi>(*std::move(optimiser));
}

}  // namespace tally

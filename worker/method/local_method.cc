#include "worker/method/local_method.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tally {
namespace {

// A count in float32 arrays, as a checkpoint has them: 24 bits each are exact.
constexpr uint64_t kDigit = uint64_t{1} << 24;

}  // namespace

LocalOptimiserOptions OptimiserOptionsOf(const v1::MethodSpec& spec) {
  return {spec.local().optimiser(), spec.local().momentum(), spec.beta1(), spec.beta2(),
          spec.epsilon() > 0 ? spec.epsilon() : 1e-8, spec.weight_decay()};
}

LocalMethod::LocalMethod(LocalOptimiserOptions options, size_t count)
    : options_(std::move(options)), optimiser_(LocalOptimiser::Create(options_, count).value()) {}

std::unique_ptr<LocalOptimiser> LocalMethod::Resize(size_t count) {
  auto resized = LocalOptimiser::Create(options_, count).value();
  resized->set_steps(optimiser_->steps());
  return std::exchange(optimiser_, std::move(resized));
}

std::vector<MethodState> LocalMethod::State() {
  steps_ = {static_cast<float>(optimiser_->steps() % kDigit),
            static_cast<float>(optimiser_->steps() / kDigit)};
  std::vector<MethodState> states = {{"steps", absl::MakeSpan(steps_)}};
  for (const absl::Span<float> slot : optimiser_->state()) {
    states.push_back({absl::StrCat("optimiser.", states.size() - 1), slot});
  }
  return states;
}

void LocalMethod::Restored() {
  optimiser_->set_steps(static_cast<uint64_t>(steps_[0]) + kDigit * static_cast<uint64_t>(steps_[1]));
}

}  // namespace tally

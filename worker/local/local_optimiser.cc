#include "worker/local/local_optimiser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/update/adamw_step.h"
#include "common/update/lion_step.h"
#include "common/update/sgd_step.h"

namespace tally {
namespace {

// The steps of common/update take a gradient as it lies in a payload.
DenseView ViewOf(absl::Span<const float> values) {
  DenseView view;
  view.count = values.size();
  view.values = reinterpret_cast<const unsigned char*>(values.data());
  return view;
}

class Sgd : public LocalOptimiser {
 public:
  Sgd(LocalOptimiserOptions options, size_t count)
      : LocalOptimiser(std::move(options), count, 1) {}

 private:
  void Move(double learning_rate, uint64_t /*step*/, absl::Span<const float> gradient,
            absl::Span<float> x) override {
    SgdStep(gradient,
            {static_cast<float>(learning_rate), static_cast<float>(options().momentum),
             static_cast<float>(options().weight_decay)},
            slot(0), x);
  }
};

class AdamW : public LocalOptimiser {
 public:
  AdamW(LocalOptimiserOptions options, size_t count)
      : LocalOptimiser(std::move(options), count, 2) {}

 private:
  void Move(double learning_rate, uint64_t step, absl::Span<const float> gradient,
            absl::Span<float> x) override {
    AdamWStep(ViewOf(gradient),
              AdamWCoefficientsOf({learning_rate, options().weight_decay, options().beta1,
                                   options().beta2, options().epsilon, step}),
              slot(0), slot(1), x);
  }
};

class Lion : public LocalOptimiser {
 public:
  Lion(LocalOptimiserOptions options, size_t count)
      : LocalOptimiser(std::move(options), count, 1) {}

 private:
  void Move(double learning_rate, uint64_t /*step*/, absl::Span<const float> gradient,
            absl::Span<float> x) override {
    LionStep(ViewOf(gradient),
             LionCoefficientsOf(learning_rate, options().weight_decay, options().beta1,
                                options().beta2),
             slot(0), x);
  }
};

template <class Optimiser>
std::unique_ptr<LocalOptimiser> Make(LocalOptimiserOptions options, size_t count) {
  return std::make_unique<Optimiser>(std::move(options), count);
}

struct Entry {
  const char* name;
  std::unique_ptr<LocalOptimiser> (*make)(LocalOptimiserOptions options, size_t count);
};

constexpr std::array<Entry, 3> kOptimisers = {{
    {"sgd", Make<Sgd>},
    {"adamw", Make<AdamW>},
    {"lion", Make<Lion>},
}};

const Entry* FindOptimiser(absl::string_view name) {
  const auto* found = std::find_if(kOptimisers.begin(), kOptimisers.end(),
                                   [&](const Entry& entry) { return entry.name == name; });
  return found == kOptimisers.end() ? nullptr : found;
}

void CheckBelowOne(absl::string_view key, double value, std::vector<std::string>& problems) {
  if (value >= 0 && value < 1) return;
  problems.push_back(absl::StrCat(key, ": expected a number from 0, below 1, found ", value));
}

absl::Status CheckOptions(const LocalOptimiserOptions& options) {
  std::vector<std::string> problems;
  if (FindOptimiser(options.name) == nullptr) {
    problems.push_back(absl::StrCat("optimiser: expected one of ",
                                    absl::StrJoin(LocalOptimisers(), ", "), "; found \"",
                                    options.name, "\""));
  }
  CheckBelowOne("momentum", options.momentum, problems);
  CheckBelowOne("beta1", options.beta1, problems);
  CheckBelowOne("beta2", options.beta2, problems);
  const auto epsilon = static_cast<float>(options.epsilon);
  if (!(std::isfinite(epsilon) && epsilon > 0)) {
    problems.push_back(absl::StrCat("epsilon: expected a number above 0 in float32, found ",
                                    options.epsilon));
  }
  if (!(std::isfinite(options.weight_decay) && options.weight_decay >= 0)) {
    problems.push_back(absl::StrCat("weight_decay: expected a number from 0 on, found ",
                                    options.weight_decay));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

absl::Status CheckFinite(absl::Span<const float> gradient) {
  const auto bad = std::find_if(gradient.begin(), gradient.end(),
                                [](float value) { return !std::isfinite(value); });
  if (bad == gradient.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gradient: element ", bad - gradient.begin(),
                                                 " is not finite: ", *bad));
}

}  // namespace

std::vector<std::string> LocalOptimisers() {
  std::vector<std::string> names;
  for (const Entry& entry : kOptimisers) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<LocalOptimiser>> LocalOptimiser::Create(
    LocalOptimiserOptions options, size_t count) {
  TALLY_RETURN_IF_ERROR(CheckOptions(options));
  const Entry* entry = FindOptimiser(options.name);
  return entry->make(std::move(options), count);
}

absl::Status LocalOptimiser::Step(double learning_rate, absl::Span<const float> gradient,
                                  absl::Span<float> x) {
  if (gradient.size() != count_ || x.size() != count_) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", count_, " parameters, found ",
                                                   x.size(), " with a gradient of ",
                                                   gradient.size()));
  }
  if (!(std::isfinite(learning_rate) && learning_rate >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("learning rate: expected a number from 0 on, found ", learning_rate));
  }
  TALLY_RETURN_IF_ERROR(CheckFinite(gradient));
  Move(learning_rate, ++steps_, gradient, x);
  return absl::OkStatus();
}

std::vector<absl::Span<float>> LocalOptimiser::state() {
  return {state_.begin(), state_.end()};
}

absl::Status LocalOptimiser::Restore(uint64_t steps, absl::Span<const std::vector<float>> state) {
  const bool fits = state.size() == state_.size() &&
                    std::all_of(state.begin(), state.end(), [this](const auto& slot) {
                      return slot.size() == count_;
                    });
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("optimiser state: expected ", state_.size(),
                                                   " arrays of ", count_, " values"));
  }
  state_.assign(state.begin(), state.end());
  steps_ = steps;
  return absl::OkStatus();
}

}  // namespace tally

#include "common/spec/defaults.h"

namespace tally {
namespace {

template <typename T>
T Or(T value, T fallback) {
  return value == T{} ? fallback : value;
}

void FillMethod(v1::MethodSpec& method) {
  if (method.name() == "distributed_lion") {
    method.set_aggregation(Or<std::string>(method.aggregation(), "majority"));
    if (method.aggregation() == "majority") {
      method.set_ties(Or<std::string>(method.ties(), "random"));
    }
  }
  method.set_epsilon(Or(method.epsilon(), DefaultsOf(method.name()).epsilon));
}

void FillWorkers(v1::WorkersSpec& workers) {
  workers.set_quorum(Or(workers.quorum(), workers.count()));
  workers.set_minimum(Or(workers.minimum(), workers.quorum()));
  workers.set_max(Or(workers.max(), workers.count()));
  workers.set_device(Or<std::string>(workers.device(), "any"));
  workers.set_round_deadline_ms(Or(workers.round_deadline_ms(), kDefaultRoundDeadlineMs));
}

}  // namespace

MethodDefaults DefaultsOf(absl::string_view method) {
  if (method == "global_adamw") return {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  return {};
}

v1::JobSpec WithDefaults(v1::JobSpec spec) {
  FillMethod(*spec.mutable_method());
  FillWorkers(*spec.mutable_workers());
  v1::LearningRate& rate = *spec.mutable_learning_rate();
  rate.set_schedule(Or<std::string>(rate.schedule(), "constant"));
  spec.set_digest_every(Or(spec.digest_every(), kDefaultDigestEvery));
  return spec;
}

}  // namespace tally

#include "common/spec/defaults.h"

#include "common/spec/names.h"

namespace tally {
namespace {

template <typename T>
T Or(T value, T fallback) {
  return value == T{} ? fallback : value;
}

void FillLocal(v1::MethodSpec& method) {
  v1::LocalSpec& local = *method.mutable_local();
  local.set_optimiser(Or<std::string>(local.optimiser(), "adamw"));
  local.set_dtype(Or<std::string>(local.dtype(), "float32"));
  local.set_weights(
      Or<std::string>(local.weights(), method.name() == "fish" ? "samples" : "uniform"));
}

void FillLofi(v1::LofiSpec& lofi) {
  lofi.set_outer(Or<std::string>(lofi.outer(), "sgd"));
  const OuterDefaults defaults = OuterDefaultsOf(lofi.outer());
  lofi.set_outer_learning_rate(Or(lofi.outer_learning_rate(), defaults.learning_rate));
  lofi.set_outer_momentum(Or(lofi.outer_momentum(), defaults.momentum));
  lofi.set_soup(Or<std::string>(lofi.soup(), "uniform"));
}

void FillFish(v1::FishSpec& fish) {
  fish.set_fisher(Or<std::string>(fish.fisher(), "empirical"));
  if (fish.fisher() != "random") fish.set_samples(Or(fish.samples(), kDefaultFisherSamples));
}

void FillMethod(v1::MethodSpec& method) {
  if (method.name() == "distributed_lion") {
    method.set_aggregation(Or<std::string>(method.aggregation(), "majority"));
    if (method.aggregation() == "majority") {
      method.set_ties(Or<std::string>(method.ties(), "random"));
    }
  }
  if (HasLocalSteps(method)) FillLocal(method);
  if (method.name() == "lofi") FillLofi(*method.mutable_lofi());
  if (method.name() == "fish") FillFish(*method.mutable_fish());
  method.set_epsilon(Or(method.epsilon(), DefaultsOf(OptimiserOf(method)).epsilon));
}

void FillWorkers(v1::WorkersSpec& workers, uint64_t round_deadline_ms) {
  workers.set_quorum(Or(workers.quorum(), workers.count()));
  workers.set_minimum(Or(workers.minimum(), workers.quorum()));
  workers.set_max(Or(workers.max(), workers.count()));
  workers.set_device(Or<std::string>(workers.device(), "any"));
  workers.set_round_deadline_ms(Or(workers.round_deadline_ms(), round_deadline_ms));
}

}  // namespace

MethodDefaults DefaultsOf(absl::string_view optimiser) {
  if (optimiser == "adamw") return {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  if (optimiser == "sgd") return {.beta1 = 0, .beta2 = 0};
  return {};
}

OuterDefaults OuterDefaultsOf(absl::string_view outer) {
  if (outer == "momentum" || outer == "nesterov") return {.learning_rate = 0.7, .momentum = 0.9};
  return {};
}

uint64_t DefaultRoundDeadlineMs(const v1::MethodSpec& method) {
  return HasLocalSteps(method) ? kDefaultLocalRoundDeadlineMs : kDefaultRoundDeadlineMs;
}

v1::JobSpec WithDefaults(v1::JobSpec spec) {
  FillMethod(*spec.mutable_method());
  FillWorkers(*spec.mutable_workers(), DefaultRoundDeadlineMs(spec.method()));
  v1::LearningRate& rate = *spec.mutable_learning_rate();
  rate.set_schedule(Or<std::string>(rate.schedule(), "constant"));
  spec.set_digest_every(Or(spec.digest_every(), kDefaultDigestEvery));
  return spec;
}

}  // namespace tally

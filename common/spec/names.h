// The words that a job spec may hold where it chooses.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

inline const std::vector<std::string>& MethodNames() {
  static const auto* names = new std::vector<std::string>{
      "distributed_lion", "global_lion", "global_adamw", "lofi", "fish"};
  return *names;
}

inline const std::vector<std::string>& AggregationNames() {
  static const auto* names = new std::vector<std::string>{"majority", "average"};
  return *names;
}

// Of lofi and fish: rounds of a worker's own optimiser steps.
inline bool HasLocalSteps(const v1::MethodSpec& method) {
  return method.name() == "lofi" || method.name() == "fish";
}

inline const std::vector<std::string>& LocalOptimiserNames() {
  static const auto* names = new std::vector<std::string>{"sgd", "adamw", "lion"};
  return *names;
}

// What the method's beta1, beta2, epsilon and weight_decay belong to: sgd, adamw or lion.
inline std::string OptimiserOf(const v1::MethodSpec& method) {
  if (HasLocalSteps(method)) return method.local().optimiser();
  return method.name() == "global_adamw" ? "adamw" : "lion";
}

inline const std::vector<std::string>& OuterNames() {
  static const auto* names = new std::vector<std::string>{"sgd", "momentum", "nesterov"};
  return *names;
}

inline const std::vector<std::string>& SoupNames() {
  static const auto* names = new std::vector<std::string>{"uniform", "greedy"};
  return *names;
}

inline const std::vector<std::string>& WeightNames() {
  static const auto* names = new std::vector<std::string>{"uniform", "samples"};
  return *names;
}

inline const std::vector<std::string>& FisherNames() {
  static const auto* names = new std::vector<std::string>{"empirical", "expected", "random"};
  return *names;
}

// How a method's local deltas may travel.
inline const std::vector<std::string>& DtypeNames(absl::string_view method) {
  static const auto* dense = new std::vector<std::string>{"float32", "bf16", "fp16"};
  static const auto* sparse = new std::vector<std::string>{"float32", "bf16", "sign"};
  return method == "fish" ? *sparse : *dense;
}

inline const std::vector<std::string>& TieNames() {
  static const auto* names = new std::vector<std::string>{"random", "zero"};
  return *names;
}

inline const std::vector<std::string>& ScheduleNames() {
  static const auto* names = new std::vector<std::string>{"constant", "linear", "cosine"};
  return *names;
}

// "cuda" stands for any CUDA device.
inline const std::vector<std::string>& DeviceNames() {
  static const auto* names = new std::vector<std::string>{"any", "cpu", "cuda"};
  return *names;
}

}  // namespace tally

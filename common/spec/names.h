// The words that a job spec may hold where it chooses.
#pragma once

#include <string>
#include <vector>

namespace tally {

inline const std::vector<std::string>& MethodNames() {
  static const auto* names =
      new std::vector<std::string>{"distributed_lion", "global_lion", "global_adamw"};
  return *names;
}

inline const std::vector<std::string>& AggregationNames() {
  static const auto* names = new std::vector<std::string>{"majority", "average"};
  return *names;
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

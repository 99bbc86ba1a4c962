// Runs a test once for each instruction set that this processor has and the kernels were built for.
#pragma once

#include <cstdint>
#include <functional>

#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace tally::testing {

inline void ForEachTarget(const std::function<void()>& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace tally::testing

// The full float32 gradient each round, for methods whose optimiser runs on the mean: global_lion
// and global_adamw, the baselines that Distributed Lion is compared with.
#pragma once

#include <memory>

#include "worker/method/method.h"

namespace tally {

std::unique_ptr<Method> MakeGradientMean(const MethodOptions& options, const Layout& layout);

}  // namespace tally

// Distributed Lion (Liu et al. 2024, arXiv 2404.00438): the sign of the local Lion direction is
// sent, the momentum stays here. Majority and average differ on the server alone.
#pragma once

#include <memory>
#include <vector>

#include "worker/method/method.h"

namespace tally {

// Memory: one float32 momentum a trained parameter.
std::unique_ptr<Method> MakeDistributedLion(const MethodOptions& options, const Layout& layout);

}  // namespace tally

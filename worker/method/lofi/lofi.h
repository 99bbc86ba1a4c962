// lo-fi (Wortsman et al. 2022, arXiv 2210.11948) and its repeated form (DiLoCo): the worker's own
// optimiser takes the steps of a round; what they have changed is contributed.
#pragma once

#include <memory>

#include "worker/method/method.h"

namespace tally {

// Encode takes the change of a chunk's parameters in place of a gradient. Memory: the optimiser's.
std::unique_ptr<Method> MakeLofi(const MethodOptions& options, const Layout& layout);

}  // namespace tally

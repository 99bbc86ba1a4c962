// FISH Mask (Sung et al. 2021, arXiv 2111.09839): the worker's own optimiser moves the elements of the
// mask alone; what it has changed of them is contributed.
#pragma once

#include <memory>

#include "worker/method/method.h"

namespace tally {

// LocalStep and Encode take values of the mask's elements, in their order, in place of all. Memory: the
// optimiser's state and, with signs, the error fed back, of the mask's elements alone; both are carried
// from one mask to the next for the elements that stay.
//
// With dtype sign what is sent is mean |p| * sign(p) of p = delta + e, and e = p - sent stays here for the
// next round (EF-signSGD, Karimireddy et al. 2019, arXiv 1901.09847). What was sent too late to count is lost.
std::unique_ptr<Method> MakeFish(const MethodOptions& options, const Layout& layout);

}  // namespace tally

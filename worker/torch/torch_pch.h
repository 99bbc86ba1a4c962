// Compiled once for all targets that include LibTorch.
#pragma once

#include <torch/torch.h>

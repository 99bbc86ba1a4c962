// A target needs a source of its own to make a precompiled header.
#include "worker/torch/torch_pch.h"

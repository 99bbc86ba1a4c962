#pragma once

#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tally {

// INTERNAL with LibTorch's first line; the rest is its own stack.
inline absl::Status TorchStatus(absl::string_view doing, const std::exception& error) {
  const absl::string_view text = error.what();
  return absl::InternalError(absl::StrCat(doing, ": LibTorch: ", text.substr(0, text.find('\n'))));
}

// Runs `body`, which returns a Status or StatusOr, and turns what LibTorch throws into Status.
template <typename Body>
auto GuardTorch(absl::string_view doing, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& error) {
    return TorchStatus(doing, error);
  }
}

}  // namespace tally

// Digests guard against corruption and drift, not against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace tally {

// XXH3 64-bit of `bytes`, seed 0. The one digest of chunks, ledger records and parameters.
uint64_t Digest64(absl::string_view bytes);
uint64_t Digest64(const void* data, size_t size);

// The same value computed piece by piece.
class Digester {
 public:
  Digester();
  ~Digester();
  void Add(const void* data, size_t size);
  void Add(absl::string_view bytes) { Add(bytes.data(), bytes.size()); }
  // Little-endian fixed width, so that digests agree between machines.
  void AddUint64(uint64_t value);
  uint64_t Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 16 lower-case hexadecimal digits.
std::string DigestToString(uint64_t digest);

}  // namespace tally

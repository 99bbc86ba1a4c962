#include "common/base/digest.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace tally {

struct Digester::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

uint64_t Digest64(const void* data, size_t size) { return XXH3_64bits(data, size); }
uint64_t Digest64(absl::string_view bytes) { return Digest64(bytes.data(), bytes.size()); }

Digester::Digester() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh); }
Digester::~Digester() = default;

void Digester::Add(const void* data, size_t size) { XXH3_64bits_update(state_->xxh, data, size); }

void Digester::AddUint64(uint64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
  Add(bytes, sizeof bytes);
}

uint64_t Digester::Finish() const { return XXH3_64bits_digest(state_->xxh); }

std::string DigestToString(uint64_t digest) { return absl::StrFormat("%016x", digest); }

}  // namespace tally

// The yardstick of the votes: reading bytes and doing nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tally::bench {

// The exclusive or of all whole words, with the widest vectors there are, four at a time.
uint64_t ReadBytes(const unsigned char* bytes, size_t size);

}  // namespace tally::bench

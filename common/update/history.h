// Which rounds a ledger consists of, in one number: two ledgers whose history after round r is the
// same have the same aggregates up to r. It guards against mistaking a round that was done again for
// the one that was lost, not against an adversary.
#pragma once

#include <cstdint>

#include "proto/tally/v1/training.pb.h"

namespace tally {

// RoundClosed.history of `closed`, whose round and digest are set: Digest64 of `previous` (the
// history after the round before; 0 for the base), the round and the digest, little-endian.
uint64_t RoundHistory(uint64_t previous, const v1::RoundClosed& closed);

}  // namespace tally

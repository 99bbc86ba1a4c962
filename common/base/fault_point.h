// Places where a crash or a failing disk is interesting. The product links the definitions of
// fault_point.cc, which do nothing; the tests' own server defines them anew (tests/faults) and kills
// itself, or fails, where the test says.
#pragma once

#include <cstddef>

namespace tally {

// A place that the process may die at. `name` is "room.what", as in "ledger.before_sync".
void FaultPoint(const char* name);
// An errno that the operation about to be done is to fail with; 0: none.
int FaultErrno(const char* name);
// How many of `size` bytes to write at once: less, to die between two halves.
size_t FaultLimit(const char* name, size_t size);

}  // namespace tally

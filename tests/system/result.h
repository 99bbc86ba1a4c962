// What a finished job left: its model, and whether everybody agrees about it.
#pragma once

#include <string>

#include "tests/system/cluster.h"

namespace tally::testing {

// Digest of the parameters in a downloaded model, by the layout that the server kept, and not by
// anything that the server says of them. Hexadecimal.
std::string DigestOfModel(Cluster& cluster, const std::string& job_id, const std::string& folder);

// The job SUCCEEDED, every replica compared equal to the ledger's fold to the end, and the
// download is what was compared, and what the test itself makes of the ledger's files, where every
// round stands once. Returns the downloaded folder. Not for a ledger that has lost its beginning.
std::string CheckResult(Cluster& cluster, const std::string& job_id);

}  // namespace tally::testing

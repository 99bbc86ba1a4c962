// A job's ledger as the test itself reads it from the server's files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/layout/layout.h"
#include "server/ledger/reader.h"
#include "tests/system/cluster.h"

namespace tally::testing {

std::string LedgerFolder(Cluster& cluster, const std::string& job_id);
Layout LayoutOf(Cluster& cluster, const std::string& job_id);
// A Hugging Face directory's parameters in the layout's order.
std::vector<float> ReadParameters(const Layout& layout, const std::string& folder);

// Each round's spec, closing and aggregates as bytes, in order: what must not change, whatever the
// disk loses. The rounds must follow one another, each history from the one before.
std::vector<std::string> ReadRounds(Cluster& cluster, const std::string& job_id);
// The digest (hexadecimal) of the base with every round of the ledger applied to it, by the test. The
// ledger must begin at round 1.
std::string FoldOfLedger(Cluster& cluster, const std::string& job_id);

// Where a record lies.
struct RecordAt {
  std::string path;
  uint64_t round = 0;
  uint64_t synced = 0;  // rounds on the disk when it was written
  uint64_t begin = 0;
  uint64_t end = 0;
};
// Of the whole records of all segments, by their heads alone. The server may be writing.
std::vector<RecordAt> ListRecords(const std::string& ledger_folder);

// Loses the rounds after `round`, as a disk does that had not been told to sync, and of the next one
// `torn` bytes are left (fewer than it has). The server must be down.
void LoseRoundsAfter(const std::string& ledger_folder, uint64_t round, uint64_t torn = 0);

// The ledger's last round, followed without asking the server. Cheap to ask again and again.
class RoundWatch {
 public:
  explicit RoundWatch(std::string ledger_folder) : folder_(std::move(ledger_folder)) {}
  uint64_t Now();

 private:
  std::string folder_;
  uint64_t segment_ = 0;  // first round of the segment that round_ is in
  uint64_t round_ = 0;
  uint64_t at_ = 0;       // of the next record's head
};

}  // namespace tally::testing

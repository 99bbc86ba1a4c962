// One worker's contribution to one round on the server's disk, for rounds whose contributions are
// large and count whole: it is taken up where it was after a broken stream or a crash of the server,
// and costs no memory. Fixed-width little-endian integers; digests are Digest64.
//
//   file   := header record*
//   header := "TALLYCT1" version(4) chunks(4) spec_digest(8) round(8) worker(4) zero(4) digest(8)
//             digest: of the 40 bytes before it
//   record := head bytes
//   head   := kind(4) index(4) size(8) content(8) digest(8)
//             kind: "CHNK", bytes is the payload of chunk `index`; or "CEND", bytes is the
//             ContributionEnd, index 0, and nothing follows
//             content: Digest64 of bytes; digest: of the 24 bytes before it
//
// Chunks lie in the order in which they came, each index once. The contribution is complete if and
// only if its end is there; that is on the disk before anybody is told so. A tail that a crash has
// torn is cut.
//
// Example: chunk 2 with the payload 01 02 03, 35 bytes:
//   43 48 4e 4b | 02 00 00 00 | 03 00 00 00 00 00 00 00 | digest of 01 02 03 | digest of these 24
//   01 02 03
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

inline constexpr char kContributionMagic[] = "TALLYCT1";
inline constexpr size_t kContributionHeaderBytes = 48;
inline constexpr size_t kContributionHeadBytes = 32;

// What a contribution is of. One for another key says nothing about this one.
struct ContributionKey {
  uint64_t round = 0;
  uint32_t worker = 0;       // index in the job
  uint64_t spec_digest = 0;  // of the round's spec without its deadline
  uint32_t chunks = 0;       // of the round
  bool operator==(const ContributionKey&) const = default;
};

// Append and End are for one thread at a time; Read may run in several beside them.
class ContributionFile {
 public:
  // Takes up FOLDER/RRRRRRRRRR.WWW, or begins it: anew if what lies there is of another key or its
  // header is damaged. Payloads of a contribution without its end are checked against their digests.
  static absl::StatusOr<std::unique_ptr<ContributionFile>> Open(const std::string& folder,
                                                                const ContributionKey& key);

  const ContributionKey& key() const { return key_; }
  // By chunk; none for one that is not here.
  std::optional<uint64_t> digest(uint32_t index) const { return chunks_[index].digest; }
  uint32_t held() const { return held_; }
  // Of payloads.
  uint64_t bytes() const { return bytes_; }
  // Digest64 over the digests of the chunks held, in index order: a sender that finds its own takes
  // up after them.
  uint64_t DigestOfHeld() const;
  const std::optional<v1::ContributionEnd>& end() const { return end_; }

  // `digest` is the payload's, checked by the caller. OK and nothing if it is here already.
  // INVALID_ARGUMENT for another payload than before or no chunk of the round; FAILED_PRECONDITION
  // after the end; RESOURCE_EXHAUSTED for a full disk. After an error the file is as it was.
  absl::Status Append(uint32_t index, uint64_t digest, ByteSpan payload);
  // Waits for the disk. FAILED_PRECONDITION unless all chunks are here.
  absl::Status End(const v1::ContributionEnd& end);
  // The chunk's payload. NOT_FOUND; DATA_LOSS if the disk no longer has what was written.
  absl::StatusOr<Bytes> Read(uint32_t index) const;
  // The file goes; the object is of no further use.
  absl::Status Remove();

 private:
  struct Place {
    std::optional<uint64_t> digest;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  ContributionFile(std::string path, const ContributionKey& key)
      : path_(std::move(path)), key_(key), chunks_(key.chunks) {}
  absl::Status TakeUp();
  absl::Status Begin();
  absl::Status OpenFile();
  // The length of the whole records at `at`, booked; 0 at a torn tail.
  uint64_t Book(absl::string_view file, uint64_t at, bool check);
  absl::Status Write(uint32_t kind, uint32_t index, uint64_t digest, absl::string_view bytes);

  const std::string path_;
  const ContributionKey key_;
  FileDescriptor file_;
  uint64_t file_end_ = 0;
  std::vector<Place> chunks_;
  uint32_t held_ = 0;
  uint64_t bytes_ = 0;
  std::optional<v1::ContributionEnd> end_;
};

// Files of rounds before `round` go: they are in the ledger.
absl::Status RemoveContributionsBefore(const std::string& folder, uint64_t round);

}  // namespace tally

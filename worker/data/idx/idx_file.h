// The idx file format (LeCun's MNIST page), all numbers big-endian:
//
//   file   := 0 0 type(1) rank(1) extent(4){rank} data
//   type   := 8, unsigned bytes; the other types of the format are refused
//   data   := the product of the extents in bytes, row-major, up to the end of the file
//
// Example, the labels 7 and 2:  00 00 08 01  00 00 00 02  07 02
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/idx/byte_stream.h"

namespace tally {

struct IdxFile {
  std::string path;
  std::vector<uint64_t> extents;  // the first counts the rows

  uint64_t rows() const { return extents[0]; }
  uint64_t row_bytes() const;
  uint64_t header_bytes() const { return 4 + 4 * extents.size(); }
};

// Checks the header and, in one pass for compressed files, the length. `rank` is the number of
// extents wanted, at least 1.
absl::StatusOr<IdxFile> CheckIdxFile(const std::string& path, size_t rank);

// A stream at the first byte of the data.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenIdxData(const IdxFile& file);

}  // namespace tally

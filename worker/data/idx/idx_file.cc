#include "worker/data/idx/idx_file.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr char kUnsignedBytes = 8;
// Keeps row_bytes() and the file's length far from overflow.
constexpr uint64_t kMaxRowBytes = uint64_t{1} << 31;

uint64_t BigEndian32(const char* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

absl::Status CheckMagic(const std::string& path, const char* magic, size_t rank) {
  const char expected[4] = {0, 0, kUnsignedBytes, static_cast<char>(rank)};
  const absl::string_view found(magic, 4);
  if (found == absl::string_view(expected, 4)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": bad magic: expected ", absl::BytesToHexString(absl::string_view(expected, 4)),
      " (idx, unsigned bytes, ", rank, " extents), found ", absl::BytesToHexString(found)));
}

absl::Status CheckExtents(const IdxFile& file) {
  uint64_t row_bytes = 1;
  for (size_t i = 1; i < file.extents.size(); ++i) {
    if (file.extents[i] == 0 || file.extents[i] > kMaxRowBytes / row_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path, ": expected 1 to 2^31 bytes a row, found extent ", file.extents[i]));
    }
    row_bytes *= file.extents[i];
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t IdxFile::row_bytes() const {
  uint64_t bytes = 1;
  for (size_t i = 1; i < extents.size(); ++i) bytes *= extents[i];
  return bytes;
}

absl::StatusOr<IdxFile> CheckIdxFile(const std::string& path, size_t rank) {
  TALLY_ASSIGN_OR_RETURN(auto stream, ByteStream::Open(path));
  char word[4];
  TALLY_RETURN_IF_ERROR(stream->Read(word, sizeof(word)));
  TALLY_RETURN_IF_ERROR(CheckMagic(path, word, rank));
  IdxFile file{path, {}};
  for (size_t i = 0; i < rank; ++i) {
    TALLY_RETURN_IF_ERROR(stream->Read(word, sizeof(word)));
    file.extents.push_back(BigEndian32(word));
  }
  TALLY_RETURN_IF_ERROR(CheckExtents(file));
  TALLY_RETURN_IF_ERROR(stream->Skip(file.rows() * file.row_bytes()));
  TALLY_ASSIGN_OR_RETURN(const bool at_end, stream->AtEnd());
  if (at_end) return file;
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected ", file.rows(), " rows of ",
                                                 file.row_bytes(), " bytes, found more bytes"));
}

absl::StatusOr<std::unique_ptr<ByteStream>> OpenIdxData(const IdxFile& file) {
  TALLY_ASSIGN_OR_RETURN(auto stream, ByteStream::Open(file.path));
  TALLY_RETURN_IF_ERROR(stream->Skip(file.header_bytes()));
  return stream;
}

}  // namespace tally

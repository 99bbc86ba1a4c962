#include "worker/data/idx/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr unsigned kGzipBuffer = 256 << 10;

class MappedStream : public ByteStream {
 public:
  MappedStream(std::unique_ptr<MappedFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  absl::Status Read(char* out, uint64_t size) override {
    const uint64_t begin = position_;
    TALLY_RETURN_IF_ERROR(Skip(size));
    std::memcpy(out, file_->bytes().data() + begin, size);
    return absl::OkStatus();
  }

  absl::Status Skip(uint64_t size) override {
    if (size > file_->size() - position_) {
      return absl::DataLossError(absl::StrCat(path_, ": cut short: expected ", position_ + size,
                                              " bytes at least, found ", file_->size()));
    }
    position_ += size;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AtEnd() override { return position_ == file_->size(); }

 private:
  std::unique_ptr<MappedFile> file_;
  const std::string path_;
  uint64_t position_ = 0;
};

class GzipStream : public ByteStream {
 public:
  GzipStream(gzFile file, std::string path) : file_(file), path_(std::move(path)) {
    gzbuffer(file_, kGzipBuffer);
  }
  ~GzipStream() override { gzclose_r(file_); }

  absl::Status Read(char* out, uint64_t size) override {
    while (size > 0) {
      TALLY_ASSIGN_OR_RETURN(const uint64_t got, ReadSome(out, size));
      if (got == 0) {
        return absl::DataLossError(absl::StrCat(path_, ": cut short: expected ", size,
                                                " bytes more than the ", position_, " found"));
      }
      out += got;
      size -= got;
    }
    return absl::OkStatus();
  }

  absl::Status Skip(uint64_t size) override {
    skipped_.resize(std::min<uint64_t>(size, kGzipBuffer));
    while (size > 0) {
      const uint64_t piece = std::min<uint64_t>(size, skipped_.size());
      TALLY_RETURN_IF_ERROR(Read(skipped_.data(), piece));
      size -= piece;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AtEnd() override {
    char byte;
    TALLY_ASSIGN_OR_RETURN(const uint64_t got, ReadSome(&byte, 1));
    if (got == 1) gzungetc(static_cast<unsigned char>(byte), file_);
    position_ -= got;
    return got == 0;
  }

 private:
  absl::StatusOr<uint64_t> ReadSome(char* out, uint64_t size) {
    const int got = gzread(file_, out, static_cast<unsigned>(std::min<uint64_t>(size, 1 << 30)));
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    // A stream that ends early gives what there is and leaves Z_BUF_ERROR behind.
    if (code == Z_BUF_ERROR) {
      return absl::DataLossError(
          absl::StrCat(path_, ": cut short: the compressed data ends early"));
    }
    if (got < 0) return absl::DataLossError(absl::StrCat(path_, ": damaged gzip data: ", text));
    position_ += static_cast<uint64_t>(got);
    return static_cast<uint64_t>(got);
  }

  gzFile file_;
  const std::string path_;
  uint64_t position_ = 0;
  std::vector<char> skipped_;
};

absl::StatusOr<std::unique_ptr<ByteStream>> OpenGzip(const std::string& path) {
  // gzread would pass a plain file through; the name promises otherwise.
  char magic[2] = {};
  {
    TALLY_ASSIGN_OR_RETURN(auto file, MappedFile::OpenReadOnly(path));
    if (file->size() >= 2) std::memcpy(magic, file->bytes().data(), 2);
  }
  if (std::memcmp(magic, "\x1f\x8b", 2) != 0) {
    return absl::DataLossError(absl::StrCat(path, ": expected gzip data, found other bytes"));
  }
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return ErrnoStatus(errno, "cannot open", path);
  return std::make_unique<GzipStream>(file, path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(const std::string& path) {
  if (absl::EndsWith(path, ".gz")) return OpenGzip(path);
  TALLY_ASSIGN_OR_RETURN(auto file, MappedFile::OpenReadOnly(path));
  return std::make_unique<MappedStream>(std::move(file), path);
}

}  // namespace tally

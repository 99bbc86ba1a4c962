#include "server/staging/contribution_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/digest.h"
#include "common/base/fault_point.h"
#include "common/base/status.h"
#include "server/ledger/format.h"

namespace tally {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kChunk = 0x4b4e4843;  // "CHNK"
constexpr uint32_t kEnd = 0x444e4543;    // "CEND"
constexpr size_t kSizeAt = 8;
constexpr size_t kContentAt = 16;
constexpr size_t kHeadDigestAt = 24;

std::string EncodeHeader(const ContributionKey& key) {
  std::string bytes = kContributionMagic;
  PutUint32(kVersion, &bytes);
  PutUint32(key.chunks, &bytes);
  PutUint64(key.spec_digest, &bytes);
  PutUint64(key.round, &bytes);
  PutUint32(key.worker, &bytes);
  PutUint32(0, &bytes);
  PutUint64(Digest64(bytes), &bytes);
  return bytes;
}

std::string EncodeHead(uint32_t kind, uint32_t index, uint64_t size, uint64_t content) {
  std::string bytes;
  PutUint32(kind, &bytes);
  PutUint32(index, &bytes);
  PutUint64(size, &bytes);
  PutUint64(content, &bytes);
  PutUint64(Digest64(bytes), &bytes);
  return bytes;
}

std::string NameOf(const ContributionKey& key) {
  return absl::StrFormat("%010d.%03d", key.round, key.worker);
}

absl::string_view View(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ContributionFile>> ContributionFile::Open(
    const std::string& folder, const ContributionKey& key) {
  TALLY_RETURN_IF_ERROR(MakeFolders(folder));
  std::unique_ptr<ContributionFile> file(
      new ContributionFile(absl::StrCat(folder, "/", NameOf(key)), key));
  const absl::Status taken = file->TakeUp();
  if (absl::IsNotFound(taken) || absl::IsFailedPrecondition(taken)) {
    TALLY_RETURN_IF_ERROR(file->Begin());
  } else {
    TALLY_RETURN_IF_ERROR(taken);
  }
  return file;
}

absl::Status ContributionFile::TakeUp() {
  const std::string header = EncodeHeader(key_);
  {
    TALLY_ASSIGN_OR_RETURN(const auto mapped, MappedFile::OpenReadOnly(path_));
    const absl::string_view bytes = mapped->bytes();
    if (!absl::StartsWith(bytes, header)) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ": of another round or damaged"));
    }
    // First as if it were complete: then it was synced, and Read checks what is read.
    file_end_ = header.size();
    while (const uint64_t length = Book(bytes, file_end_, /*check=*/false)) file_end_ += length;
    if (!end_.has_value()) {
      chunks_.assign(key_.chunks, {});
      held_ = 0;
      bytes_ = 0;
      file_end_ = header.size();
      while (const uint64_t length = Book(bytes, file_end_, /*check=*/true)) file_end_ += length;
    }
  }
  TALLY_RETURN_IF_ERROR(OpenFile());
  if (::ftruncate(file_.get(), static_cast<off_t>(file_end_)) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cutting", path_);
}

absl::Status ContributionFile::Begin() {
  const std::string header = EncodeHeader(key_);
  TALLY_RETURN_IF_ERROR(WriteFileAtomically(path_, header));
  file_end_ = header.size();
  return OpenFile();
}

absl::Status ContributionFile::OpenFile() {
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  return file_.valid() ? absl::OkStatus() : ErrnoStatus(errno, "opening", path_);
}

uint64_t ContributionFile::Book(absl::string_view file, uint64_t at, bool check) {
  if (end_.has_value() || file.size() - at < kContributionHeadBytes) return 0;
  const char* head = file.data() + at;
  const uint32_t kind = GetUint32(head), index = GetUint32(head + 4);
  const uint64_t size = GetUint64(head + kSizeAt), content = GetUint64(head + kContentAt);
  if (Digest64(head, kHeadDigestAt) != GetUint64(head + kHeadDigestAt)) return 0;
  if (size > file.size() - at - kContributionHeadBytes) return 0;
  const absl::string_view bytes = file.substr(at + kContributionHeadBytes, size);
  if ((check || kind == kEnd) && Digest64(bytes) != content) return 0;
  if (kind == kEnd) {
    v1::ContributionEnd end;
    if (held_ != key_.chunks || !end.ParseFromArray(bytes.data(), static_cast<int>(size))) return 0;
    end_ = std::move(end);
    return kContributionHeadBytes + size;
  }
  if (kind != kChunk || index >= key_.chunks || chunks_[index].digest.has_value()) return 0;
  chunks_[index] = {content, at + kContributionHeadBytes, size};
  ++held_;
  bytes_ += size;
  return kContributionHeadBytes + size;
}

uint64_t ContributionFile::DigestOfHeld() const {
  Digester digester;
  for (const Place& place : chunks_) {
    if (place.digest.has_value()) digester.AddUint64(*place.digest);
  }
  return digester.Finish();
}

absl::Status ContributionFile::Write(uint32_t kind, uint32_t index, uint64_t digest,
                                     absl::string_view bytes) {
  std::string head = EncodeHead(kind, index, bytes.size(), digest);
  iovec parts[] = {{head.data(), head.size()}, {const_cast<char*>(bytes.data()), bytes.size()}};
  const size_t all = head.size() + bytes.size();
  int error = FaultErrno("staging.write");
  if (error == 0) {
    const ssize_t written = ::pwritev(file_.get(), parts, 2, static_cast<off_t>(file_end_));
    if (written == static_cast<ssize_t>(all)) {
      file_end_ += all;
      return absl::OkStatus();
    }
    error = written < 0 ? errno : ENOSPC;
  }
  // What is behind file_end_ is written over by the next record, or cut when it is taken up.
  return ErrnoStatus(error, "writing", path_);
}

absl::Status ContributionFile::Append(uint32_t index, uint64_t digest, ByteSpan payload) {
  const std::string where = absl::StrCat("round ", key_.round, ": chunk ", index);
  if (index >= key_.chunks) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an index below ", key_.chunks));
  }
  Place& place = chunks_[index];
  if (place.digest == digest) return absl::OkStatus();
  if (place.digest.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": sent before with digest ",
                                                   DigestToString(*place.digest), ", now with ",
                                                   DigestToString(digest)));
  }
  if (end_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(where, ": the contribution has ended"));
  }
  const uint64_t at = file_end_ + kContributionHeadBytes;
  TALLY_RETURN_IF_ERROR(Write(kChunk, index, digest, View(payload)));
  FaultPoint("staging.after_chunk");
  place = {digest, at, payload.size()};
  ++held_;
  bytes_ += payload.size();
  return absl::OkStatus();
}

absl::Status ContributionFile::End(const v1::ContributionEnd& end) {
  if (end_.has_value()) return absl::OkStatus();
  if (held_ != key_.chunks) {
    return absl::FailedPreconditionError(absl::StrCat("round ", key_.round, ": expected ",
                                                      key_.chunks, " chunks, found ", held_));
  }
  const auto sync = [this] {
    return ::fdatasync(file_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "syncing", path_);
  };
  // The chunks first: an end on the disk means that they are there, too.
  TALLY_RETURN_IF_ERROR(sync());
  const uint64_t before = file_end_;
  const std::string bytes = end.SerializeAsString();
  TALLY_RETURN_IF_ERROR(Write(kEnd, 0, Digest64(bytes), bytes));
  if (const absl::Status synced = sync(); !synced.ok()) {
    file_end_ = before;
    return synced;
  }
  end_ = end;
  return absl::OkStatus();
}

absl::StatusOr<Bytes> ContributionFile::Read(uint32_t index) const {
  const std::string where = absl::StrCat(path_, ": chunk ", index);
  if (index >= key_.chunks || !chunks_[index].digest.has_value()) {
    return absl::NotFoundError(absl::StrCat(where, " is not there"));
  }
  const Place& place = chunks_[index];
  Bytes bytes(place.size);
  const ssize_t read = ::pread(file_.get(), bytes.data(), bytes.size(),
                               static_cast<off_t>(place.offset));
  if (read < 0) return ErrnoStatus(errno, "reading", path_);
  const uint64_t found = Digest64(bytes.data(), bytes.size());
  if (static_cast<size_t>(read) == bytes.size() && found == *place.digest) return bytes;
  return absl::DataLossError(absl::StrCat(where, ": digest: expected ",
                                          DigestToString(*place.digest), ", found ",
                                          DigestToString(found)));
}

absl::Status ContributionFile::Remove() {
  file_ = FileDescriptor();
  if (::unlink(path_.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "removing", path_);
}

absl::Status RemoveContributionsBefore(const std::string& folder, uint64_t round) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  if (error) return ErrnoStatus(error.value(), "listing", folder);
  for (const auto& entry : entries) {
    uint64_t of = 0;
    if (!absl::SimpleAtoi(entry.path().stem().string(), &of) || of >= round) continue;
    if (::unlink(entry.path().c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, "removing", entry.path().string());
    }
  }
  return absl::OkStatus();
}

}  // namespace tally

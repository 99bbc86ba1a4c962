#include "common/checkpoint/safetensors.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

absl::StatusOr<uint64_t> HeaderLength(absl::string_view file) {
  if (file.size() < kSafetensorsLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a safetensors file, found only ", file.size(), " bytes"));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kSafetensorsMaxHeader) {
    return absl::InvalidArgumentError(absl::StrCat("expected a header of at most ",
                                                   kSafetensorsMaxHeader, " bytes, found ", length));
  }
  const uint64_t rest = file.size() - kSafetensorsLengthBytes;
  if (length > rest) {
    return absl::InvalidArgumentError(absl::StrCat("expected a header of ", length,
                                                   " bytes, found only ", rest,
                                                   " (a file cut short?)"));
  }
  return length;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(auto file, MappedFile::OpenReadOnly(path));
  const auto length = HeaderLength(file->bytes());
  if (!length.ok()) return WithContext(length.status(), path);
  const absl::string_view rest = file->bytes().substr(kSafetensorsLengthBytes);
  const absl::string_view data = rest.substr(*length);
  auto header = ParseSafetensorsHeader(rest.substr(0, *length), data.size());
  if (!header.ok()) return WithContext(header.status(), path);
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(path, std::move(file), *std::move(header), data));
}

SafetensorsFile::SafetensorsFile(std::string path, std::unique_ptr<MappedFile> file,
                                 SafetensorsHeader header, absl::string_view data)
    : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)), data_(data) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
}

const TensorInfo* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

absl::string_view SafetensorsFile::Bytes(const TensorInfo& tensor) const {
  return data_.substr(tensor.begin, tensor.bytes());
}

absl::Status SafetensorsFile::ReadAsFloat(const TensorInfo& tensor, absl::Span<float> out) const {
  return WithContext(ConvertToFloat(tensor.dtype, Bytes(tensor), out),
                     absl::StrCat(path_, ": tensor \"", tensor.name, "\""));
}

}  // namespace tally

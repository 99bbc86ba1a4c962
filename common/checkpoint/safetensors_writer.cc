#include "common/checkpoint/safetensors_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

absl::Status CheckFloat32(const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.dtype != DType::kF32) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name,
                                                     "\": expected F32, found ",
                                                     DescribeType(tensor)));
    }
  }
  return absl::OkStatus();
}

// Places the tensors and returns the encoded header.
absl::StatusOr<std::string> PlacedHeader(const std::string& path, std::vector<TensorInfo>& tensors,
                                         const SafetensorsMetadata& metadata) {
  TALLY_RETURN_IF_ERROR(WithContext(PlaceTensors(tensors), path));
  auto header = EncodeSafetensorsHeader(tensors, metadata);
  if (!header.ok()) return WithContext(header.status(), path);
  return header;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorInfo> tensors,
    const SafetensorsMetadata& metadata) {
  TALLY_ASSIGN_OR_RETURN(const std::string header, PlacedHeader(path, tensors, metadata));
  TALLY_ASSIGN_OR_RETURN(PendingFile file, PendingFile::Create(path));
  TALLY_RETURN_IF_ERROR(file.Write(header));
  return std::unique_ptr<SafetensorsWriter>(
      new SafetensorsWriter(std::move(file), tensors.back().end));
}

absl::Status SafetensorsWriter::Append(absl::string_view bytes) {
  if (bytes.size() > left_) {
    return absl::OutOfRangeError(absl::StrCat(file_.path(), ": expected at most ", left_,
                                              " more bytes of data, found ", bytes.size()));
  }
  TALLY_RETURN_IF_ERROR(file_.Write(bytes));
  left_ -= bytes.size();
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  return Append(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(float)));
}

absl::Status SafetensorsWriter::Finish() {
  if (left_ > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_.path(), ": expected ", left_, " more bytes of data, found the end"));
  }
  return file_.Commit();
}

absl::StatusOr<std::unique_ptr<FlatSafetensorsWriter>> FlatSafetensorsWriter::Create(
    const std::string& path, std::vector<TensorInfo> tensors,
    const SafetensorsMetadata& metadata) {
  TALLY_RETURN_IF_ERROR(WithContext(CheckFloat32(tensors), path));
  TALLY_ASSIGN_OR_RETURN(const std::string header, PlacedHeader(path, tensors, metadata));
  TALLY_ASSIGN_OR_RETURN(PendingFile file, PendingFile::Create(path));
  TALLY_RETURN_IF_ERROR(file.Write(header));
  TALLY_RETURN_IF_ERROR(file.Reserve(header.size() + tensors.back().end));
  TALLY_ASSIGN_OR_RETURN(auto mapping, MappedFile::OpenReadWrite(file.temporary()));
  // The header is a multiple of 8 bytes long, so the floats are aligned.
  const absl::Span<float> data(reinterpret_cast<float*>(mapping->mutable_data() + header.size()),
                               tensors.back().end / sizeof(float));
  return std::unique_ptr<FlatSafetensorsWriter>(
      new FlatSafetensorsWriter(std::move(file), std::move(mapping), data));
}

absl::Status FlatSafetensorsWriter::Finish() {
  if (mapping_ == nullptr) {
    return absl::FailedPreconditionError("expected Finish() once, found a second call");
  }
  TALLY_RETURN_IF_ERROR(mapping_->Sync());
  data_ = {};
  mapping_.reset();
  return file_.Commit();
}

}  // namespace tally

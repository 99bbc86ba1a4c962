#include "worker/data/safetensors/shard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr int64_t kMaxLabel = (int64_t{1} << 31) - 1;

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

absl::Status Wrong(const SafetensorsFile& file, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", what));
}

absl::StatusOr<const TensorInfo*> FindImages(const SafetensorsFile& file) {
  const TensorInfo* images = file.Find("images");
  if (images == nullptr) images = file.Find("inputs");
  if (images == nullptr) return Wrong(file, "expected a tensor images or inputs, found neither");
  if ((images->dtype != DType::kU8 && images->dtype != DType::kF32) || images->shape.size() < 2) {
    return Wrong(file,
                 absl::StrCat(images->name, ": expected U8 or F32 of two extents or more, found ",
                              DescribeType(*images)));
  }
  return images;
}

absl::StatusOr<const TensorInfo*> FindLabels(const SafetensorsFile& file, uint64_t rows) {
  const TensorInfo* labels = file.Find("labels");
  if (labels == nullptr) return Wrong(file, "expected a tensor labels, found none");
  const bool known =
      labels->dtype == DType::kI64 || labels->dtype == DType::kI32 || labels->dtype == DType::kU8;
  if (!known || labels->shape != std::vector<uint64_t>{rows}) {
    return Wrong(file,
                 absl::StrCat("labels: expected I64, I32 or U8 [", rows,
                              "], one for each row of the images, found ", DescribeType(*labels)));
  }
  return labels;
}

ExampleFormat FormatOf(const TensorInfo& images) {
  ExampleFormat format;
  format.shape.assign(images.shape.begin() + 1, images.shape.end());
  if (format.shape.size() == 2) format.shape.insert(format.shape.begin(), 1);
  format.type = images.dtype == DType::kU8 ? ElementType::kUint8 : ElementType::kFloat32;
  return format;
}

}  // namespace

absl::StatusOr<Shard> Shard::Open(const std::string& path) {
  Shard shard;
  TALLY_ASSIGN_OR_RETURN(shard.file_, SafetensorsFile::Open(path));
  TALLY_RETURN_IF_ERROR(shard.FindTensors());
  TALLY_RETURN_IF_ERROR(shard.CheckLabels());
  return shard;
}

absl::Status Shard::FindTensors() {
  TALLY_ASSIGN_OR_RETURN(const TensorInfo* images, FindImages(*file_));
  rows_ = images->shape[0];
  TALLY_ASSIGN_OR_RETURN(const TensorInfo* labels, FindLabels(*file_, rows_));
  format_ = FormatOf(*images);
  if (rows_ > 0 && format_.elements() == 0) {
    return Wrong(*file_,
                 absl::StrCat(images->name, ": expected at least 1 element a row, found 0"));
  }
  images_ = file_->Bytes(*images);
  labels_ = file_->Bytes(*labels);
  label_type_ = labels->dtype;
  return absl::OkStatus();
}

absl::Status Shard::CheckLabels() {
  for (uint64_t row = 0; row < rows_; ++row) {
    const int64_t label = LabelAt(row);
    if (label < 0 || label >= kMaxLabel) {
      return Wrong(*file_,
                   absl::StrCat("labels: row ", row, ": expected a label from 0, found ", label));
    }
    classes_ = std::max(classes_, static_cast<uint32_t>(label) + 1);
  }
  return absl::OkStatus();
}

int64_t Shard::LabelAt(uint64_t row) const {
  switch (label_type_) {
    case DType::kI64:
      return Load<int64_t>(labels_.data() + row * sizeof(int64_t));
    case DType::kI32:
      return Load<int32_t>(labels_.data() + row * sizeof(int32_t));
    default:
      return static_cast<uint8_t>(labels_[row]);
  }
}

void Shard::Read(uint64_t row, char* elements, uint32_t* label) const {
  std::memcpy(elements, images_.data() + row * format_.bytes(), format_.bytes());
  *label = static_cast<uint32_t>(LabelAt(row));
}

}  // namespace tally

#include "tests/system/data_set.h"

#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/checkpoint/safetensors_writer.h"

namespace tally::testing {
namespace {

constexpr int kElements = 3 * 8 * 8;

// A class lights one quarter of the image; the rest is noise.
void AppendExample(int label, std::mt19937& random, std::vector<float>& images) {
  for (int i = 0; i < kElements; ++i) {
    const int row = i / 8 % 8, column = i % 8;
    const bool lit = row / 4 * 2 + column / 4 == label;
    // By hand: the standard leaves distributions to the library.
    const double noise = static_cast<double>(random()) / 4294967296.0 - 0.5;
    images.push_back(static_cast<float>((lit ? 0.5 : 0.0) + noise));
  }
}

absl::Status WriteShard(const std::string& path, int rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> images;
  std::string labels;
  for (int i = 0; i < rows; ++i) {
    AppendExample(i % kClasses, random, images);
    labels.push_back(static_cast<char>(i % kClasses));
  }
  const auto count = static_cast<uint64_t>(rows);
  TALLY_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(path, {{"images", DType::kF32, {count, 3, 8, 8}},
                                       {"labels", DType::kU8, {count}}}));
  TALLY_RETURN_IF_ERROR(writer->Append(images));
  TALLY_RETURN_IF_ERROR(writer->Append(absl::string_view(labels)));
  return writer->Finish();
}

}  // namespace

absl::Status WriteDataSet(const std::string& folder) {
  TALLY_RETURN_IF_ERROR(MakeFolders(folder));
  TALLY_RETURN_IF_ERROR(
      WriteShard(absl::StrCat(folder, "/train-0.safetensors"), kTrainExamples, 1));
  return WriteShard(absl::StrCat(folder, "/test-0.safetensors"), kTestExamples, 2);
}

}  // namespace tally::testing

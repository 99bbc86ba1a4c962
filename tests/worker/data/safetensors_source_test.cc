#include <cstring>
#include <numeric>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/checkpoint/safetensors_writer.h"
#include "gtest/gtest.h"
#include "tests/worker/data/idx_files.h"
#include "worker/data/data_source.h"

namespace tally {
namespace {

using ::tally::testing::Folder;
using ::tally::testing::IsOk;
using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct ShardText {
  std::string images_name = "images";
  DType images_type = DType::kU8;
  std::vector<uint64_t> images_shape;
  DType labels_type = DType::kI64;
  std::vector<int64_t> labels;
};

template <typename T>
void AppendAs(std::string& bytes, int64_t value) {
  const T narrow = static_cast<T>(value);
  bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
}

std::string LabelBytes(const ShardText& shard) {
  std::string bytes;
  for (const int64_t label : shard.labels) {
    if (shard.labels_type == DType::kI64) AppendAs<int64_t>(bytes, label);
    if (shard.labels_type == DType::kI32) AppendAs<int32_t>(bytes, label);
    if (shard.labels_type == DType::kU8) AppendAs<uint8_t>(bytes, label);
  }
  return bytes;
}

// Element k of the images is k modulo 251.
std::string ImageBytes(const ShardText& shard) {
  const uint64_t count = std::accumulate(shard.images_shape.begin(), shard.images_shape.end(),
                                         uint64_t{1}, std::multiplies<>());
  std::string bytes;
  for (uint64_t k = 0; k < count; ++k) {
    if (shard.images_type == DType::kF32) {
      const float value = static_cast<float>(k % 251);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      bytes += static_cast<char>(k % 251);
    }
  }
  return bytes;
}

void WriteShard(const Folder& folder, const std::string& name, const ShardText& shard) {
  std::vector<TensorInfo> tensors(2);
  tensors[0].name = shard.images_name;
  tensors[0].dtype = shard.images_type;
  tensors[0].shape = shard.images_shape;
  tensors[1].name = "labels";
  tensors[1].dtype = shard.labels_type;
  tensors[1].shape = {shard.labels.size()};
  TALLY_ASSERT_OK_AND_ASSIGN(auto writer,
                             SafetensorsWriter::Create(folder.path() + "/" + name, tensors));
  TALLY_ASSERT_OK(writer->Append(absl::string_view(ImageBytes(shard))));
  TALLY_ASSERT_OK(writer->Append(absl::string_view(LabelBytes(shard))));
  TALLY_ASSERT_OK(writer->Finish());
}

auto Open(const Folder& folder) { return OpenDataSource({"safetensors", folder.path()}); }

TEST(SafetensorsSource, ShardsInTheOrderOfTheirNames) {
  Folder folder;
  WriteShard(folder, "train-1.safetensors",
             {.images_shape = {2, 3, 4}, .labels_type = DType::kI32, .labels = {7, 8}});
  WriteShard(folder, "train-0.safetensors", {.images_shape = {3, 3, 4}, .labels = {4, 5, 6}});
  WriteShard(folder, "test-0.safetensors",
             {.images_shape = {1, 1, 3, 4}, .labels_type = DType::kU8, .labels = {9}});
  TALLY_ASSERT_OK_AND_ASSIGN(auto source, Open(folder));
  EXPECT_EQ(Describe(source->info().example), "1x3x4 uint8");
  EXPECT_EQ(source->info().train_examples, 5u);
  EXPECT_EQ(source->info().test_examples, 1u);
  EXPECT_EQ(source->info().classes, 10u);
  TALLY_ASSERT_OK_AND_ASSIGN(auto reader, source->Read(Split::kTrain, {0, 1, 5}));
  std::vector<char> pixels(12);
  uint32_t label = 0;
  for (uint32_t row = 0; row < 5; ++row) {
    TALLY_ASSERT_OK(reader->Next(pixels.data(), &label));
    EXPECT_EQ(label, row + 4);
    EXPECT_EQ(pixels[5], static_cast<char>((row % 3) * 12 + 5));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const bool more, reader->Next(pixels.data(), &label));
  EXPECT_FALSE(more);
}

TEST(SafetensorsSource, FloatVectors) {
  Folder folder;
  WriteShard(folder, "train-0.safetensors",
             {.images_name = "inputs",
              .images_type = DType::kF32,
              .images_shape = {4, 5},
              .labels = {0, 1, 0, 1}});
  TALLY_ASSERT_OK_AND_ASSIGN(auto source, Open(folder));
  EXPECT_EQ(Describe(source->info().example), "5 float32");
  TALLY_ASSERT_OK_AND_ASSIGN(auto reader, source->Read(Split::kTrain, {3, 1, 1}));
  std::vector<float> values(5);
  uint32_t label = 0;
  TALLY_ASSERT_OK(reader->Next(reinterpret_cast<char*>(values.data()), &label));
  EXPECT_EQ(values[2], 17.0f);
  EXPECT_EQ(label, 1u);
}

struct BadShard {
  ShardText shard;
  const char* message;
};

TEST(SafetensorsSource, BadShardsAreNamed) {
  const BadShard cases[] = {
      {{.images_name = "pixels", .images_shape = {1, 2}, .labels = {0}}, "images or inputs"},
      {{.images_type = DType::kI8, .images_shape = {1, 2}, .labels = {0}}, "U8 or F32"},
      {{.images_shape = {2}, .labels = {0, 0}}, "two extents"},
      {{.images_shape = {2, 2}, .labels = {0}}, "labels: expected I64, I32 or U8 [2]"},
      {{.images_shape = {2, 2}, .labels = {0, -1}}, "row 1: expected a label from 0, found -1"},
      {{.images_shape = {1, 2}, .labels = {int64_t{1} << 40}}, "row 0: expected a label"},
  };
  for (const BadShard& bad : cases) {
    Folder folder;
    WriteShard(folder, "train-0.safetensors", bad.shard);
    EXPECT_THAT(Open(folder),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("train-0.safetensors"), HasSubstr(bad.message))));
  }
}

TEST(SafetensorsSource, ShardsMustAgree) {
  Folder folder;
  WriteShard(folder, "train-0.safetensors", {.images_shape = {1, 2, 2}, .labels = {0}});
  WriteShard(folder, "train-1.safetensors", {.images_shape = {1, 2, 3}, .labels = {0}});
  EXPECT_THAT(Open(folder),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("train-1"), HasSubstr("expected 1x2x2 uint8"))));
}

TEST(SafetensorsSource, NothingThere) {
  Folder folder;
  EXPECT_THAT(Open(folder),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("train-*.safetensors")));
  EXPECT_THAT(OpenDataSource({"safetensors", "/nonexistent"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent")));
}

TEST(SafetensorsSource, CutShort) {
  Folder folder;
  WriteShard(folder, "train-0.safetensors", {.images_shape = {4, 2, 2}, .labels = {0, 0, 1, 1}});
  const std::string path = folder.path() + "/train-0.safetensors";
  TALLY_ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(path));
  folder.Write("train-0.safetensors", bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
}

}  // namespace
}  // namespace tally

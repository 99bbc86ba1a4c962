#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/data/idx_files.h"
#include "worker/data/data_source.h"

namespace tally {
namespace {

using ::tally::testing::Folder;
using ::tally::testing::Gzip;
using ::tally::testing::IdxBytes;
using ::tally::testing::Images;
using ::tally::testing::IsOk;
using ::tally::testing::Labels;
using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kTrainImages[] = "train-images-idx3-ubyte";
constexpr char kTrainLabels[] = "train-labels-idx1-ubyte";

auto Open(const Folder& folder) { return OpenDataSource({"idx", folder.path()}); }

void ExpectRows(const DataSource& source, RowSet rows) {
  TALLY_ASSERT_OK_AND_ASSIGN(auto reader, source.Read(Split::kTrain, rows));
  std::vector<char> pixels(source.info().example.bytes());
  uint32_t label = 0;
  for (uint64_t i = 0; i < rows.count; ++i) {
    const uint64_t row = rows.first + i * rows.step;
    TALLY_ASSERT_OK_AND_ASSIGN(const bool more, reader->Next(pixels.data(), &label));
    ASSERT_TRUE(more);
    EXPECT_EQ(label, row % 3);
    for (size_t k = 0; k < pixels.size(); ++k) {
      ASSERT_EQ(static_cast<uint8_t>(pixels[k]), (row + k) & 255);
    }
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const bool more, reader->Next(pixels.data(), &label));
  EXPECT_FALSE(more);
}

TEST(IdxSource, PlainFiles) {
  Folder folder;
  folder.WriteSplit("train", 11);
  folder.WriteSplit("t10k", 4, 5);
  TALLY_ASSERT_OK_AND_ASSIGN(auto source, Open(folder));
  EXPECT_EQ(source->info().example, (ExampleFormat{{1, 2, 3}, ElementType::kUint8}));
  EXPECT_EQ(source->info().train_examples, 11u);
  EXPECT_EQ(source->info().test_examples, 4u);
  EXPECT_EQ(source->info().classes, 4u);  // the largest label of either split is 3
  ExpectRows(*source, {0, 1, 11});
  ExpectRows(*source, {2, 4, 3});
  ExpectRows(*source, {2, 4, 3});  // a second pass begins anew
}

TEST(IdxSource, CompressedFilesAreStreamedTheSame) {
  Folder folder;
  folder.Write(std::string(kTrainImages) + ".gz", Gzip(Images(1000, 28, 28)));
  folder.Write(std::string(kTrainLabels) + ".gz", Gzip(Labels(1000, 3)));
  TALLY_ASSERT_OK_AND_ASSIGN(auto source, Open(folder));
  EXPECT_EQ(source->info().test_examples, 0u);
  ExpectRows(*source, {0, 1, 1000});
  ExpectRows(*source, {3, 7, 143});
}

TEST(IdxSource, FashionMnist) {
  const std::string path = "/usr/share/datasets/fashion-mnist";
  auto source = OpenDataSource({"idx", path});
  if (absl::IsNotFound(source.status())) GTEST_SKIP() << "package dataset-fashion-mnist is absent";
  TALLY_ASSERT_OK(source);
  EXPECT_EQ((*source)->info().train_examples, 60000u);
  EXPECT_EQ((*source)->info().test_examples, 10000u);
  EXPECT_EQ((*source)->info().classes, 10u);
  EXPECT_EQ(Describe((*source)->info().example), "1x28x28 uint8");
}

TEST(IdxSource, MissingFilesAreNamed) {
  Folder folder;
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kNotFound,
                                     AllOf(HasSubstr(folder.path()), HasSubstr(kTrainImages))));
  folder.Write(kTrainImages, Images(2, 2, 2));
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kNotFound, HasSubstr(kTrainLabels)));
}

TEST(IdxSource, HalfATestSplitIsRefused) {
  Folder folder;
  folder.WriteSplit("train", 2);
  folder.Write("t10k-images-idx3-ubyte", Images(2, 2, 3));
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kNotFound, HasSubstr("t10k-labels")));
}

TEST(IdxSource, CutShort) {
  Folder folder;
  folder.WriteSplit("train", 5);
  const std::string whole = Images(5, 2, 3);
  for (const size_t size : {size_t{0}, size_t{3}, size_t{15}, whole.size() - 1}) {
    folder.Write(kTrainImages, whole.substr(0, size));
    EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kDataLoss,
                                       AllOf(HasSubstr(kTrainImages), HasSubstr("cut short"))))
        << size;
  }
}

TEST(IdxSource, CompressedCutShort) {
  Folder folder;
  folder.Write(kTrainLabels, Labels(500, 3));
  const std::string whole = Gzip(Images(500, 28, 28));
  for (const size_t size : {whole.size() / 2, whole.size() - 1, whole.size() - 9, size_t{5}}) {
    folder.Write(std::string(kTrainImages) + ".gz", whole.substr(0, size));
    EXPECT_THAT(Open(folder),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("images-idx3-ubyte.gz"), HasSubstr("cut short"))))
        << size << " of " << whole.size();
  }
}

TEST(IdxSource, CompressedDamaged) {
  Folder folder;
  folder.Write(kTrainLabels, Labels(500, 3));
  std::string bytes = Gzip(Images(500, 28, 28));
  bytes[bytes.size() - 6] ^= 1;  // in the checksum
  folder.Write(std::string(kTrainImages) + ".gz", bytes);
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged gzip data")));
  folder.Write(std::string(kTrainImages) + ".gz", "plain text");
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("expected gzip data")));
}

TEST(IdxSource, TrailingBytes) {
  Folder folder;
  folder.WriteSplit("train", 5);
  folder.Write(kTrainImages, Images(5, 2, 3) + "x");
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more bytes")));
}

TEST(IdxSource, BadMagic) {
  Folder folder;
  folder.WriteSplit("train", 5);
  folder.Write(kTrainImages, Labels(5, 3));
  EXPECT_THAT(Open(folder),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("expected 00000803"), HasSubstr("found 00000801"))));
}

TEST(IdxSource, CountsDiffer) {
  Folder folder;
  folder.WriteSplit("train", 5);
  folder.Write(kTrainLabels, Labels(6, 3));
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr(kTrainLabels), HasSubstr("expected 5 labels"),
                                           HasSubstr("found 6"))));
}

TEST(IdxSource, NoRows) {
  Folder folder;
  folder.WriteSplit("train", 0);
  EXPECT_THAT(Open(folder),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 1 row")));
}

TEST(IdxSource, HugeExtentsDoNotOverflow) {
  Folder folder;
  folder.WriteSplit("train", 5);
  folder.Write(kTrainImages, IdxBytes({5, 0xffffffff, 0xffffffff}, ""));
  EXPECT_THAT(Open(folder), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^31 bytes")));
}

TEST(IdxSource, SplitsOfDifferentShape) {
  Folder folder;
  folder.WriteSplit("train", 5);
  folder.Write("t10k-images-idx3-ubyte", Images(2, 3, 2));
  folder.Write("t10k-labels-idx1-ubyte", Labels(2, 2));
  EXPECT_THAT(Open(folder),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("expected images of 2x3"), HasSubstr("found 3x2"))));
}

TEST(DataSource, UnknownFormat) {
  EXPECT_THAT(OpenDataSource({"csv", "/"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                     HasSubstr("idx, safetensors, found \"csv\"")));
}

}  // namespace
}  // namespace tally

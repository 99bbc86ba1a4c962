#include "common/checkpoint/safetensors.h"

#include <numeric>

#include "common/base/status_matchers.h"
#include "common/checkpoint/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"

namespace tally {
namespace {

using testing::StatusIs;
using testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TensorInfo Tensor(const std::string& name, std::vector<uint64_t> shape,
                  DType dtype = DType::kF32) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  return tensor;
}

std::vector<float> Iota(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::vector<float> Read(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* tensor = file.Find(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(tensor->elements());
  const absl::Status status = file.ReadAsFloat(*tensor, absl::MakeSpan(values));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

TEST(Safetensors, WritesExactlyTheFormat) {
  const TempFolder folder;
  const std::string path = folder.File("m.safetensors");
  TALLY_ASSERT_OK_AND_ASSIGN(const auto writer, SafetensorsWriter::Create(path, {Tensor("b", {1})}));
  TALLY_ASSERT_OK(writer->Append({1.0f}));
  TALLY_ASSERT_OK(writer->Finish());
  TALLY_ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(path));
  const std::string expected =
      std::string("\x38\0\0\0\0\0\0\0", 8) +
      R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})" + "  " +
      std::string("\0\0\x80\x3f", 4);
  EXPECT_EQ(bytes, expected);
  EXPECT_THAT(folder.Names(), ElementsAre("m.safetensors"));
}

TEST(Safetensors, DataKeepsTheCallersOrder) {
  const TempFolder folder;
  const std::string path = folder.File("m.safetensors");
  const std::vector<float> values = Iota(9);
  TALLY_ASSERT_OK_AND_ASSIGN(
      const auto writer,
      SafetensorsWriter::Create(path, {Tensor("z", {2, 2}), Tensor("a", {}), Tensor("m", {4})},
                                {{"round", "7"}, {"quote", "\"\n"}}));
  // Pieces that ignore the tensors' bounds.
  TALLY_ASSERT_OK(writer->Append(absl::MakeConstSpan(values).subspan(0, 3)));
  TALLY_ASSERT_OK(writer->Append(absl::MakeConstSpan(values).subspan(3)));
  TALLY_ASSERT_OK(writer->Finish());

  TALLY_ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path));
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "z");
  EXPECT_EQ(file->tensors()[1].name, "a");
  EXPECT_EQ(file->tensors()[2].name, "m");
  EXPECT_THAT(Read(*file, "z"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Read(*file, "a"), ElementsAre(5));
  EXPECT_THAT(Read(*file, "m"), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(file->metadata(), ElementsAre(Pair("quote", "\"\n"), Pair("round", "7")));
  EXPECT_EQ(file->Find("absent"), nullptr);
  EXPECT_EQ(file->data().size(), 36u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->data().data()) % 8, 0u);
}

TEST(Safetensors, NamesMayHoldAnythingPrintable) {
  const TempFolder folder;
  const std::string path = folder.File("m.safetensors");
  const std::string name = "module.\"weight\"/\\ é../x";
  TALLY_ASSERT_OK_AND_ASSIGN(const auto writer, SafetensorsWriter::Create(path, {Tensor(name, {0})}));
  TALLY_ASSERT_OK(writer->Finish());
  TALLY_ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path));
  EXPECT_NE(file->Find(name), nullptr);
}

TEST(Safetensors, IntegersAreListedButNotReadAsFloat) {
  const TempFolder folder;
  const std::string path = folder.File("m.safetensors");
  TALLY_ASSERT_OK_AND_ASSIGN(
      const auto writer, SafetensorsWriter::Create(path, {Tensor("n", {}, DType::kI64)}));
  TALLY_ASSERT_OK(writer->Append(absl::string_view("\3\0\0\0\0\0\0\0", 8)));
  TALLY_ASSERT_OK(writer->Finish());
  TALLY_ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path));
  float value = 0;
  EXPECT_THAT(file->ReadAsFloat(*file->Find("n"), absl::MakeSpan(&value, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor \"n\"")));
  EXPECT_EQ(file->Bytes(*file->Find("n"))[0], 3);
}

TEST(SafetensorsWriter, RefusesWhatCannotBeWritten) {
  const TempFolder folder;
  const std::string path = folder.File("m.safetensors");
  const auto create = [&](std::vector<TensorInfo> tensors) {
    return SafetensorsWriter::Create(path, std::move(tensors)).status();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(create({}), StatusIs(kInvalid, HasSubstr("at least one tensor")));
  EXPECT_THAT(create({Tensor("", {1})}), StatusIs(kInvalid, HasSubstr("an empty one")));
  EXPECT_THAT(create({Tensor("__metadata__", {1})}), StatusIs(kInvalid, HasSubstr("reserved")));
  EXPECT_THAT(create({Tensor(std::string("a\0", 2), {1})}), StatusIs(kInvalid, HasSubstr("NUL")));
  EXPECT_THAT(create({Tensor("\xff", {1})}), StatusIs(kInvalid, HasSubstr("UTF-8")));
  EXPECT_THAT(create({Tensor("a", {1}), Tensor("a", {1})}),
              StatusIs(kInvalid, HasSubstr("found it again")));
  EXPECT_THAT(create({Tensor("a", {uint64_t{1} << 62})}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2^63")));
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(SafetensorsWriter, UnfinishedLeavesNothingAndKeepsTheOldFile) {
  const TempFolder folder;
  const std::string path = folder.File("m.safetensors");
  TALLY_ASSERT_OK(WriteFileAtomically(path, "old"));
  {
    TALLY_ASSERT_OK_AND_ASSIGN(const auto writer,
                               SafetensorsWriter::Create(path, {Tensor("a", {2})}));
    TALLY_ASSERT_OK(writer->Append({1.0f}));
    EXPECT_THAT(writer->Finish(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("expected 4 more bytes")));
    EXPECT_THAT(writer->Append({1.0f, 2.0f}),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("at most 4 more bytes")));
  }
  EXPECT_THAT(folder.Names(), ElementsAre("m.safetensors"));
  EXPECT_THAT(*ReadFile(path), "old");
}

TEST(FlatSafetensorsWriter, BufferIsTheDataSection) {
  const TempFolder folder;
  const std::string path = folder.File("m.safetensors");
  TALLY_ASSERT_OK_AND_ASSIGN(
      const auto writer,
      FlatSafetensorsWriter::Create(path, {Tensor("b", {2, 3}), Tensor("a", {2})}));
  ASSERT_EQ(writer->data().size(), 8u);
  EXPECT_THAT(writer->data(), ::testing::Each(0.0f));
  for (size_t i = 0; i < 8; ++i) writer->data()[i] = static_cast<float>(i);
  TALLY_ASSERT_OK(writer->Finish());
  EXPECT_THAT(writer->data(), IsEmpty());
  EXPECT_THAT(writer->Finish(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("second call")));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path));
  EXPECT_THAT(Read(*file, "b"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Read(*file, "a"), ElementsAre(6, 7));
  EXPECT_THAT(folder.Names(), ElementsAre("m.safetensors"));
}

TEST(FlatSafetensorsWriter, RefusesOtherTypes) {
  const TempFolder folder;
  EXPECT_THAT(
      FlatSafetensorsWriter::Create(folder.File("m"), {Tensor("a", {2}, DType::kBF16)}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected F32, found BF16 [2]")));
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(FlatSafetensorsWriter, UnfinishedLeavesNothing) {
  const TempFolder folder;
  { TALLY_ASSERT_OK(FlatSafetensorsWriter::Create(folder.File("m"), {Tensor("a", {2})})); }
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(SafetensorsWriter, FolderThatIsNotThere) {
  EXPECT_THAT(SafetensorsWriter::Create("/nowhere/m.safetensors", {Tensor("a", {2})}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/m.safetensors")));
}

}  // namespace
}  // namespace tally

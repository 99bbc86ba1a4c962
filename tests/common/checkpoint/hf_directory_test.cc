#include "common/checkpoint/hf_directory.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
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

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::vector<TensorInfo> Tensors(const std::vector<std::pair<std::string, uint64_t>>& sizes) {
  std::vector<TensorInfo> tensors;
  for (const auto& [name, elements] : sizes) {
    tensors.emplace_back();
    tensors.back().name = name;
    tensors.back().shape = {elements};
  }
  return tensors;
}

// Tensors a (2), b (3), c (1) with the values 1 to 6.
absl::Status WriteModel(const std::string& path, HfWriterOptions options) {
  auto writer =
      HfDirectoryWriter::Create(path, Tensors({{"a", 2}, {"b", 3}, {"c", 1}}), std::move(options));
  if (!writer.ok()) return writer.status();
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 1.0f);
  const absl::Status status = (*writer)->Append(values);
  return status.ok() ? (*writer)->Finish() : status;
}

std::vector<float> Read(const CheckpointReader& reader, const std::string& name) {
  const TensorInfo* tensor = reader.Find(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(tensor->elements());
  const absl::Status status = reader.ReadAsFloat(*tensor, absl::MakeSpan(values));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class HfDirectory : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& contents) {
    TALLY_ASSERT_OK(WriteFileAtomically(folder_.File(name), contents));
  }
  // A directory of three shards: a, b and c.
  void WriteSharded() {
    TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {.max_shard_bytes = 8}));
  }
  void WriteIndex(const std::string& weight_map) {
    Write("m/model.safetensors.index.json", absl::StrCat(R"({"weight_map":)", weight_map, "}"));
  }
  void ExpectRefused(const std::string& reason) {
    EXPECT_THAT(CheckpointReader::Open(folder_.File("m")), StatusIs(kInvalid, HasSubstr(reason)));
  }

  TempFolder folder_;
};

TEST_F(HfDirectory, SingleFileComesBack) {
  TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {.config_json = R"({"architecture":"mlp"})",
                                                 .extra_files = {{"training.json", "{}"}}}));
  EXPECT_THAT(folder_.Names(), ElementsAre("m"));
  EXPECT_THAT(NamesIn(folder_.File("m")),
              ElementsAre("config.json", "model.safetensors", "training.json"));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto reader, CheckpointReader::Open(folder_.File("m")));
  EXPECT_EQ(reader->config_json(), R"({"architecture":"mlp"})");
  ASSERT_EQ(reader->tensors().size(), 3u);
  EXPECT_THAT(Read(*reader, "a"), ElementsAre(1, 2));
  EXPECT_THAT(Read(*reader, "b"), ElementsAre(3, 4, 5));
  EXPECT_THAT(Read(*reader, "c"), ElementsAre(6));
  EXPECT_EQ(reader->Find("d"), nullptr);
}

TEST_F(HfDirectory, ShardsComeBack) {
  WriteSharded();
  EXPECT_THAT(NamesIn(folder_.File("m")),
              ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors", "model.safetensors.index.json"));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto reader, CheckpointReader::Open(folder_.File("m")));
  EXPECT_EQ(reader->config_json(), "");
  EXPECT_THAT(Read(*reader, "a"), ElementsAre(1, 2));
  EXPECT_THAT(Read(*reader, "b"), ElementsAre(3, 4, 5));
  EXPECT_THAT(Read(*reader, "c"), ElementsAre(6));
  TALLY_ASSERT_OK_AND_ASSIGN(const std::string index,
                             ReadFile(folder_.File("m/model.safetensors.index.json")));
  EXPECT_EQ(index, R"({
  "metadata": {
    "total_size": 24
  },
  "weight_map": {
    "a": "model-00001-of-00003.safetensors",
    "b": "model-00002-of-00003.safetensors",
    "c": "model-00003-of-00003.safetensors"
  }
}
)");
}

TEST_F(HfDirectory, SmallTensorsShareAShard) {
  TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {.max_shard_bytes = 20}));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto reader, CheckpointReader::Open(folder_.File("m")));
  EXPECT_THAT(NamesIn(folder_.File("m")),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
}

TEST_F(HfDirectory, LoneFileIsACheckpoint) {
  TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {}));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto reader,
                             CheckpointReader::Open(folder_.File("m/model.safetensors")));
  EXPECT_EQ(reader->tensors().size(), 3u);
}

TEST_F(HfDirectory, NeitherFileNorIndex) {
  TALLY_ASSERT_OK(MakeFolders(folder_.File("m")));
  EXPECT_THAT(CheckpointReader::Open(folder_.File("m")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("found neither")));
  EXPECT_THAT(CheckpointReader::Open(folder_.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_.File("none"))));
}

TEST_F(HfDirectory, BothFileAndIndex) {
  WriteSharded();
  Write("m/model.safetensors", "x");
  ExpectRefused("found both");
}

TEST_F(HfDirectory, BadConfig) {
  TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {}));
  Write("m/config.json", R"({"a":1,"a":2})");
  ExpectRefused("m/config.json: expected each key once");
  Write("m/config.json", "[]");
  ExpectRefused("m/config.json: expected a JSON object");
}

TEST_F(HfDirectory, IndexNamesAMissingShard) {
  WriteSharded();
  TALLY_ASSERT_OK(RemoveTree(folder_.File("m/model-00002-of-00003.safetensors")));
  EXPECT_THAT(CheckpointReader::Open(folder_.File("m")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("model-00002-of-00003.safetensors")));
}

TEST_F(HfDirectory, IndexNamesATensorThatIsNotThere) {
  WriteSharded();
  WriteIndex(R"({"a":"model-00001-of-00003.safetensors","x":"model-00001-of-00003.safetensors"})");
  ExpectRefused(R"(tensor "x": expected it in model-00001-of-00003.safetensors)");
}

TEST_F(HfDirectory, ShardHoldsATensorThatTheIndexDoesNotName) {
  TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {.max_shard_bytes = 20}));
  WriteIndex(R"({"a":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"})");
  ExpectRefused(R"(tensor "b" of model-00001-of-00002.safetensors)");
}

TEST_F(HfDirectory, IndexThatLeavesTheFolder) {
  WriteSharded();
  for (const char* shard : {"../x.safetensors", "/etc/passwd", "..", "", "a/b", "x\\u0000"}) {
    WriteIndex(absl::StrCat(R"({"a":")", shard, "\"}"));
    ExpectRefused("expected the name of a file in the same folder");
  }
}

TEST_F(HfDirectory, IndexThatRepeatsATensor) {
  WriteSharded();
  WriteIndex(R"({"a":"model-00001-of-00003.safetensors","a":"model-00002-of-00003.safetensors"})");
  ExpectRefused("expected each key once");
}

TEST_F(HfDirectory, IndexWithoutTensors) {
  WriteSharded();
  WriteIndex("{}");
  ExpectRefused("expected a weight_map with tensors");
  WriteIndex("{\"a\":1}");
  ExpectRefused("found 1");
}

TEST_F(HfDirectory, OccupiedTargetIsRefused) {
  Write("m", "a file");
  EXPECT_THAT(WriteModel(folder_.File("m"), {.replace_existing = true}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("another kind of file")));
  TALLY_ASSERT_OK(RemoveTree(folder_.File("m")));
  TALLY_ASSERT_OK(MakeFolders(folder_.File("m/sub")));
  EXPECT_THAT(WriteModel(folder_.File("m"), {}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a folder with files")));
  EXPECT_THAT(folder_.Names(), ElementsAre("m"));
}

TEST_F(HfDirectory, SymbolicLinkAsTargetIsRefused) {
  TALLY_ASSERT_OK(MakeFolders(folder_.File("elsewhere")));
  std::filesystem::create_directory_symlink(folder_.File("elsewhere"), folder_.File("m"));
  EXPECT_THAT(WriteModel(folder_.File("m"), {.replace_existing = true}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("another kind of file")));
  EXPECT_THAT(NamesIn(folder_.File("elsewhere")), IsEmpty());
}

TEST_F(HfDirectory, EmptyTargetIsFilled) {
  TALLY_ASSERT_OK(MakeFolders(folder_.File("m")));
  TALLY_EXPECT_OK(WriteModel(folder_.File("m") + "/", {}));
  EXPECT_THAT(folder_.Names(), ElementsAre("m"));
}

TEST_F(HfDirectory, ReplacesWhenTold) {
  TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {.extra_files = {{"old.txt", "x"}}}));
  TALLY_ASSERT_OK(WriteModel(folder_.File("m"), {.replace_existing = true}));
  EXPECT_THAT(folder_.Names(), ElementsAre("m"));
  EXPECT_THAT(NamesIn(folder_.File("m")), ElementsAre("model.safetensors"));
}

TEST_F(HfDirectory, UnfinishedLeavesNothing) {
  {
    TALLY_ASSERT_OK_AND_ASSIGN(
        const auto writer,
        HfDirectoryWriter::Create(folder_.File("m"), Tensors({{"a", 2}}), {.config_json = "{}"}));
    TALLY_ASSERT_OK(writer->Append({1.0f}));
    EXPECT_THAT(writer->Finish(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("expected all tensors' data")));
  }
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_F(HfDirectory, TooMuchData) {
  TALLY_ASSERT_OK_AND_ASSIGN(
      const auto writer, HfDirectoryWriter::Create(folder_.File("m"), Tensors({{"a", 1}}), {}));
  EXPECT_THAT(writer->Append({1.0f, 2.0f}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("found 4 bytes")));
}

TEST_F(HfDirectory, BadOptions) {
  EXPECT_THAT(WriteModel(folder_.File("m"), {.config_json = "x"}),
              StatusIs(kInvalid, HasSubstr("config.json")));
  for (const char* name : {"../x", "config.json", "model.safetensors", "a/b", ""}) {
    EXPECT_THAT(WriteModel(folder_.File("m"), {.extra_files = {{name, "x"}}}),
                StatusIs(kInvalid, HasSubstr("expected the name of an extra file")))
        << name;
  }
  EXPECT_THAT(WriteModel("", {}), StatusIs(kInvalid, HasSubstr("expected the path of a folder")));
  EXPECT_THAT(WriteModel("/", {}), StatusIs(kInvalid, HasSubstr("below the root")));
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_F(HfDirectory, ParentMustExist) {
  EXPECT_THAT(WriteModel(folder_.File("none/m"), {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none/m")));
}

// Real checkpoints, where the data is at hand.
class RealCheckpoint : public ::testing::Test {
 protected:
  void Open(const std::string& name) {
    const char* data = std::getenv("TALLY_SHARED_DATA");
    const std::string path = absl::StrCat(data == nullptr ? "" : data, "/", name);
    if (data == nullptr || !std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
    TALLY_ASSERT_OK_AND_ASSIGN(reader_, CheckpointReader::Open(path));
  }
  uint64_t Elements() const {
    uint64_t elements = 0;
    for (const TensorInfo& tensor : reader_->tensors()) elements += tensor.elements();
    return elements;
  }

  std::unique_ptr<CheckpointReader> reader_;
};

TEST_F(RealCheckpoint, ResNet20) {
  Open("resnet20-cifar10");
  if (reader_ == nullptr) return;
  EXPECT_EQ(reader_->tensors().size(), 97u);
  EXPECT_EQ(Elements(), 271098u);
}

TEST_F(RealCheckpoint, VitRewrittenIsByteForByteTheSame) {
  Open("vit-mnist");
  if (reader_ == nullptr) return;
  EXPECT_EQ(reader_->tensors().size(), 74u);
  EXPECT_EQ(Elements(), 499722u);
  const TempFolder folder;
  TALLY_ASSERT_OK_AND_ASSIGN(
      const auto writer, HfDirectoryWriter::Create(folder.File("m"), reader_->tensors(),
                                                   {.config_json = reader_->config_json()}));
  for (const TensorInfo& tensor : reader_->tensors()) {
    TALLY_ASSERT_OK(writer->Append(reader_->Bytes(tensor)));
  }
  TALLY_ASSERT_OK(writer->Finish());
  for (const char* file : {"model.safetensors", "config.json"}) {
    EXPECT_EQ(*ReadFile(absl::StrCat(folder.File("m/"), file)),
              *ReadFile(absl::StrCat(reader_->path(), "/", file)))
        << file;
  }
}

}  // namespace
}  // namespace tally

#include "server/ledger/snapshot.h"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "common/checkpoint/hf_directory.h"
#include "common/layout/chunk_grid.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/ledger/real_rounds.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::RandomFloats;
using testing::SmallLayout;
using testing::StatusIs;
using testing::TestFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kConfig[] = "{\"architectures\": [\"mlp\"]}";

class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotStore OpenStore(Layout layout) const {
    auto store = SnapshotStore::Open(folder_ / "snapshots", std::move(layout));
    EXPECT_THAT(store, testing::IsOk());
    return *std::move(store);
  }
  std::vector<float> Parameters(uint64_t round) const {
    return RandomFloats(layout_.size(), round + 1);
  }
  std::vector<float> Slot(uint64_t round, uint64_t slot) const {
    return RandomFloats(layout_.size(), round * 100 + slot + 50);
  }
  void Write(uint64_t round, uint64_t slots = 0) {
    std::vector<std::vector<float>> state;
    for (uint64_t slot = 0; slot < slots; ++slot) state.push_back(Slot(round, slot));
    const std::vector<absl::Span<const float>> spans(state.begin(), state.end());
    TALLY_ASSERT_OK(store_.Write(round, Parameters(round), spans, kConfig));
  }
  std::string File(uint64_t round, const std::string& name) const {
    return absl::StrCat(store_.PathOf(round), "/", name);
  }
  void CutShort(const std::string& path) const {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  }
  void ExpectSame(const Snapshot& snapshot, uint64_t round, uint64_t slots) const {
    EXPECT_EQ(snapshot.round(), round);
    EXPECT_EQ(snapshot.parameters(), absl::MakeConstSpan(Parameters(round)));
    EXPECT_EQ(snapshot.parameters_digest(), ParametersDigest(layout_, Parameters(round)));
    EXPECT_EQ(snapshot.config_json(), kConfig);
    ASSERT_EQ(snapshot.state().size(), slots);
    for (uint64_t slot = 0; slot < slots; ++slot) {
      EXPECT_EQ(snapshot.state()[slot], absl::MakeConstSpan(Slot(round, slot)));
    }
  }
  void ExpectDataLoss(uint64_t round, const std::string& why) const {
    EXPECT_THAT(store_.Open(round), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(why)));
  }

  TestFolder folder_;
  const Layout layout_ = SmallLayout();
  SnapshotStore store_ = OpenStore(layout_);
};

TEST_F(SnapshotTest, ReadsWhatWasWritten) {
  for (uint64_t slots = 0; slots <= 2; ++slots) {
    Write(slots * 10, slots);
    TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store_.Open(slots * 10));
    ExpectSame(*snapshot, slots * 10, slots);
  }
}

TEST_F(SnapshotTest, IsAHuggingFaceDirectory) {
  Write(7, 1);
  TALLY_ASSERT_OK_AND_ASSIGN(const auto model, CheckpointReader::Open(store_.PathOf(7)));
  EXPECT_EQ(model->config_json(), kConfig);
  ASSERT_EQ(model->tensors().size(), layout_.tensors().size());
  const std::vector<float> parameters = Parameters(7);
  for (const LayoutTensor& tensor : layout_.tensors()) {
    const TensorInfo* found = model->Find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(model->Bytes(*found),
              absl::string_view(reinterpret_cast<const char*>(&parameters[tensor.first]),
                                tensor.count * sizeof(float)));
  }
}

TEST_F(SnapshotTest, KeepsEveryBit) {
  std::vector<float> parameters = Parameters(1);
  parameters[0] = -0.0f;
  parameters[1] = 1e-45f;
  const uint32_t signalling = 0x7fa12345;
  std::memcpy(&parameters[2], &signalling, sizeof signalling);
  TALLY_ASSERT_OK(store_.Write(1, parameters, {}, kConfig));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store_.Open(1));
  EXPECT_EQ(std::memcmp(snapshot->parameters().data(), parameters.data(),
                        parameters.size() * sizeof(float)),
            0);
}

TEST_F(SnapshotTest, ListIsAscending) {
  EXPECT_THAT(*store_.List(), IsEmpty());
  for (const uint64_t round : {30, 0, 200}) Write(round);
  TALLY_ASSERT_OK(MakeFolders(folder_ / "snapshots/7"));        // not a snapshot's name
  TALLY_ASSERT_OK(MakeFolders(folder_ / "snapshots/unrelated"));
  EXPECT_THAT(*store_.List(), ElementsAre(0, 30, 200));
}

TEST_F(SnapshotTest, LatestAtOrBefore) {
  for (const uint64_t round : {0, 10, 20}) Write(round);
  EXPECT_EQ((*store_.Latest())->round(), 20u);
  EXPECT_EQ((*store_.Latest(20))->round(), 20u);
  EXPECT_EQ((*store_.Latest(19))->round(), 10u);
  EXPECT_EQ((*store_.Latest(9))->round(), 0u);
}

TEST_F(SnapshotTest, NoSnapshotIsNotFound) {
  EXPECT_THAT(store_.Latest(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no whole")));
  Write(5);
  EXPECT_THAT(store_.Latest(4), StatusIs(absl::StatusCode::kNotFound, HasSubstr("up to 4")));
  EXPECT_THAT(store_.Open(4), StatusIs(absl::StatusCode::kNotFound, HasSubstr("round 4")));
}

TEST_F(SnapshotTest, RemovedSnapshotStaysReadableWhereItIsOpen) {
  Write(5, 1);
  TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store_.Open(5));
  TALLY_ASSERT_OK(store_.Remove(5));
  EXPECT_THAT(*store_.List(), IsEmpty());
  ExpectSame(*snapshot, 5, 1);
  TALLY_EXPECT_OK(store_.Remove(5));
}

TEST_F(SnapshotTest, ACopyOutlivesTheFirst) {
  Write(5, 1);
  auto first = store_.Open(5);
  TALLY_ASSERT_OK(first);
  const Snapshot copy = **first;
  first->reset();
  ExpectSame(copy, 5, 1);
  EXPECT_EQ(copy.chunk_digests(), DenseChunkDigests(layout_, Parameters(5)));
}

TEST_F(SnapshotTest, ARemovalThatACrashCutShortIsFinishedAtOpen) {
  Write(5);
  const std::string left_over = folder_ / "snapshots/.tmp.gone.0000000005";
  std::filesystem::copy(store_.PathOf(5), left_over);
  TALLY_ASSERT_OK(store_.Remove(5));
  EXPECT_FALSE(std::filesystem::exists(left_over));
  std::filesystem::create_directory(left_over);
  OpenStore(layout_);
  EXPECT_FALSE(std::filesystem::exists(left_over));
}

TEST_F(SnapshotTest, OpeningToReadTouchesNothing) {
  Write(5);
  const std::string at_work = folder_ / "snapshots/.tmp.0000000006";
  std::filesystem::create_directory(at_work);
  const SnapshotStore reader = SnapshotStore::OpenToRead(folder_ / "snapshots", layout_);
  EXPECT_THAT(*reader.List(), ElementsAre(5));
  EXPECT_EQ((*reader.Latest())->round(), 5u);
  EXPECT_TRUE(std::filesystem::exists(at_work));
}

TEST_F(SnapshotTest, TakesTheDigestThatTheCallerHas) {
  TALLY_ASSERT_OK(store_.Write(5, Parameters(5), {}, kConfig,
                               ParametersDigest(layout_, Parameters(5))));
  ExpectSame(**store_.Open(5), 5, 0);
  TALLY_ASSERT_OK(store_.Write(6, Parameters(6), {}, kConfig, 1));  // and believes it
  ExpectDataLoss(6, "tally.parameters_digest");
}

TEST_F(SnapshotTest, WritingAgainReplaces) {
  Write(5, 2);
  const std::vector<float> other = RandomFloats(layout_.size(), 999);
  TALLY_ASSERT_OK(store_.Write(5, other, {}, kConfig));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store_.Open(5));
  EXPECT_EQ(snapshot->parameters(), absl::MakeConstSpan(other));
  EXPECT_THAT(snapshot->state(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(File(5, "state.safetensors")));
}

TEST_F(SnapshotTest, WritingTheSameAgainChangesNothingOnTheDisk) {
  Write(5, 1);
  const auto written = std::filesystem::last_write_time(File(5, "model.safetensors"));
  Write(5, 1);
  EXPECT_EQ(std::filesystem::last_write_time(File(5, "model.safetensors")), written);
}

TEST_F(SnapshotTest, WritingReplacesADamagedOne) {
  Write(5);
  CutShort(File(5, "model.safetensors"));
  Write(5);
  TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store_.Open(5));
  ExpectSame(*snapshot, 5, 0);
}

TEST_F(SnapshotTest, WrongSizesAreRefused) {
  const std::vector<float> one_more(layout_.size() + 1);
  EXPECT_THAT(store_.Write(1, one_more, {}, kConfig),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parameters")));
  EXPECT_THAT(store_.Write(1, Parameters(1), {absl::MakeConstSpan(one_more)}, kConfig),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("state")));
  EXPECT_THAT(*store_.List(), IsEmpty());
}

TEST_F(SnapshotTest, LeftOversAreRemovedAtOpen) {
  Write(5);
  const std::string left_over = folder_ / "snapshots/.tmp.0000000006";
  std::filesystem::copy(store_.PathOf(5), left_over);
  EXPECT_THAT(*store_.List(), ElementsAre(5));
  OpenStore(layout_);
  EXPECT_FALSE(std::filesystem::exists(left_over));
  EXPECT_THAT(*store_.List(), ElementsAre(5));
}

TEST_F(SnapshotTest, AnotherLayoutIsRefusedAndNotSkipped) {
  Write(5);
  LayoutBuilder builder;
  builder.AddBlock("b").AddTensor("w", {3});
  const SnapshotStore other = OpenStore(*builder.Build());
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(other.Open(5), StatusIs(kRefused, HasSubstr("layout")));
  EXPECT_THAT(other.Latest(), StatusIs(kRefused, HasSubstr("layout")));
}

TEST_F(SnapshotTest, NewestCutShortIsSkipped) {
  for (const uint64_t round : {10, 20, 30}) Write(round, 1);
  CutShort(File(30, "model.safetensors"));
  ExpectDataLoss(30, "model.safetensors");
  CutShort(File(20, "state.safetensors"));
  ExpectDataLoss(20, "state.safetensors");
  TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store_.Latest());
  ExpectSame(*snapshot, 10, 1);
}

TEST_F(SnapshotTest, CutAnywhereIsFound) {
  Write(5);
  const std::string path = File(5, "model.safetensors");
  TALLY_ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(path));
  for (size_t size = 0; size < whole.size(); size += 7) {
    testing::Overwrite(path, whole.substr(0, size));
    ExpectDataLoss(5, "model.safetensors");
  }
}

TEST_F(SnapshotTest, CorruptParameters) {
  Write(5);
  const std::string path = File(5, "model.safetensors");
  std::string bytes = *ReadFile(path);
  bytes.back() ^= 1;
  testing::Overwrite(path, bytes);
  ExpectDataLoss(5, "tally.parameters_digest");
}

TEST_F(SnapshotTest, CorruptState) {
  Write(5, 2);
  const std::string path = File(5, "state.safetensors");
  std::string bytes = *ReadFile(path);
  bytes.back() ^= 1;
  testing::Overwrite(path, bytes);
  ExpectDataLoss(5, "tally.state_digest");
}

TEST_F(SnapshotTest, MissingFiles) {
  Write(5, 1);
  std::filesystem::remove(File(5, "state.safetensors"));
  ExpectDataLoss(5, "state.safetensors");
  std::filesystem::remove(File(5, "model.safetensors"));
  ExpectDataLoss(5, "model.safetensors");
}

TEST_F(SnapshotTest, RenamedToAnotherRound) {
  Write(5);
  std::filesystem::rename(store_.PathOf(5), store_.PathOf(6));
  ExpectDataLoss(6, "tally.round: expected 6, found 5");
}

}  // namespace
}  // namespace tally

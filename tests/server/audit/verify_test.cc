#include "server/audit/verify.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/base/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"
#include "tests/server/audit/test_job.h"
#include "tests/server/ledger/file_size_limit.h"

namespace tally {
namespace {

using testing::IsOk;
using testing::Overwrite;
using testing::StatusIs;
using testing::TestJob;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// All reports of a run together.
struct Verified {
  absl::Status status;
  v1::VerifyProgress last;
  std::vector<v1::Difference> differences;
  int reports = 0;
};

Verified Verify(const TestJob& job, std::optional<uint64_t> from = {}, uint64_t expected_step = 0) {
  Verified result;
  result.status = VerifyJobFolder(
      {"job-7", job.path(), from, expected_step}, [&](const v1::VerifyProgress& progress) {
        result.last = progress;
        ++result.reports;
        result.differences.insert(result.differences.end(), progress.differences().begin(),
                                  progress.differences().end());
        return true;
      });
  EXPECT_EQ(result.last.difference_count(), result.differences.size());
  return result;
}

MATCHER_P3(DiffersAt, round, block, source, "") {
  return arg.round() == static_cast<uint64_t>(round) && arg.block() == block &&
         arg.source() == source && arg.problem().empty() && arg.expected() != arg.found();
}
MATCHER_P3(ProblemAt, round, source, words, "") {
  *result_listener << arg.ShortDebugString();
  return arg.round() == static_cast<uint64_t>(round) && arg.source() == source &&
         arg.problem().find(words) != std::string::npos;
}

std::vector<std::string> Segments(const TestJob& job) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(job / "ledger")) {
    names.push_back("ledger/" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

uint64_t FirstRound(const std::string& segment) {
  return *ParseSegmentName(segment.substr(std::string("ledger/").size()));
}

// The second record of a segment's file.
struct RecordAt {
  uint64_t offset;
  RecordHead head;
};
RecordAt SecondRecord(absl::string_view bytes) {
  const auto first = DecodeRecordHead(bytes.substr(kSegmentHeaderBytes));
  EXPECT_THAT(first, IsOk());
  const uint64_t offset = kSegmentHeaderBytes + first->length;
  const auto second = DecodeRecordHead(bytes.substr(offset));
  EXPECT_THAT(second, IsOk());
  return {offset, *second};
}

TEST(VerifyTest, AllEqual) {
  const TestJob job;
  const Verified result = Verify(job, {}, TestJob::StepOf(TestJob::kRounds));
  TALLY_ASSERT_OK(result.status);
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_TRUE(result.last.done());
  EXPECT_EQ(result.last.first_round(), 0u);
  EXPECT_EQ(result.last.last_round(), 42u);
  EXPECT_EQ(result.last.round(), 42u);
  EXPECT_EQ(result.last.worker_digests(), 16u);
  EXPECT_EQ(result.last.snapshot_digests(), 4u);
  EXPECT_EQ(result.last.parameters_digest(), DigestToString(job.digests()[42]));
  EXPECT_GT(result.reports, 3);
}

TEST(VerifyTest, FromASnapshot) {
  const TestJob job;
  const Verified result = Verify(job, 29);
  TALLY_ASSERT_OK(result.status);
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_EQ(result.last.first_round(), 20u);
  EXPECT_EQ(result.last.worker_digests(), 10u);
  EXPECT_EQ(result.last.snapshot_digests(), 2u);
}

TEST(VerifyTest, WhileTheJobGoesOn) {
  TestJob job(20);
  auto store = SnapshotStore::Open(job / "snapshots", job.layout());
  TALLY_ASSERT_OK(store);
  std::vector<v1::VerifyProgress> reports;
  TALLY_ASSERT_OK(VerifyJobFolder({"job-7", job.path()}, [&](const v1::VerifyProgress& progress) {
    if (reports.empty()) {
      for (uint64_t round = 21; round <= 30; ++round) job.AddRound(round, *store);
    }
    reports.push_back(progress);
    return true;
  }));
  EXPECT_EQ(reports.back().last_round(), 20u);
  EXPECT_EQ(reports.back().difference_count(), 0u);
  EXPECT_EQ(reports.back().parameters_digest(), DigestToString(job.digests()[20]));
}

TEST(VerifyTest, ARoundThatIsBeingWrittenIsNoDifference) {
  const TestJob job;
  const std::string last = Segments(job).back();
  std::string bytes = *ReadFile(job / last);
  for (const size_t cut : {size_t{1}, size_t{9}, size_t{500}}) {
    Overwrite(job / last, bytes.substr(0, bytes.size() - cut));
    const Verified result = Verify(job);
    TALLY_ASSERT_OK(result.status);
    EXPECT_THAT(result.differences, IsEmpty());
    EXPECT_EQ(result.last.last_round(), 41u);
  }
}

TEST(VerifyTest, ALedgerThatEndsTooEarly) {
  const TestJob job;
  std::string bytes = *ReadFile(job / Segments(job).back());
  Overwrite(job / Segments(job).back(), bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(Verify(job, {}, TestJob::StepOf(42)).differences,
              ElementsAre(ProblemAt(42, "ledger", "ends with training round 31, but the job has "
                                                  "done 32")));
}

TEST(VerifyTest, FlipInASnapshotsSecondBlock) {
  TestJob job;
  // The data section ends the file: 521 floats, block 1 is those from 300 to 499.
  job.Flip("snapshots/0000000020/model.safetensors", -int64_t{521 - 400} * 4);
  const Verified result = Verify(job);
  TALLY_ASSERT_OK(result.status);
  EXPECT_THAT(result.differences, ElementsAre(DiffersAt(20, "layer", "snapshot")));
  EXPECT_EQ(result.last.snapshot_digests(), 4u);
  EXPECT_EQ(result.last.round(), 42u);
}

TEST(VerifyTest, FlipInASnapshotsState) {
  TestJob job;
  job.Flip("snapshots/0000000020/state.safetensors", -int64_t{521 - 10} * 4);
  EXPECT_THAT(Verify(job).differences,
              ElementsAre(ProblemAt(20, "snapshot", "slot.0 differs")));
  EXPECT_EQ(Verify(job).differences[0].block(), "embeddings");
}

TEST(VerifyTest, ASnapshotThatIsCutOrSaysSomethingElse) {
  TestJob job;
  const std::string name = "snapshots/0000000030/model.safetensors";
  const std::string bytes = *ReadFile(job / name);
  Overwrite(job / name, bytes.substr(0, bytes.size() - 4));
  EXPECT_THAT(Verify(job).differences, ElementsAre(ProblemAt(30, "snapshot", "model.safetensors")));
  EXPECT_EQ(Verify(job).differences[0].problem().find(job.path()), std::string::npos);
  std::string lies = bytes;
  const std::string key = "\"tally.parameters_digest\":\"";
  char& digit = lies[lies.find(key) + key.size()];
  digit = digit == '0' ? '1' : '0';
  Overwrite(job / name, lies);
  EXPECT_THAT(Verify(job).differences,
              ElementsAre(ProblemAt(30, "snapshot", "tally.parameters_digest: expected")));
}

// There is nothing before it to compare it with, block by block; the replay begins after it.
TEST(VerifyTest, FlipInTheFirstSnapshot) {
  TestJob job;
  job.Flip("snapshots/0000000000/model.safetensors", -4);
  const Verified result = Verify(job);
  TALLY_ASSERT_OK(result.status);
  EXPECT_THAT(result.differences, ElementsAre(ProblemAt(0, "snapshot", "parameters_digest")));
  EXPECT_EQ(result.last.first_round(), 10u);
  EXPECT_EQ(result.last.round(), 42u);
}

TEST(VerifyTest, FlippedPayloadByte) {
  TestJob job;
  const std::string segment = Segments(job)[2];
  const uint64_t first = FirstRound(segment);
  const RecordAt second = SecondRecord(*ReadFile(job / segment));
  ASSERT_NE(second.head.round % 4, 0u) << "the test wants a training round";
  // The payload of the head's one parameter, a float in a chunk of its own, is the last.
  job.Flip(segment, static_cast<int64_t>(second.offset + second.head.length - kDigestBytes - 1));
  const Verified result = Verify(job);
  TALLY_ASSERT_OK(result.status);
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_THAT(result.differences[0], ProblemAt(first + 1, "ledger", segment + ": at offset "));
  EXPECT_EQ(result.differences[0].block(), "head");
  EXPECT_THAT(result.differences[0].problem(), HasSubstr("chunk 5: expected digest"));
  EXPECT_EQ(result.last.round(), first);
  EXPECT_TRUE(result.last.parameters_digest().empty());
  EXPECT_TRUE(result.last.done());
}

TEST(VerifyTest, FlippedPayloadByteInTheLastRound) {
  TestJob job;
  job.Flip(Segments(job).back(), -20);
  EXPECT_THAT(Verify(job).differences, ElementsAre(ProblemAt(42, "ledger", "chunk 5: expected digest")));
}

TEST(VerifyTest, FlippedHead) {
  TestJob job;
  const std::string segment = Segments(job)[1];
  job.Flip(segment, kSegmentHeaderBytes + 17);
  EXPECT_THAT(Verify(job).differences,
              ElementsAre(ProblemAt(FirstRound(segment), "ledger", segment + ": at offset 40")));
}

TEST(VerifyTest, FlippedSegmentHeader) {
  TestJob job;
  const std::string segment = Segments(job)[1];
  job.Flip(segment, 3);
  EXPECT_THAT(Verify(job).differences,
              ElementsAre(ProblemAt(FirstRound(segment), "ledger", segment + ": segment header")));
}

// A record that is whole and right in itself, but not what the workers made.
TEST(VerifyTest, AForgedRoundBreaksTheHistoryAndDiffers) {
  TestJob job;
  const std::string segment = Segments(job).back();
  std::string bytes = *ReadFile(job / segment);
  const RecordAt second = SecondRecord(bytes);
  const absl::string_view record =
      absl::string_view(bytes).substr(second.offset, second.head.length);
  auto parsed = ParseRecord(record);
  TALLY_ASSERT_OK(parsed);
  std::vector<Bytes> payloads;
  std::vector<uint64_t> digests;
  for (const ByteSpan payload : parsed->aggregates) {
    payloads.emplace_back(payload.begin(), payload.end());
  }
  for (size_t i = 19; i < payloads.at(1).size(); i += 4) payloads[1][i] ^= 0x80;  // signs of floats
  for (const Bytes& payload : payloads) {
    digests.push_back(Digest64(payload.data(), payload.size()));
  }
  parsed->closed.set_digest(DigestOfChunks(digests));
  const auto forged = EncodeRecord(parsed->spec, parsed->closed,
                                   std::vector<ByteSpan>(payloads.begin(), payloads.end()),
                                   second.head.synced);
  TALLY_ASSERT_OK(forged);
  std::string whole = forged->front;
  for (const Bytes& payload : payloads) whole.append(payload.begin(), payload.end());
  whole += forged->back;
  ASSERT_EQ(whole.size(), record.size());
  bytes.replace(second.offset, whole.size(), whole);
  Overwrite(job / segment, bytes);
  const Verified result = Verify(job);
  TALLY_ASSERT_OK(result.status);
  ASSERT_GE(result.differences.size(), 1u);
  EXPECT_THAT(result.differences[0], ProblemAt(second.head.round, "ledger", "a break in the history"));
  EXPECT_EQ(result.last.round(), 42u);
  EXPECT_NE(result.last.parameters_digest(), DigestToString(job.digests()[42]));
}

TEST(VerifyTest, ChangedReport) {
  TestJob job;
  // Of round 15: a digest of the third block differs, and the record is whole.
  const size_t record = DigestRecordBytes(4);
  std::string bytes = *ReadFile(job / kDigestLogFile);
  const ReportedDigest report = DigestLogReader::Open(job.path(), job.layout())->Of(15)[1];
  ReportedDigest other = report;
  ++other.parameters;
  ++other.blocks[2];
  bytes.replace(kDigestLogHeaderBytes + 5 * record, record, EncodeDigestRecord(other, 4));
  Overwrite(job / kDigestLogFile, bytes);
  EXPECT_THAT(Verify(job).differences, ElementsAre(DiffersAt(15, "head", "bob")));
  // Only the whole one.
  other.blocks = report.blocks;
  bytes.replace(kDigestLogHeaderBytes + 5 * record, record, EncodeDigestRecord(other, 4));
  Overwrite(job / kDigestLogFile, bytes);
  EXPECT_THAT(Verify(job).differences, ElementsAre(DiffersAt(15, "", "bob")));
}

TEST(VerifyTest, DamagedReport) {
  TestJob job;
  job.Flip(kDigestLogFile, kDigestLogHeaderBytes + 5 * DigestRecordBytes(4) + 30);
  const Verified result = Verify(job);
  EXPECT_THAT(result.differences, ElementsAre(ProblemAt(15, kDigestLogFile, "at offset")));
  EXPECT_EQ(result.last.worker_digests(), 15u);
  job.Flip(kDigestLogFile, 2);
  EXPECT_THAT(Verify(job).differences, ElementsAre(ProblemAt(0, kDigestLogFile, "no header")));
}

TEST(VerifyTest, NoReports) {
  TestJob job;
  std::filesystem::remove(job / kDigestLogFile);
  const Verified result = Verify(job);
  TALLY_ASSERT_OK(result.status);
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_EQ(result.last.worker_digests(), 0u);
}

TEST(VerifyTest, MissingSegment) {
  TestJob job;
  const std::vector<std::string> segments = Segments(job);
  std::filesystem::remove(job / segments[2]);
  const Verified result = Verify(job);
  EXPECT_THAT(result.differences,
              ElementsAre(ProblemAt(FirstRound(segments[2]), "ledger",
                                    segments[3] + ": a gap between segments")));
  EXPECT_EQ(result.last.round(), FirstRound(segments[2]) - 1);
}

TEST(VerifyTest, MissingFirstAndLastSegment) {
  TestJob job(TestJob::kRounds, /*segment_bytes=*/2000);
  const std::vector<std::string> segments = Segments(job);
  std::filesystem::remove(job / segments.back());
  const uint64_t cut = FirstRound(segments.back());
  ASSERT_GT(cut, 40u) << "the test wants the last snapshot to be whole";
  EXPECT_THAT(Verify(job, {}, TestJob::StepOf(42)).differences,
              ElementsAre(ProblemAt(cut, "ledger", "ends with training round")));
  std::filesystem::remove(job / segments.front());
  EXPECT_THAT(Verify(job, {}, TestJob::StepOf(cut - 1)).differences,
              ElementsAre(ProblemAt(1, "ledger", "are missing")));
  EXPECT_THAT(Verify(job).differences, IsEmpty());  // it may be retention's work
}

TEST(VerifyTest, ASnapshotAheadOfTheLedger) {
  TestJob job;
  const std::vector<std::string> segments = Segments(job);
  for (const std::string& segment : segments) {
    if (FirstRound(segment) > 30) std::filesystem::remove(job / segment);
  }
  const Verified result = Verify(job);
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_THAT(result.differences[0].problem(), HasSubstr("there is a snapshot of round 40"));
}

TEST(VerifyTest, AfterRetention) {
  TestJob job;
  TALLY_ASSERT_OK(job.writer().DropBefore(20));
  ASSERT_GT(job.writer().first_round(), 11u);
  std::filesystem::remove_all(job / "snapshots/0000000000");
  std::filesystem::remove_all(job / "snapshots/0000000010");
  const Verified result = Verify(job, {}, TestJob::StepOf(42));
  TALLY_ASSERT_OK(result.status);
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_EQ(result.last.first_round(), 20u);
}

TEST(VerifyTest, RetentionOvertakesIt) {
  TestJob job;
  bool first = true;
  EXPECT_THAT(VerifyJobFolder({"job-7", job.path()},
                              [&](const v1::VerifyProgress&) {
                                if (std::exchange(first, false)) {
                                  EXPECT_THAT(job.writer().DropBefore(40), IsOk());
                                }
                                return true;
                              }),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("verify it again")));
}

// No difference, but no verification either.
TEST(VerifyTest, NoRoomForTheReplay) {
  const TestJob job;
  const testing::FileSizeLimit limit(100);
  EXPECT_THAT(Verify(job).status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room to replay")));
}

TEST(VerifyTest, StopsWhenToldTo) {
  const TestJob job;
  int reports = 0;
  EXPECT_THAT(VerifyJobFolder({"job-7", job.path()},
                              [&](const v1::VerifyProgress&) { return ++reports < 3; }),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
  EXPECT_EQ(reports, 3);
}

TEST(VerifyTest, AHundredDifferencesAtMost) {
  TestJob job(5);
  for (int i = 0; i < 120; ++i) job.log().Append(5, "liar", 1, {});
  v1::VerifyProgress last;
  size_t differences = 0;
  TALLY_ASSERT_OK(VerifyJobFolder({"job-7", job.path()}, [&](const v1::VerifyProgress& progress) {
    last = progress;
    differences += static_cast<size_t>(progress.differences_size());
    return true;
  }));
  EXPECT_EQ(differences, kMostDifferences);
  EXPECT_EQ(last.difference_count(), 120u);
}

TEST(VerifyTest, NothingInTheFolderIsChanged) {
  const TestJob job;
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(job.path())) {
      all.insert(entry.path().string());
    }
    return all;
  };
  std::filesystem::create_directory(job / "snapshots/.tmp.0000000050");  // being written
  const std::set<std::string> before = names();
  TALLY_ASSERT_OK(Verify(job).status);
  EXPECT_EQ(names(), before);
}

TEST(VerifyTest, NothingToVerify) {
  const testing::TestFolder folder;
  const auto verify = [](const std::string& path, std::optional<uint64_t> from = {}) {
    return VerifyJobFolder({"job-7", path, from}, [](const v1::VerifyProgress&) { return true; });
  };
  EXPECT_THAT(verify(folder / "gone"),
              StatusIs(absl::StatusCode::kNotFound, "job-7: its model is gone from the server"));
  EXPECT_THAT(verify(folder.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no worker has brought")));
  TestJob job;
  std::filesystem::remove_all(job / "snapshots/0000000000");
  EXPECT_THAT(verify(job.path(), 5),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("10, 20, 30, 40")));
}

}  // namespace
}  // namespace tally

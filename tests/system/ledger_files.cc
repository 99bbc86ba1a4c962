#include "tests/system/ledger_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "common/checkpoint/hf_directory.h"
#include "common/layout/chunk_grid.h"
#include "common/update/apply_round.h"
#include "common/update/history.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"

namespace tally::testing {
namespace {

// The most state that an update rule keeps: AdamW's two moments.
constexpr size_t kMostSlots = 2;

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  if (!value.ok()) GiveUp(std::string(value.status().message()));
  return *std::move(value);
}

std::string JobFolder(Cluster& cluster, const std::string& job_id) {
  return absl::StrCat(cluster.server_state(), "/jobs/", job_id);
}

LedgerReader OpenLedger(Cluster& cluster, const std::string& job_id) {
  return ValueOf(LedgerReader::Open(LedgerFolder(cluster, job_id),
                                    LayoutOf(cluster, job_id).digest()));
}

std::string BytesAt(const std::string& path, uint64_t offset, size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

std::vector<uint64_t> Segments(const std::string& folder) {
  std::vector<uint64_t> rounds;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (const auto round = ParseSegmentName(entry.path().filename().string())) {
      rounds.push_back(*round);
    }
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

std::string SegmentPath(const std::string& folder, uint64_t first_round) {
  return absl::StrCat(folder, "/", SegmentName(first_round));
}

// The whole records of a segment from `at` on.
std::vector<RecordAt> RecordsFrom(const std::string& path, uint64_t at) {
  std::vector<RecordAt> records;
  const uint64_t size = SizeOf(path);
  for (;;) {
    const auto head = DecodeRecordHead(BytesAt(path, at, kRecordHeadBytes));
    if (!head.ok() || at + head->length > size) return records;
    records.push_back({path, head->round, head->synced, at, at + head->length});
    at += head->length;
  }
}

}  // namespace

std::string LedgerFolder(Cluster& cluster, const std::string& job_id) {
  return JobFolder(cluster, job_id) + "/ledger";
}

Layout LayoutOf(Cluster& cluster, const std::string& job_id) {
  v1::LayoutProto proto;
  EXPECT_TRUE(proto.ParseFromString(Contents(JobFolder(cluster, job_id) + "/layout.pb")));
  return ValueOf(Layout::FromProto(proto));
}

std::vector<float> ReadParameters(const Layout& layout, const std::string& folder) {
  const auto model = ValueOf(CheckpointReader::Open(folder));
  EXPECT_TRUE(Json::accept(model->config_json())) << model->config_json();
  EXPECT_EQ(model->tensors().size(), layout.tensors().size());
  std::vector<float> parameters(layout.size());
  for (const LayoutTensor& tensor : layout.tensors()) {
    const TensorInfo* info = model->Find(tensor.name);
    if (info == nullptr) GiveUp(absl::StrCat("no tensor ", tensor.name));
    TALLY_EXPECT_OK(model->ReadAsFloat(
        *info, absl::MakeSpan(parameters).subspan(tensor.first, info->elements())));
  }
  return parameters;
}

std::vector<std::string> ReadRounds(Cluster& cluster, const std::string& job_id) {
  const LedgerReader reader = OpenLedger(cluster, job_id);
  std::vector<std::string> rounds;
  uint64_t history = 0;
  for (uint64_t number = reader.first_round(); number <= reader.last_round(); ++number) {
    const LedgerRound round = ValueOf(reader.Read(number));
    EXPECT_EQ(round.spec.round(), number);
    EXPECT_EQ(round.closed.round(), number);
    if (number == 1 || number > reader.first_round()) {
      EXPECT_EQ(round.closed.history(), RoundHistory(history, round.closed)) << "round " << number;
    }
    history = round.closed.history();
    std::string& bytes = rounds.emplace_back(
        absl::StrCat(round.spec.SerializeAsString(), round.closed.SerializeAsString()));
    for (const ByteSpan& aggregate : round.aggregates) {
      bytes.append(reinterpret_cast<const char*>(aggregate.data()), aggregate.size());
    }
  }
  return rounds;
}

std::string FoldOfLedger(Cluster& cluster, const std::string& job_id) {
  const Layout layout = LayoutOf(cluster, job_id);
  std::vector<float> parameters = ReadParameters(
      layout, JobFolder(cluster, job_id) + "/snapshots/0000000000");
  std::vector<std::vector<float>> slots(kMostSlots, std::vector<float>(layout.size()));
  const std::vector<absl::Span<float>> state = {absl::MakeSpan(slots[0]), absl::MakeSpan(slots[1])};
  const LedgerReader reader = OpenLedger(cluster, job_id);
  EXPECT_EQ(reader.first_round(), 1u);
  MaskPointer mask;
  for (uint64_t number = 1; number <= reader.last_round(); ++number) {
    const LedgerRound round = ValueOf(reader.Read(number));
    TALLY_EXPECT_OK(ApplyRound(layout, round.spec, round.aggregates, absl::MakeSpan(parameters),
                               state, &mask));
  }
  return DigestToString(ParametersDigest(layout, parameters));
}

std::vector<RecordAt> ListRecords(const std::string& ledger_folder) {
  std::vector<RecordAt> records;
  for (const uint64_t first : Segments(ledger_folder)) {
    const std::vector<RecordAt> more =
        RecordsFrom(SegmentPath(ledger_folder, first), kSegmentHeaderBytes);
    records.insert(records.end(), more.begin(), more.end());
  }
  return records;
}

void LoseRoundsAfter(const std::string& ledger_folder, uint64_t round, uint64_t torn) {
  for (const RecordAt& record : ListRecords(ledger_folder)) {
    if (record.round != round + 1) continue;
    std::filesystem::resize_file(record.path, record.begin + torn);
  }
  // Later segments appeared after what is lost.
  for (const uint64_t first : Segments(ledger_folder)) {
    if (first > round + 1) std::filesystem::remove(SegmentPath(ledger_folder, first));
  }
}

uint64_t RoundWatch::Now() {
  for (const uint64_t first : Segments(folder_)) {
    if (first < segment_) continue;
    if (first > segment_) {
      segment_ = first;
      at_ = kSegmentHeaderBytes;
    }
    const std::vector<RecordAt> more = RecordsFrom(SegmentPath(folder_, first), at_);
    if (more.empty()) continue;
    round_ = more.back().round;
    at_ = more.back().end;
  }
  return round_;
}

}  // namespace tally::testing

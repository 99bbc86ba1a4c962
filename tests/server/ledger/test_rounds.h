// Rounds to fill a ledger with.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/digest.h"
#include "common/reduction/reduction.h"
#include "common/update/history.h"
#include "gtest/gtest.h"
#include "proto/tally/v1/training.pb.h"
#include "server/ledger/reader.h"
#include "server/ledger/record.h"
#include "server/ledger/writer.h"

namespace tally::testing {

inline constexpr uint64_t kLayoutDigest = 0x1234'5678'9abc'def0;

// A new folder of the running test's own, removed at its end.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = ::testing::TempDir() + "/tally-ledger-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Not synced, unlike what the product writes: tests damage files by the hundred.
inline void Overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  ASSERT_TRUE(file.good()) << path;
}

struct TestRound {
  v1::RoundSpec spec;
  v1::RoundClosed closed;
  std::vector<Bytes> payloads;

  std::vector<ByteSpan> spans() const { return {payloads.begin(), payloads.end()}; }
};

// Fills in `closed` so that it fits spec and payloads; its history is the ledger's to give.
inline TestRound Close(v1::RoundSpec spec, std::vector<Bytes> payloads) {
  std::vector<uint64_t> digests;
  for (const Bytes& payload : payloads) {
    digests.push_back(Digest64(payload.data(), payload.size()));
  }
  TestRound round{std::move(spec), {}, std::move(payloads)};
  round.closed.set_round(round.spec.round());
  round.closed.set_chunks(static_cast<uint32_t>(digests.size()));
  round.closed.set_digest(DigestOfChunks(digests));
  return round;
}

// `chunks` payloads of `bytes` bytes each, different for each round and chunk.
inline TestRound MakeRound(uint64_t number, uint32_t chunks = 3, size_t bytes = 10) {
  v1::RoundSpec spec;
  spec.set_round(number);
  spec.set_reduction("majority");
  spec.set_learning_rate(0.5);
  std::vector<Bytes> payloads;
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    Bytes payload(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      payload[i] = static_cast<unsigned char>(number * 31 + chunk * 7 + i);
    }
    payloads.push_back(std::move(payload));
  }
  return Close(std::move(spec), std::move(payloads));
}

// With the history that makes it the next round.
inline absl::Status Append(LedgerWriter& writer, const TestRound& round) {
  v1::RoundClosed closed = round.closed;
  closed.set_history(RoundHistory(writer.last_history(), closed));
  return writer.Append(round.spec, closed, round.spans());
}

// Every byte of the round is as it was before it got its history.
inline void ExpectSame(const LedgerRound& found, const TestRound& expected) {
  EXPECT_EQ(found.spec.SerializeAsString(), expected.spec.SerializeAsString());
  v1::RoundClosed closed = found.closed;
  closed.set_history(expected.closed.history());
  EXPECT_EQ(closed.SerializeAsString(), expected.closed.SerializeAsString());
  ASSERT_EQ(found.aggregates.size(), expected.payloads.size());
  for (size_t i = 0; i < expected.payloads.size(); ++i) {
    EXPECT_EQ(Bytes(found.aggregates[i].begin(), found.aggregates[i].end()), expected.payloads[i]);
    EXPECT_EQ(found.chunk_digests[i],
              Digest64(expected.payloads[i].data(), expected.payloads[i].size()));
  }
}

}  // namespace tally::testing

// A server of one job and one worker that does exactly what a test says: the protocol without
// scheduling, timing or disks, so that a test can break it at any frame.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/layout/layout.h"
#include "grpcpp/server.h"
#include "proto/tally/v1/training.grpc.pb.h"

namespace tally::testing {

struct FakeRound {
  v1::RoundSpec spec;
  std::vector<std::string> chunks;
  v1::RoundClosed closed;
};

class FakeServer final : public v1::TrainingService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::ServerFrame, v1::WorkerFrame>;
  // Called once, when the contribution to its round is complete and before the round is closed.
  // Anything but OK ends the stream.
  using Hook = std::function<grpc::Status(Stream* stream)>;

  explicit FakeServer(uint64_t rounds) : rounds_(rounds) {}
  ~FakeServer() override;
  void Start();
  const std::string& address() const { return address_; }

  // To be set before Start.
  std::map<uint64_t, Hook> on_contribution;
  uint64_t synced_round = 0;       // as told with each round
  bool asks_for_lost_rounds = true;  // of a worker that is ahead; otherwise it does them again
  bool sends_snapshots = false;    // to whoever attaches, instead of the rounds missed

  // What has happened. Stable while no stream is open, and within a hook.
  std::vector<FakeRound> ledger;
  std::vector<v1::Attach> attaches;
  std::vector<v1::ParametersDigest> digests;
  std::vector<v1::Evaluation> evaluations;
  uint64_t handed_back = 0;  // rounds

  // Of each round's bytes.
  std::vector<std::string> LedgerDigests() const;
  // By the fold.
  std::vector<float> ParametersAfter(uint64_t round) const;
  const Layout& layout() const { return *layout_; }

 private:
  grpc::Status Exchange(grpc::ServerContext* context, Stream* stream) override;
  grpc::Status Serve(Stream* stream);
  grpc::Status TakeBase(Stream* stream);
  void SendSnapshot(Stream* stream);
  grpc::Status TakeBack(Stream* stream, uint64_t last);
  static void SendChunks(Stream* stream, const FakeRound& round);
  void SendPast(Stream* stream, const FakeRound& round);
  v1::RoundSpec SpecOf(uint64_t round) const;
  grpc::Status DoRound(Stream* stream);
  // The payloads of the contribution to `round`, by index; nothing if the stream has ended.
  std::optional<std::map<uint32_t, std::string>> TakeContribution(Stream* stream, uint64_t round);
  FakeRound Close(const v1::RoundSpec& spec, const std::map<uint32_t, std::string>& votes) const;
  uint64_t HistoryAfter(uint64_t round) const {
    return round == 0 ? 0 : ledger[round - 1].closed.history();
  }

  const uint64_t rounds_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  absl::Mutex one_stream_;  // the next one waits until the one before has ended
  std::optional<Layout> layout_;
  std::vector<float> base_;
};

}  // namespace tally::testing

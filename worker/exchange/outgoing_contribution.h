// One worker's contribution to one round: made chunk by chunk, sent at once, and kept until the
// round is closed so that a broken stream can be given the same bytes again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/reduction/reduction.h"
#include "grpcpp/support/slice.h"
#include "proto/tally/v1/training.pb.h"
#include "worker/exchange/exchange_client.h"

namespace tally {

// Not thread-safe. `client` may be null where nothing is to be sent.
class OutgoingContribution {
 public:
  // Forgets what it holds.
  void Begin(const v1::RoundSpec& spec);
  // Whether it holds the whole of this very round.
  bool IsFor(const v1::RoundSpec& spec) const;
  void AddChunk(uint32_t index, Bytes payload, ExchangeClient* client);
  // `end` without round, chunks and digest, which are filled in.
  void End(v1::ContributionEnd end, ExchangeClient* client);
  // Everything once more. Its bytes are those of the first time.
  void SendAgain(ExchangeClient* client) const;
  size_t chunks() const { return chunks_.size(); }

 private:
  struct KeptChunk {
    v1::WorkerFrame frame;
    grpc::Slice payload;
  };
  v1::RoundSpec spec_;
  std::map<uint32_t, KeptChunk> chunks_;
  std::optional<v1::WorkerFrame> end_;
};

}  // namespace tally

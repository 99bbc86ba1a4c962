// One worker's contribution to one round: made chunk by chunk, sent at once, and kept until the
// round is closed so that a broken stream can be given the same bytes again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/reduction/reduction.h"
#include "grpcpp/support/slice.h"
#include "proto/tally/v1/training.pb.h"
#include "worker/exchange/exchange_client.h"

namespace tally {

// A whole contribution, to be kept beyond the process. Copies share the payloads' memory.
struct KeptContribution {
  v1::RoundSpec spec;
  std::vector<std::pair<uint32_t, grpc::Slice>> chunks;  // by index
  v1::ContributionEnd end;
};

// Not thread-safe. `client` may be null where nothing is to be sent.
class OutgoingContribution {
 public:
  // Forgets what it holds.
  void Begin(const v1::RoundSpec& spec);
  // Whether it holds the whole of this very round; the deadline may be another one.
  bool IsFor(const v1::RoundSpec& spec) const;
  void AddChunk(uint32_t index, Bytes payload, ExchangeClient* client);
  // `end` without round, chunks and digest, which are filled in.
  void End(v1::ContributionEnd end, ExchangeClient* client);
  // Everything once more, but for the first chunks if the server holds just those. Its bytes are those
  // of the first time.
  void SendAgain(ExchangeClient* client, const v1::HeldChunks& held = {}) const;
  // Where SendAgain begins: 0 unless the chunks held are the first ones of this very contribution.
  uint32_t FirstNotHeld(const v1::HeldChunks& held) const;
  size_t chunks() const { return chunks_.size(); }
  uint64_t round() const { return spec_.round(); }

  // Nothing until it has ended.
  std::optional<KeptContribution> Keep() const;
  // As if it had been made here.
  void Restore(KeptContribution kept);

 private:
  struct KeptChunk {
    v1::WorkerFrame frame;
    grpc::Slice payload;
  };
  void AddSlice(uint32_t index, grpc::Slice payload, ExchangeClient* client);

  v1::RoundSpec spec_;
  std::map<uint32_t, KeptChunk> chunks_;
  std::optional<v1::WorkerFrame> end_;
};

}  // namespace tally

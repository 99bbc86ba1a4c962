// The last closed rounds, as they came from the server: what a ledger has lost in a crash of its
// machine can be handed back from here.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"
#include "grpcpp/support/slice.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

// ExchangeClient::Send.
using SendFrame =
    absl::FunctionRef<void(const v1::WorkerFrame& frame, absl::Span<const grpc::Slice> payload)>;

inline constexpr uint64_t kHeldRoundsBytes = uint64_t{256} << 20;

// Consecutive rounds; bounded in bytes of payload, but the last round is always held. Not
// thread-safe.
class HeldRounds {
 public:
  explicit HeldRounds(uint64_t max_bytes = kHeldRoundsBytes) : max_bytes_(max_bytes) {}

  // The round after the last one held; any other one, and the list starts anew with it. `chunks` in
  // index order; they are taken over, not copied.
  void Add(const v1::RoundSpec& spec, const v1::RoundClosed& closed, std::vector<Bytes> chunks);
  // They are on the server's disk.
  void DropUpTo(uint64_t round);
  void Clear();
  // The oldest round held; 0 if there is none.
  uint64_t first() const { return rounds_.empty() ? 0 : rounds_.front().spec.round(); }
  uint64_t bytes() const { return bytes_; }

  // Sends each round as past_round, its chunks and closed. NOT_FOUND, with nothing sent, unless all
  // are held. The frames share the payloads' memory.
  absl::Status HandBack(uint64_t first, uint64_t last, SendFrame send) const;

 private:
  struct Round {
    v1::RoundSpec spec;
    v1::RoundClosed closed;
    std::vector<grpc::Slice> chunks;
    uint64_t bytes = 0;
  };
  void DropFirst();
  static void Send(const Round& round, SendFrame send);

  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::deque<Round> rounds_;
};

}  // namespace tally

// One worker's stream in one job, from Attach to the end of the stream, and the frames that wait
// for it. All members are guarded by the run's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/round/snapshot_frames.h"
#include "server/round/worker_link.h"

namespace tally {

enum class AttachmentPhase {
  kAwaitingBase,  // the base model is not there yet
  kCatchingUp,    // reads the snapshot and the ledger at its own pace
  kLive,          // gets rounds as they happen and takes part in them
  // Its rounds are ahead of a ledger that has lost its tail.
  kAhead,        // waits until another one has handed back, or until it is asked itself
  kHandingBack,  // sends the rounds that the ledger has lost
  kEnded,
};

struct Attachment {
  std::string worker;
  uint32_t index = 0;
  std::shared_ptr<WorkerLink> link;
  AttachmentPhase phase = AttachmentPhase::kAwaitingBase;
  // While catching up: the rest of the snapshot, then the ledger from this round on.
  bool wants_snapshot = false;
  std::unique_ptr<SnapshotFrames> snapshot;
  uint64_t next_round = 1;
  // Of its Attach, while kAhead or kHandingBack.
  uint64_t round = 0;
  uint64_t history = 0;
  uint64_t first_held = 0;

  std::deque<grpc::ByteBuffer> outbox;
  size_t outbox_bytes = 0;
  // Set: close the stream with this once the outbox is empty.
  std::optional<absl::Status> finish;
  // The last round that something of its was refused in; refusals are told once a round.
  uint64_t refused_round = 0;

  void Push(grpc::ByteBuffer frame) {
    outbox_bytes += frame.Length();
    outbox.push_back(std::move(frame));
  }
};

}  // namespace tally

// A worker daemon's Session stream: hello, heartbeats and events in; assignments and releases out.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "proto/tally/v1/training.pb.h"
#include "server/service/pull_stream.h"
#include "server/supervisor/supervisor.h"

namespace tally {

class SessionStream final
    : public PullStream<grpc::ServerBidiReactor<v1::SessionUp, v1::SessionDown>, v1::SessionDown> {
 public:
  // `supervisor` outlives the stream.
  SessionStream(Supervisor* supervisor, std::string peer)
      : supervisor_(supervisor), peer_(std::move(peer)) {}
  // After Start.
  void BeginReading() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override;
  void OnCancel() override { Leave(); }

 private:
  class Link;
  Pulled Pull() override;
  void Ended() override { Leave(); }
  absl::Status Take(const v1::SessionUp& up);
  void Push(v1::SessionDown down);
  void Leave();

  Supervisor* const supervisor_;
  const std::string peer_;
  v1::SessionUp incoming_;
  v1::Hello hello_;  // of the reading side

  absl::Mutex mutex_;
  std::deque<v1::SessionDown> outbox_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Link> link_ ABSL_GUARDED_BY(mutex_);  // null before Hello and after Leave
};

}  // namespace tally

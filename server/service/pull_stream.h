// The writing half of a server stream: one message in flight, the next one pulled when the
// transport has room. So a slow reader costs one message here, whatever it is that it reads.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"
#include "server/service/open_streams.h"

namespace tally {

// Reactor is grpc::ServerWriteReactor<Message> or a grpc::ServerBidiReactor that writes Message.
// Lives until gRPC is done with it and nobody else holds it.
template <typename Reactor, typename Message>
class PullStream : public Reactor,
                   public EndableStream,
                   public std::enable_shared_from_this<PullStream<Reactor, Message>> {
 public:
  // Neither set: nothing for now; somebody will call Wake.
  struct Pulled {
    std::optional<Message> message;
    std::optional<grpc::Status> finish;
  };

  // Hands the object to gRPC, which keeps it until OnDone. `streams`, for one without an end of its
  // own, outlives the stream.
  static Reactor* Start(std::shared_ptr<PullStream> stream, OpenStreams* streams = nullptr) {
    stream->self_ = stream;
    if (streams != nullptr) streams->Add(stream);
    return stream.get();
  }

  void End(const grpc::Status& status) final { FinishWith(status); }

  // There may be something to pull. Any thread; no lock may be held that Pull takes.
  void Wake() {
    {
      absl::MutexLock lock(&mutex_);
      woken_ = true;
      if (busy_) return;
      busy_ = true;
    }
    Pump();
  }

  void OnWriteDone(bool ok) final {
    if (!ok) FinishWith(grpc::Status::CANCELLED);
    Pump();
  }

  void OnDone() final {
    Ended();
    const std::shared_ptr<PullStream> self = std::move(self_);
  }

 protected:
  // The next message; never called by two threads at once, nor after finish.
  virtual Pulled Pull() = 0;
  // gRPC is done with the stream.
  virtual void Ended() {}

  // Ends the stream with `status`, after the message in flight. The first call counts.
  void FinishWith(grpc::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (!finish_.has_value()) finish_ = std::move(status);
      woken_ = true;
      if (busy_) return;
      busy_ = true;
    }
    Pump();
  }

 private:
  // Runs with busy_ set by this thread; leaves it set while a write is in flight and for good after
  // the end.
  void Pump() {
    for (;;) {
      std::optional<grpc::Status> finish;
      {
        absl::MutexLock lock(&mutex_);
        woken_ = false;
        finish = finish_;
      }
      if (!finish.has_value()) {
        Pulled pulled = Pull();
        if (pulled.message.has_value()) {
          current_ = *std::move(pulled.message);
          this->StartWrite(&current_);
          return;
        }
        finish = std::move(pulled.finish);
      }
      if (finish.has_value()) {
        this->Finish(*finish);
        return;
      }
      absl::MutexLock lock(&mutex_);
      if (woken_) continue;
      busy_ = false;
      return;
    }
  }

  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;   // a thread pumps, a write is in flight, or the end
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // since the last Pull
  std::optional<grpc::Status> finish_ ABSL_GUARDED_BY(mutex_);
  Message current_;  // of whoever has busy_
  std::shared_ptr<PullStream> self_;
};

}  // namespace tally

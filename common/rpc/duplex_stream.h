// The client's end of a bidirectional stream: sending never waits for the network, receiving does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

namespace tally {

// Out and In are what travels, Item is what Receive gives. Thread-safe after StartCall.
// The owner calls CancelAndWait before destruction.
template <typename Out, typename In, typename Item>
class DuplexStream : public grpc::ClientBidiReactor<Out, In> {
 public:
  grpc::ClientContext* context() { return &context_; }

  // After the call was prepared with this as its reactor.
  void Begin() {
    this->StartRead(&incoming_);
    this->StartCall();
  }

  // Queued behind what was sent before; dropped if the stream has ended, which Receive tells.
  void Send(Out message) {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    outbox_.push_back(std::move(message));
    WriteNext();
  }

  // Waits for the next item. The stream's error once it has ended and all items are taken; nothing
  // after a clean end.
  absl::StatusOr<std::optional<Item>> Receive() {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !inbox_.empty() || ended_;
    };
    mutex_.Await(absl::Condition(&ready));
    if (inbox_.empty()) {
      if (!status_.ok()) return status_;
      return std::optional<Item>();
    }
    std::optional<Item> item = std::move(inbox_.front());
    inbox_.pop_front();
    inbox_weight_ -= Weight(*item);
    if (paused_ && inbox_weight_ < kReadAhead) {
      paused_ = false;
      this->StartRead(&incoming_);
    }
    return item;
  }

  // Makes Receive return CANCELLED soon.
  void Cancel() { context_.TryCancel(); }
  void CancelAndWait() {
    Cancel();
    done_.WaitForNotification();
  }
  bool ended() const {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

 protected:
  // Bytes kept for Receive before the stream is read no further, so that a slow taker's memory is
  // bounded and the sender notices.
  static constexpr size_t kReadAhead = size_t{64} << 20;
  // One call at a time. An error ends the stream with it.
  virtual absl::StatusOr<Item> Accept(const In& incoming) = 0;
  virtual size_t Weight(const Item&) const { return 1; }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || outbox_.empty()) return;
    writing_ = true;
    this->StartWrite(&outbox_.front());
  }

  void OnReadDone(bool ok) final {
    if (!ok) return;  // OnDone follows with the reason
    absl::StatusOr<Item> item = Accept(incoming_);
    absl::MutexLock lock(&mutex_);
    if (!item.ok()) {
      broken_ = item.status();
      return context_.TryCancel();
    }
    inbox_weight_ += Weight(*item);
    inbox_.push_back(*std::move(item));
    paused_ = inbox_weight_ >= kReadAhead;
    if (!paused_) this->StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) final {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    outbox_.pop_front();
    if (ok) return WriteNext();
    outbox_.clear();  // the stream is over; OnDone tells why
  }

  void OnDone(const grpc::Status& status) final {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
      status_ = broken_.ok() ? FromGrpcStatus(status) : broken_;
      outbox_.clear();
    }
    done_.Notify();
  }

  grpc::ClientContext context_;
  In incoming_;
  absl::Notification done_;

  mutable absl::Mutex mutex_;
  std::deque<Out> outbox_ ABSL_GUARDED_BY(mutex_);  // the front is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Item> inbox_ ABSL_GUARDED_BY(mutex_);
  size_t inbox_weight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // no read is in flight
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // a message that was not accepted
};

}  // namespace tally

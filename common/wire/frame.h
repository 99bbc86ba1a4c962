// Frames of the exchange: ordinary protobuf messages (WorkerFrame, ServerFrame) whose payload, the
// last field, is written from and read into place. docs/wire-format.md.
//
//   frame   := field* [ 0x7A varint(length) payload ]      payload is field 15, bytes
//
// Example, an aggregate chunk 2 of round 1 with the 4 payload bytes DE AD BE EF (ChunkHeader is
// field 2 of ServerFrame; kind=ROUND, round=1, index=2):
//   12 06 08 01 10 01 18 02  7A 04 DE AD BE EF
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace tally {

// A received payload: slices of the message it came in, kept alive by it. Never copied until
// CopyTo puts it where it belongs.
class Payload {
 public:
  Payload() = default;
  explicit Payload(std::vector<grpc::Slice> slices);
  size_t size() const { return size_; }
  // `out` has size() bytes.
  void CopyTo(absl::Span<unsigned char> out) const;
  std::vector<unsigned char> ToBytes() const;
  // The same Digest64 as of the bytes in one piece.
  uint64_t Digest() const;

 private:
  std::vector<grpc::Slice> slices_;
  size_t size_ = 0;
};

// `frame` must have no payload set. The buffer shares the slices; copies of it are cheap.
grpc::ByteBuffer EncodeFrame(const google::protobuf::MessageLite& frame,
                             absl::Span<const grpc::Slice> payload = {});

// Fills `frame` (all but its payload field) and gives the payload, empty if there is none.
// INVALID_ARGUMENT for bytes that are no such message or whose payload is not last.
absl::StatusOr<Payload> DecodeFrame(const grpc::ByteBuffer& buffer,
                                    google::protobuf::MessageLite* frame);

// A slice over memory that `owner` keeps alive.
grpc::Slice SharedSlice(std::shared_ptr<const void> owner, const void* data, size_t size);
// A slice that owns `bytes`.
grpc::Slice OwnedSlice(std::vector<unsigned char> bytes);

}  // namespace tally

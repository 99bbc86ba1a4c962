#include "common/wire/frame.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"

namespace tally {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::ConcatenatingInputStream;
using google::protobuf::io::LimitingInputStream;
using google::protobuf::io::ZeroCopyInputStream;

constexpr uint32_t kPayloadTag = (15 << 3) | 2;
constexpr uint32_t kWireTypeLengthDelimited = 2;

absl::Status NotAFrame(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("frame: ", what));
}

// Reads a ByteBuffer's slices as one stream, any number of times.
class SliceStream {
 public:
  explicit SliceStream(const std::vector<grpc::Slice>& slices) {
    for (const grpc::Slice& slice : slices) {
      pieces_.push_back(std::make_unique<ArrayInputStream>(slice.begin(),
                                                           static_cast<int>(slice.size())));
      pointers_.push_back(pieces_.back().get());
    }
    stream_ = std::make_unique<ConcatenatingInputStream>(pointers_.data(),
                                                         static_cast<int>(pointers_.size()));
  }
  ZeroCopyInputStream* get() { return stream_.get(); }

 private:
  std::vector<std::unique_ptr<ArrayInputStream>> pieces_;
  std::vector<ZeroCopyInputStream*> pointers_;
  std::unique_ptr<ConcatenatingInputStream> stream_;
};

struct Extent {
  size_t header = 0;   // bytes of the fields before the payload
  size_t payload = 0;  // where the payload's bytes start
  size_t size = 0;     // of the payload
};

bool SkipScalar(CodedInputStream& in, uint32_t wire_type) {
  uint64_t value;
  switch (wire_type) {
    case 0:
      return in.ReadVarint64(&value);
    case 1:
      return in.Skip(8);
    case 5:
      return in.Skip(4);
    default:
      return false;
  }
}

// Walks the top-level fields up to the payload.
absl::StatusOr<Extent> FindPayload(const std::vector<grpc::Slice>& slices, size_t total) {
  SliceStream stream(slices);
  CodedInputStream in(stream.get());
  for (;;) {
    const auto at = static_cast<size_t>(in.CurrentPosition());
    if (at == total) return Extent{total, total, 0};
    const uint32_t tag = in.ReadTag();
    if (tag == 0) return NotAFrame("cut short or not a message");
    if ((tag & 7) != kWireTypeLengthDelimited) {
      if (!SkipScalar(in, tag & 7)) return NotAFrame("cut short or not a message");
      continue;
    }
    uint32_t length;
    if (!in.ReadVarint32(&length)) return NotAFrame("cut short in a field's length");
    const auto start = static_cast<size_t>(in.CurrentPosition());
    if (length > total - start) return NotAFrame("a field is longer than the frame");
    if (tag == kPayloadTag) {
      if (start + length != total) return NotAFrame("the payload is not the last field");
      return Extent{at, start, length};
    }
    if (!in.Skip(static_cast<int>(length))) return NotAFrame("cut short in a field");
  }
}

std::vector<grpc::Slice> SubSlices(const std::vector<grpc::Slice>& slices, size_t start) {
  std::vector<grpc::Slice> result;
  for (const grpc::Slice& slice : slices) {
    if (start >= slice.size()) {
      start -= slice.size();
      continue;
    }
    result.push_back(start == 0 ? slice : slice.sub(start, slice.size()));
    start = 0;
  }
  return result;
}

}  // namespace

Payload::Payload(std::vector<grpc::Slice> slices) : slices_(std::move(slices)) {
  for (const grpc::Slice& slice : slices_) size_ += slice.size();
}

void Payload::CopyTo(absl::Span<unsigned char> out) const {
  unsigned char* at = out.data();
  for (const grpc::Slice& slice : slices_) {
    std::memcpy(at, slice.begin(), slice.size());
    at += slice.size();
  }
}

std::vector<unsigned char> Payload::ToBytes() const {
  std::vector<unsigned char> bytes;
  bytes.reserve(size_);
  for (const grpc::Slice& slice : slices_) bytes.insert(bytes.end(), slice.begin(), slice.end());
  return bytes;
}

uint64_t Payload::Digest() const {
  if (slices_.size() == 1) return Digest64(slices_[0].begin(), slices_[0].size());
  Digester digester;
  for (const grpc::Slice& slice : slices_) digester.Add(slice.begin(), slice.size());
  return digester.Finish();
}

grpc::ByteBuffer EncodeFrame(const google::protobuf::MessageLite& frame,
                             absl::Span<const grpc::Slice> payload) {
  std::string head = frame.SerializeAsString();
  size_t size = 0;
  for (const grpc::Slice& slice : payload) size += slice.size();
  if (size > 0) {
    unsigned char prefix[10];
    unsigned char* end = CodedOutputStream::WriteVarint32ToArray(kPayloadTag, prefix);
    end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(size), end);
    head.append(reinterpret_cast<char*>(prefix), static_cast<size_t>(end - prefix));
  }
  std::vector<grpc::Slice> slices;
  slices.reserve(payload.size() + 1);
  slices.emplace_back(head);
  slices.insert(slices.end(), payload.begin(), payload.end());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<Payload> DecodeFrame(const grpc::ByteBuffer& buffer,
                                    google::protobuf::MessageLite* frame) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return NotAFrame("empty buffer");
  TALLY_ASSIGN_OR_RETURN(const Extent extent, FindPayload(slices, buffer.Length()));
  SliceStream stream(slices);
  LimitingInputStream header(stream.get(), static_cast<int64_t>(extent.header));
  if (!frame->ParseFromZeroCopyStream(&header)) return NotAFrame("not a message of its type");
  if (extent.size == 0) return Payload();
  return Payload(SubSlices(slices, extent.payload));
}

grpc::Slice SharedSlice(std::shared_ptr<const void> owner, const void* data, size_t size) {
  auto* holder = new std::shared_ptr<const void>(std::move(owner));
  return grpc::Slice(
      const_cast<void*>(data), size,
      [](void* user) { delete static_cast<std::shared_ptr<const void>*>(user); }, holder);
}

grpc::Slice OwnedSlice(std::vector<unsigned char> bytes) {
  auto owner = std::make_shared<const std::vector<unsigned char>>(std::move(bytes));
  return SharedSlice(owner, owner->data(), owner->size());
}

}  // namespace tally

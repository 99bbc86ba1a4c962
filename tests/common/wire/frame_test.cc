#include "common/wire/frame.h"

#include <string>
#include <vector>

#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::HasSubstr;

v1::ServerFrame ChunkFrame() {
  v1::ServerFrame frame;
  frame.mutable_chunk()->set_kind(v1::ROUND);
  frame.mutable_chunk()->set_round(1);
  frame.mutable_chunk()->set_index(2);
  return frame;
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  return bytes;
}

grpc::ByteBuffer InPieces(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) slices.emplace_back(bytes.substr(at, piece));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

TEST(Frame, WorkedExampleOfTheHeader) {
  const grpc::ByteBuffer buffer =
      EncodeFrame(ChunkFrame(), {OwnedSlice({0xDE, 0xAD, 0xBE, 0xEF})});
  EXPECT_EQ(Flatten(buffer), std::string("\x12\x06\x08\x01\x10\x01\x18\x02\x7A\x04\xDE\xAD\xBE\xEF", 14));
}

TEST(Frame, IsAnOrdinaryProtobufMessage) {
  v1::ServerFrame parsed;
  ASSERT_TRUE(parsed.ParseFromString(
      Flatten(EncodeFrame(ChunkFrame(), {OwnedSlice({1, 2}), OwnedSlice({3})}))));
  EXPECT_EQ(parsed.payload(), std::string("\x01\x02\x03", 3));
  EXPECT_EQ(parsed.chunk().index(), 2u);
}

TEST(Frame, SurvivesEveryWayOfCuttingItIntoSlices) {
  const std::vector<unsigned char> payload = {9, 8, 7, 6, 5, 4, 3};
  const std::string bytes = Flatten(EncodeFrame(ChunkFrame(), {OwnedSlice(payload)}));
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    v1::ServerFrame frame;
    TALLY_ASSERT_OK_AND_ASSIGN(const Payload got, DecodeFrame(InPieces(bytes, piece), &frame));
    EXPECT_EQ(got.ToBytes(), payload) << piece;
    EXPECT_EQ(got.Digest(), Digest64(payload.data(), payload.size())) << piece;
    EXPECT_EQ(frame.chunk().index(), 2u) << piece;
    std::vector<unsigned char> copy(got.size());
    got.CopyTo(absl::MakeSpan(copy));
    EXPECT_EQ(copy, payload) << piece;
  }
}

TEST(Frame, WithoutPayload) {
  v1::ServerFrame frame;
  TALLY_ASSERT_OK_AND_ASSIGN(const Payload payload, DecodeFrame(EncodeFrame(ChunkFrame()), &frame));
  EXPECT_EQ(payload.size(), 0u);
  EXPECT_EQ(frame.chunk().round(), 1u);
}

TEST(Frame, CutShortAtEveryByteIsRefusedOrHasNoPayload) {
  const std::string bytes = Flatten(EncodeFrame(ChunkFrame(), {OwnedSlice({1, 2, 3, 4})}));
  const size_t header = 8;
  for (size_t size = 1; size < bytes.size(); ++size) {
    v1::ServerFrame frame;
    const auto result = DecodeFrame(InPieces(bytes.substr(0, size), 3), &frame);
    EXPECT_EQ(result.ok(), size == header) << size;
  }
}

TEST(Frame, PayloadMustBeLast) {
  v1::ServerFrame frame;
  EXPECT_THAT(DecodeFrame(InPieces(std::string("\x7A\x01\x05\x12\x00", 5), 9), &frame),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not the last field")));
}

TEST(Frame, HugeLengthIsRefused) {
  v1::ServerFrame frame;
  EXPECT_THAT(DecodeFrame(InPieces("\x12\xFF\xFF\xFF\xFF\x0F", 9), &frame),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer than the frame")));
}

TEST(Frame, NoMessageAtAll) {
  v1::ServerFrame frame;
  EXPECT_THAT(DecodeFrame(grpc::ByteBuffer(), &frame),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_FALSE(DecodeFrame(InPieces("\x12\x02\xFF\xFF", 9), &frame).ok());
}

}  // namespace
}  // namespace tally

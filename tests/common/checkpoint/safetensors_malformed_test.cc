// Every kind of malformed safetensors file, by name.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "common/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string WithLength(uint64_t length, absl::string_view rest) {
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&length), 8), rest);
}

class MalformedSafetensors : public ::testing::Test {
 protected:
  // Writes a file of these bytes and expects it refused, with its path and the reason.
  void ExpectRefusedFile(const std::string& bytes, const std::string& reason) {
    const std::string path = folder_.File("bad.safetensors");
    TALLY_ASSERT_OK(WriteFileAtomically(path, bytes));
    EXPECT_THAT(SafetensorsFile::Open(path),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(StartsWith(path + ": "), HasSubstr(reason))));
  }
  // A well-formed length, this header and `data_bytes` zeros.
  void ExpectRefused(const std::string& header, size_t data_bytes, const std::string& reason) {
    ExpectRefusedFile(
        absl::StrCat(WithLength(header.size(), header), std::string(data_bytes, '\0')), reason);
  }

  testing::TempFolder folder_;
};

constexpr char kTwo[] =
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[%d,%d]},)"
    R"("b":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}})";

std::string Two(int a_begin, int a_end, int b_begin, int b_end) {
  char text[256];
  snprintf(text, sizeof text, kTwo, a_begin, a_end, b_begin, b_end);
  return text;
}

std::string One(const std::string& members) { return absl::StrCat(R"({"a":{)", members, "}}"); }

TEST_F(MalformedSafetensors, WellFormedIsAccepted) {
  const std::string path = folder_.File("good.safetensors");
  const std::string header = Two(4, 12, 0, 4);
  TALLY_ASSERT_OK(WriteFileAtomically(
      path, absl::StrCat(WithLength(header.size(), header), std::string(12, '\0'))));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto file, SafetensorsFile::Open(path));
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_EQ(file->tensors()[1].name, "a");
}

TEST_F(MalformedSafetensors, EmptyFile) { ExpectRefusedFile("", "found only 0 bytes"); }

TEST_F(MalformedSafetensors, ShorterThanTheLength) {
  ExpectRefusedFile("1234567", "found only 7 bytes");
}

TEST_F(MalformedSafetensors, HeaderLengthOfTwoToThe63) {
  ExpectRefusedFile(WithLength(uint64_t{1} << 63, "{}"), "found 9223372036854775808");
}

TEST_F(MalformedSafetensors, HeaderLengthOfAllOnes) {
  ExpectRefusedFile(WithLength(UINT64_MAX, "{}"), "found 18446744073709551615");
}

TEST_F(MalformedSafetensors, HeaderLongerThanTheFile) {
  ExpectRefusedFile(WithLength(100, "{}"), "expected a header of 100 bytes, found only 2");
}

TEST_F(MalformedSafetensors, HeaderOfNoBytes) { ExpectRefused("", 0, "expected JSON"); }

TEST_F(MalformedSafetensors, HeaderNotJson) { ExpectRefused("{\"a\":", 0, "expected JSON"); }

TEST_F(MalformedSafetensors, HeaderNotAnObject) {
  ExpectRefused("[1]", 0, "expected a JSON object, found array");
}

TEST_F(MalformedSafetensors, HeaderNotUtf8) {
  ExpectRefused("{\"\xff\":{}}", 0, "expected JSON");
}

TEST_F(MalformedSafetensors, HeaderWithNulAfterTheObject) {
  ExpectRefused(Two(0, 8, 8, 12) + std::string(4, '\0'), 12, "a NUL byte");
}

TEST_F(MalformedSafetensors, HeaderWithTextAfterTheObject) {
  ExpectRefused(Two(0, 8, 8, 12) + "x", 12, "expected JSON");
}

TEST_F(MalformedSafetensors, HeaderNestedTooDeeply) {
  ExpectRefused("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", 0,
                "expected at most 64 levels");
}

TEST_F(MalformedSafetensors, DuplicateTensor) {
  ExpectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                8, R"(expected each key once, found "a" again)");
}

TEST_F(MalformedSafetensors, DuplicateMember) {
  ExpectRefused(One(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), 4,
                R"(found "dtype" again)");
}

TEST_F(MalformedSafetensors, NoTensors) {
  ExpectRefused("{}", 0, "expected at least one tensor, found none");
  ExpectRefused(R"({"__metadata__":{"format":"pt"}})", 0, "expected at least one tensor");
}

TEST_F(MalformedSafetensors, UnknownDType) {
  ExpectRefused(One(R"("dtype":"F99","shape":[1],"data_offsets":[0,4])"), 4,
                R"(tensor "a": expected a known dtype, found "F99")");
  ExpectRefused(One(R"("dtype":3,"shape":[1],"data_offsets":[0,4])"), 4, "a known dtype, found 3");
}

TEST_F(MalformedSafetensors, MissingMember) {
  ExpectRefused(One(R"("dtype":"F32","shape":[1])"), 4, R"(tensor "a": expected a data_offsets)");
}

TEST_F(MalformedSafetensors, UnknownMember) {
  ExpectRefused(One(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)"), 4,
                "expected dtype, shape and data_offsets alone");
}

TEST_F(MalformedSafetensors, TensorNotAnObject) {
  ExpectRefused(R"({"a":[1]})", 0, R"(tensor "a": expected an object, found [1])");
}

TEST_F(MalformedSafetensors, NegativeShape) {
  ExpectRefused(One(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4,
                "expected shape as an array of whole numbers, found [-1]");
}

TEST_F(MalformedSafetensors, FractionalShape) {
  ExpectRefused(One(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4, "found [1.0]");
}

TEST_F(MalformedSafetensors, ShapeThatOverflows) {
  ExpectRefused(
      One(R"("dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,0])"), 0,
      R"(tensor "a": expected at most 2^63 - 1 bytes)");
}

TEST_F(MalformedSafetensors, ShapeThatWrapsToTheRightSize) {
  // 2^62 + 1 float32 elements are 4 bytes modulo 2^64.
  ExpectRefused(One(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])"), 4,
                "expected at most 2^63 - 1 bytes");
}

TEST_F(MalformedSafetensors, LengthIsNotShapeTimesDType) {
  ExpectRefused(One(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
                R"(tensor "a": expected 8 bytes for F32 [2], found [0,4])");
}

TEST_F(MalformedSafetensors, EndBeforeBegin) {
  ExpectRefused(One(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4,
                "expected data_offsets that begin before they end, found [4,0]");
}

TEST_F(MalformedSafetensors, ThreeOffsets) {
  ExpectRefused(One(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), 8, "two data_offsets");
}

TEST_F(MalformedSafetensors, OverlappingOffsets) {
  ExpectRefused(Two(0, 8, 4, 8), 8, "tensor \"b\": expected its data to begin at 8");
  ExpectRefused(Two(0, 8, 4, 8), 8, "an overlap");
}

TEST_F(MalformedSafetensors, GappedOffsets) {
  ExpectRefused(Two(0, 8, 12, 16), 16, "begin at 8, where the one before ends, found 12: a gap");
}

TEST_F(MalformedSafetensors, GapBeforeTheFirst) { ExpectRefused(Two(4, 12, 12, 16), 16, "a gap"); }

TEST_F(MalformedSafetensors, CutShort) {
  ExpectRefused(Two(0, 8, 8, 12), 11, "within the 11 bytes of data there are (a file cut short?)");
}

TEST_F(MalformedSafetensors, TrailingBytes) {
  ExpectRefused(Two(0, 8, 8, 12), 13, "found 1 trailing bytes");
}

TEST_F(MalformedSafetensors, MetadataNotStrings) {
  ExpectRefused(R"({"__metadata__":{"n":1},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                4, "__metadata__: expected a string for n, found 1");
}

TEST_F(MalformedSafetensors, EmptyTensorName) {
  ExpectRefused(R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "an empty one");
}

TEST_F(MalformedSafetensors, TensorNameWithNul) {
  ExpectRefused(R"({"a\u0000b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
                "expected a tensor name without NUL");
}

TEST_F(MalformedSafetensors, FolderOrNothing) {
  EXPECT_THAT(SafetensorsFile::Open(folder_.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  EXPECT_THAT(SafetensorsFile::Open(folder_.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_.File("none"))));
}

// Whatever the length a file is cut to, it is refused and nothing crashes.
TEST_F(MalformedSafetensors, EveryPrefixIsRefused) {
  const std::string header = Two(0, 8, 8, 12);
  const std::string whole =
      absl::StrCat(WithLength(header.size(), header), std::string(12, '\0'));
  for (size_t size = 0; size < whole.size(); ++size) ExpectRefusedFile(whole.substr(0, size), "");
}

}  // namespace
}  // namespace tally

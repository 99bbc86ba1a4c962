#include "common/config/byte_size.h"

#include <limits>

#include "gtest/gtest.h"

namespace tally {
namespace {

TEST(ByteSize, Reads) {
  EXPECT_EQ(ParseByteSize("0B"), 0u);
  EXPECT_EQ(ParseByteSize("1023B"), 1023u);
  EXPECT_EQ(ParseByteSize("64KiB"), uint64_t{64} << 10);
  EXPECT_EQ(ParseByteSize("256MiB"), uint64_t{256} << 20);
  EXPECT_EQ(ParseByteSize("3GiB"), uint64_t{3} << 30);
  EXPECT_EQ(ParseByteSize("1TiB"), uint64_t{1} << 40);
  EXPECT_EQ(ParseByteSize("18446744073709551615B"), std::numeric_limits<uint64_t>::max());
}

TEST(ByteSize, RefusesEverythingElse) {
  for (const char* text : {"", "B", "MiB", "64", "64 KiB", "64kib", "64KB", "64K", "1.5MiB", "-1B",
                           "+1B", "0x1B", "64KiBs", "16777216TiB", "18446744073709551616B"}) {
    EXPECT_EQ(ParseByteSize(text), std::nullopt) << text;
  }
}

TEST(ByteSize, WritesWhatReadsBack) {
  EXPECT_EQ(ByteSizeText(uint64_t{256} << 20), "256MiB");
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1536}, uint64_t{1} << 63,
                               std::numeric_limits<uint64_t>::max()}) {
    EXPECT_EQ(ParseByteSize(ByteSizeText(bytes)), bytes);
  }
}

}  // namespace
}  // namespace tally

// Idx files made for tests. Row i's pixels are i, i + 1, ... modulo 256.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "gtest/gtest.h"

namespace tally::testing {

inline std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255);
  return bytes;
}

inline std::string IdxBytes(const std::vector<uint32_t>& extents, const std::string& data) {
  std::string bytes("\0\0\x08", 3);
  bytes += static_cast<char>(extents.size());
  for (const uint32_t extent : extents) bytes += BigEndian(extent);
  return bytes + data;
}

inline std::string Images(uint32_t rows, uint32_t height, uint32_t width) {
  std::string data;
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t i = 0; i < height * width; ++i) data += static_cast<char>((row + i) & 255);
  }
  return IdxBytes({rows, height, width}, data);
}

// Row i's label is i % classes.
inline std::string Labels(uint32_t rows, uint32_t classes) {
  std::string data;
  for (uint32_t row = 0; row < rows; ++row) data += static_cast<char>(row % classes);
  return IdxBytes({rows}, data);
}

inline std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  constexpr int kGzipWindow = 15 + 16;
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A folder of its own for a test, gone with the object.
class Folder {
 public:
  Folder() {
    std::string pattern = ::testing::TempDir() + "tally_data_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { EXPECT_TRUE(RemoveTree(path_).ok()); }
  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& bytes) const {
    ASSERT_TRUE(WriteFileAtomically(path_ + "/" + name, bytes).ok());
  }
  void WriteSplit(const std::string& prefix, uint32_t rows, uint32_t classes = 3) const {
    Write(prefix + "-images-idx3-ubyte", Images(rows, 2, 3));
    Write(prefix + "-labels-idx1-ubyte", Labels(rows, classes));
  }

 private:
  std::string path_;
};

}  // namespace tally::testing

#include "common/reduction/index_set/index_set.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/index_set/bit_stream.h"

namespace tally {
namespace {

using Indices = absl::Span<const uint32_t>;

constexpr uint32_t kSegment = 1u << 16;
constexpr size_t kSegmentHead = 4;
constexpr uint32_t kMaxParameter = 15;

enum Kind : uint8_t { kNone = 0, kAll = 1, kBitmap = 2, kEliasFano = 3, kRice = 4 };

struct Form {
  Kind kind = kNone;
  uint32_t parameter = 0;
  uint64_t bits = 0;
};

uint64_t EliasFanoBits(uint64_t n, uint64_t m, uint32_t low) {
  return m * low + m + ((n - 1) >> low) + 1;
}

uint64_t RiceBits(Indices indices, uint32_t first, uint32_t k) {
  uint64_t bits = indices.size() * (k + 1);
  uint32_t next = first;
  for (const uint32_t index : indices) {
    bits += (index - next) >> k;
    next = index + 1;
  }
  return bits;
}

size_t BytesOf(uint64_t bits) { return static_cast<size_t>((bits + 7) / 8); }

// The best of the parameters near the binary logarithm of the mean gap; for both forms the size has
// one minimum, there.
Form BestForm(Indices indices, uint32_t first, uint32_t n) {
  const auto m = static_cast<uint32_t>(indices.size());
  if (m == 0) return {kNone, 0, 0};
  if (m == n) return {kAll, 0, 0};
  Form best{kBitmap, 0, n};
  const auto consider = [&best](Form form) {
    if (BytesOf(form.bits) < BytesOf(best.bits)) best = form;
  };
  const auto middle = static_cast<uint32_t>(std::bit_width(n / m)) - 1;
  const uint32_t least = middle > 1 ? middle - 2 : 0, most = std::min(middle + 1, kMaxParameter);
  for (uint32_t low = least; low <= most; ++low) consider({kEliasFano, low, EliasFanoBits(n, m, low)});
  for (uint32_t k = least; k <= most; ++k) consider({kRice, k, RiceBits(indices, first, k)});
  return best;
}

void PutBitmap(Indices indices, uint32_t first, uint32_t n, BitWriter& writer) {
  size_t next = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const bool in = next < indices.size() && indices[next] == first + i;
    writer.Put(in, 1);
    next += in;
  }
}

void PutEliasFano(Indices indices, uint32_t first, uint32_t n, uint32_t low, BitWriter& writer) {
  for (const uint32_t index : indices) writer.Put(index - first, low);
  size_t next = 0;
  for (uint32_t high = 0; high <= (n - 1) >> low; ++high) {
    for (; next < indices.size() && (indices[next] - first) >> low == high; ++next) writer.Put(1, 1);
    writer.Put(0, 1);
  }
}

void PutRice(Indices indices, uint32_t first, uint32_t k, BitWriter& writer) {
  uint32_t next = first;
  for (const uint32_t index : indices) {
    writer.PutUnary((index - next) >> k);
    writer.Put(index - next, k);
    next = index + 1;
  }
}

void PutSegment(Indices indices, uint32_t first, uint32_t n, std::vector<unsigned char>& bytes) {
  const Form form = BestForm(indices, first, n);
  const uint32_t size = indices.empty() ? 0 : static_cast<uint32_t>(indices.size()) - 1;
  bytes.push_back(form.kind);
  bytes.push_back(static_cast<unsigned char>(form.parameter));
  bytes.push_back(static_cast<unsigned char>(size));
  bytes.push_back(static_cast<unsigned char>(size >> 8));
  BitWriter writer(&bytes);
  if (form.kind == kBitmap) PutBitmap(indices, first, n, writer);
  if (form.kind == kEliasFano) PutEliasFano(indices, first, n, form.parameter, writer);
  if (form.kind == kRice) PutRice(indices, first, form.parameter, writer);
  writer.Flush();
}

absl::Status Malformed(uint32_t first, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("index set: segment of element ", first, ": ", what));
}

struct SegmentHead {
  uint8_t kind;
  uint32_t parameter;
  uint32_t size;  // m
};

void GetBitmap(uint32_t first, uint32_t n, BitReader& reader, std::vector<uint32_t>& indices) {
  for (uint32_t i = 0; i < n; ++i) {
    if (reader.Get(1) != 0) indices.push_back(first + i);
  }
}

void GetEliasFano(const SegmentHead& head, uint32_t first, uint32_t n, BitReader& reader,
                  std::vector<uint32_t>& indices) {
  const size_t begin = indices.size();
  for (uint32_t i = 0; i < head.size; ++i) indices.push_back(first + reader.Get(head.parameter));
  const uint32_t end = ((n - 1) >> head.parameter) + 1;
  uint32_t high = 0, taken = 0;
  while (high < end && !reader.overrun()) {
    if (reader.Get(1) == 0) {
      ++high;
    } else if (taken < head.size) {
      indices[begin + taken++] += high << head.parameter;
    } else {
      return;  // re-encoding tells
    }
  }
}

void GetRice(const SegmentHead& head, uint32_t first, uint32_t n, BitReader& reader,
             std::vector<uint32_t>& indices) {
  uint32_t next = first;
  for (uint32_t i = 0; i < head.size && !reader.overrun(); ++i) {
    const uint32_t high = reader.GetUnary(n >> head.parameter);
    next += (high << head.parameter) + reader.Get(head.parameter);
    indices.push_back(next++);
    if (next > first + n) return;  // out of range: the caller finds it
  }
}

// Reads one segment; returns its bytes. What is read need not be canonical nor even in range.
absl::StatusOr<size_t> GetSegment(uint32_t first, uint32_t n, absl::Span<const unsigned char> bytes,
                                  std::vector<uint32_t>& indices) {
  if (bytes.size() < kSegmentHead) return Malformed(first, "cut short");
  const SegmentHead head{bytes[0], bytes[1], 1u + bytes[2] + 256u * bytes[3]};
  if (head.kind > kRice) return Malformed(first, absl::StrCat("kind ", head.kind, ": expected 0 to 4"));
  if (head.parameter > kMaxParameter || head.size > n) {
    return Malformed(first, absl::StrCat("parameter ", head.parameter, ", size ", head.size,
                                         ": out of range for ", n, " elements"));
  }
  BitReader reader(bytes.subspan(kSegmentHead));
  switch (head.kind) {
    case kNone: break;
    case kAll:
      for (uint32_t i = 0; i < n; ++i) indices.push_back(first + i);
      break;
    case kBitmap: GetBitmap(first, n, reader, indices); break;
    case kEliasFano: GetEliasFano(head, first, n, reader, indices); break;
    default: GetRice(head, first, n, reader, indices); break;
  }
  if (reader.overrun()) return Malformed(first, "cut short");
  return kSegmentHead + reader.bytes_read();
}

absl::Status CheckAscending(const IndexSet& set) {
  for (size_t i = 0; i < set.indices.size(); ++i) {
    const bool follows = i == 0 || set.indices[i] > set.indices[i - 1];
    if (follows && set.indices[i] < set.count) continue;
    return absl::InvalidArgumentError(absl::StrCat("index set: index ", i, " is ", set.indices[i],
                                                   ": expected ascending ones below ", set.count));
  }
  return absl::OkStatus();
}

}  // namespace

size_t MaxIndexSetBytes(uint32_t count) {
  const size_t segments = (size_t{count} + kSegment - 1) / kSegment;
  return segments * kSegmentHead + (size_t{count} + 7) / 8;
}

std::vector<unsigned char> EncodeIndexSet(const IndexSet& set) {
  std::vector<unsigned char> bytes;
  auto next = set.indices.begin();
  for (uint64_t first = 0; first < set.count; first += kSegment) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kSegment, set.count - first));
    const auto end = std::lower_bound(next, set.indices.end(), first + n);
    PutSegment(Indices(set.indices.data() + (next - set.indices.begin()),
                       static_cast<size_t>(end - next)),
               static_cast<uint32_t>(first), n, bytes);
    next = end;
  }
  return bytes;
}

absl::StatusOr<IndexSet> DecodeIndexSet(uint32_t count, absl::Span<const unsigned char> bytes) {
  IndexSet set{count, {}};
  size_t offset = 0;
  for (uint64_t first = 0; first < count; first += kSegment) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kSegment, count - first));
    TALLY_ASSIGN_OR_RETURN(const size_t size, GetSegment(static_cast<uint32_t>(first), n,
                                                         bytes.subspan(offset), set.indices));
    offset += size;
  }
  TALLY_RETURN_IF_ERROR(CheckAscending(set));
  // Sizes, padding, forms that are not the smallest: all at once.
  const std::vector<unsigned char> canonical = EncodeIndexSet(set);
  if (canonical.size() == bytes.size() && std::equal(bytes.begin(), bytes.end(), canonical.begin())) {
    return set;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "index set: of ", set.indices.size(), " of ", count, " elements: expected the encoding of ",
      canonical.size(), " bytes that there is, found another of ", bytes.size()));
}

}  // namespace tally

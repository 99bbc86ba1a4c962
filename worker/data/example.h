// What one example of a data set looks like, and examples in batches. No LibTorch here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace tally {

enum class ElementType { kUint8, kFloat32 };

struct ExampleFormat {
  // Channels, rows, columns; or one extent for examples that are plain vectors.
  std::vector<uint64_t> shape;
  ElementType type = ElementType::kUint8;

  uint64_t elements() const;
  // Bytes of one example's elements.
  uint64_t bytes() const { return elements() * (type == ElementType::kUint8 ? 1 : sizeof(float)); }
  bool operator==(const ExampleFormat&) const = default;
};

// "1x28x28".
std::string ShapeText(absl::Span<const uint64_t> shape);
// "1x28x28 uint8".
std::string Describe(const ExampleFormat& format);

// Examples as they are stored, not yet scaled or normalised.
struct Batch {
  ExampleFormat format;
  std::vector<char> elements;    // size() times format.bytes(), row-major, native byte order
  std::vector<uint32_t> labels;  // one an example

  uint64_t size() const { return labels.size(); }
};

}  // namespace tally

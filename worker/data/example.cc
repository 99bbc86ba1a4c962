#include "worker/data/example.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tally {

uint64_t ExampleFormat::elements() const {
  uint64_t product = 1;
  for (const uint64_t extent : shape) product *= extent;
  return product;
}

std::string ShapeText(absl::Span<const uint64_t> shape) { return absl::StrJoin(shape, "x"); }

std::string Describe(const ExampleFormat& format) {
  return absl::StrCat(ShapeText(format.shape),
                      format.type == ElementType::kUint8 ? " uint8" : " float32");
}

}  // namespace tally

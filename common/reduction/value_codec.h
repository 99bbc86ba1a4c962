// Values of payloads in float32, bf16 or fp16 (not signs): little-endian, at any alignment. The same
// bits on every instruction set.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "common/reduction/value_dtype.h"

namespace tally {

// To the nearest, ties to even; denormals are kept. What is too large for the type becomes an
// infinity, which FirstNotFinite finds. Writes BytesOfValues.
void EncodeValues(ValueDtype dtype, absl::Span<const float> values, unsigned char* to);
// Exact. `from` holds finite values, as many as `values` has room for.
void DecodeValues(ValueDtype dtype, const unsigned char* from, absl::Span<float> values);
// The index of the first value that is infinite or no number; n if there is none.
size_t FirstNotFinite(ValueDtype dtype, const unsigned char* from, size_t n);

struct WeightedValues {
  const unsigned char* values = nullptr;
  double weight = 1;
};

// sums[i] += weight * value[i]: each product and each sum rounded once to float64.
void AddWeighted(ValueDtype dtype, WeightedValues addend, absl::Span<double> sums);
// to[i] = sums[i] / total, rounded to float32 and then to the type.
void WriteMean(ValueDtype dtype, absl::Span<const double> sums, double total, unsigned char* to);
// AddWeighted of one after the other to sums of zero, then WriteMean: the same bits, without the
// sums ever being in memory. `n` values each.
void MeanOf(ValueDtype dtype, absl::Span<const WeightedValues> addends, size_t n, double total,
            unsigned char* to);

}  // namespace tally

#pragma once

#include <cstdint>

#include "common/base/random.h"
#include "worker/model/model.h"

namespace tally::testing {

// Byte examples of the model's shape: byte k of the batch is the low byte of word k of stream
// `key`.
inline Batch RandomBatch(const Model& model, uint32_t size, uint64_t key) {
  Batch batch;
  batch.format = {model.input_shape(), ElementType::kUint8};
  batch.elements.resize(size * batch.format.bytes());
  for (size_t k = 0; k < batch.elements.size(); ++k) {
    batch.elements[k] = static_cast<char>(RandomWord(key, k));
  }
  for (uint32_t i = 0; i < size; ++i) batch.labels.push_back(i % model.classes());
  return batch;
}

}  // namespace tally::testing

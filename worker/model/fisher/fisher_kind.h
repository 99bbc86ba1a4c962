#pragma once

namespace tally {

// Which labels the squared gradients of log p(label | example) are taken for.
enum class FisherKind {
  kEmpirical,  // the data's own
  kExpected,   // all, each weighted with its probability under the model
};

}  // namespace tally

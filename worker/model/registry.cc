#include "worker/model/registry.h"

#include "worker/model/mlp/mlp.h"
#include "worker/model/resnet_cifar/resnet_cifar.h"
#include "worker/model/vit/vit.h"

namespace tally {

absl::Span<const ArchitectureEntry> ArchitectureTable() {
  static constexpr ArchitectureEntry kTable[] = {
      {"mlp", MakeMlp, kMlpSampleConfig},
      {"vit", MakeVit, kVitSampleConfig},
      {"resnet_cifar", MakeResnetCifar, kResnetCifarSampleConfig},
  };
  return kTable;
}

}  // namespace tally

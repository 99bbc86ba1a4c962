// Published weights must load by name and give the logits of an independent implementation: numpy
// in float64, written from the published descriptions, on bytes from RandomWord.
#include <torch/torch.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/checkpoint/hf_directory.h"
#include "gtest/gtest.h"
#include "tests/worker/model/model_batch.h"
#include "worker/flat_parameters.h"
#include "worker/model/architecture.h"
#include "worker/model/batch_tensor.h"

namespace tally {
namespace {

using ::tally::testing::IsOk;
using ::tally::testing::RandomBatch;

std::string SharedData() {
  if (const char* path = std::getenv("TALLY_SHARED_DATA")) return path;
  return std::string(std::getenv("TALLY_SOURCE_DIR")) + "/../shared/data";
}

struct Golden {
  const char* folder;
  const char* architecture;
  uint64_t parameters;
  std::vector<float> logits[2];  // for the keys 1 and 2
};

void ExpectLogits(Model& model, uint64_t key, const std::vector<float>& expected) {
  Architecture& architecture = model.architecture();
  architecture.module().eval();
  torch::NoGradGuard no_grad;
  const torch::Tensor logits =
      architecture.Forward(InputTensor(RandomBatch(model, 1, key), architecture.input()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(logits[0][static_cast<int64_t>(i)].item<float>(), expected[i], 2e-4) << i;
  }
}

void ExpectGolden(const Golden& golden) {
  const std::string path = SharedData() + "/" + golden.folder;
  auto checkpoint = CheckpointReader::Open(path);
  if (absl::IsNotFound(checkpoint.status())) GTEST_SKIP() << path << " is absent";
  TALLY_ASSERT_OK(checkpoint);
  TALLY_ASSERT_OK_AND_ASSIGN(auto model,
                             MakeModel(golden.architecture, (*checkpoint)->config_json()));
  TALLY_ASSERT_OK_AND_ASSIGN(auto flat, FlatParameters::Create(*model));
  TALLY_ASSERT_OK(flat->Load(**checkpoint));
  EXPECT_EQ(flat->layout().size(), golden.parameters);
  for (const uint64_t key : {1, 2}) ExpectLogits(*model, key, golden.logits[key - 1]);
}

TEST(Golden, VitMnist) {
  ExpectGolden({"vit-mnist", "vit", 499722,
                {{5.460604f, -4.812714f, 1.782335f, -3.402879f, -1.058715f, -2.481936f, -1.884741f,
                  -2.959998f, 7.587465f, 0.782284f},
                 {-0.3667827f, -5.43186f, 3.981546f, 2.287893f, -4.124644f, -0.03182439f,
                  -5.426654f, -5.955084f, 8.522177f, 1.977466f}}});
}

TEST(Golden, Resnet20Cifar10) {
  ExpectGolden({"resnet20-cifar10", "resnet_cifar", 271098,
                {{-6.378738f, -1.992224f, 10.57146f, 4.12463f, -1.743776f, -6.785579f, 7.193473f,
                  1.262206f, -5.80765f, -0.4452722f},
                 {-7.085214f, 2.022761f, 10.63973f, 1.562838f, -2.1017f, -8.948798f, 7.771287f,
                  2.422489f, -6.222261f, -0.05580733f}}});
}

}  // namespace
}  // namespace tally

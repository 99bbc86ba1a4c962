#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/model/model.h"

namespace tally {
namespace {

using ::tally::testing::IsOk;
using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ModelConfig, UnknownArchitecture) {
  EXPECT_THAT(MakeModel("lstm", "{}"),
              StatusIs(kInvalid, HasSubstr("mlp, vit, resnet_cifar, found \"lstm\"")));
}

TEST(ModelConfig, AllProblemsAtOnce) {
  EXPECT_THAT(
      MakeModel("mlp", R"({"input_size": 0, "hidden_sizes": [4, "x"], "hidden_act": "swish",
                           "dropout": 0.1, "image_std": [0]})"),
      StatusIs(kInvalid,
               AllOf(HasSubstr("config.json: input_size: expected an integer from 1"),
                     HasSubstr("hidden_sizes: expected a list of integers"),
                     HasSubstr("num_labels: expected an integer from 2 to 1048576, found nothing"),
                     HasSubstr("hidden_act: expected one of relu, gelu, tanh, found \"swish\""),
                     HasSubstr("dropout: unknown key"),
                     HasSubstr("image_std: expected a list of 1 or 1 numbers"))));
}

TEST(ModelConfig, DescribingKeysAreFine) {
  TALLY_EXPECT_OK(MakeModel("mlp", R"({"input_size": 4, "hidden_sizes": [], "num_labels": 2,
      "model_type": "mlp", "architectures": ["Mlp"], "_name_or_path": "x",
      "id2label": {"0": "cat"}, "torch_dtype": "float32", "transformers_version": "4.0"})"));
}

TEST(ModelConfig, NotAnObjectOrARepeatedKey) {
  EXPECT_THAT(MakeModel("mlp", "[1]"), StatusIs(kInvalid, HasSubstr("config.json")));
  EXPECT_THAT(MakeModel("mlp", "{"), StatusIs(kInvalid, HasSubstr("config.json")));
  EXPECT_THAT(MakeModel("mlp", R"({"num_labels": 2, "num_labels": 3})"),
              StatusIs(kInvalid, HasSubstr("num_labels")));
}

TEST(ModelConfig, ArchitecturesOwnChecks) {
  EXPECT_THAT(MakeModel("resnet_cifar", R"({"depth": 21, "num_labels": 2, "image_size": 32})"),
              StatusIs(kInvalid, HasSubstr("depth: expected 6 n + 2, found 21")));
  EXPECT_THAT(MakeModel("resnet_cifar",
                        R"({"depth": 20, "num_labels": 2, "image_size": 32, "shortcut": "B"})"),
              StatusIs(kInvalid, HasSubstr("shortcut: expected one of A, found \"B\"")));
  EXPECT_THAT(MakeModel("vit", R"({"image_size": 28, "patch_size": 5, "num_channels": 1,
      "hidden_size": 10, "num_hidden_layers": 1, "num_attention_heads": 4,
      "intermediate_size": 8, "num_labels": 10, "pool": "mean"})"),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("patch_size: expected a divisor of image_size 28, found 5"),
                             HasSubstr("hidden_size: expected a multiple"),
                             HasSubstr("pool: expected one of cls"))));
}

TEST(ModelConfig, NumbersThatDoNotFit) {
  EXPECT_THAT(
      MakeModel("mlp", R"({"input_size": 18446744073709551615, "hidden_sizes": [],
                                   "num_labels": 2.5})"),
      StatusIs(kInvalid,
               AllOf(HasSubstr("input_size: expected"),
                     HasSubstr("num_labels: expected an integer from 2 to 1048576, found 2.5"))));
}

}  // namespace
}  // namespace tally

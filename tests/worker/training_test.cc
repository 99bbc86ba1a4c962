// The pieces of a training step together, on real data and without a server.
#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/data/batch_stream.h"
#include "worker/data/evaluation_reader.h"
#include "worker/flat_parameters.h"

namespace tally {
namespace {

using ::tally::testing::IsOk;

constexpr char kMlp[] = R"({"input_size": 784, "hidden_sizes": [128], "num_labels": 10,
                            "image_mean": [0.2860], "image_std": [0.3530]})";
constexpr char kVit[] = R"({"image_size": 28, "patch_size": 7, "num_channels": 1,
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "num_labels": 10, "image_mean": [0.2860], "image_std": [0.3530]})";

Score EvaluateAll(Model& model, const DataSource& source) {
  auto reader = EvaluationReader::Open(source, 0, 1, 500);
  EXPECT_THAT(reader, IsOk());
  Score total;
  for (;;) {
    auto batch = (*reader)->Next();
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || !batch->has_value()) return total;
    auto score = model.Evaluate(**batch);
    EXPECT_THAT(score, IsOk());
    total += *score;
  }
}

// Accuracy on the test split after `steps` of plain gradient descent.
double Train(const char* architecture, const char* config, const DataSource& source, int steps,
             float rate) {
  auto model = MakeModel(architecture, config);
  EXPECT_THAT(model, IsOk());
  EXPECT_THAT((*model)->CheckFits(source.info()), IsOk());
  EXPECT_THAT((*model)->Initialise(42), IsOk());
  auto flat = FlatParameters::Create(**model);
  EXPECT_THAT(flat, IsOk());
  auto stream = BatchStream::Start(source, {.batch_size = 64, .shuffle_buffer = 4096, .seed = 42});
  EXPECT_THAT(stream, IsOk());
  for (int step = 0; step < steps; ++step) {
    auto batch = (*stream)->Next();
    EXPECT_THAT(batch, IsOk());
    (*flat)->ZeroGradients();
    EXPECT_THAT((*model)->AccumulateGradients(*batch), IsOk());
    EXPECT_THAT((*flat)->FinishBackward(), IsOk());
    for (size_t i = 0; i < (*flat)->gradients().size(); ++i) {
      (*flat)->parameters()[i] -= rate * (*flat)->gradients()[i];
    }
  }
  const Score score = EvaluateAll(**model, source);
  EXPECT_EQ(score.count, source.info().test_examples);
  return static_cast<double>(score.correct) / static_cast<double>(score.count);
}

class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    auto source = OpenDataSource({"idx", "/usr/share/datasets/fashion-mnist"});
    if (absl::IsNotFound(source.status())) GTEST_SKIP() << "dataset-fashion-mnist is absent";
    TALLY_ASSERT_OK(source);
    source_ = *std::move(source);
  }
  std::unique_ptr<DataSource> source_;
};

TEST_F(Training, MlpLearnsFashionMnist) {
  EXPECT_GT(Train("mlp", kMlp, *source_, 600, 0.1f), 0.80);
}

TEST_F(Training, VitLearnsFashionMnist) {
  EXPECT_GT(Train("vit", kVit, *source_, 300, 0.1f), 0.60);
}

}  // namespace
}  // namespace tally

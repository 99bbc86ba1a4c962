// Squared gradients of each example (Model::AccumulateFisher): batched against one example at a
// time, and against a training step on the same batch. Turn by turn in one run, one core, medians
// of the thread's own time. Where LibTorch's BLAS is OpenBLAS, set OPENBLAS_NUM_THREADS=1: its own
// threads know nothing of LibTorch's.
//
// fisher_bench [--examples=32] [--repetitions=7] [--depth=20]
#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "worker/model/batch_tensor.h"
#include "worker/model/fisher/fisher.h"
#include "worker/model/model.h"

namespace tally::bench {
namespace {

struct Sizes {
  uint32_t examples = 32;
  int repetitions = 7;
  int depth = 20;  // of the residual network
};

struct Subject {
  std::string name;
  std::string architecture;
  std::string config;
};

std::vector<Subject> Subjects(const Sizes& sizes) {
  return {
      {"mlp 784-256-128-10", "mlp",
       R"({"input_size": 784, "hidden_sizes": [256, 128], "num_labels": 10})"},
      {"vit 50 tokens of 64, 6 layers", "vit",
       R"({"image_size": 28, "patch_size": 4, "num_channels": 1, "hidden_size": 64, "head_dim": 64,
           "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 128,
           "num_labels": 10})"},
      {absl::StrCat("resnet_cifar ", sizes.depth), "resnet_cifar",
       absl::StrCat(R"({"depth": )", sizes.depth, R"(, "num_labels": 10, "image_size": 32})")},
  };
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Get(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

Batch RandomBatch(const Model& model, uint32_t size) {
  Batch batch;
  batch.format = {model.input_shape(), ElementType::kUint8};
  batch.elements.resize(size * batch.format.bytes());
  for (size_t k = 0; k < batch.elements.size(); ++k) {
    batch.elements[k] = static_cast<char>(RandomWord(1, k));
  }
  for (uint32_t i = 0; i < size; ++i) batch.labels.push_back(i % model.classes());
  return batch;
}

struct Row {
  std::function<void()> run;
  std::vector<double> seconds = {};
};

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// In turn, after one run of each to warm up.
void Measure(std::vector<Row>& rows, int repetitions) {
  for (int i = -1; i < repetitions; ++i) {
    for (Row& row : rows) {
      const double start = ThreadSeconds();
      row.run();
      if (i >= 0) row.seconds.push_back(ThreadSeconds() - start);
    }
  }
}

void Print(const std::string& name, const std::vector<Row>& rows, uint32_t examples) {
  const double batched = Median(rows[0].seconds);
  const double one_by_one = Median(rows[1].seconds);
  const double step = Median(rows[2].seconds);
  std::printf("%-42s %10.3f %12.3f %8.2f %12.2f\n", name.c_str(), batched / examples * 1e3,
              one_by_one / examples * 1e3, one_by_one / batched, batched / step);
  std::fflush(stdout);
}

void Compare(const Subject& subject, FisherKind kind, const Sizes& sizes) {
  const auto model = Get(MakeModel(subject.architecture, subject.config));
  Check(model->Initialise(1));
  Architecture& architecture = model->architecture();
  const Batch batch = RandomBatch(*model, sizes.examples);
  const FisherBatch tensors = {InputTensor(batch, architecture.input()), LabelTensor(batch), kind};
  uint64_t parameters = 0;
  for (const auto& parameter : architecture.module().parameters()) parameters += parameter.numel();
  std::vector<float> sums(parameters);
  std::vector<Row> rows(3);
  rows[0].run = [&] {
    architecture.module().eval();
    Check(AddFisherBatched(architecture, tensors, absl::MakeSpan(sums)));
  };
  rows[1].run = [&] {
    architecture.module().eval();
    Check(AddFisherOneByOne(architecture, tensors, absl::MakeSpan(sums)));
  };
  rows[2].run = [&] { Get(model->AccumulateGradients(batch)); };
  Measure(rows, sizes.repetitions);
  const bool expected = kind == FisherKind::kExpected;
  Print(absl::StrCat(subject.name, expected ? ", expected" : ", empirical"), rows, sizes.examples);
}

void Run(const Sizes& sizes) {
  SetComputeThreads(1);
  std::printf("%-42s %10s %12s %8s %12s\n", "ms an example", "batched", "one by one", "ratio",
              "train steps");
  for (const FisherKind kind : {FisherKind::kEmpirical, FisherKind::kExpected}) {
    for (const Subject& subject : Subjects(sizes)) Compare(subject, kind, sizes);
  }
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Sizes sizes;
  CLI::App app("The speed of squared gradients");
  app.add_option("--examples", sizes.examples)->check(CLI::PositiveNumber);
  app.add_option("--repetitions", sizes.repetitions)->check(CLI::PositiveNumber);
  app.add_option("--depth", sizes.depth)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  tally::bench::Run(sizes);
  return 0;
}

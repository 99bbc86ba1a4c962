#include "worker/flat_parameters.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/model/architecture.h"
#include "worker/model/guard.h"

namespace tally {

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

// LibTorch keeps a gradient's accumulator only as long as somebody else does; the hook hangs on it.
struct GradientHook {
  // A shared_ptr or, in newer versions, an intrusive_ptr.
  decltype(torch::autograd::impl::grad_accumulator(torch::Tensor())) accumulator;
  uintptr_t key = 0;
};

struct FlatParameters::State {
  Layout layout;
  torch::Tensor values;             // float32 [layout.size()]
  torch::Tensor gradients;          // float32 [layout.trained_size()]
  Named tensors;                    // parallel to layout.tensors(); views of `values`
  std::vector<GradientHook> hooks;  // one a parameter, parallel to the start of `tensors`
  std::vector<uint32_t> block_parameters;      // parameters of each trained block
  std::vector<std::atomic<uint32_t>> waiting;  // of those, without a gradient in this pass
  GradientReadyCallback ready;

  torch::Tensor ViewOf(const torch::Tensor& flat, size_t index) const;
  void LinkValues();
  void LinkGradients();
  void AddHook(size_t index);
  // Brings a gradient back into the flat array.
  void RelinkGradient(size_t index);
  void GradientArrived(size_t index);
  void Report(uint32_t block);
  void Arm();
};

torch::Tensor FlatParameters::State::ViewOf(const torch::Tensor& flat, size_t index) const {
  const LayoutTensor& place = layout.tensors()[index];
  const std::vector<int64_t> shape(place.shape.begin(), place.shape.end());
  return flat.narrow(0, static_cast<int64_t>(place.first), static_cast<int64_t>(place.count))
      .view(shape);
}

// Moves values into the flat array and the module's tensors onto it.
void FlatParameters::State::LinkValues() {
  values = torch::empty({static_cast<int64_t>(layout.size())});
  for (size_t i = 0; i < tensors.size(); ++i) {
    const torch::Tensor view = ViewOf(values, i);
    view.copy_(tensors[i].second.detach());
    tensors[i].second.set_data(view);
  }
}

void FlatParameters::State::LinkGradients() {
  gradients = torch::zeros({static_cast<int64_t>(layout.trained_size())});
  block_parameters.resize(layout.trained_blocks());
  waiting = std::vector<std::atomic<uint32_t>>(layout.trained_blocks());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint32_t block = layout.tensors()[i].block;
    if (block >= layout.trained_blocks()) break;
    tensors[i].second.mutable_grad() = ViewOf(gradients, i);
    AddHook(i);
    ++block_parameters[block];
  }
  Arm();
}

void FlatParameters::State::AddHook(size_t index) {
  using torch::autograd::variable_list;
  const auto arrived = [this, index](const variable_list& outputs, const variable_list&) {
    GradientArrived(index);
    return outputs;
  };
  GradientHook hook;
  hook.accumulator = torch::autograd::impl::grad_accumulator(tensors[index].second);
  hook.key = hook.accumulator->add_post_hook(
      std::make_unique<torch::autograd::utils::LambdaPostHook>(arrived));
  hooks.push_back(std::move(hook));
}

// LibTorch adds to a defined gradient in place, but is free to put another tensor, the sum, in its
// stead; or somebody set the module's gradients to none.
void FlatParameters::State::RelinkGradient(size_t index) {
  torch::Tensor& gradient = tensors[index].second.mutable_grad();
  const torch::Tensor view = ViewOf(gradients, index);
  if (gradient.defined() && gradient.data_ptr() == view.data_ptr()) return;
  torch::NoGradGuard no_grad;
  if (gradient.defined()) view.copy_(gradient);
  gradient = view;
}

void FlatParameters::State::GradientArrived(size_t index) {
  RelinkGradient(index);
  const uint32_t block = layout.tensors()[index].block;
  if (--waiting[block] == 0) Report(block);
}

void FlatParameters::State::Report(uint32_t block) {
  if (ready) ready(block);
}

void FlatParameters::State::Arm() {
  for (size_t b = 0; b < waiting.size(); ++b) waiting[b] = block_parameters[b];
}

namespace {

std::vector<uint64_t> ShapeOf(const torch::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

absl::StatusOr<Layout> LayoutOf(const std::vector<BlockParameters>& blocks, const Named& buffers) {
  LayoutBuilder builder;
  for (const BlockParameters& block : blocks) {
    builder.AddBlock(block.name);
    for (const auto& [name, tensor] : block.parameters) builder.AddTensor(name, ShapeOf(tensor));
  }
  if (!buffers.empty()) builder.AddBuffersBlock("buffers");
  for (const auto& [name, tensor] : buffers) builder.AddTensor(name, ShapeOf(tensor));
  return builder.Build();
}

Named AllTensors(const std::vector<BlockParameters>& blocks, const Named& buffers) {
  Named all;
  for (const BlockParameters& block : blocks) {
    all.insert(all.end(), block.parameters.begin(), block.parameters.end());
  }
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

absl::Status CheckFloat32(const Named& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.scalar_type() == torch::kFloat32 && tensor.device().is_cpu()) continue;
    return absl::InternalError(absl::StrCat(name, ": expected float32 on the CPU"));
  }
  return absl::OkStatus();
}

}  // namespace

FlatParameters::FlatParameters(std::unique_ptr<State> state) : state_(std::move(state)) {}

FlatParameters::~FlatParameters() {
  // Hooks that outlive this object would write to freed memory.
  for (GradientHook& hook : state_->hooks) hook.accumulator->del_post_hook(hook.key);
}

absl::StatusOr<std::unique_ptr<FlatParameters>> FlatParameters::Create(Model& model) {
  return GuardTorch("flat parameters", [&]() -> absl::StatusOr<std::unique_ptr<FlatParameters>> {
    torch::NoGradGuard no_grad;
    TALLY_ASSIGN_OR_RETURN(const auto blocks, BlocksOf(model.architecture()));
    const Named buffers = FloatBuffersOf(model.architecture());
    auto state = std::make_unique<State>();
    TALLY_ASSIGN_OR_RETURN(state->layout, LayoutOf(blocks, buffers));
    state->tensors = AllTensors(blocks, buffers);
    TALLY_RETURN_IF_ERROR(CheckFloat32(state->tensors));
    state->LinkValues();
    state->LinkGradients();
    return std::unique_ptr<FlatParameters>(new FlatParameters(std::move(state)));
  });
}

const Layout& FlatParameters::layout() const { return state_->layout; }

absl::Span<float> FlatParameters::parameters() {
  return {state_->values.data_ptr<float>(), static_cast<size_t>(state_->layout.size())};
}

absl::Span<const float> FlatParameters::parameters() const {
  return {state_->values.data_ptr<float>(), static_cast<size_t>(state_->layout.size())};
}

absl::Span<float> FlatParameters::gradients() {
  return {state_->gradients.data_ptr<float>(),
          static_cast<size_t>(state_->layout.trained_size())};
}

void FlatParameters::ZeroGradients() {
  const absl::Span<float> all = gradients();
  std::fill(all.begin(), all.end(), 0.0f);
}

void FlatParameters::SetGradientReadyCallback(GradientReadyCallback callback) {
  state_->ready = std::move(callback);
}

absl::Status FlatParameters::FinishBackward() {
  return GuardTorch("finish backward", [&]() -> absl::Status {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < state_->hooks.size(); ++i) state_->RelinkGradient(i);
    // Backward order, as the others came.
    for (size_t b = state_->waiting.size(); b-- > 0;) {
      if (state_->waiting[b] != 0) state_->Report(static_cast<uint32_t>(b));
    }
    state_->Arm();
    return absl::OkStatus();
  });
}

absl::Status FlatParameters::Load(const CheckpointReader& checkpoint, const LoadOptions& options) {
  return LoadParameters(checkpoint, layout(), options, parameters());
}

}  // namespace tally

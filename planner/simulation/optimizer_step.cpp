#include "planner/simulation/optimizer_step.h"

#include <algorithm>
#include <utility>

#include "planner/question/framework.h"

namespace zplan {

namespace {

constexpr Bytes kFp32{4};

/// Adam of torch without a fused kernel: √v, and √v divided by its correction.
class Adam {
 public:
  explicit Adam(Device& device) : device_(device) {}
  ~Adam() { device_.release(denominator_); }
  Adam(const Adam&) = delete;
  Adam& operator=(const Adam&) = delete;

  void update(const OptimizerTensor& tensor) {
    const Bytes size = tensor.elements * tensor.element;
    Device::Block root = device_.allocate(Term::gradient_copy, size);
    Device::Block denominator = device_.allocate(Term::gradient_copy, size);
    device_.release(root);
    // Python's variable holds the last tensor's until here.
    device_.release(denominator_);
    denominator_ = denominator;
  }

 private:
  Device& device_;
  Device::Block denominator_{Device::kNone};
};

void denominators_of_all(Device& device, const std::vector<OptimizerTensor>& tensors) {
  std::vector<Device::Block> roots;
  for (const OptimizerTensor& tensor : tensors)
    roots.push_back(device.allocate(Term::gradient_copy, tensor.elements * tensor.element));
  std::reverse(roots.begin(), roots.end());
  device.release(roots);
}

/// lion-pytorch: a copy of the moment, and its sum with the gradient.
void lion(Device& device, const OptimizerTensor& tensor) {
  const Bytes size = tensor.elements * tensor.element;
  Device::Block copy = device.allocate(Term::gradient_copy, size);
  Device::Block sum = device.allocate(Term::gradient_copy, size);
  device.release(copy);
  device.release(sum);
}

/// Adafactor of torch: the estimate of one tensor, held until the next one's is there.
class TorchAdafactor {
 public:
  explicit TorchAdafactor(Device& device) : device_(device) {}
  ~TorchAdafactor() { device_.release(estimate_); }
  TorchAdafactor(const TorchAdafactor&) = delete;
  TorchAdafactor& operator=(const TorchAdafactor&) = delete;

  void update(const OptimizerTensor& tensor) {
    const Bytes size = tensor.elements * tensor.element;
    Device::Block square = tensor.columns == 0 ? device_.allocate(Term::gradient_copy, size) : Device::kNone;
    Device::Block estimate = device_.allocate(Term::gradient_copy, size);
    device_.release(estimate_);
    estimate_ = estimate;
    device_.release(square);
  }

 private:
  Device& device_;
  Device::Block estimate_{Device::kNone};
};

/// Adafactor of transformers: gradient and weight in fp32 where they are not, the squared gradient and the
/// update; weight and update of one tensor are held until the next one's are there.
class TransformersAdafactor {
 public:
  explicit TransformersAdafactor(Device& device) : device_(device) {}
  ~TransformersAdafactor() { device_.release(weight_), device_.release(update_); }
  TransformersAdafactor(const TransformersAdafactor&) = delete;
  TransformersAdafactor& operator=(const TransformersAdafactor&) = delete;

  template <class MakeStates>
  void update(const OptimizerTensor& tensor, const MakeStates& make_states) {
    const Bytes size = tensor.elements * kFp32;
    const bool casts = tensor.element < kFp32;
    Device::Block gradient = casts ? take(size) : Device::kNone;
    make_states(tensor);
    replace(weight_, casts ? take(size) : Device::kNone);
    Device::Block square = take(size);
    Device::Block raw = take(size);
    device_.release(square);
    replace(update_, raw);
    replace(update_, take(size));
    device_.spike(Term::gradient_copy, size);  // −update
    device_.release(gradient);
  }

 private:
  [[nodiscard]] Device::Block take(Bytes size) { return device_.allocate(Term::gradient_copy, size); }
  void replace(Device::Block& held, Device::Block by) {
    device_.release(held);
    held = by;
  }

  Device& device_;
  Device::Block weight_{Device::kNone}, update_{Device::kNone};
};

/// Takes the temporaries of torch's own optimizers, whose states are there.
void torch_temporaries(Device& device, const Training& training,
                       const std::vector<OptimizerTensor>& tensors) {
  const auto each = [&](auto&& optimizer) {
    for (const OptimizerTensor& tensor : tensors) optimizer.update(tensor);
  };
  const UpdateTemporaries temporaries = spec(training.optimizer).temporaries;
  if (temporaries == UpdateTemporaries::estimate) each(TorchAdafactor(device));
  if (temporaries != UpdateTemporaries::denominators) return;
  if (training.optimizer_kernel == OptimizerKernel::foreach) denominators_of_all(device, tensors);
  if (training.optimizer_kernel == OptimizerKernel::single) each(Adam(device));
}

}  // namespace

void optimizer_step(Device& device, const Training& training, const std::vector<OptimizerTensor>& tensors,
                    bool first) {
  const auto allocate = [&](const std::vector<Bytes>& blocks) {
    for (const Bytes block : blocks) device.allocate(Term::optimizer_moments, block);
  };
  const auto make_states = [&](const OptimizerTensor& tensor) {
    if (first) allocate(optimizer_state_blocks(training, tensor));
  };
  if (first) allocate(shared_state_blocks(training));
  const UpdateTemporaries temporaries = spec(training.optimizer).temporaries;
  if (temporaries == UpdateTemporaries::fp32_update) {
    TransformersAdafactor adafactor(device);
    for (const OptimizerTensor& tensor : tensors) adafactor.update(tensor, make_states);
    return;
  }
  const bool copies = temporaries == UpdateTemporaries::copied_moment && !spec(training.framework).fused_lion;
  for (const OptimizerTensor& tensor : tensors) {
    make_states(tensor);
    if (copies) lion(device, tensor);
  }
  torch_temporaries(device, training, tensors);
}

void clip_gradient_norm(Device& device, const std::vector<OptimizerTensor>& tensors) {
  constexpr std::int64_t kChunk = 65'536;
  Elements largest{};
  for (const OptimizerTensor& tensor : tensors) largest = std::max(largest, tensor.elements);
  device.spike(Term::gradient_copy,
               share(largest, kChunk) * kFp32 * static_cast<std::int64_t>(tensors.size()));
}

Bytes optimizer_traffic(const Strategy& strategy, const Shard& shard) {
  constexpr Bytes kAdam{30};
  return strategy.offload_optimizer == OffloadDevice::none ? shard.optimizer_elements * kAdam : Bytes{};
}

}  // namespace zplan

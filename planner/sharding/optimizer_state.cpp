#include "planner/sharding/optimizer_state.h"

#include "planner/question/framework.h"

namespace zplan {

namespace {

constexpr Elements kSmallestPacked{4096};  ///< bitsandbytes' min_8bit_size, and torchao's own
constexpr Elements kSmallestPaged{100'000};
constexpr std::int64_t kBlock = 256, kFourBitBlock = 128;
constexpr Bytes kCodeTable{1024};   ///< 256 fp32 values
constexpr Bytes kFourBitTable{64};  ///< 16 fp32 values, of each tensor

/// Source for embeddings: transformers 5.23 trainer.py create_optimizer (register_module_override).
bool packs(const Training& training, const OptimizerTensor& tensor) {
  const OptimizerSpec& optimizer = spec(training.optimizer);
  const Elements elements = tensor.elements;
  if (optimizer.four_bit) return elements >= kSmallestPacked && elements.value % kFourBitBlock == 0;
  const bool stays_wide = tensor.embeds && training.wide_embedding_moments;
  return optimizer.eight_bit && elements >= kSmallestPacked && !stays_wide;
}

bool pages(const OptimizerSpec& optimizer, Elements elements) {
  return optimizer.paged && elements >= kSmallestPaged;
}

bool is_embedding(const RankTensor& tensor) {
  return tensor.role == TensorRole::token_embedding || tensor.role == TensorRole::position_embedding;
}

/// Two values in a byte, an fp32 maximum of each block, and a table. What is not packed has its parameter's
/// type. Source: torchao 0.14 optim/subclass_4bit.py zeros, optim/adam.py _new_buffer.
std::vector<Bytes> four_bit_states(const Training& training, const OptimizerTensor& tensor) {
  std::vector<Bytes> blocks;
  for (int i = 0; i < spec(training.optimizer).moments; ++i) {
    if (!packs(training, tensor)) {
      blocks.push_back(tensor.elements * tensor.element);
      continue;
    }
    blocks.emplace_back(tensor.elements.value / 2);
    blocks.push_back(share(tensor.elements, kFourBitBlock) * Bytes(4));
    blocks.push_back(kFourBitTable);
  }
  return blocks;
}

std::vector<Bytes> packed_states(const Training& training, const OptimizerTensor& tensor) {
  const OptimizerSpec& optimizer = spec(training.optimizer);
  const Elements elements = tensor.elements;
  const bool packed = packs(training, tensor);
  std::vector<Bytes> blocks;
  for (int i = 0; i < optimizer.moments && !pages(optimizer, elements); ++i)
    blocks.push_back(elements * Bytes(packed ? 1 : 4));
  for (int i = 0; i < optimizer.moments && packed; ++i) blocks.push_back(share(elements, kBlock) * Bytes(4));
  return blocks;
}

/// A row's and a column's factor of each matrix, or the whole of a vector; a stack of matrices has them for
/// each.
std::vector<Bytes> factored_states(const OptimizerTensor& tensor, Bytes element) {
  if (tensor.columns == 0) return {tensor.elements * element};
  const std::int64_t n = tensor.elements.value;
  const std::int64_t middle = n / (tensor.rows * tensor.columns);  // 1 for a matrix
  return {element * (n / tensor.columns), element * (n / (middle > 1 ? middle : tensor.rows))};
}

}  // namespace

std::vector<Bytes> optimizer_state_blocks(const Training& training, const OptimizerTensor& tensor) {
  const OptimizerSpec& optimizer = spec(training.optimizer);
  const Bytes moment = tensor.elements * tensor.element;
  switch (optimizer.form) {
    case StateForm::packed:
      return optimizer.four_bit ? four_bit_states(training, tensor) : packed_states(training, tensor);
    case StateForm::factored: return factored_states(tensor, tensor.element);
    case StateForm::factored_fp32: {
      std::vector<Bytes> states = factored_states(tensor, Bytes(4));
      states.push_back(Bytes(4));  // the root mean square of the weight
      return states;
    }
    case StateForm::moments:
    case StateForm::muon: break;
  }
  std::vector<Bytes> states(static_cast<std::size_t>(optimizer.moments), moment);
  if (optimizer.counts_steps && training.optimizer_kernel == OptimizerKernel::fused)
    states.insert(states.begin(), Bytes(4));
  return states;
}

std::vector<Bytes> optimizer_state_blocks(const Training& training, Elements elements, Bytes element) {
  return optimizer_state_blocks(training, {.elements = elements, .element = element});
}

std::vector<Bytes> shared_state_blocks(const Training& training) {
  const OptimizerSpec& optimizer = spec(training.optimizer);
  if (!optimizer.eight_bit) return {};
  return std::vector<Bytes>(static_cast<std::size_t>(optimizer.moments), kCodeTable);
}

Elements fsdp_shard(const RankTensor& tensor, std::int64_t ranks) {
  const Elements row(tensor.elements.value / tensor.rows);
  return row * share(Elements(tensor.rows), ranks).value;
}

std::vector<OptimizerTensor> tensors_by_rows(const RankModel& model, std::int64_t ranks,
                                             std::optional<Bytes> element) {
  std::vector<OptimizerTensor> result;
  for (const RankTensor& tensor : model.tensors) {
    // PyTorch's optimizers make states where there is a gradient.
    if (!tensor.trainable || (tensor.idle && !element)) continue;
    result.push_back({.elements = fsdp_shard(tensor, ranks),
                      .element = element.value_or(Bytes(tensor.stored.value / tensor.elements.value)),
                      .rows = share(Elements(tensor.rows), ranks).value,
                      .columns = tensor.columns,
                      .embeds = is_embedding(tensor) && !element});
  }
  return result;
}

std::vector<OptimizerTensor> optimizer_tensors(const RankModel& model, const Training& training,
                                               const Strategy& strategy) {
  return spec(training.framework).optimizer_tensors(model, training, strategy);
}

Bytes paged_states(const RankModel& model, const Training& training, const Strategy& strategy) {
  const OptimizerSpec& optimizer = spec(training.optimizer);
  if (!optimizer.paged) return {};
  Bytes sum{};
  for (const OptimizerTensor& tensor : optimizer_tensors(model, training, strategy)) {
    if (!pages(optimizer, tensor.elements)) continue;
    sum += tensor.elements * Bytes(packs(training, tensor) ? 1 : 4) * optimizer.moments;
  }
  return sum;
}

}  // namespace zplan

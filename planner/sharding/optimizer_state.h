#pragma once
// States that an optimizer keeps for each tensor it updates.

#include <optional>
#include <vector>

#include "planner/sharding/rank_model.h"

namespace zplan {

/// A tensor as an optimizer is given it: a parameter, a rank's piece of one, or a flat group of many.
struct OptimizerTensor {
  Elements elements;
  Bytes element;           ///< it is stored in so many bytes each, and so is its gradient
  std::int64_t rows{1};    ///< its first dimension
  std::int64_t columns{};  ///< its last dimension; 0 where there is but one
  bool embeds{};           ///< an embedding's weight, of which 8-bit optimizers keep fp32 moments
  bool operator==(const OptimizerTensor&) const = default;
};

/// Blocks that the optimizer makes at its first step for one tensor, in order. Adafactor keeps a row and a
/// column of each matrix; bitsandbytes keeps tensors of fewer than 4096 elements in fp32. Paged states lie
/// outside PyTorch's allocator and are not among them (paged_states). Source: torch 2.11
/// optim/{adamw,adam,sgd,_adafactor}.py; transformers 5.23 optimization.py Adafactor; lion-pytorch 0.2.5;
/// bitsandbytes 0.50.2 optim/optimizer.py init_state; bytes measured for fifteen optimizers
/// (docs/states.md).
[[nodiscard]] std::vector<Bytes> optimizer_state_blocks(const Training& training,
                                                        const OptimizerTensor& tensor);
/// Returns the blocks for a flat group of `elements` elements, without rows and columns.
[[nodiscard]] std::vector<Bytes> optimizer_state_blocks(const Training& training, Elements elements,
                                                        Bytes element);

/// Blocks that it makes once, before the first tensor's: bitsandbytes' 8-bit code tables, 1 KiB for each
/// moment.
[[nodiscard]] std::vector<Bytes> shared_state_blocks(const Training& training);

/// Returns the tensors that the optimizer of one rank (of FSDP: the first) updates, in order: parameters
/// (torch, stage 0), shards of them (FSDP), a slice of all (ZeRO 1 and 2) or groups of shards (ZeRO 3).
[[nodiscard]] std::vector<OptimizerTensor> optimizer_tensors(const RankModel& model, const Training& training,
                                                             const Strategy& strategy);

/// The trained parameters one by one, by rows among `ranks`, in `element` bytes each or as they are stored.
[[nodiscard]] std::vector<OptimizerTensor> tensors_by_rows(const RankModel& model, std::int64_t ranks,
                                                           std::optional<Bytes> element = {});

/// Rows of a tensor that the first rank holds under FSDP: ⌈rows/N⌉ of its first dimension.
/// Source: torch 2.11 distributed/fsdp/_fully_shard/_fsdp_param.py.
[[nodiscard]] Elements fsdp_shard(const RankTensor& tensor, std::int64_t ranks);

/// States of a rank in managed memory: those of paged optimizers, for tensors of 100,000 elements and more.
/// The driver keeps them on the device while there is memory and moves them to the host under pressure; no
/// figure of PyTorch's allocator contains them. Source: bitsandbytes 0.50.2 optim/optimizer.py
/// get_state_buffer.
[[nodiscard]] Bytes paged_states(const RankModel& model, const Training& training, const Strategy& strategy);

}  // namespace zplan

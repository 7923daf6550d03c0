#pragma once
// The model as one rank of a tensor-parallel group sees it, before ZeRO divides anything.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/question/strategy.h"

namespace zplan {

/// One parameter tensor on this rank.
struct RankTensor {
  Elements elements;
  int layer{-1};  ///< −1 outside the layers
  TensorRole role{TensorRole::other};
  bool trainable{true};
  Bytes stored{};           ///< as the module is made: 16-bit, fp32, or packed under QLoRA
  std::int64_t rows{1};     ///< its first dimension on this rank, along which FSDP divides it
  std::int64_t columns{0};  ///< its last dimension; 0 where there is but one
  std::int64_t copies{1};   ///< equal parameters that it stacks: experts, which Megatron-Core has apart
  bool packed{};            ///< by bitsandbytes: blocks of packed_blocks
  bool idle{};              ///< it trains, but no gradient reaches it
  bool divided{};           ///< among tensor-parallel ranks
  std::size_t chunk{};      ///< of those of a stage's layers: 0, but for virtual stages
  bool added{};             ///< peft added it to the model: an adapter
  bool of_values{};         ///< of the model of values that trains beside the policy
  bool tied{};              ///< the head is the same tensor
  Bytes values{};           ///< of `stored` under `packed`: what the parameter itself holds; the rest is its
                            ///< quant state, which no framework shards
  Bytes number{};           ///< under `packed`: of one number that the values are stored in
  bool operator==(const RankTensor&) const = default;
};

/// Elements of the parameter as a framework sees it: of a packed one the numbers that it is stored in.
[[nodiscard]] inline Elements numbers_of(const RankTensor& tensor) {
  return tensor.packed && tensor.number.value > 0 ? Elements(tensor.values.value / tensor.number.value)
                                                  : tensor.elements;
}

/// Parameters of one tensor-parallel rank in the order of named_parameters(), adapters behind the weight they
/// adapt.
struct RankModel {
  std::vector<RankTensor> tensors;
  /// Of a frozen model beside it, a reference copy or a teacher: what the rank holds of it before the
  /// framework divides it. Empty where there is none.
  std::vector<RankTensor> compared;
  Elements trainable;           ///< Ψ of the accounting: what is reduced, sharded by the optimizer, updated
  Elements frozen;              ///< F
  Bytes frozen_size;            ///< stored bytes of F: 16-bit, or packed under QLoRA
  Elements largest_tensor;      ///< of all tensors
  Elements largest_trainable;   ///< of those that train
  Elements trainable_matrices;  ///< trainable elements in the layers' matrices (what Muon treats as such)
  bool operator==(const RankModel&) const = default;
};

/// Returns the part of `model` on rank `rank` of a tensor-parallel group; rank 0 holds the most
/// (units_on_rank). Under LoRA the base is frozen and adapters train; under QLoRA the base's linear layers
/// are packed.
[[nodiscard]] RankModel rank_model(const Model& model, const Training& training, std::int64_t tensor_parallel,
                                   std::int64_t rank = 0);

/// True if the tensor belongs to a part that is not trained: a tower for images or sound ("visual", "vision"
/// or "audio" in its module's name), or the projector to the language model's width ("projector",
/// "connector", "merger", "mlp1"). A projector inside a tower (visual.merger) belongs to the tower, too.
[[nodiscard]] bool freezes(const Training& training, const Tensor& tensor);
/// True if a tensor of the model itself trains; `layer` is −1 outside the layers.
[[nodiscard]] bool trains(const Training& training, const Tensor& tensor, std::int64_t layer);
/// Returns the tensor of the frozen model that a tied head shares with the embedding: the first of its
/// token embeddings, or else its first tensor.
[[nodiscard]] const RankTensor& compared_embedding(const RankModel& model);
/// Returns the modules that hold these parts, each once.
[[nodiscard]] std::vector<std::string> frozen_paths(const Inventory& inventory, const Training& training);

/// True if QLoRA packs this tensor: weights of linear modules except the head. Stacked experts and routers
/// are plain parameters in transformers 5, which bitsandbytes leaves in 16 bits.
[[nodiscard]] bool is_packed(const Training& training, const Tensor& tensor);

/// Stored bytes of one linear weight of `elements` elements packed by bitsandbytes (block size 64), GPTQ or
/// AWQ (groups of 128 rows), HQQ (groups of 64) or torchao (a scale for each row). nf4: n/2 + 4⌈n/64⌉ + 64;
/// nf4 double: n/2 + B + 4⌈B/256⌉ + 1092 with B = ⌈n/64⌉; int8: n + 4·out; GPTQ with b bits: n·b/8 + G·b/8 +
/// 2·G + 4·in with G = out·⌈in/128⌉; AWQ: n/2 + 2.5·G; HQQ: n/2 + 4·n/64; torchao int8: n + 5·out. Source:
/// bitsandbytes 0.50.2, stored bytes of 193 layers measured (tests/reference/); AutoGPTQ 0.7
/// nn_modules/qlinear/qlinear_cuda_old.py, read only; gptqmodel 7.7.0 nn_modules/qlinear/__init__.py
/// AWQuantLinear, hqq 0.2.8 core/quantize.py, torchao 0.18.0 quantize_/workflows/int8/int8_tensor.py, stored
/// bytes of whole models measured (tests/reference/quantised).
[[nodiscard]] Bytes packed_size(Quantization quantization, Elements elements, std::int64_t out_features);

/// The blocks that packed_size adds up, in the order they are made: nf4 maxima, values, code table; nf4
/// double values, code table, offset, maxima of the maxima, 8-bit maxima, their map; int8 scales, values;
/// GPTQ values, zero points, scales, groups; AWQ values, zero points, scales; HQQ values, scales, zero
/// points; torchao scales, zero points, values. Source: bitsandbytes 0.50.2 functional.py quantize_4bit,
/// nn/modules.py Int8Params.
[[nodiscard]] std::vector<Bytes> packed_blocks(Quantization quantization, Elements elements,
                                               std::int64_t out_features);

}  // namespace zplan

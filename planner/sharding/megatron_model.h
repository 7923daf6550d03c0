#pragma once
// The model as Megatron-Core's GPTModel holds it.

#include <cstdint>

#include "planner/sharding/model_part.h"

namespace zplan {

/// Returns the rows of Megatron's embedding: the vocabulary padded to a multiple of 128 for each of
/// `tensor_parallel` ranks. Source: Megatron-Core 0.19.2 training/tokenizer vocab_size_with_padding.
[[nodiscard]] std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t tensor_parallel);

/// Returns `model` with the parameters of GPTModel under Transformer Engine's layers, in the order of
/// named_parameters(): queries, keys and values in one weight, gate and up in one, norms inside the layer
/// that follows them, a padded vocabulary, of a layer's experts those of one rank. Shapes stay the whole
/// model's, but for the vocabulary. Source: Megatron-Core 0.19.2
/// core/models/gpt/{gpt_model,gpt_layer_specs}.py, core/transformer/attention.py,
/// core/transformer/moe/{moe_layer,experts,shared_experts}.py. `predictions`: layers that predict further
/// tokens, behind the decoder's.
[[nodiscard]] Model megatron_model(const Model& model, const ParallelLayout& layout,
                                   std::int64_t predictions = 0);

/// Returns the layers of chunk `chunk` of stage `stage`. Chunks follow each other in the model as their
/// numbers do, those of one number in the order of stages. Embedding and loss may count as layers, the first
/// and the last stage may have a number of their own, or each chunk may. Source: Megatron-Core 0.19.2
/// core/transformer/transformer_block.py get_num_layers_to_build, transformer_layer.py
/// get_transformer_layer_offset.
[[nodiscard]] LayerRange megatron_layers(std::int64_t layers, const ParallelLayout& layout,
                                         std::int64_t stage, std::int64_t chunk,
                                         const MegatronOptions& options);

}  // namespace zplan

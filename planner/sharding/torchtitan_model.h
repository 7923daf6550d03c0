#pragma once
// The model as torchtitan's Decoder holds it.

#include "planner/sharding/model_part.h"

namespace zplan {

/// Returns `model` with the parameters of torchtitan's Decoder, in the order of named_parameters(): queries,
/// keys and values in one weight, gate, down and up apart, experts in a stack for each of the three. A rank
/// holds its experts, or its part of each where ranks divide tensors alone. A tied head is a tensor of its
/// own, because FSDP gathers and reduces it by itself; the optimizer updates it with the embedding
/// (RankTensor::tied). Source: torchtitan 0.3.0 models/common/{decoder,attention,feed_forward,moe,
/// moe_sharding}.py, models/deepseek_v3/model.py.
[[nodiscard]] Model torchtitan_model(const Model& model, const ParallelLayout& layout);

/// Returns how many layers the stages of a pipeline divide: the model's, and what counts as layers of the
/// first and of the last stage.
[[nodiscard]] constexpr std::int64_t torchtitan_slots(std::int64_t layers, const TitanOptions& options) {
  return layers + options.first_stage_less + options.last_stage_less;
}

/// Returns the layers of chunk `chunk` of stage `stage`. The embedding and the head count as layers of the
/// first and the last; what does not divide goes to the first ones. Source: torchtitan 0.3.0
/// distributed/pipeline_parallel.py generate_llm_fqn_per_model_part.
[[nodiscard]] LayerRange torchtitan_layers(std::int64_t layers, const ParallelLayout& layout,
                                           std::int64_t stage, std::int64_t chunk,
                                           const TitanOptions& options);

/// Returns true if queries and keys are normed, as Qwen3's are.
[[nodiscard]] bool has_norms_of_heads(const Model& model);

}  // namespace zplan

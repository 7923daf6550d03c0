#pragma once
// Mixtures of experts and latent attention that Megatron-Core plans cover.

#include "planner/question/framework.h"

namespace zplan::megatron {

/// Adds why a model's mixtures of experts, and how a strategy divides them, are not planned; Megatron-Core's
/// own conditions among it. Source: Megatron-Core 0.19.2 training/arguments.py, core/parallel_state.py,
/// core/transformer/{transformer_config,moe/moe_layer}.py.
void check_mixtures(const Model& model, const Strategy& strategy, Reasons& reasons);

/// Adds why layers that predict further tokens (MTP) are not planned with this model and strategy.
void check_predictions(const Model& model, const Strategy& strategy, Reasons& reasons);

/// Adds why latent attention is not planned with this strategy.
void check_latent_attention(const Model& model, const Strategy& strategy, Reasons& reasons);

}  // namespace zplan::megatron

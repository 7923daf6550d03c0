#include "planner/frameworks/fsdp/tensor_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "models/architectures/tp_plans.h"
#include "planner/plan/legality.h"
#include "planner/question/framework.h"

namespace zplan {

namespace {

using Reject = std::string (*)(const Model&, const Training&, const Strategy&);

bool adds_bias_behind_rows(const Model& model) {
  return std::ranges::any_of(model.inventory.kinds, [](const LayerKind& kind) {
    return std::ranges::any_of(kind.tensors, [&](const Tensor& bias) {
      return bias.name.ends_with(".bias") && std::ranges::any_of(kind.tensors, [&](const Tensor& weight) {
               return weight.split == TensorParallelSplit::row && weight.module == bias.module;
             });
    });
  });
}

std::string architecture(const Model& model, const Training&, const Strategy&) {
  const std::span<const std::string_view> planned = architectures_with_llamas_tp_plan();
  const bool known = std::ranges::find(planned, model.shape.architecture) != planned.end();
  if (known && !model.recorded && !model.analogue && !model.vision && !adds_bias_behind_rows(model))
    return {};
  return fmt::format(
      "FSDP2 with tensor parallelism is planned for {}, whose tp_plan is known (text alone, without biases "
      "behind the projections that are divided by rows), not for {}",
      fmt::join(architectures_with_llamas_tp_plan(), ", "), model.shape.architecture);
}

std::string heads(const Model& model, const Training&, const Strategy& s) {
  if (model.shape.key_value_heads % s.layout.tensor == 0) return {};
  return fmt::format(
      "tensor parallel {} does not divide the {} key-value heads{}: transformers 5.23 views a rank's part as "
      "whole heads and stops (RuntimeError: shape is invalid for input of size)",
      s.layout.tensor, model.shape.key_value_heads, if_inferred(model));
}

std::string widths(const Model& model, const Training&, const Strategy& s) {
  const std::int64_t t = s.layout.tensor, width = model.shape.intermediate_size;
  if (width % t == 0 && model.shape.vocabulary_size % t == 0) return {};
  return fmt::format(
      "tensor parallel {} is planned where it divides the feed-forward size {} and the "
      "vocabulary {}",
      t, width, model.shape.vocabulary_size);
}

std::string adapters(const Model&, const Training& training, const Strategy&) {
  if (training.method == Method::full) return {};
  return "peft 0.21.2 widens each adapter to the whole layer, of which transformers' tp_plan leaves a rank a "
         "part: the forward stops (RuntimeError: shape is invalid for input of size)";
}

/// Source: accelerate 1.15 parallelism_config.py _validate_accelerator, __post_init__.
std::string shards(const Model&, const Training&, const Strategy& s) {
  if (s.layout.shard > 1) return {};
  if (s.layout.replicate > 1)
    return "accelerate refuses replicas without shards beside tensor parallelism: Tensor/Context parallelism "
           "(tp/cp_size > 1) cannot be used with pure data parallelism (dp_replicate_size > 1 and "
           "dp_shard_size == 1)";
  return "tensor parallelism leaves FSDP2 no rank to shard over; accelerate: FSDP is enabled but the "
         "parallelism config has no dimension for FSDP to shard across";
}

/// accelerate's own TP beside FSDP2 imports a class that transformers no longer has, so a ring, which
/// accelerate alone sets up, does not go with it. Source: accelerate 1.15 accelerator.py _prepare_tp.
std::string tokens(const Model&, const Training&, const Strategy& s) {
  if (s.layout.token_ranks() == 1) return {};
  return "transformers' DistributedConfig has no ranks that divide a sample, and accelerate 1.15, which has, "
         "stops at tensor parallelism beside FSDP2 (ImportError: cannot import name 'ReplicateParallel')";
}

std::string resharding(const Model&, const Training&, const Strategy& s) {
  if (s.zero_stage == 3) return {};
  return "transformers' fsdp_plan frees layers behind their forward: stage 3 beside tensor parallelism";
}

std::string offload(const Model&, const Training&, const Strategy& s) {
  if (s.offload_parameters == OffloadDevice::none && s.offload_optimizer == OffloadDevice::none) return {};
  return "FSDP2 with tensor parallelism and offload is not planned: no recorded step to hold it against";
}

std::string precision(const Model&, const Training& training, const Strategy&) {
  if (training.precision != Precision::fp16) return {};
  return "transformers' fsdp_mixed_precision computes in bf16, not fp16";
}

std::string modules(const Model&, const Training& training, const Strategy&) {
  const bool own = training.modules.replaces_modules() || training.modules.kernels.replace_layers();
  const bool cuts = training.fused_loss || training.fused_head || training.loss_chunks > 1;
  if (!own && !cuts && training.objective == Objective::sft && !distils(training)) return {};
  return "FSDP2 with tensor parallelism is planned for training on next tokens over transformers' own "
         "modules and loss";
}

constexpr std::array<Reject, 10> kRules{architecture, heads,      widths,  adapters,  shards,
                                        tokens,       resharding, offload, precision, modules};

}  // namespace

void check_tensor_plan(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.layout.tensor == 1) return;
  for (const Reject rule : kRules)
    if (std::string reason = rule(model, training, s); !reason.empty()) reasons.push_back(std::move(reason));
}

Reasons tensor_plan_warnings(const Strategy& s) {
  if (s.layout.tensor == 1) return {};
  return {
      "transformers' tp_plan gathers whole logits on every tensor-parallel rank, and DTensor makes the "
      "gradient of the whole embedding on each before it keeps the rank's rows: neither shrinks with --tp"};
}

}  // namespace zplan

#pragma once
// Options of Megatron-Core that change what a rank holds, computes or sends. Defaults: Megatron-Core 0.19.2
// megatron/training/arguments.py.

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// MegatronOptions are given where a strategy runs in Megatron-Core. Degrees of parallelism are the layout's;
/// the distributed optimizer is stage 1, its absence stage 0; --recompute-granularity is Strategy's
/// checkpointing.
struct MegatronOptions {
  bool sequence_parallel{};     ///< hidden states between layers are divided among tensor-parallel ranks
  bool overlap_grad_reduce{};   ///< gradients are reduced bucket by bucket in the last backward
  bool overlap_param_gather{};  ///< weights are gathered bucket by bucket in the next step's first forward
  bool gradients_in_bf16{};     ///< --grad-reduce-in-bf16: sums of gradients have 2 bytes an element
  bool fused_cross_entropy{};   ///< --cross-entropy-loss-fusion, implementation "native"
  bool makes_mask{true};        ///< the data loader makes a mask, which fused attention does not read
  bool runs_flash_attention{};  ///< --attention-backend flash; else cuDNN's fused attention
  bool adds_in_product{true};   ///< gradient_accumulation_fusion: products add to the sums of gradients
  bool recomputes_attention{true};  ///< selective recompute: of the attention kernel ("core_attn")
  bool recomputes_mlp{};            ///< selective recompute: of norm and feed-forward ("mlp")
  /// Full recompute, --recompute-method block: so many layers of a stage are computed again; 0: all of them
  /// (uniform).
  std::int64_t recomputed_layers{};
  /// Elements of a bucket; 0: Megatron's own, the larger of 40,000,000 and 1,000,000 a data-parallel rank.
  Elements bucket_size{};
  /// Layers of the first and the last stage; 0: as many as the others (--decoder-first-pipeline-num-layers).
  std::int64_t first_stage_layers{}, last_stage_layers{};
  /// The embedding, and the loss, count as a layer where layers are divided among stages.
  bool counts_embedding{}, counts_loss{};
  bool operator==(const MegatronOptions&) const = default;
  auto operator<=>(const MegatronOptions&) const = default;
};

/// MegatronSwitch is one of Megatron's arguments without a value, as its command line spells it, without
/// dashes.
struct MegatronSwitch {
  std::string_view name;
  bool MegatronOptions::*member;
  bool value;  ///< that the argument sets
};
/// Returns the switches, in the order in which command lines list them.
[[nodiscard]] std::span<const MegatronSwitch> megatron_switches();
/// Returns the names of those that differ from what Megatron does without an argument.
[[nodiscard]] std::vector<std::string> switches_of(const MegatronOptions& options);

/// Returns the switches that Megatron's own recipes set: hidden states are divided, gradients are reduced and
/// weights gathered beside computation. Source: Megatron-LM examples/llama/train_llama3_8b_h100_fp8.sh.
[[nodiscard]] MegatronOptions recommended_megatron_options();

}  // namespace zplan

#pragma once
// Options of Megatron-Core that change what a rank holds, computes or sends. Defaults: Megatron-Core 0.19.2
// megatron/training/arguments.py.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

/// AttentionBackend is Megatron's --attention-backend: cuDNN's fused attention, FlashAttention, or products
/// and a softmax whose scores lie in memory.
enum class AttentionBackend { fused, flash, unfused };
template <>
struct EnumNames<AttentionBackend> {
  static constexpr std::array<std::pair<AttentionBackend, std::string_view>, 3> table{
      {{AttentionBackend::fused, "fused"},
       {AttentionBackend::flash, "flash"},
       {AttentionBackend::unfused, "unfused"}}};
};

/// LossFusion is Megatron's --cross-entropy-fusion-impl: functions that Inductor compiles, or Transformer
/// Engine's kernels, which turn 16-bit logits into their gradient in place.
enum class LossFusion { native, te };
template <>
struct EnumNames<LossFusion> {
  static constexpr std::array<std::pair<LossFusion, std::string_view>, 2> table{
      {{LossFusion::native, "native"}, {LossFusion::te, "te"}}};
};

/// RecomputeMethod is Megatron's --recompute-method: groups of layers, or the first layers of each stage.
enum class RecomputeMethod { uniform, block };
template <>
struct EnumNames<RecomputeMethod> {
  static constexpr std::array<std::pair<RecomputeMethod, std::string_view>, 2> table{
      {{RecomputeMethod::uniform, "uniform"}, {RecomputeMethod::block, "block"}}};
};

/// RecomputedModule is one of Megatron's --recompute-modules: the attention kernel, a dense feed-forward, the
/// norm in front of a mixture, a mixture, its routed experts' activation, its shared experts.
enum class RecomputedModule { core_attn, mlp, layernorm, moe, moe_act, shared_experts };
template <>
struct EnumNames<RecomputedModule> {
  static constexpr std::array<std::pair<RecomputedModule, std::string_view>, 6> table{
      {{RecomputedModule::core_attn, "core_attn"},
       {RecomputedModule::mlp, "mlp"},
       {RecomputedModule::layernorm, "layernorm"},
       {RecomputedModule::moe, "moe"},
       {RecomputedModule::moe_act, "moe_act"},
       {RecomputedModule::shared_experts, "shared_experts"}}};
};

/// RowDispatcher is Megatron's --moe-token-dispatcher-type: every rank gathers the tokens of all, or ranks
/// send each other the rows of their experts; "flex", by DeepEP or HybridEP, sends a token once to each node,
/// or to each rank within one.
enum class RowDispatcher { allgather, alltoall, flex };
template <>
struct EnumNames<RowDispatcher> {
  static constexpr std::array<std::pair<RowDispatcher, std::string_view>, 3> table{
      {{RowDispatcher::allgather, "allgather"},
       {RowDispatcher::alltoall, "alltoall"},
       {RowDispatcher::flex, "flex"}}};
};

/// ContextExchange is one of Megatron's --cp-comm-type: how the ranks that divide a sample's tokens exchange
/// keys and values. a2a+p2p has all_to_alls within parts of the group and a ring over the parts.
enum class ContextExchange { p2p, a2a, all_gather, a2a_p2p };
template <>
struct EnumNames<ContextExchange> {
  static constexpr std::array<std::pair<ContextExchange, std::string_view>, 4> table{
      {{ContextExchange::p2p, "p2p"},
       {ContextExchange::a2a, "a2a"},
       {ContextExchange::all_gather, "all_gather"},
       {ContextExchange::a2a_p2p, "a2a+p2p"}}};
};

/// StateType is the type of gradients, main parameters and moments of the precision-aware optimizer.
enum class StateType { fp32, fp16, bf16, fp8 };
template <>
struct EnumNames<StateType> {
  static constexpr std::array<std::pair<StateType, std::string_view>, 4> table{{{StateType::fp32, "fp32"},
                                                                                {StateType::fp16, "fp16"},
                                                                                {StateType::bf16, "bf16"},
                                                                                {StateType::fp8, "fp8"}}};
};

/// MegatronOptions are given where a strategy runs in Megatron-Core. Degrees of parallelism are the layout's;
/// the distributed optimizer is stage 1, its absence stage 0; --recompute-granularity is Strategy's
/// checkpointing.
struct MegatronOptions {
  bool sequence_parallel{};     ///< hidden states between layers are divided among tensor-parallel ranks
  bool overlap_grad_reduce{};   ///< gradients are reduced bucket by bucket in the last backward
  bool overlap_param_gather{};  ///< weights are gathered bucket by bucket in the next step's first forward
  bool gradients_in_bf16{};     ///< --grad-reduce-in-bf16: sums of gradients have 2 bytes an element
  bool fused_cross_entropy{};   ///< --cross-entropy-loss-fusion
  LossFusion loss_fusion{LossFusion::native};  ///< how it is fused
  bool makes_mask{true};       ///< the data loader makes a mask, which fused attention does not read
  bool adds_in_product{true};  ///< gradient_accumulation_fusion: products add to the sums of gradients
  bool fuses_rotation{true};   ///< apply_rope_fusion: one kernel rotates queries or keys
  bool fuses_swiglu{true};     ///< bias_swiglu_fusion: one kernel for the gate and its product
  bool counts_tokens{};     ///< --calculate-per-token-loss: gradients are divided by the tokens of the step
  bool exchanges_shapes{};  ///< variable_seq_lengths: stages send sizes before hidden states
  bool divides_inputs{};    ///< --distribute-saved-activations: of recomputed layers, a part on each rank
  AttentionBackend attention{AttentionBackend::fused};
  /// The exchange of keys and values of each layer; one value: of all layers.
  std::vector<ContextExchange> context_exchanges{ContextExchange::p2p};
  /// Ranks of an all_to_all, and ranks of a ring, of a2a+p2p (--hierarchical-context-parallel-sizes).
  std::vector<std::int64_t> context_hierarchy{};
  /// Modules that selective recompute computes again.
  std::vector<RecomputedModule> recomputed_modules{RecomputedModule::core_attn};
  /// The method of full recompute; absent: uniform.
  std::optional<RecomputeMethod> recompute_method{};
  /// Layers that full recompute computes again: of each group (uniform), or of each stage (block); 0: 1.
  std::int64_t recomputed_layers{};
  // Mixtures of experts.
  RowDispatcher dispatcher{RowDispatcher::allgather};
  bool groups_experts{};  ///< --moe-grouped-gemm: one product for a rank's experts; else one after the other
  bool balancing_loss{};  ///< --moe-aux-loss-coeff: a loss balances the experts of a micro-batch
  bool router_in_fp32{};  ///< --moe-router-dtype fp32: logits and weights of experts are fp32
  bool
      router_pre_softmax{};  ///< --moe-router-pre-softmax: scores of all experts are normed, then some chosen
  bool permute_fusion{};     ///< --moe-permute-fusion: TE's kernels sort rows by expert
  bool overlaps_shared_experts{};  ///< --moe-shared-expert-overlap: they run beside the exchange of rows
  std::int64_t predictions{};      ///< --mtp-num-layers: layers that predict further tokens
  /// Elements of a bucket; 0: Megatron's own, the larger of 40,000,000 and 1,000,000 a data-parallel rank.
  Elements bucket_size{};
  std::int64_t bucket_count{};    ///< --ddp-num-buckets: a bucket has so many parts of all; 0: unset
  bool pads_buckets{};            ///< --ddp-pad-buckets-for-high-nccl-busbw: to multiples of 65,536 elements
  bool averages_in_collective{};  ///< --ddp-average-in-collective: the reduction averages
  bool sums_in_fp32{};  ///< --ddp-reduce-scatter-with-fp32-accumulation: an all_to_all, then a local sum
  std::int64_t optimizer_instances{1};  ///< copies of the divided optimizer states (HSDP)
  bool precision_aware{};               ///< --use-precision-aware-optimizer
  StateType main_grads{StateType::fp32}, main_params{StateType::fp32};  ///< of the precision-aware optimizer
  StateType first_moments{StateType::fp32}, second_moments{StateType::fp32};
  bool offloads_optimizer{};   ///< --optimizer-cpu-offload: the host holds states and updates
  double offload_fraction{1};  ///< of the elements that this rank updates
  /// Layers of the first and the last stage; 0: as many as the others (--decoder-first-pipeline-num-layers).
  std::int64_t first_stage_layers{}, last_stage_layers{};
  /// The embedding, and the loss, count as a layer where layers are divided among stages.
  bool counts_embedding{}, counts_loss{};
  /// Layers of each chunk of the model in order (--pipeline-model-parallel-layout); empty: as many as others.
  std::vector<std::int64_t> layers_of_chunks;
  // The interleaved schedule (virtual stages).
  bool overlaps_transfers{true};     ///< stages exchange hidden states beside computation
  bool overlaps_warmup_and_flush{};  ///< also where forwards or backwards alone run
  /// --microbatch-group-size-per-virtual-pipeline-stage: micro-batches that a chunk of layers runs before the
  /// next does; 0: as many as stages.
  std::int64_t group_of_micro_batches{};
  [[nodiscard]] std::int64_t micro_batch_group(std::int64_t stages) const {
    return group_of_micro_batches > 0 ? group_of_micro_batches : stages;
  }
  bool operator==(const MegatronOptions&) const = default;
  auto operator<=>(const MegatronOptions&) const = default;

  /// True if sums of gradients have 2 bytes an element.
  [[nodiscard]] bool sums_in_bf16() const { return gradients_in_bf16 || main_grads == StateType::bf16; }
  /// True if ranks send each other the rows of their experts.
  [[nodiscard]] bool exchanges_rows() const { return dispatcher != RowDispatcher::allgather; }
  /// True if selective recompute computes the module again.
  [[nodiscard]] bool recomputes(RecomputedModule module) const;
};

/// True if stages have equally much where embedding and loss count as a layer each, as Llama 3 405B was
/// trained. Source: Dubey et al. 2024, section 3.3.2.
[[nodiscard]] constexpr bool divides_with_ends(std::int64_t layers, std::int64_t stages) {
  return (layers + 2) % stages == 0;
}

/// Returns how many layers full recompute computes again together; 1 but under the method "uniform".
[[nodiscard]] std::int64_t grouped_layers(const MegatronOptions& options);

/// Returns the layers of each chunk of --pipeline-model-parallel-layout: "Et*3|(tt|)*2,tL" has 3, 2, 2 and 1.
/// Embedding (E) and loss (L) stand first and last; other layers than decoder layers (t) are not planned:
/// nothing is returned. Source: Megatron-Core 0.19.2 core/transformer/pipeline_parallel_layer_layout.py
/// PipelineParallelLayerLayout.parse_str_to_list.
[[nodiscard]] std::optional<std::vector<std::int64_t>> chunk_layers_of(std::string_view layout);
/// Returns a layout of these layers, "Ettt|tt|tt|tL".
[[nodiscard]] std::string chunk_layout_of(const std::vector<std::int64_t>& layers);

/// Returns how many layers of a stage, the first ones, full recompute computes again under the method
/// "block"; nothing is returned under "uniform", which computes all again.
[[nodiscard]] std::optional<std::int64_t> block_layers(const MegatronOptions& options);

/// MegatronArgument is one of Megatron's arguments, as its command line spells it, without dashes.
struct MegatronArgument {
  std::string_view name;
  std::vector<std::string> accepted;  ///< its values, for messages; empty: a switch, which takes none
  /// Sets the value; several are separated by spaces. Returns false where it is not accepted.
  bool (*set)(MegatronOptions& options, std::string_view value);
  /// Returns the value, empty of a switch; nothing where Megatron does the same without the argument.
  std::optional<std::string> (*value)(const MegatronOptions& options);
  bool of_config{};  ///< a field of Megatron's config that its own script does not set from the command line
};
/// Returns the arguments, in the order in which command lines list them.
[[nodiscard]] const std::vector<MegatronArgument>& megatron_arguments();
/// Sets the argument that `word` gives: "name", or "name=value". Throws InputError, which names `place` and
/// what is accepted.
void set_megatron_argument(MegatronOptions& options, std::string_view place, std::string_view word);
/// Returns the words that set the arguments that differ from what Megatron does without them.
[[nodiscard]] std::vector<std::string> megatron_words(const MegatronOptions& options);

/// Returns the options that Megatron's own recipes set: hidden states are divided, gradients are reduced and
/// weights gathered beside computation; mixtures exchange rows, run their experts in one product and are
/// balanced by a loss. Source: Megatron-LM examples/llama/train_llama3_8b_h100_fp8.sh,
/// examples/mixtral/train_mixtral_8x7b_distributed.sh.
[[nodiscard]] MegatronOptions recommended_megatron_options();

}  // namespace zplan

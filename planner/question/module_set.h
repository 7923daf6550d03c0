#pragma once
// ModuleSet names the functions and properties in which a library's modules differ from transformers'.
// docs/adding-a-module-set.md says how to add one.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

struct Model;
struct Strategy;
struct Training;

/// CheckpointOffload says where the inputs of checkpointed layers wait for the backward: on the device; in
/// pageable host memory, as ArcticTraining's replacement of torch.utils.checkpoint keeps them; in pinned host
/// memory by DeepSpeed's hooks on saved tensors, which find nothing to move at ZeRO-3; in pinned host memory
/// behind two buffers that stay on the device, as Unsloth keeps them; in pinned host memory by hooks of TRL
/// (shared) or torchtune (each), which move all that autograd saves, without checkpointing, too: TRL's keep
/// on the device what is saved again while its copy is under way, torchtune's copy each time.
enum class CheckpointOffload { none, host, pinned, buffered, shared, each };
template <>
struct EnumNames<CheckpointOffload> {
  static constexpr std::array<std::pair<CheckpointOffload, std::string_view>, 6> table{
      {{CheckpointOffload::none, "none"},
       {CheckpointOffload::host, "alst"},
       {CheckpointOffload::pinned, "deepspeed"},
       {CheckpointOffload::buffered, "unsloth"},
       {CheckpointOffload::shared, "trl"},
       {CheckpointOffload::each, "torchtune"}}};
};
/// True if hooks on all saved tensors move them to the host.
[[nodiscard]] constexpr bool moves_saved(CheckpointOffload offload) {
  return offload == CheckpointOffload::shared || offload == CheckpointOffload::each;
}

// Declared in planner/model_trace/, which defines the functions of the rows.
namespace symbolic {
struct DeltaRuleInputs;
struct Heads;
struct NormCall;
struct Parameter;
class Parameters;
struct Program;
struct Tensor;
}  // namespace symbolic

/// LayerKernels holds functions that record a layer's norms, rotations, feed-forward and delta rule. A null
/// pointer stands for transformers' module, made of PyTorch's operators.
struct LayerKernels {
  std::string_view name{"torch"};  ///< as --kernels takes it
  std::string_view owner{};        ///< the library in words: "Liger"
  symbolic::Tensor (*norm)(symbolic::Program&, const symbolic::NormCall&){};
  /// Rotates queries and keys by their positions.
  void (*rotation)(symbolic::Program&, symbolic::Heads&){};
  /// A feed-forward without experts.
  symbolic::Tensor (*feed_forward)(symbolic::Program&, const symbolic::Parameters&,
                                   const symbolic::Tensor&){};
  symbolic::Tensor (*delta_rule)(symbolic::Program&, const symbolic::DeltaRuleInputs&){};
  bool operator==(const LayerKernels&) const = default;

  /// True if modules that every decoder has are replaced.
  [[nodiscard]] bool replace_layers() const {
    return norm != nullptr || rotation != nullptr || feed_forward != nullptr;
  }
};

/// ModuleSet holds the modules of one library. What a row does not give is as in transformers.
struct ModuleSet {
  std::string_view name{"transformers"};  ///< as --modules takes it
  LayerKernels kernels{};

  // Functions that record modules in the place of transformers'; null: transformers'.
  /// Queries, keys and values from separate weights.
  symbolic::Heads (*projections)(symbolic::Program&, const symbolic::Parameters&, const symbolic::Tensor&){};
  /// The linear layer of a weight, with its bias, packed storage and adapter.
  symbolic::Tensor (*linear)(symbolic::Program&, const symbolic::Parameters&, const symbolic::Parameter&,
                             const symbolic::Tensor&){};
  /// Self-attention from the normed hidden states to the output projection; the last argument is whether it
  /// has a window.
  symbolic::Tensor (*attention)(symbolic::Program&, const symbolic::Parameters&, const symbolic::Tensor&,
                                bool){};
  /// Embeddings, and all else that runs before the layers; the first layer's hidden states.
  symbolic::Tensor (*before_layers)(symbolic::Program&, const symbolic::Parameters&){};
  /// Records what a later stage of a pipeline receives beside hidden states. The last argument: it is the
  /// last stage.
  void (*receive)(symbolic::Program&, bool){};
  /// One decoder layer.
  symbolic::Tensor (*layer)(symbolic::Program&, const symbolic::Parameters&, const symbolic::Tensor&){};
  /// The final norm.
  symbolic::Tensor (*after_layers)(symbolic::Program&, const symbolic::Parameters&,
                                   const symbolic::Tensor&){};
  /// The output head and the loss of next tokens, from the normed hidden states.
  symbolic::Tensor (*head_and_loss)(symbolic::Program&, const symbolic::Parameters&,
                                    const symbolic::Tensor&){};

  /// Returns why the library does not run a model so, or why that is not planned; nothing where it does.
  std::optional<std::string> (*refuses)(const Model&, const Training&, const Strategy&){};
  /// Blocks that the library holds on the device beside parameters from the first step on.
  std::vector<Bytes> (*held)(const Model&, const Training&, const Strategy&){};

  // Layers.
  bool runs_llama_blocks{};      ///< every model runs as Llama's block: separate weights for each projection
  bool fused_gelu{};             ///< GELU that transformers composes of operations is one kernel
  bool compiles_layers{};        ///< its own modules run inside compiled layers (--compile layer), too
  bool without_masks{};          ///< attention gets no mask: its kernels have what a mask would say
  bool fused_loss_brings{true};  ///< --fused-loss also makes norms, rotations and gates one kernel each
  double attention_time{1.0};    ///< of its attention kernels, where FlashAttention-2's is 1
  /// Attention kernels are written for Hopper's and Blackwell's instructions (cuDNN's, FlashAttention-3), so
  /// that softmax runs beside other tiles' products: they reach what products reach. Source: Shah et al.
  /// 2024, FlashAttention-3, figures 5 and 6: 648 and 561 TFLOP/s forward and backward on an H100.
  bool attention_of_generation{};

  // Packed weights.
  bool packed_keeps_input{};  ///< 4-bit layers keep their input, as bitsandbytes' did before 0.44
  bool packs_head{};          ///< the output head is packed too
  bool unpacks_to_half{};     ///< packed weights were fp16: they are unpacked to that, and cast

  // Pipelines.
  bool frees_sent_hidden{};    ///< a stage's hidden states are freed once they are sent
  bool receives_in_buffers{};  ///< what other stages send arrives in memory that is there before

  // Head and loss.
  bool makes_all_losses{};   ///< head_and_loss makes the losses of all objectives, not of next tokens alone
  bool widens_logits{};      ///< all logits become fp32 before the loss, slices too
  bool caps_whole_logits{};  ///< a soft cap of logits is left out where the head runs slice by slice
  bool keeps_outputs{};      ///< logits and loss stay in variables until the next micro-step's replace them

  // Checkpointing.
  bool shares_workspace{};                 ///< one cuBLAS workspace serves all threads and chunks of layers
  bool checkpoints_around_layers{};        ///< selective checkpointing runs around its own layers
  bool recomputes_alternate_products{};    ///< selective: every second matrix product is computed again
  CheckpointOffload checkpoint_offload{};  ///< where the strategy names none

  bool operator==(const ModuleSet&) const = default;

  /// True if modules beside the kernels are another library's than transformers'.
  [[nodiscard]] bool replaces_modules() const {
    ModuleSet own = *this;
    own.kernels = {};
    return own != ModuleSet{};
  }
};

// The table. A row whose functions record modules stands beside them in planner/model_trace/.
extern const ModuleSet kTransformers, kLitgpt, kLlmFoundry, kTorchtitan, kLiger, kFla, kMegatron, kUnsloth,
    kTorchtitanDecoder;
inline constexpr std::array kModuleSets{&kTransformers, &kLitgpt, &kLlmFoundry, &kTorchtitan,
                                        &kLiger,        &kFla,    &kUnsloth};

/// Returns the names that --modules takes.
[[nodiscard]] std::vector<std::string> module_set_names();
/// Returns the names that --kernels takes.
[[nodiscard]] std::vector<std::string> kernel_names();

/// Makes `set` the set called `name`, but keeps kernels that were chosen before. Throws InputError(place, …)
/// where no set has this name.
void choose_modules(ModuleSet& set, std::string_view place, std::string_view name);
/// Gives `set` the kernels called `name`. Throws InputError(place, …) where no set has them.
void choose_kernels(ModuleSet& set, std::string_view place, std::string_view name);

}  // namespace zplan

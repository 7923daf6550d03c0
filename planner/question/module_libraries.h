#pragma once
// Libraries whose modules and checkpointing are trained: in what each differs from transformers. A row each.

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

enum class ModuleLibrary { transformers, litgpt, llm_foundry, torchtitan };
template <>
struct EnumNames<ModuleLibrary> {
  static constexpr std::array<std::pair<ModuleLibrary, std::string_view>, 4> table{
      {{ModuleLibrary::transformers, "transformers"},
       {ModuleLibrary::litgpt, "litgpt"},
       {ModuleLibrary::llm_foundry, "llm-foundry"},
       {ModuleLibrary::torchtitan, "torchtitan"}}};
};

struct ModuleLibrarySpec {
  ModuleLibrary library{};
  bool joint_projection{};     ///< one product for queries, keys and values; adapters on slices of it
  bool fused_gelu{};           ///< GELU that transformers composes of operations is one kernel
  bool widens_logits{};        ///< all logits become fp32 before the loss, slices too
  bool packed_keeps_input{};   ///< 4-bit layers keep their input, as bitsandbytes' did before 0.44
  bool packs_head{};           ///< the output head is packed, too
  bool unpacks_to_half{};      ///< packed weights were fp16: they are unpacked to that, and cast
  bool keeps_outputs{};        ///< logits and loss stay in variables until the next micro-step's replace them
  bool fused_mpt_attention{};  ///< MPT's attention is one kernel, ALiBi in it, without a mask
  bool alternate_products{};   ///< selective checkpointing keeps the output of every second matrix product
  double attention_cost{1.0};  ///< time of its attention kernels, where FlashAttention-2's take 1
};

/// litgpt: 0.5 finetune/lora.py, model.py, pyproject.toml (bitsandbytes 0.42); Lightning 2.4
/// fabric/plugins/precision/half.py convert_output, bitsandbytes.py (every nn.Linear; quantize packs from
/// torch.half). llm-foundry: FlashAttention in Triton (scripts/train/benchmarking/submit_benchmarks.py
/// attn_impl), beside which FlashAttention-2 is 1.3 to 2.5 times as fast (Dao 2023, section 4.1): the
/// geometric middle. torchtitan: parallelisms/parallelize_llama.py @9dec370.
inline constexpr std::array<ModuleLibrarySpec, 4> kModuleLibraries{{
    {.library = ModuleLibrary::transformers},
    {.library = ModuleLibrary::litgpt,
     .joint_projection = true,
     .fused_gelu = true,
     .widens_logits = true,
     .packed_keeps_input = true,
     .packs_head = true,
     .unpacks_to_half = true,
     .keeps_outputs = true},
    {.library = ModuleLibrary::llm_foundry, .fused_mpt_attention = true, .attention_cost = 1.8},
    {.library = ModuleLibrary::torchtitan, .alternate_products = true},
}};

[[nodiscard]] constexpr const ModuleLibrarySpec& spec(ModuleLibrary library) {
  return kModuleLibraries[static_cast<std::size_t>(library)];
}

}  // namespace zplan

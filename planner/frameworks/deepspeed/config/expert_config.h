#pragma once
// The expert_parallel section of a ds_config (AutoEP): what it says, and where DeepSpeed refuses it.
// Source: DeepSpeed 0.19.8 module_inject/{auto_ep_config,auto_ep_folding,auto_ep}.py,
// module_inject/auto_ep_presets/, runtime/engine.py; answers to 89 configs recorded
// (docs/expert-parallel.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/question/strategy.h"

namespace zplan {

/// The section, with DeepSpeed's defaults for what it leaves out.
struct ExpertConfig {
  bool enabled{};
  std::int64_t autoep_size{1}, expert_tensor_parallel_size{1};
  std::optional<std::string> preset_model{}, moe_layer_pattern{};
  std::string score_apply{"auto"}, combine_impl{"auto"}, row_weighting_impl{"auto"}, gate_up_impl{"separate"},
      comm_backend{"comm"}, score_func{"auto"};
  std::int64_t comm_max_tokens_per_rank{};
  bool use_grouped_mm{true}, disable_triton_grouped_mm{}, async_split_plan{};
  std::optional<bool> route_norm{};
  std::optional<std::string> load_balance_coeff{};  ///< as it is written
  std::vector<std::string> unknown{};               ///< keys that DeepSpeed ignores without a word
};
[[nodiscard]] ExpertConfig read_expert_config(const JsonReader& section);

/// Returns the part of the section that changes memory, traffic or time.
[[nodiscard]] ExpertParallel expert_parallel_of(const ExpertConfig& config);

/// Who makes the optimizer that DeepSpeed is given.
enum class OptimizerMaker : std::uint8_t {
  ds_config,      ///< the config's "optimizer" section
  client,         ///< a script or the HF Trainer, as an instance or a callable
  unnamed_groups  ///< the config's section, over parameter groups without names
};

/// Everything that DeepSpeed's answer depends on: the section, the model and other settings.
struct ExpertUse {
  ExpertConfig config{};
  std::string architecture{};  ///< model_type
  std::int64_t experts{};      ///< of a layer; 0: a dense model
  std::int64_t ranks{1};       ///< of the world
  std::int64_t tensor_parallel{1};
  std::optional<std::string> tensor_preset{};  ///< tensor_parallel.preset_model
  bool has_partition_config{};                 ///< tensor_parallel.partition_config
  int zero_stage{};
  Precision precision{Precision::bf16};
  bool offloads{};
  bool data_before_expert{};
  bool contiguous_gradients{true}, reduce_scatter{true}, quantized_gradients{};
  std::int64_t secondary_partition{1};
  bool fp32_accumulation{};
  OptimizerMaker optimizer{OptimizerMaker::ds_config};
  bool adapted{};              ///< under peft, whose names the presets' patterns do not match
  bool records_routers{true};  ///< transformers before 5.23, whose output recorders are plain dicts
  std::vector<std::int64_t> mixtures{0};  ///< layers that are named in what DeepSpeed says
};

/// DeepSpeed's error in its own words; nothing if it trains. `replaces` is false if it replaces no layer and
/// only warns of it (gpt-oss, dense models).
struct ExpertAnswer {
  std::optional<std::string> error{};
  bool replaces{};
};
[[nodiscard]] ExpertAnswer answer_of_deepspeed(const ExpertUse& use);

/// AutoEP's preset for a model type, where there is one.
[[nodiscard]] std::optional<std::string_view> expert_preset_of(std::string_view architecture);
/// The preset to name for a model type that fits one but has none of its own (OLMoE, GLM-4-MoE).
[[nodiscard]] std::optional<std::string> preset_for(std::string_view architecture);
/// The preset to name where peft's names hide the model.
[[nodiscard]] std::string preset_of_adapted(std::string_view architecture);
/// A model type that AutoEP has a preset for.
[[nodiscard]] std::string architecture_with_preset();
/// moe_layer_pattern of a model under peft, whose modules' names have a prefix.
inline constexpr const char* kAdaptedMixtures = R"(.*model\.layers\.\d+\.mlp)";
/// True if transformers 5.23.0 and DeepSpeed 0.19.8 do not work together for this preset.
[[nodiscard]] bool breaks_with_recorders(std::string_view preset);

}  // namespace zplan

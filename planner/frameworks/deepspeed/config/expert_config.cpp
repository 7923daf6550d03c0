#include "planner/frameworks/deepspeed/config/expert_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "models/base/divisors.h"
#include "planner/frameworks/deepspeed/config/keys.h"

namespace zplan {

namespace {

constexpr std::int64_t kMost = 1'000'000;

struct Preset {
  std::string name;
  std::vector<std::string> model_types;
  bool records_routers{};  ///< it hooks transformers' recorders of router logits
};

/// AutoEP's presets for models: expert_presets.json.
struct Presets {
  std::vector<Preset> all;                               ///< in the order of DeepSpeed's registry
  std::map<std::string, std::string, std::less<>> fits;  ///< model types without a preset of their own
  std::vector<std::string> not_found;                    ///< whose mixtures AutoEP does not see
  std::string of_adapted;                                ///< where peft's names hide the model
};

const Presets& presets() {
  static const Presets known = [] {
    const Json data = deepspeed_data("expert_presets.json");
    Presets read{.all = {},
                 .fits = data.at("fits_preset"),
                 .not_found = data.at("not_found"),
                 .of_adapted = data.at("preset_of_adapted")};
    for (const Json& each : data.at("presets"))
      read.all.push_back({.name = each.at("name"),
                          .model_types = each.at("model_types"),
                          .records_routers = each.at("records_routers")});
    return read;
  }();
  return known;
}

bool holds(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Keys of the section. Source: DeepSpeed 0.19.8 module_inject/auto_ep_config.py parse_autoep_config.
constexpr std::array<std::string_view, 36> kKeys{"enabled",
                                                 "autoep_size",
                                                 "expert_tensor_parallel_size",
                                                 "preset_model",
                                                 "moe_layer_pattern",
                                                 "router_pattern",
                                                 "expert_pattern",
                                                 "num_experts_attr",
                                                 "top_k_attr",
                                                 "use_grouped_mm",
                                                 "route_norm",
                                                 "disable_triton_grouped_mm",
                                                 "score_apply",
                                                 "combine_impl",
                                                 "gate_up_impl",
                                                 "comm_backend",
                                                 "comm_num_sm",
                                                 "row_weighting_impl",
                                                 "comm_qp_margin",
                                                 "async_split_plan",
                                                 "comm_max_tokens_per_rank",
                                                 "route_scale",
                                                 "score_func",
                                                 "validate_folding_routing",
                                                 "top_k",
                                                 "num_expert_groups",
                                                 "routed_scaling_factor",
                                                 "expert_w1",
                                                 "expert_w2",
                                                 "num_limited_groups",
                                                 "expert_w3",
                                                 "expert_activation",
                                                 "load_balance_coeff",
                                                 "has_shared_experts",
                                                 "shared_experts_pattern",
                                                 "shared_experts_gate_pattern"};

std::optional<std::string> text_at(const JsonReader& section, std::string_view key) {
  const auto found = section.find(key);
  if (!found || found->raw().is_null()) return std::nullopt;
  return found->text();
}

}  // namespace

ExpertConfig read_expert_config(const JsonReader& section) {
  ExpertConfig config;
  config.enabled = section.boolean_or("enabled", false);
  config.autoep_size = section.integer_or("autoep_size", 1, -kMost, kMost);
  config.expert_tensor_parallel_size = section.integer_or("expert_tensor_parallel_size", 1, -kMost, kMost);
  config.preset_model = text_at(section, "preset_model");
  config.moe_layer_pattern = text_at(section, "moe_layer_pattern");
  config.score_apply = section.text_or("score_apply", config.score_apply);
  config.combine_impl = section.text_or("combine_impl", config.combine_impl);
  config.row_weighting_impl = section.text_or("row_weighting_impl", config.row_weighting_impl);
  config.gate_up_impl = section.text_or("gate_up_impl", config.gate_up_impl);
  config.comm_backend = section.text_or("comm_backend", config.comm_backend);
  config.score_func = section.text_or("score_func", config.score_func);
  config.comm_max_tokens_per_rank = section.integer_or("comm_max_tokens_per_rank", 0, -kMost, kMost * kMost);
  config.use_grouped_mm = section.boolean_or("use_grouped_mm", true);
  config.disable_triton_grouped_mm = section.boolean_or("disable_triton_grouped_mm", false);
  config.async_split_plan = section.boolean_or("async_split_plan", false);
  if (section.has("route_norm")) config.route_norm = section.at("route_norm").boolean();
  if (section.has("load_balance_coeff"))
    config.load_balance_coeff = section.at("load_balance_coeff").raw().dump();
  for (const std::string& key : section.keys())
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) config.unknown.push_back(key);
  return config;
}

ExpertParallel expert_parallel_of(const ExpertConfig& config) {
  return {.enabled = config.enabled,
          .weighs_rows = config.score_apply == "pre",
          .combine = from_name<ExpertCombine>(config.combine_impl).value_or(ExpertCombine::weighted_sum),
          .fused_gate_up = config.gate_up_impl == "fused",
          .without_triton = config.disable_triton_grouped_mm,
          .async_split_plan = config.async_split_plan,
          .route_norm = config.route_norm};
}

std::optional<std::string_view> expert_preset_of(std::string_view architecture) {
  for (const Preset& each : presets().all)
    if (holds(each.model_types, architecture)) return each.name;
  return std::nullopt;
}

std::optional<std::string> preset_for(std::string_view architecture) {
  const auto found = presets().fits.find(architecture);
  return found == presets().fits.end() ? std::nullopt : std::optional(found->second);
}

std::string preset_of_adapted(std::string_view architecture) {
  if (const auto own = expert_preset_of(architecture)) return std::string(*own);
  return preset_for(architecture).value_or(presets().of_adapted);
}

std::string architecture_with_preset() { return presets().all.front().model_types.front(); }

bool breaks_with_recorders(std::string_view preset) {
  return std::any_of(presets().all.begin(), presets().all.end(),
                     [&](const Preset& each) { return each.name == preset && each.records_routers; });
}

namespace {

using Error = std::optional<std::string>;

/// validate_autoep_config, before experts are looked for: in its order.
Error folding_error(const ExpertUse& use) {
  const ExpertConfig& c = use.config;
  const std::int64_t width = c.autoep_size * c.expert_tensor_parallel_size;
  if (c.autoep_size < 1)
    return fmt::format("expert_parallel.autoep_size must be a positive integer, got {}", c.autoep_size);
  if (use.ranks % width != 0)
    return fmt::format(
        "expert_parallel.autoep_size * expert_parallel.expert_tensor_parallel_size ({} * {} = {}) must "
        "divide the stage size (world_size={} / pp_size=1 = {}). Computed edp would be non-integral. Valid "
        "expert-width values: [{}]",
        c.autoep_size, c.expert_tensor_parallel_size, width, use.ranks, use.ranks,
        fmt::join(divisors(use.ranks), ", "));
  if (c.expert_tensor_parallel_size != 1)
    return fmt::format(
        "expert_parallel.expert_tensor_parallel_size={} is reserved for expert-internal tensor parallelism "
        "and is not supported yet. Use expert_tensor_parallel_size=1; ETP support is planned as follow-up "
        "work.",
        c.expert_tensor_parallel_size);
  if (use.tensor_parallel == 1) return std::nullopt;
  if (c.autoep_size == 1)
    return "AutoEP+AutoTP folding requires expert_parallel.autoep_size > 1. The ep=1 local-computation path "
           "would duplicate routed-token gradients across TP lanes.";
  if (use.data_before_expert)
    return "expert_parallel with use_data_before_expert_parallel_ is not supported with AutoEP+AutoTP "
           "folding. "
           "Disable use_data_before_expert_parallel_.";
  if (use.offloads)
    return "ZeRO optimizer/parameter offload with AutoEP+AutoTP folding is not validated yet. Disable "
           "offload or run a follow-up proof for per-family replica groups.";
  if (use.tensor_preset && c.preset_model && *use.tensor_preset != *c.preset_model)
    return fmt::format(
        "tensor_parallel.preset_model and expert_parallel.preset_model must match when both are set "
        "(tensor_parallel.preset_model='{}', expert_parallel.preset_model='{}').",
        *use.tensor_preset, *c.preset_model);
  return std::nullopt;
}

Error one_of(std::string_view key, const std::string& value, const std::vector<std::string>& accepted) {
  if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return std::nullopt;
  return fmt::format("{} must be one of ('{}'), got '{}'", key, fmt::join(accepted, "', '"), value);
}

Error value_error(const ExpertConfig& c) {
  const auto known = [&](const Preset& each) { return each.name == *c.preset_model; };
  if (c.preset_model && std::none_of(presets().all.begin(), presets().all.end(), known)) {
    std::vector<std::string_view> names;
    for (const Preset& each : presets().all) names.push_back(each.name);
    return fmt::format("Unknown preset_model '{}'. Available presets: ['{}']", *c.preset_model,
                       fmt::join(names, "', '"));
  }
  if (Error e = one_of("score_apply", c.score_apply, {"auto", "pre", "post"})) return e;
  if (Error e = one_of("combine_impl", c.combine_impl,
                       {"auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"}))
    return e;
  if (Error e = one_of("row_weighting_impl", c.row_weighting_impl, {"auto", "eager", "fused"})) return e;
  if (Error e = one_of("gate_up_impl", c.gate_up_impl, {"separate", "fused"})) return e;
  if (c.gate_up_impl == "fused" && !c.use_grouped_mm)
    return "gate_up_impl=\"fused\" runs the gate and up projections as one torch._grouped_mm, but "
           "use_grouped_mm=false selects the sequential expert loop. Set use_grouped_mm=true, or leave "
           "gate_up_impl unset.";
  if (Error e = one_of("comm_backend", c.comm_backend, {"comm", "deepep"})) return e;
  if (c.row_weighting_impl == "fused" && c.comm_backend != "deepep")
    return fmt::format(
        "row_weighting_impl=\"fused\" only runs inside the DeepEP route, but comm_backend=\"{}\" was "
        "selected. "
        "Set comm_backend to \"deepep\", or leave row_weighting_impl unset.",
        c.comm_backend);
  if (c.row_weighting_impl == "fused" && c.autoep_size == 1)
    return "row_weighting_impl=\"fused\" only runs when DeepEP dispatch is active (autoep_size > 1), but "
           "autoep_size=1. Increase autoep_size, or leave row_weighting_impl unset.";
  if (c.comm_max_tokens_per_rank < 0)
    return fmt::format("comm_max_tokens_per_rank must be a non-negative integer, got {}",
                       c.comm_max_tokens_per_rank);
  if (c.comm_backend == "deepep" && c.comm_max_tokens_per_rank == 0)
    return "comm_max_tokens_per_rank must be a positive integer when comm_backend='deepep'. Set it to the "
           "largest number of tokens one rank can route, normally train_micro_batch_size_per_gpu * maximum "
           "padded sequence length.";
  return one_of("score_func", c.score_func, {"auto", "softmax", "sigmoid"});
}

Error config_error(const ExpertUse& use) {
  const ExpertConfig& c = use.config;
  if (c.load_balance_coeff)
    return fmt::format(
        "load_balance_coeff={} is not supported in this AutoEP build (would register expert_bias and route "
        "through unsupported auxiliary-loss-free load balancing). Set load_balance_coeff to null or omit the "
        "key.",
        *c.load_balance_coeff);
  if (c.async_split_plan && c.autoep_size > 1 && use.tensor_parallel > 1)
    return "expert_parallel.async_split_plan does not support AutoEP+AutoTP folding yet. Set "
           "tensor_parallel.autotp_size to 1 or disable async_split_plan.";
  if (c.combine_impl == "fused_weighted_sum" && use.tensor_parallel > 1)
    return fmt::format(
        "combine_impl=\"fused_weighted_sum\" does not support folded tensor parallelism "
        "(tensor_parallel.autotp_size={}), which restores combined tokens from assignment metadata instead "
        "of the weighted reduction it implements. Set tensor_parallel.autotp_size to 1, or leave "
        "combine_impl "
        "unset.",
        use.tensor_parallel);
  if (c.combine_impl == "fused_weighted_sum" && c.comm_backend == "deepep" && c.autoep_size > 1)
    return "combine_impl=\"fused_weighted_sum\" cannot be used with comm_backend=\"deepep\" because DeepEP "
           "already restores and reduces the routed rows. Set comm_backend to \"comm\", or leave "
           "combine_impl "
           "unset.";
  if (Error e = folding_error(use)) return e;
  return value_error(c);
}

/// Returns the error of AutoTP, which converts Hugging Face's plan for a mixture unless the config has
/// another.
Error tensor_plan_error(const ExpertUse& use) {
  if (use.tensor_parallel == 1 || use.tensor_preset || use.has_partition_config || use.experts == 0)
    return std::nullopt;
  return "HuggingFace tp_plan contains unsupported partition style(s): ['moe_tp_experts', 'packed_colwise']. "
         "Applying only the supported entries could shard one half of a column/row pair, so the plan is "
         "rejected as a whole. Provide an explicit 'tensor_parallel.partition_config' for this model "
         "instead.";
}

/// The path of the first mixture, as DeepSpeed names it.
std::string first_mixture(const ExpertUse& use) {
  return fmt::format("model.layers.{}.mlp", use.mixtures.front());
}

/// Returns the error of finding mixtures: by preset, by the config's pattern, or by the model's type.
Error detection_error(const ExpertUse& use) {
  const ExpertConfig& c = use.config;
  const auto preset = c.preset_model ? c.preset_model : expert_preset_of(use.architecture);
  if (use.adapted && !c.moe_layer_pattern && preset)
    return fmt::format(
        "AutoEP: no MoE layers detected for model_type='{}'. Expected MoE structure for selected preset(s): "
        "{}: moe_layer_pattern='model\\.layers\\.\\d+\\.mlp', router='gate', experts='experts'. This usually "
        "means the selected preset does not match the model implementation, or the installed Transformers "
        "version exposes a different structure. Choose a matching preset, upgrade Transformers, or provide "
        "custom AutoEP patterns.",
        use.architecture, *preset);
  if (preset || c.moe_layer_pattern) return std::nullopt;
  std::vector<std::string_view> names;
  for (const Preset& each : presets().all) names.push_back(each.name);
  std::vector<std::string> found;
  for (const std::int64_t layer : use.mixtures)
    found.push_back(fmt::format("model.layers.{}.mlp: {}", layer, fmt::join(names, ", ")));
  return fmt::format(
      "AutoEP detection is ambiguous and produced multiple replacement specs for the same MoE module(s): {}. "
      "Set expert_parallel.preset_model or provide custom AutoEP patterns so each MoE module matches "
      "exactly one preset.",
      fmt::join(found, "; "));
}

/// validate_autoep_post_detection.
Error experts_error(const ExpertUse& use) {
  const ExpertConfig& c = use.config;
  const std::string layer = first_mixture(use);
  if (c.combine_impl == "fused_weighted_sum" && c.score_apply == "pre")
    return fmt::format(
        "combine_impl=\"fused_weighted_sum\" requires score_apply=\"post\", but layer '{}' resolved "
        "score_apply=\"pre\". Leave combine_impl unset.",
        layer);
  const std::string accepted = fmt::format("[{}]", fmt::join(divisors(use.experts), ", "));
  if (c.autoep_size > use.experts)
    return fmt::format(
        "autoep_size={} exceeds num_experts={} in layer '{}'. Each rank must own at least one expert. Valid "
        "autoep_size values (divisors of {}): {}",
        c.autoep_size, use.experts, layer, use.experts, accepted);
  if (use.experts % c.autoep_size != 0)
    return fmt::format(
        "num_experts={} in layer '{}' is not divisible by autoep_size={}. Suggested autoep_size values: {}",
        use.experts, layer, c.autoep_size, accepted);
  return std::nullopt;
}

/// Returns the error of the engine or the optimizer for a model with experts.
Error engine_error(const ExpertUse& use) {
  const auto preset = use.config.preset_model ? use.config.preset_model : expert_preset_of(use.architecture);
  const bool by_pattern = use.config.moe_layer_pattern && !use.config.preset_model;
  if (!use.records_routers && preset && !by_pattern && breaks_with_recorders(*preset))
    return "_CanRecordRegistry.get() takes 2 positional arguments but 3 were given";
  if (use.zero_stage == 3 && use.secondary_partition > 1)
    return fmt::format(
        "AutoEP with ZeRO Stage 3 does not support hpZeRO secondary tensor groups yet "
        "(zero_optimization.zero_hpz_partition_size={}).",
        use.secondary_partition);
  if (use.zero_stage == 3 && use.quantized_gradients)
    return "AutoEP with ZeRO Stage 3 does not support zero_quantized_gradients yet.";
  if (use.optimizer == OptimizerMaker::unnamed_groups) return "'name'";
  if (use.zero_stage == 0 && use.fp32_accumulation && use.precision != Precision::fp32)
    return fmt::format("unsupported mix of model_dtype=torch.{} and grad_accum_dtype=torch.float32",
                       use.precision == Precision::bf16 ? "bfloat16" : "float16");
  if (use.zero_stage != 1 && use.zero_stage != 2) return std::nullopt;
  if (use.zero_stage == 2 && !use.contiguous_gradients)
    return "Contiguous Gradients in ZeRO Stage 2 must be set to True for MoE. Other code paths are not "
           "tested with MoE";
  if (!use.reduce_scatter)
    return "Reduce Scatter in ZeRO Stage 2 must be set to True for MoE. Other code paths are not tested with "
           "MoE";
  if (use.optimizer == OptimizerMaker::client || use.adapted)
    return "The model has moe layers, but None of the param groups are marked as MoE. Create a param group "
           "with 'moe' key set to True before creating optimizer";
  return std::nullopt;
}

}  // namespace

ExpertAnswer answer_of_deepspeed(const ExpertUse& use) {
  if (Error e = config_error(use); e && (use.config.enabled || use.config.load_balance_coeff))
    return {e, false};
  if (!use.config.enabled) return {};
  if (Error e = tensor_plan_error(use)) return {e, false};
  const bool is_found = !holds(presets().not_found, use.architecture) && use.experts > 0;
  if (!is_found) return {};
  if (Error e = detection_error(use)) return {e, false};
  if (Error e = experts_error(use)) return {e, false};
  if (Error e = engine_error(use)) return {e, false};
  return {std::nullopt, true};
}

}  // namespace zplan

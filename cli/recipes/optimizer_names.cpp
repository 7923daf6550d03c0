// Optimizers as trainers name them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/base/values.h"
#include "cli/recipes/recipe_table.h"
#include "planner/question/optimizers.h"

namespace zplan {

namespace {

/// An optimizer that is none of zplan's, and the one whose states are planned instead.
struct NearestOptimizer {
  std::string_view name, planned, why;
  /// It keeps more for each trained parameter than what is planned: too much more where all of them train.
  bool keeps_more{};
};

constexpr std::string_view kSame = "its states are of the same size";
constexpr std::string_view kLess = "its states are smaller";
constexpr std::string_view kLowRank = "its states are of a lower rank, and smaller";
constexpr std::string_view kKahan = "three states in the type of 16-bit weights are planned as two in fp32";
constexpr std::string_view kThird = "it keeps a third state";

/// Source: transformers 5.23 training_args.py OptimizerNames, trainer_optimizer.py; axolotl 0.19
/// utils/schemas/enums.py CustomSupportedOptimizers, core/builders/base.py; LLaMA-Factory 0.9.5
/// train/trainer_utils.py. States by the libraries named: torch 2.11 optim/, torchao 0.14 optim/,
/// bitsandbytes 0.49 optim/, schedulefree 1.4, optimi 0.3.
constexpr std::array kNearest{
    NearestOptimizer{"adamw_hf", "adamw", ""},
    NearestOptimizer{"adamw_apex_fused", "adamw", ""},
    NearestOptimizer{"adamw_torch_xla", "adamw", ""},
    NearestOptimizer{"adamw_torch_npu_fused", "adamw", ""},
    NearestOptimizer{"adamw_torch_8bit", "adamw8bit", kSame},
    NearestOptimizer{"ao_adamw_8bit", "adamw8bit", kSame},
    NearestOptimizer{"ao_adamw_fp8", "adamw8bit", kSame},
    NearestOptimizer{"adamw_anyprecision", "adamw", kLess},
    NearestOptimizer{"adopt_adamw", "adamw", kSame},
    NearestOptimizer{"adamc", "adamw", kSame},
    NearestOptimizer{"schedule_free_adamw", "adamw", kSame},
    NearestOptimizer{"schedule_free_radam", "adamw", kSame},
    NearestOptimizer{"schedule_free_sgd", "sgd-momentum", kSame},
    NearestOptimizer{"adagrad", "sgd-momentum", kSame},
    NearestOptimizer{"rmsprop", "sgd-momentum", kSame},
    NearestOptimizer{"rmsprop_bnb", "lion32bit", kSame},
    NearestOptimizer{"rmsprop_bnb_32bit", "lion32bit", kSame},
    NearestOptimizer{"rmsprop_bnb_8bit", "lion8bit", kSame},
    NearestOptimizer{"came_pytorch", "sgd-momentum", "its factored states are not counted"},
    NearestOptimizer{"adam_mini", "adamw", kLess},
    NearestOptimizer{"muon", "adamw", "it keeps one moment of each matrix instead of two"},
    NearestOptimizer{"dion", "adamw", kLowRank},
    NearestOptimizer{"sinkgd", "adamw", "it keeps no states of matrices"},
    NearestOptimizer{"polora", "adamw", kSame},
    NearestOptimizer{"flash_adam", "adamw", kLess},
    NearestOptimizer{"flash_adamw", "adamw", kLess},
    NearestOptimizer{"flash_sgd", "sgd-momentum", kLess},
    NearestOptimizer{"flash_sgdw", "sgd-momentum", kLess},
    NearestOptimizer{"flash_lion", "lion", kLess},
    NearestOptimizer{"galore_adamw", "adamw", kLowRank},
    NearestOptimizer{"galore_adamw_layerwise", "adamw", kLowRank},
    NearestOptimizer{"galore_adamw_8bit", "adamw8bit", kLowRank},
    NearestOptimizer{"galore_adamw_8bit_layerwise", "adamw8bit", kLowRank},
    NearestOptimizer{"galore_adafactor", "adafactor", kLess},
    NearestOptimizer{"galore_adafactor_layerwise", "adafactor", kLess},
    NearestOptimizer{"q_galore_adamw8bit", "adamw8bit", kLowRank},
    NearestOptimizer{"apollo_adamw", "adamw", kLowRank},
    NearestOptimizer{"apollo_adamw_layerwise", "adamw", kLowRank},
    NearestOptimizer{"lomo", "sgd", "it frees each gradient in the backward pass"},
    NearestOptimizer{"adalomo", "adafactor", "it frees each gradient in the backward pass"},
    NearestOptimizer{"ademamix", "adamw32bit", kThird, true},
    NearestOptimizer{"ademamix_8bit", "lion32bit", "three states of a byte are planned as one of four"},
    NearestOptimizer{"paged_ademamix_32bit", "paged_adamw32bit", kThird, true},
    NearestOptimizer{"paged_ademamix_8bit", "paged_lion32bit",
                     "three states of a byte are planned as one of four"},
    NearestOptimizer{"grokadamw", "adamw", kThird, true},
    NearestOptimizer{"stable_adamw", "adamw32bit", kKahan},
    NearestOptimizer{"optimi_adamw", "adamw32bit", kKahan},
};

const NearestOptimizer* nearest(const std::string& name) {
  const auto* const found = std::find_if(kNearest.begin(), kNearest.end(),
                                         [&](const NearestOptimizer& each) { return each.name == name; });
  return found == kNearest.end() ? nullptr : found;
}

std::vector<std::string> planned_names(bool with_adapters) {
  std::vector<std::string> known;
  for (const OptimizerSpec& each : kOptimizers) {
    std::istringstream names{std::string(each.names)};
    for (std::string word; names >> word;) known.push_back(word);
  }
  for (const NearestOptimizer& each : kNearest)
    if (with_adapters || !each.keeps_more) known.emplace_back(each.name);
  return known;
}

/// Muon of DeepSpeed is planned, another library's is not.
bool is_planned(const RecipePlace& place, const std::string& name) {
  const auto optimizer = from_name<Optimizer>(name);
  if (!optimizer) return false;
  const RecipeValue* deepspeed = place.text.root.find("deepspeed");
  return !spec(*optimizer).deepspeed_only || (deepspeed != nullptr && deepspeed->kind != RecipeKind::nothing);
}

/// True if DeepSpeed keeps the states on the host: accelerate replaces every
/// optimizer by DeepSpeed's CPU Adam or Lion, unless zero_force_ds_cpu_optimizer is off.
/// Source: accelerate 1.15 accelerator.py _prepare_deepspeed, utils/deepspeed.py.
bool deepspeed_offloads(const RecipePlace& place) {
  const std::string name = place.other("deepspeed");
  for (const std::filesystem::path& folder : {std::filesystem::path(place.folder), std::filesystem::path()}) {
    const std::string path = (folder / name).string();
    if (name.empty() || !may_name(place.text, path)) continue;
    const Json config = read_ds_text(read_file(path), path).document;
    const Json::json_pointer device("/zero_optimization/offload_optimizer/device");
    return config.contains(device) && (config.at(device) == "cpu" || config.at(device) == "nvme");
  }
  return false;
}

/// FSDP of axolotl's or of TrainingArguments' keys, with states on the host.
bool fsdp_offloads(const RecipePlace& place) {
  return place.is_on("fsdp_config.offload_params") || place.is_on("fsdp_config.fsdp_offload_params");
}

bool runs_on_the_host(std::string_view name) {
  const OptimizerSpec& about = spec(from_name<Optimizer>(name).value());
  return about.form != StateForm::packed;
}

/// States that lie on the host leave the GPU's memory as it is, whatever their type.
RecipeOptions on_the_host(const RecipePlace& place, const std::string& name, RecipeOptions options) {
  if (options.empty() || runs_on_the_host(options.front().second)) return options;
  const bool is_lion = options.front().second.find("lion") != std::string::npos;
  const std::string_view planned = is_lion ? "lion" : "adamw";
  if (!fsdp_offloads(place) && !deepspeed_offloads(place)) return options;
  place.not_planned(
      fmt::format("{} on the host is planned as {}, whose states take more host memory", name, planned));
  return {{std::string(place.row.option), std::string(planned)}};
}

/// torch's AdamW runs over lists of tensors, with temporaries of all, unless it is fused. Source:
/// transformers 5.23 trainer_optimizer.py _get_adamw_torch.
RecipeOptions with_kernel(const std::string& name, RecipeOptions options) {
  if (name == "adamw_torch") options.emplace_back("--optimizer-kernel", "foreach");
  return options;
}

}  // namespace

RecipeOptions as_optimizer(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const std::string name = place.scalar();
  const std::string option(place.row.option);
  if (is_planned(place, name)) return with_kernel(name, on_the_host(place, name, {{option, name}}));
  const NearestOptimizer* found = nearest(name);
  const bool with_adapters = trains_adapters(place);
  if (found == nullptr || (found->keeps_more && !with_adapters))
    place.fail(in_quotes(name), accepted_words(name, planned_names(with_adapters)));
  RecipeOptions planned = on_the_host(place, name, {{option, std::string(found->planned)}});
  if (!found->why.empty() && planned.front().second == found->planned)
    place.not_planned(fmt::format("{} is planned as {}: {}", name, found->planned, found->why));
  return planned;
}

}  // namespace zplan

// Leaves out what a recipe says of parts that its model has not.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/request.h"
#include "cli/recipes/recipe.h"
#include "models/base/error.h"
#include "models/catalogue/catalogue.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

/// The recipe and the setting that set the option last.
struct SetBy {
  Recipe* recipe{};
  RecipeSetting setting{};
};

SetBy set_by(Options& options, std::string_view option) {
  SetBy found;
  for (Recipe& recipe : options.recipes)
    for (const RecipeSetting& setting : recipe.settings)
      for (const auto& [name, value] : setting.options)
        if (name == option) found = {&recipe, setting};
  return found;
}

bool has_module(const Model& model, const std::string& name) {
  if (name == "all-linear" || name == "q_v") return true;
  try {
    static_cast<void>(lora_adapters(model, 1, {{name}, {}}));
  } catch (const InputError& error) {
    return !std::string_view(error.found()).starts_with("the model has no module");
  }
  return true;
}

/// peft adapts those of the modules that the model has, and stops where it has none of them.
/// Source: peft 0.21.2 tuners/tuners_utils.py inject_adapter.
void leave_out_modules(Options& options, const Model& model) {
  const SetBy by = set_by(options, "--lora-targets");
  if (by.recipe == nullptr || options.training.method == Method::full) return;
  std::vector<std::string>& targets = options.training.lora_targets.modules;
  std::vector<std::string> there, missing;
  for (const std::string& each : targets) (has_module(model, each) ? there : missing).push_back(each);
  if (missing.empty() || there.empty()) return;
  targets = std::move(there);
  by.recipe->settings.push_back({.key = by.setting.key,
                                 .line = by.setting.line,
                                 .value = fmt::format("{}", fmt::join(missing, ", ")),
                                 .options = {},
                                 .unused = fmt::format("the model has no {}", fmt::join(missing, ", "))});
}

void leave_out_parts(Options& options, const Model& model) {
  const SetBy by = set_by(options, "--freeze");
  if (by.recipe == nullptr) return;
  bool found = false;
  for_each_tensor(model.inventory,
                  [&](const Tensor& tensor, int) { found = found || freezes(options.training, tensor); });
  if (found) return;
  options.training.freezes_vision = options.training.freezes_projector = false;
  by.recipe->settings.push_back({.key = by.setting.key,
                                 .line = by.setting.line,
                                 .value = by.setting.value,
                                 .options = {},
                                 .unused = "the model has no such part that zplan knows"});
}

/// PyTorch's kernels take more memory than Liger's.
void leave_out_kernels(Options& options, const Model& model) {
  const SetBy by = set_by(options, "--kernels");
  const LayerKernels& kernels = options.training.modules.kernels;
  if (by.recipe == nullptr || !kernels.replace_layers() || (!model.recorded && !model.analogue)) return;
  by.recipe->not_planned.push_back(
      {by.setting.key, by.setting.line,
       fmt::format("{}'s kernels of this model's layers are planned as PyTorch's, which take more",
                   kernels.owner)});
  options.training.modules.kernels = {};
}

}  // namespace

Options without_missing(Options options, const Environment& environment) {
  const bool asks = set_by(options, "--lora-targets").recipe != nullptr ||
                    set_by(options, "--freeze").recipe != nullptr ||
                    set_by(options, "--kernels").recipe != nullptr;
  if (!asks || options.model.empty()) return options;
  Model model;
  try {
    model = resolve_model(options.model, model_search(options, environment));
  } catch (const InputError&) {
    return options;  // the request says it with its place
  }
  leave_out_modules(options, model);
  leave_out_parts(options, model);
  leave_out_kernels(options, model);
  return options;
}

}  // namespace zplan

#include "planner/question/module_set.h"

#include <algorithm>

namespace zplan {

const ModuleSet kTransformers{};

/// Source: torchtitan parallelisms/parallelize_llama.py @9dec370.
const ModuleSet kTorchtitan{
    .name = "torchtitan", .fused_loss_brings = false, .recomputes_alternate_products = true};

namespace {

std::string_view set_name(const ModuleSet& set) { return set.name; }
std::string_view kernels_name(const ModuleSet& set) { return set.kernels.name; }

/// The names that rows have, each once.
std::vector<std::string> names_of(std::string_view (*name)(const ModuleSet&)) {
  std::vector<std::string> names;
  for (const ModuleSet* each : kModuleSets)
    if (std::ranges::find(names, name(*each)) == names.end()) names.emplace_back(name(*each));
  return names;
}

const ModuleSet& find_set(std::string_view (*name_of)(const ModuleSet&), std::string_view place,
                          std::string_view name) {
  for (const ModuleSet* each : kModuleSets)
    if (name_of(*each) == name) return *each;
  throw InputError(std::string(place), in_quotes(name), accepted_words(name, names_of(name_of)));
}

}  // namespace

std::vector<std::string> module_set_names() { return names_of(set_name); }
std::vector<std::string> kernel_names() { return names_of(kernels_name); }

void choose_modules(ModuleSet& set, std::string_view place, std::string_view name) {
  const LayerKernels chosen = set.kernels;
  set = find_set(set_name, place, name);
  if (chosen != LayerKernels{}) set.kernels = chosen;
}

void choose_kernels(ModuleSet& set, std::string_view place, std::string_view name) {
  set.kernels = find_set(kernels_name, place, name).kernels;
}

}  // namespace zplan

// Adapters of peft 0.21. Source: peft 0.21.2 tuners/tuners_utils.py (_maybe_include_all_linear_layers),
// utils/transformers_weight_conversion.py (_convert_peft_config_moe); transformers 5.23
// conversion_mapping.py.
#include "models/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/base/names.h"

namespace zplan {

namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kHighestRank = 65'536;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_gate_up(const Tensor& stack) { return stack.name.ends_with("gate_up_proj"); }

/// The module's path: the tensor's without ".weight", or without the tensor's own name in a stack of experts.
std::string module_path(const Tensor& tensor) { return tensor.name.substr(0, tensor.name.rfind('.')); }

/// True if the tensor is a stack of experts' weights that a module of its own has, as Megatron-Core's
/// TEGroupedLinear: it is targeted by that module's name.
bool is_grouped_module(const Tensor& tensor) {
  return tensor.role == TensorRole::expert && tensor.name.ends_with("." + tensor.module + ".weight");
}

/// Names by which the weight is targeted, all of which must be given; none where peft cannot adapt it: it
/// turns targets into stacked expert tensors of some architectures, of others experts and router are out of
/// reach.
Names target_names(const Tensor& tensor, const ExpertModules& experts) {
  if (!tensor.linear) return {};
  if (is_grouped_module(tensor)) return {tensor.module};
  const Names down{std::string(experts.down)}, gate_up{std::string(experts.gate), std::string(experts.up)};
  const bool reaches = !experts.down.empty();
  if (tensor.role == TensorRole::expert) return !reaches ? Names{} : is_gate_up(tensor) ? gate_up : down;
  if (tensor.role == TensorRole::router) return reaches ? Names{"gate"} : Names{};
  // Once a name means the experts, it no longer means the dense and shared layers that go by it too.
  if (contains(gate_up, tensor.module) || contains(down, tensor.module)) return {};
  return {tensor.module};
}

/// peft's rule: a target is the whole path of a module, or the end of it.
bool targets_module(const std::string& target, const std::string& path) {
  return target == path || path.ends_with("." + target);
}

bool matches(const Tensor& tensor, const std::string& name, const Names& targets) {
  const std::string path = module_path(tensor);
  const bool stacked = tensor.role == TensorRole::expert && !is_grouped_module(tensor);
  const std::string whole = stacked ? path + "." + name : path;
  return std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& target) { return targets_module(target, whole); });
}

/// The weight of the fused query, key and value: the column of the attention.
std::string fused_query_module(const Model& model) {
  for (const Tensor& tensor : model.inventory.kinds.front().tensors)
    if (tensor.role == TensorRole::attention && tensor.split == TensorParallelSplit::column)
      return tensor.module;
  return "query_key_value";
}

Names query_and_value(const Model& model) {
  if (const auto& latent = model.shape.latent_attention)
    return {latent->query_rank == 0 ? "q_proj" : "q_b_proj", "kv_b_proj"};
  if (model.shape.fused_query_key_value) return {fused_query_module(model)};
  return {"q_proj", "v_proj"};
}

/// Targets with "q_v" spelled out.
Names spelled_out(const Model& model, const LoraTargets& targets) {
  Names names;
  for (const std::string& target : targets.modules) {
    const Names more = target == "q_v" ? query_and_value(model) : Names{target};
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

/// Calls visit for every weight that some target name can mean.
template <class Visit>
void for_each_adaptable(const Model& model, const Visit& visit) {
  const ExpertModules& experts = model.shape.libraries.expert_modules;
  const auto over = [&](const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors)
      if (const Names names = target_names(tensor, experts); !names.empty()) visit(tensor, names);
  };
  over(model.inventory.before);
  for (const LayerKind& kind : model.inventory.kinds) over(kind.tensors);
  over(model.inventory.after);
}

void check_known(const Model& model, const Names& targets) {
  for (const std::string& target : targets) {
    bool known = false;
    for_each_adaptable(model, [&](const Tensor& tensor, const Names& names) {
      for (const std::string& name : names) known = known || matches(tensor, name, {target});
    });
    if (known) continue;
    Names accepted{"all-linear", "q_v"};
    const Names modules = adaptable_modules(model);
    accepted.insert(accepted.end(), modules.begin(), modules.end());
    throw InputError("--lora-targets", "the model has no module " + in_quotes(target),
                     accepted_words(target, accepted));
  }
}

/// Gate and up are one tensor: peft refuses to adapt half of it.
void check_whole_stacks(const Model& model, const Names& targets) {
  for_each_adaptable(model, [&](const Tensor& tensor, const Names& names) {
    const auto given = std::count_if(names.begin(), names.end(),
                                     [&](const std::string& name) { return matches(tensor, name, targets); });
    if (given > 0 && static_cast<std::size_t>(given) < names.size())
      throw InputError("--lora-targets",
                       fmt::format("only one of {}, which are one tensor", fmt::join(names, " and ")),
                       "accepted: both or neither");
  });
}

/// Which weights of a model get adapters, at which rank.
struct Plan {
  bool magnitudes{};
  bool all_linear{};
  Names targets, excluded;
  ExpertModules experts{};
  std::int64_t rank{};

  [[nodiscard]] bool adapts(const Tensor& tensor) const {
    const Names names = target_names(tensor, experts);
    if (names.empty() || is_excluded(tensor)) return false;
    if (all_linear) return tensor.role != TensorRole::head;
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return matches(tensor, name, targets); });
  }
  [[nodiscard]] bool is_excluded(const Tensor& tensor) const {
    return std::any_of(excluded.begin(), excluded.end(),
                       [&](const std::string& path) { return tensor.name.starts_with(path + "."); });
  }
  /// gate and up are fused, so their adapter has the ranks of both.
  [[nodiscard]] std::int64_t rank_of(const Tensor& tensor) const {
    return tensor.role == TensorRole::expert && is_gate_up(tensor) ? 2 * rank : rank;
  }
};

/// lora_A and lora_B of one weight, on the module at `path`.
std::array<Tensor, 2> adapter_pair(const Tensor& base, const std::string& path, std::int64_t rank) {
  const Linear& linear = *base.linear;
  Tensor down = base;
  down.name = "base_model.model." + path + ".lora_A.default.weight";
  down.shape = {rank * linear.copies, linear.in_features};
  down.linear = Linear{.in_features = linear.in_features, .out_features = rank, .copies = linear.copies};
  Tensor up = base;
  up.name = "base_model.model." + path + ".lora_B.default.weight";
  up.shape = {linear.out_features, rank * linear.copies};
  up.linear = Linear{.in_features = rank, .out_features = linear.out_features, .copies = linear.copies};
  Tensor& whole = base.split == TensorParallelSplit::row ? up : down;
  whole.split = TensorParallelSplit::replicated;
  whole.split_units = 1;
  return {down, up};
}

/// DoRA's vector beside the pair: one number for each output.
Tensor magnitude(const Tensor& base, const std::string& path) {
  if (base.role == TensorRole::expert)
    throw InputError("--dora", "stacked experts are adapted", "accepted: targets without experts");
  Tensor vector = base;
  vector.name = "base_model.model." + path + ".lora_magnitude_vector.default.weight";
  vector.shape = {base.linear->out_features};
  vector.linear.reset();
  if (base.split == TensorParallelSplit::row) vector.split = TensorParallelSplit::replicated;
  return vector;
}

std::vector<Tensor> adapters_of(const std::vector<Tensor>& tensors, const Plan& plan) {
  const auto down_stack = [&](const Tensor& tensor) {
    return tensor.role == TensorRole::expert && !is_gate_up(tensor) && plan.adapts(tensor);
  };
  const bool nested = std::any_of(tensors.begin(), tensors.end(), down_stack);
  std::vector<Tensor> adapters;
  for (const Tensor& tensor : tensors) {
    if (!plan.adapts(tensor)) continue;
    std::string path = module_path(tensor);
    // peft wraps the experts once per stack, the second wrapper around the first.
    if (tensor.role == TensorRole::expert && is_gate_up(tensor) && nested) path += ".base_layer";
    for (Tensor& each : adapter_pair(tensor, path, plan.rank_of(tensor))) adapters.push_back(std::move(each));
    if (plan.magnitudes) adapters.push_back(magnitude(tensor, path));
  }
  return adapters;
}

Plan make_plan(const Model& model, std::int64_t rank, const LoraTargets& targets) {
  if (rank < 1 || rank > kHighestRank)
    throw InputError("--lora-rank", fmt::format("{}", rank),
                     fmt::format("accepted: a whole number from 1 to {}", kHighestRank));
  if (targets.modules.empty())
    throw InputError("--lora-targets", "no module", accepted_words("", adaptable_modules(model)));
  Plan plan{.all_linear = contains(targets.modules, "all-linear"),
            .targets = {},
            .excluded = targets.excluded,
            .experts = model.shape.libraries.expert_modules,
            .rank = rank};
  if (plan.all_linear) return plan;
  plan.targets = spelled_out(model, targets);
  check_known(model, plan.targets);
  check_whole_stacks(model, plan.targets);
  return plan;
}

}  // namespace

namespace {

/// The trained copy of a module's weight.
Tensor saved_copy(Tensor tensor, const std::string& path) {
  tensor.name = "base_model.model." + path + ".modules_to_save.default.weight";
  return tensor;
}

const Tensor* token_embedding(const Model& model) {
  for (const Tensor& each : model.inventory.before)
    if (each.role == TensorRole::token_embedding) return &each;
  return nullptr;
}

/// The output head, or nothing where it is the token embedding.
const Tensor* output_head(const Model& model) {
  for (const Tensor& each : model.inventory.after)
    if (each.role == TensorRole::head && each.linear) return &each;
  return nullptr;
}

/// The head that a tied embedding stands for.
Tensor untied_head(const Tensor& embedding) {
  Tensor head = embedding;
  head.role = TensorRole::head;
  head.module = "lm_head";
  head.linear = Linear{.in_features = embedding.shape.back(), .out_features = embedding.shape.front()};
  return head;
}

/// True of the part of a model that a rank of Megatron-Core holds: a stage may have neither embedding nor
/// head.
bool is_part_of_gpt(const Model& model) {
  const std::vector<LayerKind>& kinds = model.inventory.kinds;
  return !kinds.empty() && !kinds.front().tensors.empty() &&
         kinds.front().tensors.front().name.starts_with("decoder.layers.");
}

/// True of modules that may stand on another stage.
bool is_elsewhere(const Model& model, const std::string& name) {
  return is_part_of_gpt(model) && (name == "word_embeddings" || name == "output_layer");
}

void add_saved_modules(const Model& model, const AdapterSpec& spec, Inventory& added) {
  const Tensor* embedding = token_embedding(model);
  const Tensor* head = output_head(model);
  const std::string head_path = head != nullptr ? module_path(*head) : "lm_head";
  bool saves_embedding = false, saves_head = false;
  for (const std::string& name : spec.saved_modules) {
    const bool is_embedding = embedding != nullptr && targets_module(name, module_path(*embedding));
    const bool is_head = targets_module(name, head_path);
    if (!is_embedding && !is_head && !is_elsewhere(model, name)) {
      Names accepted{head_path.substr(head_path.rfind('.') + 1)};
      if (embedding != nullptr) accepted.insert(accepted.begin(), embedding->module);
      throw InputError("--modules-to-save", in_quotes(name) + " is not what zplan plans copies of",
                       accepted_words(name, accepted));
    }
    saves_embedding = saves_embedding || is_embedding, saves_head = saves_head || is_head;
  }
  const bool one_copy = head == nullptr && spec.ties_saved && (saves_embedding || saves_head);
  if (one_copy || saves_embedding)
    added.before.insert(added.before.begin(), saved_copy(*embedding, module_path(*embedding)));
  if (saves_head && !one_copy)
    added.after.push_back(saved_copy(head != nullptr ? *head : untied_head(*embedding), head_path));
}

}  // namespace

Inventory added_tensors(const Model& model, const AdapterSpec& spec) {
  Plan plan = make_plan(model, spec.rank, spec.targets);
  plan.magnitudes = spec.magnitudes;
  Inventory added{.before = adapters_of(model.inventory.before, plan),
                  .kinds = {},
                  .layers = model.inventory.layers,
                  .after = adapters_of(model.inventory.after, plan)};
  for (const LayerKind& kind : model.inventory.kinds)
    added.kinds.push_back({kind.name, adapters_of(kind.tensors, plan)});
  if (approximate_elements(added) > kMostParameters)
    throw InputError("--lora-rank", fmt::format("{} makes more than 2^60 parameters", spec.rank),
                     "accepted: a lower rank");
  add_saved_modules(model, spec, added);
  return added;
}

bool is_saved_copy(const Tensor& tensor) {
  return tensor.name.find(".modules_to_save.") != std::string::npos;
}

Inventory lora_adapters(const Model& model, std::int64_t rank, const LoraTargets& targets) {
  return added_tensors(model, {.rank = rank, .targets = targets});
}

std::vector<std::string> adaptable_modules(const Model& model) {
  Names modules;
  for_each_adaptable(model, [&](const Tensor&, const Names& names) {
    for (const std::string& name : names)
      if (!contains(modules, name)) modules.push_back(name);
  });
  return modules;
}

namespace {

/// True of weights of feed-forwards; all others that can be adapted count as attention.
bool is_feed_forward(const Tensor& tensor) {
  return tensor.role == TensorRole::mlp || tensor.role == TensorRole::expert ||
         tensor.role == TensorRole::shared_expert;
}

}  // namespace

LoraTargets analogous_targets(const Model& model, const Model& analogue, const LoraTargets& targets) {
  if (contains(targets.modules, "all-linear")) return targets;
  const Names wanted = spelled_out(model, targets), there = adaptable_modules(analogue);
  if (std::ranges::all_of(wanted, [&](const std::string& each) { return contains(there, each); }))
    return targets;
  const Plan plan = make_plan(model, 1, targets);
  bool attention = false, feed_forward = false;
  for_each_adaptable(model, [&](const Tensor& tensor, const Names&) {
    if (plan.adapts(tensor)) (is_feed_forward(tensor) ? feed_forward : attention) = true;
  });
  LoraTargets made{.modules = {}};
  for_each_adaptable(analogue, [&](const Tensor& tensor, const Names& names) {
    if (tensor.role == TensorRole::head || !(is_feed_forward(tensor) ? feed_forward : attention)) return;
    for (const std::string& name : names)
      if (!contains(made.modules, name)) made.modules.push_back(name);
  });
  if (made.modules.empty()) made.modules = {"q_v"};
  return made;
}

}  // namespace zplan

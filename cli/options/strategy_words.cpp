#include "cli/options/strategy_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/base/values.h"
#include "planner/question/framework.h"

namespace zplan {

namespace {

[[noreturn]] void unknown_part(std::string_view text, std::string_view part) {
  std::vector<std::string> words{"zero0", "zero1",      "zero2", "zero3", "tp2", "tp4",
                                 "tp8",   "no-reshard", "fsdp",  "ddp",   "b2",  "a2"};
  for (const char* word : {"sp2", "sp4", "sp8", "cp2", "cp4", "cp8", "ep2", "ep4", "ep8", "replicas2",
                           "tiled-mlp", "tiled-loss"})
    words.emplace_back(word);
  for (const std::string& name : all_names<CheckpointOffload>())
    if (name != "none") words.push_back("checkpoint-offload-" + name);
  words.emplace_back("rotate-alltoall");
  for (const std::string& name : all_names<Offload>())
    if (name != "none") words.push_back("offload-" + name);
  for (const std::string& name : all_names<Checkpointing>()) words.push_back("checkpointing-" + name);
  for (const std::string& name : all_names<Method>()) words.push_back(name);
  throw InputError(fmt::format("strategy {}", in_quotes(text)),
                   fmt::format("unknown part {}", in_quotes(part)), accepted_words(part, words));
}

/// The part of an id that says torchtitan.
constexpr std::string_view kTorchtitan = "titan";

/// "offload" of "offload-all", "zero" of "zero3", "no-reshard" of itself; "fsdp", "ddp" and "titan" are of
/// the kind of "zero", since there can be but one of them; "b" of "b4".
std::string_view kind_of(std::string_view part) {
  if (part == "fsdp" || part == "ddp" || part == kDistributedOptimizer || part == kTorchtitan) return "zero";
  if (part == "no-reshard") return part;
  if (from_name<Method>(part)) return "method";
  for (const std::string_view kind : {"tiled-mlp", "tiled-loss"})
    if (part.starts_with(kind)) return kind;
  for (const std::string_view kind : {"offload-", "checkpointing-", "checkpoint-offload-", "rotate-", "zero",
                                      "tp", "pp", "vpp", "sp", "cp", "ep", "replicas", "b", "a"})
    if (part.starts_with(kind) && part.size() > kind.size()) return kind;
  return {};
}

/// Returns the end of the part that begins at `begin`. Names of offloads may hold a "+": the longest one
/// counts.
std::size_t end_of_part(std::string_view text, std::size_t begin) {
  constexpr std::string_view kOffload = "offload-";
  std::size_t end = std::min(text.find('+', begin), text.size());
  if (!text.substr(begin).starts_with(kOffload)) return end;
  for (const std::string& name : all_names<Offload>()) {
    const std::size_t after = begin + kOffload.size() + name.size();
    const bool stands_here = text.substr(begin + kOffload.size()).starts_with(name);
    if (stands_here && (after == text.size() || text[after] == '+')) end = std::max(end, after);
  }
  return end;
}

bool all_digits(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The framework that a whole part names.
bool take_framework(PinnedStrategy& strategy, std::string_view part) {
  if (part == kDistributedOptimizer) {
    strategy.framework = Framework::megatron, strategy.zero_stage = 1;
    return true;
  }
  if (part == kTorchtitan) {
    strategy.framework = Framework::torchtitan, strategy.zero_stage = 3;
    return true;
  }
  if (part != "fsdp" && part != "ddp") return false;
  const bool fsdp = part == "fsdp";
  strategy.framework = fsdp ? Framework::fsdp : Framework::torch;
  strategy.zero_stage = fsdp ? 3 : 0;
  return true;
}

/// The batch that "b4" or "a8" names; false where it is no number.
bool take_batch(PinnedStrategy& strategy, std::string_view kind, std::string_view value) {
  if (!all_digits(value)) return false;
  const std::string place = fmt::format("strategy part {}…", kind);
  if (kind == "b")
    strategy.micro_batch_size = parse_integer(place, value, 1, kMostMicroBatch);
  else
    strategy.gradient_accumulation_steps = parse_integer(place, value, 1, kMostSteps);
  return true;
}

/// The degree that "tp4" and the like name.
bool take_degree(std::int64_t& degree, std::string_view kind, std::string_view value) {
  if (!all_digits(value) || value.size() > 4) return false;
  degree = parse_integer(kind, value, 1, kMostDegree);
  return true;
}

/// Slices of "tiled-mlp4"; as many as its authors take without a number.
bool take_tiles(std::int64_t& tiles, std::string_view kind, std::string_view value) {
  constexpr std::int64_t kMostSlices = 1'000'000;
  if (!all_digits(value)) return false;
  tiles = value.empty() ? LongContext::kAutoTiles : parse_integer(kind, value, 1, kMostSlices);
  return true;
}

template <class E>
bool take_name(E& to, std::string_view value) {
  const auto named = from_name<E>(value);
  if (named) to = *named;
  return named.has_value();
}

/// False where the part is none of the known ones.
bool take_value(PinnedStrategy& strategy, std::string_view kind, std::string_view value) {
  if (kind == "zero") {
    if (value.size() != 1 || value.front() < '0' || value.front() > '3') return false;
    strategy.zero_stage = value.front() - '0';
    return true;
  }
  if (kind == "tp") return take_degree(strategy.tensor_parallel, kind, value);
  if (kind == "pp") return take_degree(strategy.pipeline_parallel, kind, value);
  if (kind == "vpp") return take_degree(strategy.virtual_stages, kind, value);
  if (kind == "sp") return take_degree(strategy.sequence_parallel, kind, value);
  if (kind == "cp") return take_degree(strategy.context_parallel, kind, value);
  if (kind == "ep") return take_degree(strategy.expert_parallel, kind, value);
  if (kind == "etp") return take_degree(strategy.expert_tensor_parallel, kind, value);
  if (kind == "replicas") return take_degree(strategy.replicas, kind, value);
  if (kind == "tiled-mlp") return take_tiles(strategy.long_context.tiled_mlp, kind, value);
  if (kind == "tiled-loss") return take_tiles(strategy.long_context.tiled_loss, kind, value);
  if (kind == "offload-") return take_name(strategy.offload, value);
  if (kind == "checkpointing-") return take_name(strategy.checkpointing, value);
  if (kind == "checkpoint-offload-") return take_name(strategy.long_context.checkpoint_offload, value);
  if (kind == "rotate-") return take_name(strategy.long_context.rotation, value);
  return (kind == "b" || kind == "a") && take_batch(strategy, kind, value);
}

bool take_method(PinnedStrategy& strategy, std::string_view part) {
  strategy.method = from_name<Method>(part);
  return strategy.method.has_value();
}

bool take_part(PinnedStrategy& strategy, std::string_view kind, std::string_view part) {
  if (kind == "method") return take_method(strategy, part);
  return take_framework(strategy, part) || kind == "no-reshard" ||
         take_value(strategy, kind, part.substr(kind.size()));
}

/// Applies "no-reshard" to FSDP2 once all parts are known.
void finish(PinnedStrategy& strategy, std::string_view text, const std::set<std::string_view>& seen) {
  if (!seen.contains("zero"))
    throw InputError(fmt::format("strategy {}", in_quotes(text)), "no ZeRO stage",
                     "accepted: zero0 to zero3, as in tp8+zero1, or fsdp, ddp");
  if (!seen.contains("no-reshard")) return;
  if (!spec(strategy.framework).reads_accelerate_config)
    throw InputError(fmt::format("strategy {}", in_quotes(text)), "no-reshard without fsdp",
                     "accepted: fsdp+no-reshard");
  strategy.zero_stage = 2;
}

}  // namespace

PinnedStrategy parse_strategy(std::string_view text, Checkpointing checkpointing) {
  PinnedStrategy strategy;
  strategy.checkpointing = checkpointing;
  std::set<std::string_view> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = end_of_part(text, begin);
    const std::string_view part = text.substr(begin, end - begin), kind = kind_of(part);
    if (!take_part(strategy, kind, part)) unknown_part(text, part);
    if (!seen.insert(kind).second)
      throw InputError(fmt::format("strategy {}", in_quotes(text)),
                       fmt::format("a second {}", in_quotes(part)), "accepted: each part once");
    begin = end + 1;
  }
  finish(strategy, text, seen);
  return strategy;
}

namespace {

/// Returns the strategy's values, and the options' where the strategy has none.
LongContext merged(LongContext given, const LongContext& named) {
  if (named.tiled_mlp != 0) given.tiled_mlp = named.tiled_mlp;
  if (named.tiled_loss != 0) given.tiled_loss = named.tiled_loss;
  if (named.checkpoint_offload != CheckpointOffload::none)
    given.checkpoint_offload = named.checkpoint_offload;
  if (named.rotation != KeyRotation::all_gather) given.rotation = named.rotation;
  return given;
}

}  // namespace

SearchSpace pinned(SearchSpace space, const PinnedStrategy& strategy) {
  space.zero_stages = {strategy.zero_stage};
  space.tensor_parallel = {strategy.tensor_parallel};
  if (spec(strategy.framework).has_stages) {
    space.pipeline_parallel = {strategy.pipeline_parallel};
    space.virtual_stages = {strategy.virtual_stages};
  }
  space.sequence_parallel = {strategy.sequence_parallel};
  space.context_parallel = {strategy.context_parallel};
  space.expert_parallel = {strategy.expert_parallel};
  space.expert_tensor_parallel = {strategy.expert_tensor_parallel};
  space.replicas = {strategy.replicas};
  space.long_context = merged(space.long_context, strategy.long_context);
  space.offloads = {strategy.offload};
  space.checkpointing = strategy.checkpointing;
  if (strategy.micro_batch_size) space.micro_batch_size = strategy.micro_batch_size;
  if (strategy.gradient_accumulation_steps)
    space.gradient_accumulation_steps = strategy.gradient_accumulation_steps;
  return space;
}

OptionChanges sharding_options(const Strategy& s) {
  OptionChanges options{
      {"--zero", fmt::format("{}", s.zero_stage)},
      {"--tp", fmt::format("{}", s.layout.tensor)},
      {"--offload", std::string(to_name(Offload{s.offload_optimizer, s.offload_parameters}))}};
  if (s.megatron || s.torchtitan) options.emplace_back("--pp", fmt::format("{}", s.layout.pipeline));
  if (s.layout.virtual_stages > 1) options.emplace_back("--vpp", fmt::format("{}", s.layout.virtual_stages));
  return options;
}

OptionChanges strategy_options(const Strategy& s) {
  OptionChanges options = sharding_options(s);
  for (auto& each : token_options(s)) options.push_back(std::move(each));
  return options;
}

OptionChanges token_options(const Strategy& s) {
  OptionChanges options;
  const auto tiles = [](std::int64_t count) {
    return count == LongContext::kAutoTiles ? "auto" : fmt::format("{}", count);
  };
  if (s.layout.sequence > 1) options.emplace_back("--sp", fmt::format("{}", s.layout.sequence));
  if (s.layout.context > 1) {
    options.emplace_back("--cp", fmt::format("{}", s.layout.context));
    options.emplace_back("--cp-rotate", to_name(s.long_context.rotation));
  }
  if (s.layout.expert > 1) options.emplace_back("--ep", fmt::format("{}", s.layout.expert));
  if (s.layout.expert_tensor > 1) options.emplace_back("--etp", fmt::format("{}", s.layout.expert_tensor));
  if (s.layout.replicate > 1) options.emplace_back("--dp-replicate", fmt::format("{}", s.layout.replicate));
  if (s.long_context.checkpoint_offload != CheckpointOffload::none)
    options.emplace_back("--checkpoint-offload", to_name(s.long_context.checkpoint_offload));
  if (s.long_context.tiled_mlp != 0) options.emplace_back("--tiled-mlp", tiles(s.long_context.tiled_mlp));
  if (s.long_context.tiled_loss != 0) options.emplace_back("--tiled-loss", tiles(s.long_context.tiled_loss));
  return options;
}

bool names_file(std::string_view word) {
  return word.ends_with(".json") || word.find('/') != std::string_view::npos;
}

std::vector<Method> methods_named(const Options& options) {
  std::vector<std::string> all = options.words;
  if (!options.baseline.empty()) all.push_back(options.baseline);
  std::vector<Method> methods;
  for (const std::string& word : all) {
    if (options.command != Command::compare || names_file(word)) continue;
    const PinnedStrategy strategy = parse_strategy(word, Checkpointing::full);
    if (strategy.method) methods.push_back(*strategy.method);
  }
  return methods;
}

std::string full_name(const PinnedStrategy& strategy, std::string_view plan_id, Checkpointing checkpointing) {
  std::string name =
      strategy.method ? fmt::format("{}+{}", to_name(*strategy.method), plan_id) : std::string(plan_id);
  // plan_id leaves "full" unsaid, which would be read as what holds otherwise.
  if (strategy.checkpointing == Checkpointing::full && checkpointing != Checkpointing::full)
    name += "+checkpointing-full";
  if (strategy.micro_batch_size) name += fmt::format("+b{}", *strategy.micro_batch_size);
  if (strategy.gradient_accumulation_steps)
    name += fmt::format("+a{}", *strategy.gradient_accumulation_steps);
  return name;
}

}  // namespace zplan

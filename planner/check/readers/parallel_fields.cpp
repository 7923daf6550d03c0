// Fields of published runs that divide a model over ranks: Megatron-Core's, torchtitan's and those of others.

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "models/base/format.h"
#include "planner/check/readers/field_values.h"
#include "planner/question/argument_list.h"
#include "planner/question/framework.h"

namespace zplan::check {

namespace {

bool runs_megatron(const Run& run) { return run.setup.strategy.megatron.has_value(); }
bool runs_titan(const Run& run) { return run.setup.strategy.torchtitan.has_value(); }
const FrameworkSpec& spec_of(const Run& run) { return spec(run.setup.training.framework); }

/// True if a degree of the row is above 1.
bool is_above_1(const Run& run, const char* key) { return run.options.integer_or(key, 1, 1, kMostRanks) > 1; }

bool states_memory(const Run& run) { return run.row.text_or("schema", "") == "zplan.measurement/1"; }

/// Frameworks with modules and pipelines of their own that are planned as another one's.
constexpr std::array<std::string_view, 2> kMegatrons{"megatron", "primus-megatron"};
constexpr std::array<std::string_view, 3> kTitans{"torchtitan", "kempnerforge", "nemo-automodel"};

/// Sets what Megatron's recipes set and rows do not repeat: experts run in one product, and its data loader
/// makes no mask.
void start_megatron(Run& run) {
  run.setup.training = with_framework(std::move(run.setup.training), Framework::megatron);
  MegatronOptions options;
  options.makes_mask = false;
  options.groups_experts = options.permute_fusion = run.setup.model.shape.experts.has_value();
  run.setup.strategy.megatron = options;
}

/// Without pipelines, tensor and context parallelism runs are those of FSDP2 with torchtitan's modules.
/// KempnerForge's tensor-parallel ranks have the whole embedding and whole logits, and gradients that are not
/// divided before the last micro-step: their memory is another one.
void start_titan(const std::string& name, Run& run) {
  if (name != kTitans.front() && states_memory(run))
    run.skip.add("memory of " + name + "'s own tensor parallelism");
  run.setup.training = with_framework(std::move(run.setup.training), Framework::torchtitan);
  run.setup.strategy.torchtitan = TitanOptions{.attention = TitanAttention::varlen, .loss_chunks = 0};
}

/// Layers of a model's chunks where they divide evenly in no way that Megatron counts: all but the last ones
/// have equally many.
std::vector<std::int64_t> uneven_chunks(std::int64_t layers, std::int64_t chunks) {
  const std::int64_t each = (layers + chunks - 1) / chunks;
  std::vector<std::int64_t> made;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t left = chunks - 1 - i;  // of which each has a layer at least
    made.push_back(std::clamp<std::int64_t>(layers - left, 1, each));
    layers -= made.back();
  }
  return made;
}

/// A few products of latent attention, whose time is left out. Memory without their results was not recorded.
constexpr std::string_view kUpProjection = "mla_up_proj";

/// Returns the modules of Megatron's --recompute-modules in a source's words: "selective:layernorm,moe_act".
std::vector<RecomputedModule> recomputed_modules(std::string words, Skip& skip) {
  static const std::map<std::string, std::string> kShort{
      {"norm", "layernorm"}, {"act", "moe_act"}, {"(core attention)", "core_attn"}};
  if (words == "selective (core attention)") words = "selective:core_attn";
  std::string list = words.substr(std::min(words.find(':'), words.size() - 1) + 1);
  std::erase_if(list, [](char c) { return c == '[' || c == ']'; });
  std::ranges::replace(list, ' ', ',');
  std::vector<RecomputedModule> modules;
  for (const std::string_view each : split(list, ',')) {
    const auto full = kShort.find(std::string(each));
    const std::string name = full == kShort.end() ? std::string(each) : full->second;
    if (const auto known = from_name<RecomputedModule>(name))
      modules.push_back(*known);
    else if (name != kUpProjection)
      skip.add("recompute of " + name);
  }
  return modules;
}

}  // namespace

bool starts_divided(const std::string& name, Run& run) {
  const bool divides = is_above_1(run, "tensor_parallel") || is_above_1(run, "pipeline_parallel") ||
                       is_above_1(run, "context_parallel") || is_above_1(run, "expert_parallel");
  if (std::ranges::find(kMegatrons, name) != kMegatrons.end())
    start_megatron(run);
  else if (std::ranges::find(kTitans, name) != kTitans.end() && divides)
    start_titan(name, run);
  else
    return false;
  return true;
}

// ---- degrees

void read_stages(const JsonReader& value, Run& run) {
  const std::int64_t stages = value.integer(1, kMostRanks);
  if (stages > 1 && !spec_of(run).has_stages) return run.skip.add("pipeline parallelism");
  divide_ranks(run, &ParallelLayout::pipeline, value);
}

void read_virtual_stages(const JsonReader& value, Run& run) {
  const std::int64_t chunks = value.integer(1, kMostRanks);
  if (run.setup.strategy.layout.pipeline > 1) run.setup.strategy.layout.virtual_stages = chunks;
}

void read_context(const JsonReader& value, Run& run) {
  const std::int64_t ranks = value.integer(1, kMostRanks);
  if (ranks > 1 && !spec_of(run).passes_keys) return run.skip.add("context parallelism");
  divide_ranks(run, &ParallelLayout::context, value);
}

void read_expert_ranks(const JsonReader& value, Run& run) {
  const std::int64_t ranks = value.integer(1, kMostRanks);
  if (ranks == 1) return;
  if (!runs_megatron(run)) return run.skip.add("expert parallelism");
  run.setup.strategy.layout.expert = ranks;
  run.setup.strategy.experts.enabled = true;
}

void read_expert_tensor(const JsonReader& value, Run& run) {
  run.setup.strategy.layout.expert_tensor = value.integer(1, kMostRanks);
}

/// Under frameworks with tensor parallelism of their own, hidden states between layers are divided, too.
void read_token_division(const JsonReader& value, Run& run) {
  const bool divides = value.boolean() && run.setup.strategy.layout.tensor > 1;
  if (runs_megatron(run))
    run.setup.strategy.megatron->sequence_parallel = divides;
  else if (runs_titan(run))
    run.setup.strategy.torchtitan->sequence_parallel = divides;
  else if (value.boolean())
    run.skip.add("sequence parallelism");
}

void read_shard_ranks(const JsonReader& value, Run& run) {
  ParallelLayout& layout = run.setup.strategy.layout;
  const std::int64_t ranks = value.integer(1, kMostRanks);
  if (runs_megatron(run) || ranks >= layout.shard_ranks()) return;
  if (layout.shard % ranks != 0) value.fail(std::to_string(ranks), "accepted: a divisor of the ranks");
  layout.replicate = layout.shard / ranks, layout.shard = ranks;
}

// ---- Megatron-Core's options

/// "1f1b" and "interleaved" follow from the virtual stages; others are schedules of their own.
void read_pipeline_schedule(const JsonReader& value, Run& run) {
  const std::string words = value.text();
  const bool is_usual = words.starts_with("1f1b") || words.starts_with("interleaved");
  const bool is_other =
      words.find("zero bubble") != std::string::npos || words == "interleaved or 1f1b (not printed)";
  if (!is_usual || is_other) return run.skip.add("schedule " + words);
  const bool interleaves = words.starts_with("interleaved");
  if (runs_titan(run) && interleaves)
    run.setup.strategy.torchtitan->schedule = PipelineSchedule::interleaved,
    run.setup.strategy.layout.virtual_stages = 2;
  if (runs_megatron(run) && interleaves && run.setup.strategy.layout.virtual_stages == 1)
    run.skip.add("virtual stages of which the source gives no number");
}

/// torchtitan's micro-batches are parts of a local batch.
void read_local_batch(const JsonReader& value, Run& run) {
  const std::int64_t samples = value.integer(1, kMostBatch);
  Strategy& s = run.setup.strategy;
  if (runs_titan(run) && s.layout.pipeline > 1) s.gradient_accumulation_steps = samples / s.micro_batch_size;
}

void read_dispatcher(const JsonReader& value, Run& run) {
  const std::string name = value.text();
  if (!runs_megatron(run)) return;
  MegatronOptions& options = *run.setup.strategy.megatron;
  options.dispatcher = name == "allgather"  ? RowDispatcher::allgather
                       : name == "alltoall" ? RowDispatcher::alltoall
                                            : RowDispatcher::flex;
}

void read_overlap(const JsonReader& value, Run& run) {
  (void)value.keys();
  if (!runs_megatron(run)) return;
  MegatronOptions& options = *run.setup.strategy.megatron;
  options.overlap_grad_reduce = value.boolean_or("grad_reduce", false);
  options.overlap_param_gather = options.overlap_grad_reduce && value.boolean_or("param_gather", false);
  options.overlaps_transfers = value.boolean_or("p2p", true);
}

/// Rows say in words where the kernels are Transformer Engine's.
void read_loss_fusion(const JsonReader& value, Run& run) {
  const bool fuses = value.boolean();
  if (!runs_megatron(run)) return;
  MegatronOptions& options = *run.setup.strategy.megatron;
  options.fused_cross_entropy = fuses;
  std::string words = run.row.text_or("remarks", "");
  if (run.row.has("assumed"))
    for (const JsonReader& each : run.row.at("assumed").items()) words += each.text();
  if (words.find("cross entropy of Transformer Engine") != std::string::npos)
    options.loss_fusion = LossFusion::te;
}

void read_chunk_layout(const JsonReader& value, Run& run) {
  const std::string words = value.text();
  if (!runs_megatron(run)) return;
  if (const auto layers = chunk_layers_of(words))
    run.setup.strategy.megatron->layers_of_chunks = *layers;
  else
    run.skip.add("a layout of stages with other layers than the decoder's", words);
}

void read_key_exchange(const JsonReader& value, Run& run) {
  const auto exchange = named<ContextExchange>(value);
  if (runs_megatron(run)) run.setup.strategy.megatron->context_exchanges = {exchange};
}

/// Arguments of Megatron's command line that no other field says.
void read_megatron_arguments(const JsonReader& value, Run& run) {
  static const std::vector<std::string> kElsewhere{"sequence-parallel", "recompute-modules",
                                                   "transformer-impl", "multi-latent-attention"};
  // Deterministic kernels take other time but no other memory.
  static const std::vector<std::string> kTimeAlone{"deterministic-mode"};
  for (const std::string& name : value.keys()) {
    if (!runs_megatron(run) || std::ranges::find(kElsewhere, name) != kElsewhere.end()) continue;
    MegatronOptions& options = *run.setup.strategy.megatron;
    const JsonReader given = value.at(name);
    const std::string words = given.raw().is_string() ? given.text() : given.raw().dump();
    const bool is_switch = given.raw().is_boolean();
    if (is_switch && !given.boolean()) continue;
    if (std::ranges::find(kTimeAlone, name) != kTimeAlone.end()) continue;
    if (name == "attention-dropout" || name == "hidden-dropout") {
      if (given.number(0, 1) == 0) run.setup.model.shape.dropout = 0;
      continue;
    }
    const auto found = std::ranges::find(megatron_arguments(), name, &MegatronArgument::name);
    if (found == megatron_arguments().end() || !found->set(options, is_switch ? "" : words))
      run.skip.add("--" + name + (is_switch ? "" : " " + words));
  }
  if (value.text_or("transformer-impl", "transformer_engine") != "transformer_engine")
    run.skip.add("--transformer-impl local");
}

/// Under Megatron-Core "eager" are products and a softmax of its own; which fused kernel ran is seldom said.
void read_published_attention(const JsonReader& value, Run& run) {
  const auto attention = named<Attention>(value);
  if (!runs_megatron(run))
    run.setup.training.attention = attention;
  else if (attention == Attention::eager)
    run.setup.strategy.megatron->attention = AttentionBackend::unfused;
}

void read_summed_bytes(const JsonReader& value, Run& run) {
  const bool is_narrow = value.integer(1, 8) == 2;
  if (runs_megatron(run)) run.setup.strategy.megatron->gradients_in_bf16 = is_narrow;
}

/// Reads which modules Megatron-Core computes again, in the source's words.
void read_megatron_recompute(const std::string& words, Run& run) {
  MegatronOptions& options = *run.setup.strategy.megatron;
  if (states_memory(run) && words.find(kUpProjection) != std::string::npos)
    run.skip.add("memory under recompute of " + std::string(kUpProjection));
  if (words.starts_with("selective")) options.recomputed_modules = recomputed_modules(words, run.skip);
}

// ---- what the fields before leave open

/// Degrees whose product is not the number of ranks, and layers that the row divides among stages in no even
/// way.
void check_division_of_ranks(const JsonReader& /*value*/, Run& run) {
  Strategy& s = run.setup.strategy;
  if (runs_titan(run)) s.zero_stage = 3;  // of one rank where it shards nothing
  if (s.layout.world() != run.gpus)
    return run.skip.add("degrees of parallelism whose product is not the number of GPUs");
  if (run.setup.training.method != Method::full && s.megatron) run.skip.add("adapters under Megatron-Core");
  if (!runs_megatron(run)) return;
  MegatronOptions& options = *s.megatron;
  if (s.offload_optimizer != OffloadDevice::none) options.offloads_optimizer = options.precision_aware = true;
  const std::int64_t layers = run.setup.model.shape.layers,
                     chunks = s.layout.pipeline * s.layout.virtual_stages;
  if (chunks == 1 || !options.layers_of_chunks.empty() || options.counts_embedding || options.counts_loss ||
      layers % chunks == 0)
    return;
  if (divides_with_ends(layers, chunks))
    options.counts_embedding = options.counts_loss = true;
  else
    options.layers_of_chunks = uneven_chunks(layers, chunks);
}

}  // namespace zplan::check

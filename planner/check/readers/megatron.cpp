// Steps of Megatron-Core that were recorded as any of its ranks, each row with the command line that ran it.

#include "planner/check/readers/megatron.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/models.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

/// The arguments of a command line: values by name, without dashes.
class Arguments {
 public:
  explicit Arguments(const std::string& line) {
    std::istringstream words(line);
    std::string name;
    for (std::string word; words >> word;) {
      if (word.starts_with("--"))
        values_[name = word.substr(2)].clear();  // the last one counts
      else
        values_[name].push_back(word);
    }
  }
  [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise = {}) const {
    const auto at = values_.find(name);
    return at == values_.end() || at->second.empty() ? otherwise : at->second.front();
  }
  [[nodiscard]] std::int64_t number(const std::string& name, std::int64_t otherwise) const {
    const std::string given = text(name);
    return given.empty() ? otherwise : std::stoll(given);
  }
  [[nodiscard]] const std::map<std::string, std::vector<std::string>>& all() const { return values_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

/// Arguments that the model and the strategy are read from, or that change neither memory nor calls.
bool is_read_elsewhere(const std::string& name) {
  static const std::set<std::string> kNames{"bf16",
                                            "tokenizer-type",
                                            "transformer-impl",
                                            "hidden-size",
                                            "ffn-hidden-size",
                                            "num-attention-heads",
                                            "group-query-attention",
                                            "num-query-groups",
                                            "kv-channels",
                                            "rotary-base",
                                            "untie-embeddings-and-output-weights",
                                            "swiglu",
                                            "normalization",
                                            "disable-bias-linear",
                                            "position-embedding-type",
                                            "attention-dropout",
                                            "hidden-dropout",
                                            "num-layers",
                                            "seq-length",
                                            "max-position-embeddings",
                                            "tensor-model-parallel-size",
                                            "pipeline-model-parallel-size",
                                            "context-parallel-size",
                                            "use-distributed-optimizer",
                                            "qk-layernorm",
                                            "recompute-granularity",
                                            "add-qkv-bias",
                                            "optimizer",
                                            "clip-grad",
                                            "num-virtual-stages-per-pipeline-rank",
                                            "num-layers-per-virtual-pipeline-stage",
                                            "num-experts",
                                            "moe-router-topk",
                                            "moe-ffn-hidden-size",
                                            "moe-shared-expert-intermediate-size",
                                            "moe-layer-freq",
                                            "moe-router-load-balancing-type",
                                            "moe-router-score-function",
                                            "moe-router-num-groups",
                                            "moe-router-group-topk",
                                            "moe-router-enable-expert-bias",
                                            "moe-router-topk-scaling-factor",
                                            "expert-model-parallel-size",
                                            "expert-tensor-parallel-size",
                                            "multi-latent-attention",
                                            "q-lora-rank",
                                            "kv-lora-rank",
                                            "qk-head-dim",
                                            "qk-pos-emb-head-dim",
                                            "v-head-dim",
                                            "rope-type"};
  return kNames.contains(name);
}

/// Makes the model one of Mixtral or Qwen3-MoE.
void add_experts(const Arguments& args, Json& config) {
  const std::int64_t width = args.number("moe-ffn-hidden-size", args.number("ffn-hidden-size", 0));
  config["model_type"] = args.has("qk-layernorm") ? "qwen3_moe" : "mixtral";
  config["num_experts"] = config["num_local_experts"] = args.number("num-experts", 0);
  config["num_experts_per_tok"] = args.number("moe-router-topk", 2);
  config["moe_intermediate_size"] = width;
  config["norm_topk_prob"] = true;
  if (config["model_type"] == "mixtral") config["intermediate_size"] = width;
}

/// Dense layers in front of the mixtures, of "([0]*1+[1]*7)".
std::int64_t dense_layers(const Arguments& args) {
  if (!args.has("num-experts")) return args.number("num-layers", 0);
  const std::string pattern = args.text("moe-layer-freq", "([0]*0");
  return std::stoll(pattern.substr(pattern.find('*') + 1));
}

/// Makes the model one of DeepSeek-V2 or V3.
void add_latent_attention(const Arguments& args, Json& config) {
  const std::int64_t width = args.number("moe-ffn-hidden-size", 1), rank = args.number("q-lora-rank", 0);
  config["model_type"] = args.text("moe-router-score-function") == "sigmoid" ? "deepseek_v3" : "deepseek_v2";
  config["q_lora_rank"] = rank > 0 ? Json(rank) : Json(nullptr);
  config["kv_lora_rank"] = args.number("kv-lora-rank", 0);
  config["qk_nope_head_dim"] = args.number("qk-head-dim", 0);
  config["qk_rope_head_dim"] = args.number("qk-pos-emb-head-dim", 0);
  config["v_head_dim"] = args.number("v-head-dim", 0);
  config["num_key_value_heads"] = config["num_attention_heads"];
  config.erase("head_dim");
  config["first_k_dense_replace"] = dense_layers(args);
  config["n_routed_experts"] = args.number("num-experts", 8);
  config["num_experts_per_tok"] = args.number("moe-router-topk", 2);
  config["moe_intermediate_size"] = width;
  config["n_shared_experts"] =
      std::max<std::int64_t>(args.number("moe-shared-expert-intermediate-size", 0) / width, 1);
  config["n_group"] = args.number("moe-router-num-groups", 1);
  config["topk_group"] = args.number("moe-router-group-topk", 1);
}

/// config.json of a model of those sizes: of Llama, Qwen2, Qwen3, Mixtral, Qwen3-MoE, DeepSeek or GPT-2.
Json config_of(const Arguments& args, std::int64_t vocabulary) {
  const std::int64_t hidden = args.number("hidden-size", 0), heads = args.number("num-attention-heads", 0);
  if (args.text("position-embedding-type") == "learned_absolute")
    return {{"model_type", "gpt2"},
            {"n_embd", hidden},
            {"n_inner", args.number("ffn-hidden-size", 4 * hidden)},
            {"n_head", heads},
            {"n_layer", args.number("num-layers", 0)},
            {"n_positions", args.number("max-position-embeddings", 0)},
            {"vocab_size", vocabulary},
            {"resid_pdrop", std::stod(args.text("hidden-dropout", "0.1"))},
            {"embd_pdrop", 0.1}};
  Json config{{"model_type", "llama"},
              {"hidden_size", hidden},
              {"intermediate_size", args.number("ffn-hidden-size", 0)},
              {"num_attention_heads", heads},
              {"num_key_value_heads",
               args.has("group-query-attention") ? args.number("num-query-groups", heads) : heads},
              {"head_dim", args.number("kv-channels", heads > 0 ? hidden / heads : 0)},
              {"num_hidden_layers", args.number("num-layers", 0)},
              {"max_position_embeddings", args.number("max-position-embeddings", 0)},
              {"rms_norm_eps", 1e-6},
              {"vocab_size", vocabulary},
              {"tie_word_embeddings", !args.has("untie-embeddings-and-output-weights")}};
  if (args.has("add-qkv-bias")) config["model_type"] = "qwen2";
  if (args.has("qk-layernorm")) config["model_type"] = "qwen3";
  if (args.has("multi-latent-attention"))
    add_latent_attention(args, config);
  else if (args.has("num-experts"))
    add_experts(args, config);
  return config;
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

/// Returns the options that the command line sets; arguments that are not planned, and those with a value
/// that Megatron does not accept, are added to `command`.
MegatronOptions options_of(const Arguments& args, MegatronCommand& command) {
  MegatronOptions options;
  for (const auto& [name, values] : args.all()) {
    const auto found = std::ranges::find(megatron_arguments(), name, &MegatronArgument::name);
    if (found == megatron_arguments().end() && !is_read_elsewhere(name))
      command.unread.push_back("--" + name);
    else if (found != megatron_arguments().end() && !found->set(options, joined(values)))
      command.refused.push_back("--" + name + " " + joined(values));
  }
  const bool has_uneven_stages = options.first_stage_layers > 0 || options.last_stage_layers > 0;
  if (has_uneven_stages && args.has("num-layers-per-virtual-pipeline-stage"))
    command.refused.emplace_back(
        "--num-layers-per-virtual-pipeline-stage with stages that have numbers of layers of their own");
  options.sequence_parallel = options.sequence_parallel && args.number("tensor-model-parallel-size", 1) > 1;
  return options;
}

/// Returns the chunks of layers on each of `stages` stages. Source: Megatron-Core 0.19.2
/// training/arguments.py validate_args.
std::int64_t virtual_stages(const Arguments& args, std::int64_t stages) {
  if (const auto layers = chunk_layers_of(args.text("pipeline-model-parallel-layout")))
    return std::max<std::int64_t>(std::ssize(*layers) / stages, 1);
  const std::int64_t of_chunk = args.number("num-layers-per-virtual-pipeline-stage", 0);
  if (of_chunk == 0) return args.number("num-virtual-stages-per-pipeline-rank", 1);
  std::int64_t layers = args.number("num-layers", 0);
  for (const char* end : {"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"})
    layers += args.has(end) ? 1 : 0;
  return std::max<std::int64_t>(1, layers / stages / of_chunk);
}

ParallelLayout layout_of(const Arguments& args, std::int64_t world) {
  ParallelLayout layout{.tensor = args.number("tensor-model-parallel-size", 1),
                        .context = args.number("context-parallel-size", 1),
                        .pipeline = args.number("pipeline-model-parallel-size", 1),
                        .expert = args.number("expert-model-parallel-size", 1)};
  layout.virtual_stages = virtual_stages(args, layout.pipeline);
  if (args.has("num-experts"))
    layout.expert_tensor = args.number("expert-tensor-parallel-size", layout.tensor);
  return layout.filling(world);
}

void set_question(const Arguments& args, MegatronCommand& command) {
  Setup& setup = command.setup;
  setup.training = with_framework({}, Framework::megatron);
  if (args.text("optimizer", "adam") == "sgd") setup.training.optimizer = Optimizer::sgd_momentum;
  setup.training.sequence_length = args.number("seq-length", 0);
  setup.model.shape.dropout = std::stod(args.text("hidden-dropout", "0.1"));
  Strategy& strategy = setup.strategy;
  strategy.megatron = options_of(args, command);
  if (strategy.megatron->offloads_optimizer) strategy.offload_optimizer = OffloadDevice::cpu;
  strategy.zero_stage = args.has("use-distributed-optimizer") ? 1 : 0;
  strategy.checkpointing =
      parse_name<Checkpointing>("--recompute-granularity", args.text("recompute-granularity", "none"));
}

/// Reads adapters, which no argument of Megatron's says: rank, dropout, targets, modules that are saved.
void set_adapters(const JsonReader& lora, Training& training) {
  training.method = Method::lora;
  training.lora_rank = lora.at("rank").integer(1, 1 << 16);
  training.lora_dropout = lora.at("dropout").number(0, 1);
  const auto words = [&lora](const char* key, std::vector<std::string>& into) {
    if (!lora.has(key)) return;
    into.clear();
    for (const JsonReader& each : lora.at(key).items()) into.push_back(each.text());
  };
  words("targets", training.lora_targets.modules);
  words("save", training.modules_to_save);
}

/// Fills in the question of a row; what is not planned is noted in `skip`.
std::optional<Setup> setup_of(const JsonReader& row, Skip& skip) {
  const JsonReader options = row.at("options"), sizes = row.at("sizes");
  if (!options.has("args")) {
    skip.add("a schedule whose steps, with its command line, were not given");
    return std::nullopt;
  }
  const auto size = [&](const char* key) { return sizes.at(key).integer(1, kMostRanks); };
  const std::int64_t world = size("tp") * size("pp") * size("cp") * size("dp");
  MegatronCommand command = read_megatron_command(
      options.at("args").text(), options.at("vocab").integer(1, kMostBytes), world, row.place());
  for (const auto* list : {&command.unread, &command.refused})
    for (const std::string& each : *list) skip.add(each);
  if (command.setup.strategy.megatron->predictions > 0 && size("pp") > 1)
    skip.add("predictions of a pipeline's last stage");
  if (skip.any()) return std::nullopt;
  Setup setup = std::move(command.setup);
  if (options.has("lora")) set_adapters(options.at("lora"), setup.training);
  setup.rank = options.at("rank").integer(0, kMostRanks);
  if (options.text_or("tag", "").find("skew2") != std::string::npos) setup.training.routing_skew = 2;
  Strategy& strategy = setup.strategy;
  const std::optional<JsonReader> effective = row.find("effective");
  strategy.megatron->exchanges_shapes =
      effective && effective->has("variable_seq_lengths") && effective->at("variable_seq_lengths").boolean();
  strategy.micro_batch_size = options.at("mbs").integer(1, kMostBatch);
  strategy.gradient_accumulation_steps = row.at("microbatches").integer(1, kMostBatch);
  setup.cluster.gpus = setup.cluster.gpus_per_node = strategy.layout.world();
  setup.cluster.gpu.compute_capability =
      options.text_or("tag", "").find("cc=90") != std::string::npos ? "9.0" : "8.0";
  return setup;
}

Case row_case(const JsonReader& row, Measured measured, Kind kind) {
  Case made{.id = row.at("id").text(), .kind = kind, .measured = std::move(measured)};
  made.setup = setup_of(row, made.skip);
  return made;
}

Phase phase_at(const std::string& name) {
  if (name == "F") return Phase::forward;
  return name == "B" || name == "grad_sync" ? Phase::backward : Phase::step;
}

std::optional<Operation> operation_of(const std::string& name) {
  if (name == "isend") return Operation::send_recv;
  if (name == "irecv") return std::nullopt;  // the peer's send is the call
  if (name == "all_to_all_single") return Operation::all_to_all;
  return parse_name<Operation>("op", name);
}

/// Returns the planner's phase of an operation: gradients that are reduced behind a backward belong to it,
/// and weights that are gathered between passes to the forward.
Phase phase_of(Operation operation, const std::string& name) {
  if (name == "between" && operation == Operation::reduce_scatter) return Phase::backward;
  if (name == "between" && operation == Operation::all_gather) return Phase::forward;
  return phase_at(name);
}

/// Returns a sum over the step: [op, dtype, group, size, phase, count, elements in, elements out]; nothing
/// for groups of one and for receives.
std::optional<CallTally> summed_call(const JsonReader& list) {
  const std::vector<JsonReader> fields = list.items();
  const auto number = [&](std::size_t i) { return fields[i].integer(0, kMostBytes); };
  const auto operation = operation_of(fields[0].text());
  if (!operation || number(3) <= 1) return std::nullopt;
  return CallTally{.operation = *operation,
                   .dtype = fields[1].text(),
                   .group_size = number(3),
                   .phase = phase_of(*operation, fields[4].text()),
                   .count = number(5),
                   .elements = Elements(number(*operation == Operation::all_gather ? 7 : 6))};
}

/// Returns the figures of a step: requested bytes where it was recorded, allocated ones where it was
/// published.
std::vector<MeasuredFigure> figures_of(const JsonReader& step) {
  if (!step.has("peak_requested")) return {bytes_figure(Statistic::allocated, step.at("peak_allocated"))};
  return {bytes_figure(Statistic::requested, step.at("peak_requested")),
          bytes_figure(Statistic::held, step.at("requested_before"))};
}

/// True if stages of a pipeline exchange data by the call, over whichever communicator.
bool is_between_stages(const JsonReader& call) {
  return call.items()[0].text() == "isend" && call.items()[2].text() != "cp";
}

/// Stages send hidden states forward and their gradients back between the passes: one for each micro-batch
/// and chunk of layers, but for the first and the last chunk of the model.
void add_sends(const JsonReader& row, const CallTally& all, std::vector<CallTally>& calls) {
  const std::int64_t stages = row.at("sizes").at("pp").integer(1, kMostRanks);
  const std::int64_t chunks = row.at("sizes").at("vpp").integer(1, kMostRanks);
  const std::int64_t stage = row.at("coordinates").at("pp").integer(0, kMostRanks);
  const std::int64_t forward = chunks - (stage + 1 == stages ? 1 : 0),
                     backward = chunks - (stage == 0 ? 1 : 0);
  for (const auto& [phase, sent] : {std::pair(Phase::forward, forward), {Phase::backward, backward}}) {
    if (sent == 0) continue;
    CallTally part = all;
    part.phase = phase;
    part.count = all.count * sent / (forward + backward);
    part.elements = Elements(all.elements.value * sent / (forward + backward));
    calls.push_back(std::move(part));
  }
}

/// Returns the pass whose result a stage sends to rank `peer`: the stage behind gets hidden states, that
/// before gradients. Where stages hold several chunks of layers, the first stage is behind the last; of two
/// stages each is both.
Phase sent_by(const JsonReader& row, std::int64_t peer) {
  const JsonReader sizes = row.at("sizes");
  const auto size = [&](const char* key) { return sizes.at(key).integer(1, kMostRanks); };
  const std::int64_t stages = size("pp"), stage = row.at("coordinates").at("pp").integer(0, stages - 1);
  const std::int64_t behind = size("vpp") > 1 ? (stage + 1) % stages : stage + 1;
  return peer / (size("tp") * size("cp") * size("dp")) == behind ? Phase::forward : Phase::backward;
}

/// Returns the calls in order of issue: `order` lists phases with the number of a pattern, a list of [op,
/// dtype, group, elements in, elements out, async, times, …]; a send's last entry names the peer, which is
/// at the stage behind where hidden states are sent.
std::vector<CallTally> sequence_of(const JsonReader& row) {
  std::map<std::string, std::int64_t> sizes;
  for (const JsonReader& each : row.at("collectives").items())
    sizes[each.items()[2].text()] = each.items()[3].integer(1, kMostRanks);
  const std::vector<JsonReader> patterns = row.at("patterns").items();
  std::vector<CallTally> sequence;
  for (const JsonReader& entry : row.at("order").items()) {
    const std::string label = entry.items()[0].text(), phase = label.substr(0, label.find('.'));
    const auto pattern =
        static_cast<std::size_t>(entry.items()[1].integer(0, static_cast<std::int64_t>(patterns.size()) - 1));
    for (const JsonReader& each : patterns[pattern].items()) {
      const std::vector<JsonReader> fields = each.items();
      const auto operation = operation_of(fields[0].text());
      const std::int64_t size = sizes[fields[2].text()];
      if (!operation || size <= 1) continue;
      const auto number = [&](std::size_t i) { return fields[i].integer(0, kMostBytes); };
      CallTally call{.operation = *operation,
                     .dtype = fields[1].text(),
                     .group_size = size,
                     .phase = phase_of(*operation, phase),
                     .count = number(6),
                     .elements = Elements(number(*operation == Operation::all_gather ? 4 : 3) * number(6))};
      if (is_between_stages(each) && fields.back().raw().is_object())
        call.phase = sent_by(row, fields.back().at("peer").integer(0, kMostRanks));
      append_folded(sequence, std::move(call));
    }
  }
  return sequence;
}

}  // namespace

MegatronCommand read_megatron_command(const std::string& line, std::int64_t vocabulary, std::int64_t world,
                                      const std::string& place) {
  MegatronCommand command;
  const Arguments args(line);
  if (args.text("transformer-impl") != "transformer_engine")
    command.unread.emplace_back("--transformer-impl local");
  const Json config = config_of(args, vocabulary);
  Skip skip;
  if (std::optional<Model> model = model_at(JsonReader(config, place), skip))
    command.setup.model = *std::move(model);
  else
    command.unread.emplace_back("the model's sizes");
  set_question(args, command);
  command.setup.strategy.layout = layout_of(args, world);
  command.setup.strategy.experts.enabled = command.setup.strategy.layout.expert > 1;
  return command;
}

std::vector<Case> read_megatron_steps(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) {
    const JsonReader measured = row.at("measured");
    const JsonReader step = measured.at(measured.keys().back());
    cases.push_back(row_case(row, MeasuredMemory{figures_of(step), {}}, Kind::step));
  }
  return cases;
}

std::vector<Case> read_megatron_schedules(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) {
    MeasuredSchedule schedule;
    for (const JsonReader& each : row.at("collectives").items())
      if (std::optional<CallTally> call = summed_call(each)) {
        if (is_between_stages(each))
          add_sends(row, *std::move(call), schedule.calls);
        else
          schedule.calls.push_back(*std::move(call));
      }
    schedule.sequence = sequence_of(row);
    schedule.undirected = row.at("sizes").at("pp").integer(1, kMostRanks) == 2 &&
                          row.at("sizes").at("vpp").integer(1, kMostRanks) > 1;
    cases.push_back(row_case(row, std::move(schedule), Kind::schedule));
  }
  return cases;
}

void join_command_lines(std::vector<Document>& documents) {
  std::map<std::string, const Json*> steps_of;
  for (const Document& each : documents)
    if (each.format == Format::megatron_steps)
      for (const Json& row : each.json)
        if (row.contains("id") && row["id"].is_string() && row.contains("options"))
          steps_of[row["id"].get<std::string>()] = &row;
  for (Document& each : documents) {
    if (each.format != Format::megatron_schedules) continue;
    for (Json& row : each.json) {
      if (!row.contains("id") || !row["id"].is_string() || !row.contains("options")) continue;
      const auto steps = steps_of.find(row["id"].get<std::string>());
      if (steps == steps_of.end() || row["options"].contains("args")) continue;
      row["options"] = (*steps->second)["options"];
      if (steps->second->contains("effective")) row["effective"] = (*steps->second)["effective"];
    }
  }
}

}  // namespace zplan::check

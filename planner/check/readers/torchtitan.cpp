// Recorded steps and schedules of torchtitan: options by name, the model's sizes, memory by phase or by
// action of a pipeline, calls in order of issue.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/fields.h"
#include "planner/check/readers/models.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/values.h"
#include "planner/question/framework.h"
#include "planner/question/trainers.h"

namespace zplan::check {

namespace {

/// Adds the sizes of DeepSeek's latent attention.
void add_latent_attention(const JsonReader& sizes, Json& config) {
  const std::int64_t query_rank = sizes.at("q_lora_rank").integer(0, kMostBytes);
  config["q_lora_rank"] = query_rank > 0 ? Json(query_rank) : Json();
  for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
    config[key] = sizes.at(key).integer(1, kMostBytes);
}

/// Adds the sizes of mixtures of experts, under the names of the model's config.json.
void add_mixture(const JsonReader& sizes, bool is_qwen, Json& config) {
  const auto size = [&](const char* key) { return sizes.at(key).integer(1, kMostBytes); };
  config["num_experts_per_tok"] = size("top_k"), config["moe_intermediate_size"] = size("moe_ffn");
  config[is_qwen ? "num_experts" : "n_routed_experts"] = size("experts");
  if (is_qwen) {
    config["norm_topk_prob"] = true;
    return;
  }
  config["first_k_dense_replace"] = size("layers") - size("moe_layers");
  config["n_shared_experts"] = sizes.has("shared_ffn") ? size("shared_ffn") / size("moe_ffn") : 0;
}

/// Names the architecture as config.json does. torchtitan has one name for both of DeepSeek's generations,
/// whose routers differ.
void name_architecture(const std::string& model, const JsonReader& sizes, Json& config) {
  config["model_type"] = "llama";
  if (model.starts_with("qwen3/")) {
    config["model_type"] = "qwen3";
    if (sizes.at("moe_layers").integer(0, kMostBytes) > 0) config["model_type"] = "qwen3_moe";
  }
  if (!model.starts_with("deepseek_v3/")) return;
  config["model_type"] = "deepseek_v3";
  if (sizes.text_or("score", "sigmoid") == "softmax") config["model_type"] = "deepseek_v2";
}

/// Returns the config.json of a model of these sizes.
Json titan_config(const JsonReader& row) {
  const JsonReader sizes = row.at("config"), options = row.at("options");
  const auto size = [&](const char* key) { return sizes.at(key).integer(1, kMostBytes); };
  const std::string model = options.at("model").text();
  const std::int64_t h = size("dim"), a = size("n_heads");
  const auto given = [&](const char* key, std::int64_t otherwise) {
    return sizes.has(key) && !sizes.at(key).raw().is_null() ? size(key) : otherwise;
  };
  const bool is_routed = sizes.at("moe_layers").integer(0, kMostBytes) > 0;
  Json config{{"hidden_size", h},
              {"intermediate_size", sizes.has("ffn") ? size("ffn") : size("moe_ffn")},
              {"num_hidden_layers", size("layers")},
              {"num_attention_heads", a},
              {"num_key_value_heads", given("n_kv_heads", a)},
              {"max_position_embeddings", 131072},
              {"rms_norm_eps", 1e-5},
              {"vocab_size", size("vocab")},
              {"tie_word_embeddings", sizes.at("tied").boolean()}};
  name_architecture(model, sizes, config);
  if (sizes.has("kv_lora_rank"))
    add_latent_attention(sizes, config);
  else
    config["head_dim"] = given("head_dim", h / a);
  if (is_routed) add_mixture(sizes, model.starts_with("qwen3/"), config);
  return config;
}

/// Notes what is not planned.
void skip_unplanned_titan(const JsonReader& row, Skip& skip) {
  const JsonReader options = row.at("options");
  const auto degree = [&](const char* key) {
    return options.has(key) ? options.at(key).integer(1, kMostRanks) : 1;
  };
  if (degree("pp") > 1 && !from_name<PipelineSchedule>(options.text_or("schedule", "1F1B")))
    skip.add("schedule " + options.at("schedule").text());
  if (options.has("train_extra"))
    for (const std::string& each : options.at("train_extra").keys())
      if (each != "mixed_precision_param") skip.add("training." + each);
  const std::string optimizer = options.text_or("opt", "fused");
  if (optimizer == "fused_opt_states_bf16") skip.add("moments in bf16");
}

OptimizerKernel titan_kernel(const std::string& name) {
  if (name == "foreach") return OptimizerKernel::foreach;
  return name == "for-loop" ? OptimizerKernel::single : OptimizerKernel::fused;
}

TitanOptions titan_options(const JsonReader& options) {
  TitanOptions made;
  made.resharding = parse_name<Resharding>("reshard", options.text_or("reshard", "default"));
  made.backend = parse_name<SpmdBackend>("spmd", options.text_or("spmd", "spmd_types"));
  made.attention = parse_name<TitanAttention>("attn", options.text_or("attn", "varlen"));
  made.sequence_parallel = !options.has("sp") || options.at("sp").boolean();
  const std::string loss = options.text_or("loss", "chunked");
  if (loss == "ce") made.loss_chunks = 0;
  if (const std::size_t colon = loss.find(':'); colon != std::string::npos)
    made.loss_chunks = std::stoll(loss.substr(colon + 1));
  return made;
}

std::optional<Setup> titan_setup(const JsonReader& row, Skip& skip) {
  skip_unplanned_titan(row, skip);
  if (skip.any()) return std::nullopt;
  const JsonReader options = row.at("options");
  const auto number = [&](const char* key) { return options.at(key).integer(1, kMostBytes); };
  const Json config = titan_config(row);
  Setup setup;
  std::optional<Model> model = model_at(JsonReader(config, row.place()), skip);
  if (!model) return std::nullopt;
  setup.model = *std::move(model);
  setup.training = with_framework({}, Framework::torchtitan);
  setup.training.sequence_length = number("s");
  if (options.has("skew")) setup.training.routing_skew = options.at("skew").number(0.01, 1024);
  setup.training.master_weights = options.text_or("dtype", "float32") == "float32";
  if (options.has("train_extra") &&
      options.at("train_extra").text_or("mixed_precision_param", "bfloat16") == "float32")
    setup.training.precision = Precision::fp32;
  setup.training.optimizer_kernel = titan_kernel(options.text_or("opt", "fused"));
  Strategy& s = setup.strategy;
  s.zero_stage = 3;
  s.layout = {.tensor = number("tp"),
              .context = number("cp"),
              .shard = number("shard"),
              .replicate = number("replicate"),
              .pipeline = number("pp"),
              .expert = number("ep")};
  s.checkpointing = parse_name<Checkpointing>("ac", options.at("ac").text());
  s.micro_batch_size = number("b"), s.gradient_accumulation_steps = number("gas");
  s.torchtitan = titan_options(options);
  if (s.layout.pipeline > 1) {
    s.micro_batch_size = number("mb");
    s.gradient_accumulation_steps = number("microbatches") * number("gas");
    if (number("gas") > 1) s.torchtitan->local_batch = number("b");
    s.layout.virtual_stages = static_cast<std::int64_t>(row.at("stages").items().size());
    s.torchtitan->schedule = parse_name<PipelineSchedule>("schedule", options.at("schedule").text());
    const auto less = [&](const char* key) {
      return options.has(key) ? options.at(key).integer(0, kMostBytes) : 1;
    };
    s.torchtitan->first_stage_less = less("first_less");
    s.torchtitan->last_stage_less = less("last_less");
  }
  setup.rank = options.at("rank").integer(0, kMostRanks);
  setup.cluster.gpus = setup.cluster.gpus_per_node = s.layout.world();
  setup.cluster.gpu.compute_capability = number("cc") >= 90 ? "9.0" : "8.0";
  return setup;
}

Case titan_case(const JsonReader& row, Measured measured, Kind kind) {
  Case made{.id = row.at("id").text(), .kind = kind, .measured = std::move(measured)};
  made.setup = titan_setup(row, made.skip);
  return made;
}

/// Returns the phase of a pass or, of a pipeline's actions, of the first letter.
Phase titan_phase(const std::string& label) {
  const std::string name = label.substr(0, label.find('.'));
  if (name == "data" || name == "forward" || name == "loss" || name.starts_with("F") || name.starts_with("L"))
    return Phase::forward;
  return name == "clip" || name == "optim" || name == "tail" || name == "end" ? Phase::step : Phase::backward;
}

std::string titan_dtype(const std::string& name) {
  static const std::map<std::string, std::string> kNames{
      {"BFloat16", "bfloat16"}, {"Float", "float32"}, {"Long", "int64"}, {"Int", "int32"}};
  const auto found = kNames.find(name);
  return found == kNames.end() ? name : found->second;
}

/// Returns the operation of a c10d call; nothing for a receive, whose peer's send is the call.
std::optional<Operation> titan_operation(const std::string& name) {
  static const std::map<std::string, Operation> kNames{
      {"all_gather_into_tensor", Operation::all_gather},
      {"all_gather_into_tensor_coalesced", Operation::all_gather},
      {"reduce_scatter_tensor_coalesced", Operation::reduce_scatter},
      {"reduce_scatter_tensor", Operation::reduce_scatter},
      {"all_reduce", Operation::all_reduce},
      {"alltoall_base", Operation::all_to_all},
      {"all_to_all", Operation::all_to_all},
      {"all_to_all_single", Operation::all_to_all},
      {"send", Operation::send_recv},
      {"broadcast", Operation::broadcast}};
  const auto found = kNames.find(name);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

/// True if a rank's chunks of layers form a V: both send to the stages before and behind.
bool is_v(const JsonReader& row) {
  const auto schedule = from_name<PipelineSchedule>(row.at("options").text_or("schedule", "1F1B"));
  return schedule && is_v_shaped(*schedule);
}

bool has_chunks(const JsonReader& row) { return row.has("stages") && row.at("stages").items().size() > 1; }

/// Divides the sends between stages into hidden states and gradients. Where chunks form a V there are as many
/// of both: what a rank's chunks pass on to each other is not sent. Of two stages each follows the other:
/// every chunk of layers but the model's last sends hidden states, and every chunk but the first sends
/// gradients.
void divide_sends(const JsonReader& row, std::vector<CallTally>& calls) {
  const JsonReader options = row.at("options");
  const auto chunks = static_cast<std::int64_t>(row.at("stages").items().size());
  const bool is_first =
      options.at("rank").integer(0, kMostRanks) < options.at("world").integer(1, kMostRanks) / 2;
  const auto sent = std::ranges::find(calls, Operation::send_recv, &CallTally::operation);
  if (sent == calls.end()) return;
  const std::int64_t all = is_v(row) ? 2 : 2 * chunks - 1,
                     forward = is_v(row) ? 1 : chunks - (is_first ? 0 : 1);
  CallTally back = *sent;
  back.phase = Phase::backward;
  back.count = sent->count * (all - forward) / all;
  back.elements = Elements(sent->elements.value / sent->count * back.count);
  sent->count -= back.count, sent->elements -= back.elements;
  calls.push_back(std::move(back));
}

/// Returns the pass whose result is sent to a peer: the stage behind gets hidden states, that before
/// gradients.
Phase titan_pass(const JsonReader& row, const JsonReader& op) {
  if (is_v(row)) return Phase::forward;  // divided later
  const JsonReader options = row.at("options");
  const std::int64_t stages = options.at("pp").integer(1, kMostRanks),
                     ranks = options.at("world").integer(1, kMostRanks) / stages,
                     stage = options.at("rank").integer(0, kMostRanks) / ranks;
  const std::int64_t behind = has_chunks(row) ? (stage + 1) % stages : stage + 1;
  return op.at("peer").integer(0, kMostRanks) == behind ? Phase::forward : Phase::backward;
}

/// Returns the call of operation `index`, repeated `times`; nothing for groups of one rank.
std::optional<CallTally> titan_call(const JsonReader& row, std::int64_t index, std::int64_t times,
                                    const std::string& label) {
  const JsonReader op = row.at("ops").items()[static_cast<std::size_t>(index)];
  const std::string name = op.at("op").text();
  const JsonReader group = row.at("groups").at(op.at("group").text());
  const std::int64_t ranks = group.raw().is_object() ? group.at("size").integer(1, kMostRanks)
                                                     : static_cast<std::int64_t>(group.items().size());
  if (ranks <= 1) return std::nullopt;
  const std::optional<Operation> operation = titan_operation(name);
  if (!operation) return std::nullopt;
  // A schedule that gathers a chunk's parameters ahead does so between passes.
  const bool is_ahead = name == "all_gather_into_tensor" && op.has("async_op") && op.at("async_op").boolean();
  const Phase phase = *operation == Operation::send_recv ? titan_pass(row, op)
                      : is_ahead                         ? Phase::forward
                                                         : titan_phase(label);
  const char* counted = *operation == Operation::all_gather ? "n_out" : "n_in";
  return CallTally{.operation = *operation,
                   .dtype = titan_dtype(op.at("dtype").text()),
                   .group_size = ranks,
                   .phase = phase,
                   .count = times,
                   .elements = Elements(op.at(counted).integer(0, kMostBytes) * times)};
}

std::vector<CallTally> titan_sequence(const JsonReader& row) {
  const std::vector<JsonReader> patterns = row.at("patterns").items();
  std::vector<CallTally> sequence;
  for (const JsonReader& entry : row.at("sequence").items()) {
    const auto pattern = entry.items()[1].integer(0, static_cast<std::int64_t>(patterns.size()) - 1);
    for (const JsonReader& each : patterns[static_cast<std::size_t>(pattern)].items())
      if (auto call = titan_call(row, each.items()[0].integer(0, kMostBytes),
                                 each.items()[1].integer(1, kMostBytes), entry.items()[0].text()))
        append_folded(sequence, *std::move(call));
  }
  return sequence;
}

/// Returns the sums of calls of one kind.
std::vector<CallTally> titan_sums(const std::vector<CallTally>& sequence) {
  std::vector<CallTally> sums;
  for (const CallTally& each : sequence) {
    const auto alike = std::ranges::find_if(sums, [&](const CallTally& sum) {
      return sum.operation == each.operation && sum.dtype == each.dtype &&
             sum.group_size == each.group_size && sum.phase == each.phase;
    });
    if (alike == sums.end()) {
      sums.push_back(each);
      continue;
    }
    alike->count += each.count, alike->elements += each.elements;
  }
  return sums;
}

}  // namespace

std::vector<Case> read_torchtitan_steps(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) {
    const JsonReader measured = row.at("measured");
    const JsonReader step = measured.at(measured.keys().back());
    cases.push_back(titan_case(row,
                               MeasuredMemory{{bytes_figure(Statistic::requested, step.at("peak_requested")),
                                               bytes_figure(Statistic::held, step.at("requested_before"))},
                                              {}},
                               Kind::step));
  }
  return cases;
}

std::vector<Case> read_torchtitan_schedules(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) {
    MeasuredSchedule schedule;
    schedule.sequence = titan_sequence(row);
    schedule.calls = titan_sums(schedule.sequence);
    schedule.undirected =
        has_chunks(row) && (is_v(row) || row.at("options").at("pp").integer(1, kMostRanks) == 2);
    if (schedule.undirected) divide_sends(row, schedule.calls);
    cases.push_back(titan_case(row, std::move(schedule), Kind::schedule));
  }
  return cases;
}

}  // namespace zplan::check

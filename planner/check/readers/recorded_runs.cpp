#include <algorithm>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "models/config.h"
#include "planner/check/readers/calls.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"
#include "planner/frameworks/deepspeed/config/read_config.h"
#include "planner/frameworks/deepspeed/config/releases.h"

namespace zplan::check {

namespace {

/// The run's small Llama as transformers' config names its sizes.
Model model_of_run(const JsonReader& run) {
  const JsonReader shape = run.at("model");
  const auto size = [&](const char* key) { return shape.at(key).integer(1, kMostSequence); };
  const Json config = {{"model_type", "llama"},
                       {"hidden_size", size("hidden")},
                       {"intermediate_size", size("ffn")},
                       {"num_hidden_layers", size("layers")},
                       {"num_attention_heads", size("heads")},
                       {"num_key_value_heads", size("kv")},
                       {"vocab_size", size("vocab")},
                       {"max_position_embeddings", 512},
                       {"tie_word_embeddings", shape.at("tie").boolean()}};
  return read_config(JsonReader(config, shape.place()));
}

Training recorded_training(const JsonReader& spec, const DsConfigPins& pins) {
  Training training;
  training.precision = pins.precision ? pins.precision->value : Precision::fp32;
  training.sequence_length = spec.at("seq").integer(1, kMostSequence);
  training.vocabulary_parallel_head = pins.vocabulary_parallel_head;
  training.reentrant_checkpointing = spec.boolean_or("reentrant", false);
  if (const auto rank = spec.find("lora")) {
    training.method = Method::lora;
    training.lora_rank = rank->integer(1, kMostSequence);
    training.fp32_adapters = false;  // the model was cast behind peft
  }
  return training;
}

Strategy recorded_strategy(const JsonReader& spec, const DsConfigPins& pins) {
  const std::int64_t world = spec.at("world").integer(1, kMostRanks);
  Strategy s;
  s.zero_stage = pins.zero_stage ? pins.zero_stage->value : 0;
  s.layout.tensor = spec.integer_or("tp", 1, 1, world);
  if (world % s.layout.tensor != 0)
    spec.at("tp").fail(std::to_string(s.layout.tensor), "accepted: a divisor of world");
  s.layout = s.layout.filling(world);
  if (pins.offload) {
    s.offload_optimizer = pins.offload->value.optimizer;
    s.offload_parameters = pins.offload->value.parameters;
  }
  s.checkpointing = spec.boolean_or("grad_ckpt", false) ? Checkpointing::full : Checkpointing::none;
  s.micro_batch_size = spec.at("batch").integer(1, kMostBatch);
  s.gradient_accumulation_steps =
      pins.gradient_accumulation_steps ? pins.gradient_accumulation_steps->value : 1;
  s.zero = pins.zero;
  return s;
}

/// The release of DeepSpeed that ran; 0.19.8 where none is named.
DeepSpeedRelease recorded_release(const JsonReader& spec) {
  const auto named = spec.find("deepspeed");
  return named ? parse_release(named->place(), named->text()) : DeepSpeedRelease{};
}

Setup recorded_setup(const JsonReader& run) {
  Setup setup{.model = model_of_run(run), .training = {}, .strategy = {}, .cluster = {}};
  const JsonReader config = run.at("ds_config"), spec = run.at("spec");
  const DsConfigPins pins = read_ds_config(config.raw().dump(), config.place(), setup.model.shape.hidden_size,
                                           recorded_release(spec));
  setup.training = recorded_training(spec, pins);
  setup.strategy = recorded_strategy(spec, pins);
  const std::int64_t world = setup.strategy.layout.world();
  setup.cluster = usual_cluster("A100-SXM-80GB", world, std::nullopt);
  read_ranks_per_node(spec, setup.cluster);
  return setup;
}

Bytes bytes_or_none(const std::optional<JsonReader>& object, const char* key) {
  const auto entry = object ? object->find(key) : std::nullopt;
  return entry ? bytes_at(entry->raw().is_object() ? entry->at("bytes") : *entry) : Bytes{};
}

/// Fields of the optimizer objects of DeepSpeed 0.19.8: stage 3 shards parameters into ds_tensor; the master
/// copy has one name per optimizer, and none at stage 0.
HeldBytes held_by(const JsonReader& rank, const Setup& setup) {
  const JsonReader after = rank.at("after_step");
  const auto flat = after.find("flat");
  const auto states = after.find("optimizer_state");
  const auto gradients = rank.at("snaps").find("grads_after_step");
  HeldBytes held{.parameters = bytes_at(after.at(
                     after.has("ds_tensor_bytes_view") ? "ds_tensor_bytes_view" : "module_param_data_bytes")),
                 .parameters_on_host = std::nullopt,
                 .persistent_parameters = bytes_or_none(flat, "persistent_parameters"),
                 .master_weights = std::nullopt,
                 .moments = bytes_or_none(states, "exp_avg") + bytes_or_none(states, "exp_avg_sq"),
                 .gradients = std::max(bytes_or_none(flat, "grad_partitions_flat_buffer"),
                                       bytes_or_none(gradients, "fp32_groups_gradients_flat")),
                 .bucket = bytes_or_none(gradients, "ipg_buffer")};
  if (setup.strategy.offload_parameters != OffloadDevice::none)
    held.parameters_on_host = bytes_or_none(flat, "param_groups_fp16_flat_cpu_memory");
  if (setup.strategy.zero_stage > 0)
    held.master_weights = bytes_or_none(flat, "single_partition_of_fp32_groups") +
                          bytes_or_none(flat, "fp32_partitioned_groups_flat") +
                          bytes_or_none(flat, "fp32_groups_flat_partition");
  return held;
}

MeasuredHeld held_of(const JsonReader& run, const Setup& setup) {
  MeasuredHeld held;
  const JsonReader ranks = run.at("memory_per_rank");
  for (const JsonReader& rank : ranks.items()) held.ranks.push_back(held_by(rank, setup));
  if (held.ranks.empty()) ranks.fail("no ranks", "accepted: at least one");
  return held;
}

/// The bytes held, and the schedule.
void add_run(const JsonReader& run, std::vector<Case>& cases) {
  const std::string name = run.at("name").text();
  const Setup setup = recorded_setup(run);
  cases.push_back({.id = name,
                   .file = {},
                   .kind = Kind::schedule,
                   .measured = held_of(run, setup),
                   .setup = setup,
                   .skip = {}});
  MeasuredSchedule schedule{read_calls(run.at("collectives"), "elements_total_in", "elements_total_out"), {}};
  if (const auto sequence = run.find("sequence")) schedule.sequence = read_sequence(*sequence);
  cases.push_back({.id = name,
                   .file = {},
                   .kind = Kind::schedule,
                   .measured = std::move(schedule),
                   .setup = setup,
                   .skip = {}});
}

}  // namespace

std::vector<Case> read_recorded_runs(const JsonReader& run) {
  std::vector<Case> cases;
  if (!run.raw().is_array()) {
    add_run(run, cases);
    return cases;
  }
  for (const JsonReader& each : run.items()) add_run(each, cases);
  return cases;
}

}  // namespace zplan::check

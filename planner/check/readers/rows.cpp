// Rows of runs that were measured for this project: their figures, on top of the fields of fields.cpp.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/fields.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/models.h"
#include "planner/check/readers/read.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

// ---- peaks of training steps

/// The last step measured: the steady state, since optimizers make their states in the first.
JsonReader steady_step(const JsonReader& measured) {
  std::string last;
  for (const std::string& step : measured.keys())
    if (step.size() > last.size() || (step.size() == last.size() && step > last)) last = step;
  if (last.empty()) measured.fail("no steps", "accepted: at least one");
  return measured.at(last);
}

Case step_case(const JsonReader& row, const Run& run) {
  const JsonReader step = steady_step(row.at("measured"));
  const std::string phase = step.at("peak_phase").text();
  // A run's phases are those of training: PPO's generation and scoring are moments of its own.
  const bool beside =
      run.has_model && trains_values(run.setup.training) && (phase == "generate" || phase == "score");
  const bool split = run.setup.strategy.layout.tensor > 1;
  MeasuredMemory memory{{bytes_figure(Statistic::allocated, step.at("peak_allocated")),
                         bytes_figure(Statistic::reserved, step.at("peak_reserved"))},
                        beside ? std::vector<Phase>{} : planned_phases(step.at("peak_phase"), split)};
  if (const auto host = row.find("host_bytes")) {
    memory.figures.push_back(bytes_figure(Statistic::host_pinned, host->at("pinned")));
    // Checkpoints on the host are gone when the step is over.
    const bool passes = row.at("options").text_or("activation_offload", "") == "alst";
    memory.figures.push_back(
        bytes_figure(Statistic::host_pageable, host->at(passes ? "pageable_peak" : "pageable")));
  }
  return case_of(run, Kind::step, std::move(memory));
}

Case capacity_case(const JsonReader& row) {
  const auto bytes = [&](const char* key) { return static_cast<double>(bytes_at(row.at(key)).value); };
  const Run run = read_run(row, kTraining);
  if (bytes("fails_with") > bytes("runs_with")) row.at("fails_with").fail_type("at most runs_with");
  return case_of(run, Kind::step,
                 MeasuredMemory{{{Statistic::required, {bytes("fails_with"), bytes("runs_with")}}}, {}});
}

// ---- bytes that ranks hold

Bytes bytes_or_none(const std::optional<JsonReader>& object, const std::string& key) {
  const auto entry = object ? object->find(key) : std::nullopt;
  return entry ? bytes_at(entry->raw().is_object() ? entry->at("bytes") : *entry) : Bytes{};
}

/// Returns the bytes held between steps, on device and host, if experts are divided among ranks.
std::optional<Case> states_case(const JsonReader& row, const Run& run) {
  if (!row.at("options").has("expert_parallel") || !row.has("states")) return std::nullopt;
  const JsonReader states = row.at("states");
  const auto of = [&](const std::string& what) {
    return bytes_or_none(states, what) + bytes_or_none(states, what + "_host");
  };
  HeldBytes held{.parameters = of("parameters"),
                 .persistent_parameters = of("gathered_parameters"),
                 .master_weights = of("master"),
                 .moments = of("moments"),
                 .gradients = of("gradients"),
                 .bucket = of("ipg_bucket")};
  if (run.setup.strategy.offload_parameters != OffloadDevice::none) held.parameters_on_host = held.parameters;
  return case_of(run, Kind::step, MeasuredHeld{{held}});
}

/// Fields of the optimizer objects of DeepSpeed 0.19.8: stage 3 shards parameters into ds_tensor; the master
/// copy has one name per optimizer, and none at stage 0.
HeldBytes held_by(const JsonReader& rank, const Strategy& strategy) {
  const JsonReader after = rank.at("after_step");
  const auto flat = after.find("flat");
  const auto states = after.find("optimizer_state");
  const auto gradients = rank.at("snaps").find("grads_after_step");
  HeldBytes held{.parameters = bytes_at(after.at(
                     after.has("ds_tensor_bytes_view") ? "ds_tensor_bytes_view" : "module_param_data_bytes")),
                 .persistent_parameters = bytes_or_none(flat, "persistent_parameters"),
                 .moments = bytes_or_none(states, "exp_avg") + bytes_or_none(states, "exp_avg_sq"),
                 .gradients = std::max(bytes_or_none(flat, "grad_partitions_flat_buffer"),
                                       bytes_or_none(gradients, "fp32_groups_gradients_flat")),
                 .bucket = bytes_or_none(gradients, "ipg_buffer")};
  if (strategy.offload_parameters != OffloadDevice::none)
    held.parameters_on_host = bytes_or_none(flat, "param_groups_fp16_flat_cpu_memory");
  if (strategy.zero_stage > 0)
    held.master_weights = bytes_or_none(flat, "single_partition_of_fp32_groups") +
                          bytes_or_none(flat, "fp32_partitioned_groups_flat") +
                          bytes_or_none(flat, "fp32_groups_flat_partition");
  return held;
}

// ---- collectives

/// Returns the operation of "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single",
/// "functional.all_gather_tensor" and plain names. permute_tensor sends to the next rank: an
/// all_to_all_single in which all but one part is empty.
Operation operation_at(const JsonReader& name) {
  constexpr std::string_view kFunctional = "functional.";
  std::string text = name.text();
  if (text.starts_with(kFunctional)) text.erase(0, kFunctional.size());
  if (text == "permute_tensor") return Operation::send_recv;
  for (const auto& [operation, prefix] : EnumNames<Operation>::table)
    if (text == prefix || (text.starts_with(prefix) && text[prefix.size()] == '_')) return operation;
  name.fail_type("an operation of torch.distributed");
}

/// Returns the planner's phase: gathers for the loss belong to the forward, reductions of its backward to the
/// backward.
Phase phase_at(const JsonReader& name) {
  const std::string text = name.text();
  if (text == "data" || text == "forward" || text == "loss") return Phase::forward;
  if (text == "loss_backward" || text == "backward") return Phase::backward;
  if (text == "micro_step" || text == "clip" || text == "step") return Phase::step;
  name.fail_type("data, forward, loss, loss_backward, backward or step");
}

CallTally call_at(const JsonReader& each, std::int64_t count, const char* in, const char* out) {
  CallTally call{.operation = operation_at(each.at("op")),
                 .dtype = each.at("dtype").text(),
                 .group_size = each.at("group").integer(1, kMostRanks),
                 .phase = phase_at(each.at("phase")),
                 .count = count,
                 .elements = {}};
  const char* counted = call.operation == Operation::all_gather ? out : in;
  call.elements = Elements(each.at(counted).integer(0, kMostBytes));
  return call;
}

/// Returns the calls of a list of {op, dtype, group, phase, count, elements in, elements out}; `in` and `out`
/// name the last two. Calls of a group of one are left out.
std::vector<CallTally> read_calls(const JsonReader& list, const char* in, const char* out) {
  std::vector<CallTally> calls;
  for (const JsonReader& each : list.items()) {
    CallTally call = call_at(each, each.at("count").integer(1, kMostCalls), in, out);
    if (call.group_size > 1) calls.push_back(std::move(call));
  }
  return calls;
}

/// Returns the calls of a list in order of issue of {op, dtype, group, phase, n_in, n_out, times}.
std::vector<CallTally> read_sequence(const std::optional<JsonReader>& list) {
  std::vector<CallTally> sequence;
  if (!list) return sequence;
  for (const JsonReader& each : list->items()) {
    CallTally call = call_at(each, each.integer_or("times", 1, 1, kMostCalls), "n_in", "n_out");
    call.elements = call.elements * call.count;
    if (call.group_size > 1) append_folded(sequence, std::move(call));
  }
  return sequence;
}

/// Rows whose tokens were routed by their values have the order of their calls alone.
Case schedule_case(const JsonReader& row) {
  const bool routed = row.has("backend");
  MeasuredSchedule schedule{.sequence = read_sequence(row.find("sequence")), .routed = routed};
  schedule.calls =
      routed ? schedule.sequence : read_calls(row.at("collectives"), "elements_in", "elements_out");
  return case_of(read_run(row, routed ? kRouted : kTraining), Kind::schedule, std::move(schedule));
}

/// Adds the bytes that ranks held, and the schedule.
void add_recorded(const JsonReader& row, std::vector<Case>& cases) {
  const Run run = read_run(row, kRecorded);
  MeasuredHeld held;
  const JsonReader ranks = row.at("memory_per_rank");
  for (const JsonReader& rank : ranks.items()) held.ranks.push_back(held_by(rank, run.setup.strategy));
  if (held.ranks.empty()) ranks.fail("no ranks", "accepted: at least one");
  cases.push_back(case_of(run, Kind::schedule, std::move(held)));
  cases.push_back(case_of(
      run, Kind::schedule,
      MeasuredSchedule{.calls = read_calls(row.at("collectives"), "elements_total_in", "elements_total_out"),
                       .sequence = read_sequence(row.find("sequence"))}));
}

// ---- moments on the host

std::optional<RunMoment> moment_named(const std::string& name, const std::string& scenario) {
  if (name == "load") return RunMoment::load;
  if (name == "evaluation") return RunMoment::evaluation;
  if (name != "save") return std::nullopt;
  return scenario.ends_with("-checkpoint") || scenario.ends_with("-sharded") ? RunMoment::save_checkpoint
                                                                             : RunMoment::save_model;
}

Case host_case(const JsonReader& row) {
  const Run run = read_run(row, kHost);
  if (!run.has_model) return case_of(run, Kind::step, {});
  const JsonReader moments = row.at("moments");
  const std::string scenario = row.at("scenario").text();
  MeasuredHost host{.trained = row.at("trained").boolean()};
  for (const std::string& name : moments.keys())
    if (const auto moment = moment_named(name, scenario))
      host.moments.push_back({*moment, bytes_at(moments.at(name).at("anonymous_peak_of_node")),
                              bytes_at(moments.at(name).at("processes"))});
  return case_of(run, Kind::step, std::move(host));
}

// ---- activations

ActivationFigures figures(const JsonReader& row, const std::string& prefix) {
  const JsonReader peaks = row.at(prefix + "peaks_above_base");
  return {.saved_after_forward = bytes_at(row.at(prefix + "saved_after_forward_bytes")),
          .forward = bytes_at(peaks.at("fwd")),
          .loss = bytes_at(peaks.at("loss_fwd")),
          .loss_backward = bytes_at(peaks.at("loss_bwd")),
          .layers_backward = bytes_at(peaks.at("layers_bwd"))};
}

/// Returns the run with which the measuring process began: the model that the row names, cut to the fewest
/// layers that hold each kind, in full training, without checkpointing, with one sample of eight tokens.
std::optional<Setup> first_setup(const JsonReader& row, const Cluster& cluster) {
  const std::string name = row.text_or("first", "");
  std::optional<Model> model = name.empty() ? std::nullopt : smallest_model(name, row.place());
  if (!model) return std::nullopt;
  Setup first{.model = std::move(*model), .cluster = cluster};
  first.training.framework = Framework::torch;
  first.training.master_weights = false;
  first.training.sequence_length = 8;
  first.training.attention = Attention::sdpa;
  first.strategy.checkpointing = Checkpointing::none;
  return first;
}

std::string activation_id(const JsonReader& row) {
  const std::string variant = row.text_or("variant", "");
  const std::string adapters = row.at("lora").text();
  const std::int64_t layers = row.at("shape").at("layers_used").integer(1, kMostBatch);
  std::string id = row.at("model").text() + "|" + std::to_string(layers) + " layers|" + row.at("attn").text();
  if (row.at("dtype").text() != "bf16") id += "|amp";
  if (!variant.empty()) id += "|" + variant;
  if (adapters != "none") id += "|lora=" + adapters;
  id += "|b" + row.at("b").raw().dump() + "s" + row.at("s").raw().dump();
  return row.at("ckpt").boolean() ? id + "|ckpt" : id;
}

Case activation_case(const JsonReader& row) {
  Run run = read_run(row, kActivation);
  run.id = activation_id(row);
  return case_of(
      run, Kind::activation,
      MeasuredActivations{.requested = figures(row, "requested_"),
                          .allocated = figures(row, ""),
                          .first = run.has_model ? first_setup(row, run.setup.cluster) : std::nullopt});
}

}  // namespace

std::vector<Phase> planned_phases(const JsonReader& phase, bool tensor_parallel) {
  const std::string name = phase.text();
  if (name == "data" || name == "score" || name == "forward") return {Phase::forward};
  if (name == "policy_loss" || name == "reference") return {Phase::loss};
  if (name == "loss")
    return tensor_parallel ? std::vector{Phase::forward, Phase::loss} : std::vector{Phase::loss};
  if (name == "loss_backward") return {Phase::loss_backward};
  if (name == "backward")
    return tensor_parallel ? std::vector{Phase::loss_backward, Phase::backward}
                           : std::vector{Phase::backward};
  if (name == "micro_step" || name == "clip" || name == "step") return {Phase::step};
  phase.fail_type(
      "data, score, forward, policy_loss, reference, loss, loss_backward, backward, micro_step, clip or "
      "step");
}

std::vector<Case> read_step_rows(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) {
    const Run run = read_run(row, kTraining);
    cases.push_back(step_case(row, run));
    if (auto states = states_case(row, run)) cases.push_back(*std::move(states));
  }
  return cases;
}
std::vector<Case> read_capacity_rows(const JsonReader& rows) { return cases_of(rows, capacity_case); }
std::vector<Case> read_schedule_rows(const JsonReader& rows) { return cases_of(rows, schedule_case); }
std::vector<Case> read_host_rows(const JsonReader& rows) { return cases_of(rows, host_case); }
std::vector<Case> read_activation_rows(const JsonReader& rows) { return cases_of(rows, activation_case); }

std::vector<Case> read_recorded_runs(const JsonReader& run) {
  std::vector<Case> cases;
  if (!run.raw().is_array())
    add_recorded(run, cases);
  else
    for (const JsonReader& each : run.items()) add_recorded(each, cases);
  return cases;
}

}  // namespace zplan::check

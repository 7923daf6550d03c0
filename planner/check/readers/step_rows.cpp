#include "planner/check/readers/step_rows.h"

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"
#include "planner/check/readers/training_row.h"

namespace zplan::check {

namespace {

/// The last step measured: the steady state, since optimizers make their states in the first.
JsonReader steady_step(const JsonReader& measured) {
  std::string last;
  for (const std::string& step : measured.keys())
    if (step.size() > last.size() || (step.size() == last.size() && step > last)) last = step;
  if (last.empty()) measured.fail("no steps", "accepted: at least one");
  return measured.at(last);
}

Case step_case(const JsonReader& row) {
  TrainingRow training = read_training_row(row);
  const JsonReader step = steady_step(row.at("measured"));
  const bool split = training.setup && training.setup->strategy.layout.tensor > 1;
  // A run's phases are those of training: PPO's generation and scoring are moments of its own.
  const bool beside = training.setup && trains_values(training.setup->training) &&
                      (step.at("peak_phase").text() == "generate" || step.at("peak_phase").text() == "score");
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
  return {.id = training.id,
          .file = {},
          .kind = Kind::step,
          .measured = std::move(memory),
          .setup = std::move(training.setup),
          .skip = training.skip};
}

/// States that a rank held between steps, on the device or the host.
HeldBytes states_of(const JsonReader& states, bool on_host) {
  const auto of = [&](const std::string& what) {
    const auto here = states.find(what), there = states.find(what + "_host");
    return (here ? bytes_at(*here) : Bytes{}) + (there ? bytes_at(*there) : Bytes{});
  };
  HeldBytes held{.parameters = of("parameters"),
                 .parameters_on_host = std::nullopt,
                 .persistent_parameters = of("gathered_parameters"),
                 .master_weights = of("master"),
                 .moments = of("moments"),
                 .gradients = of("gradients"),
                 .bucket = of("ipg_bucket")};
  if (on_host) held.parameters_on_host = held.parameters;
  return held;
}

/// What a step with experts divided among ranks holds.
std::optional<Case> states_case(const JsonReader& row) {
  if (!row.at("options").has("expert_parallel") || !row.has("states")) return std::nullopt;
  TrainingRow training = read_training_row(row);
  const bool on_host = training.setup && training.setup->strategy.offload_parameters != OffloadDevice::none;
  return Case{.id = training.id,
              .file = {},
              .kind = Kind::step,
              .measured = MeasuredHeld{{states_of(row.at("states"), on_host)}},
              .setup = std::move(training.setup),
              .skip = training.skip};
}

Case capacity_case(const JsonReader& row) {
  TrainingRow training = read_training_row(row);
  const auto bytes = [&](const char* key) { return static_cast<double>(bytes_at(row.at(key)).value); };
  if (bytes("fails_with") > bytes("runs_with")) row.at("fails_with").fail_type("at most runs_with");
  MeasuredMemory memory{{{Statistic::required, {bytes("fails_with"), bytes("runs_with")}}}, {}};
  return {.id = training.id,
          .file = {},
          .kind = Kind::step,
          .measured = std::move(memory),
          .setup = std::move(training.setup),
          .skip = training.skip};
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

MeasuredFigure bytes_figure(Statistic statistic, const JsonReader& value) {
  const auto bytes = static_cast<double>(bytes_at(value).value);
  return {statistic, {bytes, bytes}};
}

std::vector<Case> read_step_rows(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) {
    cases.push_back(step_case(row));
    if (auto states = states_case(row)) cases.push_back(*std::move(states));
  }
  return cases;
}

std::vector<Case> read_capacity_rows(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) cases.push_back(capacity_case(row));
  return cases;
}

}  // namespace zplan::check

// Plans of a report, the files written beside it, and CSV.

#include "cli/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/document/json_values.h"
#include "cli/document/text.h"
#include "models/base/json_reader.h"
#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/launch/accelerate_config.h"
#include "planner/frameworks/launch/launch.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/sharding/megatron_model.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

const Plan* plan_named(const std::vector<Plan>& plans, const std::string& id) {
  const auto at =
      std::find_if(plans.begin(), plans.end(), [&id](const Plan& plan) { return plan.id() == id; });
  return at == plans.end() ? nullptr : &*at;
}

}  // namespace

Report report_of(const PlannedScenario& planned) {
  return {.question = planned.question,
          .answer = planned.answer,
          .options = planned.options,
          .arguments = planned.scenario.arguments,
          .details = planned.details,
          .reaches = planned.reaches};
}

std::vector<const Plan*> plans_in_order(const Report& report) {
  std::vector<const Plan*> plans;
  const std::vector<Plan>& all = report.answer.plans;
  if (report.comparison == nullptr) {
    for (const Plan& plan : all) plans.push_back(&plan);
    return plans;
  }
  for (const std::string& id : report.comparison->ids)
    if (const Plan* plan = plan_named(all, id)) plans.push_back(plan);
  return plans;
}

const Plan* baseline_of(const Plan& plan, const Report& report) {
  if (report.comparison == nullptr) return nullptr;
  const Comparison& comparison = *report.comparison;
  return comparison.saved ? plan_named(comparison.saved->plans, plan.id())
                          : plan_named(report.answer.plans, comparison.baseline);
}

const Plan& leading_plan(const Report& report) { return report.answer.plans.front(); }

Training training_of(const Plan& plan, const Report& report) {
  const Training& training = report.question.training;
  if (plan.training) return *plan.training;
  return plan.framework == training.framework ? training : with_framework(training, plan.framework);
}

Question question_of(const Plan& plan, const Report& report) {
  Question question = report.question;
  question.training = training_of(plan, report);
  return question;
}

Elements trainable_parameters(const Question& question) {
  const Training& training = question.training;
  // Adapters of Megatron-Core's layers are others than those of the layers that they were made of.
  if (training.method != Method::full && training.modules.name == kMegatron.name)
    return rank_model(megatron_model(question.model, {}), training, 1).trainable;
  return rank_model(question.model, training, 1).trainable;
}

std::string config_path(const Plan& plan, const Report& report) {
  const std::string& emit = report.options.emit;
  if (!emit.empty() && emit != "-") return emit;
  return std::string(spec(plan.framework).config_file);
}

namespace {

Json line_json(const std::string& line) { return line.empty() ? Json(nullptr) : Json(line); }

Launch lines_of(const Plan& plan, const Report& report) {
  return launch_lines(plan, question_of(plan, report), config_path(plan, report));
}

}  // namespace

Json ds_config_json(const Plan& plan, const Report& report) {
  if (!spec(plan.framework).reads_ds_config) return nullptr;
  const Options& options = report.options;
  return ds_config(plan, question_of(plan, report),
                   DsConfigOptions{.style = options.config_style, .nvme_path = options.nvme_path});
}

Json fsdp_config_json(const Plan& plan, const Report& report) {
  if (!spec(plan.framework).reads_accelerate_config) return nullptr;
  return accelerate_config(plan, question_of(plan, report));
}

std::string config_text(const Plan& plan, const Report& report) {
  const FrameworkSpec& about = spec(plan.framework);
  if (about.reads_ds_config) return json_text(ds_config_json(plan, report));
  if (!about.reads_accelerate_config) return {};
  const Json config = fsdp_config_json(plan, report);
  return report.options.emit.ends_with(".json") ? json_text(config) : yaml_text(config);
}

std::vector<std::string> config_notes(const Plan& plan, const Report& report) {
  return spec(plan.framework).config_notes(plan, question_of(plan, report));
}

std::string next_line(const Plan& plan, const Report& report) {
  return launcher(lines_of(plan, report), report.options.config_style).line;
}

Json launch_json(const Plan& plan, const Report& report) {
  const Launch launch = lines_of(plan, report);
  return {{"launcher", launcher(launch, report.options.config_style).name},
          {"deepspeed", line_json(launch.deepspeed)},
          {"torchrun", line_json(launch.torchrun)},
          {"swift", line_json(launch.swift)},
          {"accelerate", line_json(launch.accelerate)},
          {"torchtitan", line_json(launch.torchtitan)}};
}

namespace {

/// A column of CSV: its name, and its place in plan_figures_json().
struct CsvColumn {
  std::string_view name;
  const char* at;
};

constexpr std::array<CsvColumn, 30> kColumns{
    {{"id", "/id"},
     {"fits", "/fits"},
     {"zero_stage", "/strategy/zero_stage"},
     {"tensor_parallel", "/strategy/tensor_parallel"},
     {"data_parallel", "/strategy/data_parallel"},
     {"offload_optimizer", "/strategy/offload_optimizer"},
     {"offload_parameters", "/strategy/offload_parameters"},
     {"micro_batch_size", "/strategy/micro_batch_size"},
     {"gradient_accumulation_steps", "/strategy/gradient_accumulation_steps"},
     {"parameters", "/memory/parameters"},
     {"gradients", "/memory/gradients"},
     {"optimizer_states", "/memory/optimizer_states"},
     {"activations", "/memory/activations"},
     {"loss", "/memory/loss"},
     {"communication_buffers", "/memory/communication_buffers"},
     {"temporaries", "/memory/temporaries"},
     {"framework_overhead", "/memory/framework_overhead"},
     {"peak", "/memory/peak"},
     {"required", "/memory/required"},
     {"required_low", "/memory/required_low"},
     {"required_high", "/memory/required_high"},
     {"host", "/memory/host"},
     {"nvme", "/memory/nvme"},
     {"wire_bytes_per_gpu", "/communication/wire_bytes_per_gpu"},
     {"step_seconds", "/time/step"},
     {"tokens_per_second", "/time/tokens_per_second"},
     {"mfu", "/time/mfu"},
     {"why", "/why"},
     {"launching_seconds", "/time/launching"},
     {"hfu", "/time/hfu"}}};

/// A figure that differences are computed of.
struct Delta {
  std::string_view name;
  std::string_view unit;  ///< "bytes", "seconds"; empty: tokens per second
  const char* at;         ///< in plan_figures_json()
};

constexpr std::array<Delta, 13> kDeltas{{{"required", "bytes", "/memory/required"},
                                         {"parameters", "bytes", "/memory/parameters"},
                                         {"gradients", "bytes", "/memory/gradients"},
                                         {"optimizer_states", "bytes", "/memory/optimizer_states"},
                                         {"activations", "bytes", "/memory/activations"},
                                         {"loss", "bytes", "/memory/loss"},
                                         {"communication_buffers", "bytes", "/memory/communication_buffers"},
                                         {"temporaries", "bytes", "/memory/temporaries"},
                                         {"framework_overhead", "bytes", "/memory/framework_overhead"},
                                         {"host", "bytes", "/memory/host"},
                                         {"wire_per_gpu", "bytes", "/communication/wire_bytes_per_gpu"},
                                         {"step", "seconds", "/time/step"},
                                         {"tokens_per_second", "", "/time/tokens_per_second"}}};

const Json& at(const Json& figures, const char* pointer) { return figures.at(Json::json_pointer(pointer)); }

/// Returns the name of a column: "required_delta_bytes", "step_delta_seconds", "tokens_per_second_delta".
std::string heading(const Delta& delta) {
  return fmt::format("{}_delta{}{}", delta.name, delta.unit.empty() ? "" : "_", delta.unit);
}

/// Returns the difference, in whole bytes, and its fraction, which is null where the base is 0.
Json delta_json(const Json& value, const Json& base, std::string_view unit) {
  const auto from = base.get<double>(), change = value.get<double>() - from;
  return {{"absolute", unit == "bytes" ? Json(std::llround(change)) : Json(change)},
          {"fraction", from > 0 ? Json(change / from) : Json(nullptr)}};
}

}  // namespace

Json deltas_json(const Plan& plan, const Plan* base) {
  if (base == nullptr) return nullptr;
  const Json figures = plan_figures_json(plan), from = plan_figures_json(*base);
  Json out;
  for (const Delta& delta : kDeltas)
    out[std::string(delta.name)] = delta_json(at(figures, delta.at), at(from, delta.at), delta.unit);
  return out;
}

CsvRecord csv_names(bool compared) {
  CsvRecord names;
  for (const CsvColumn& column : kColumns) names.emplace_back(column.name);
  if (!compared) return names;
  names.emplace_back("baseline");
  for (const Delta& delta : kDeltas) names.push_back(heading(delta));
  names.emplace_back("tokens_per_second_ratio");
  return names;
}

CsvRecord csv_fields(const Plan& plan) {
  Json figures = plan_figures_json(plan);
  figures["why"] = plan.why.empty() ? "" : plan.why.front();
  CsvRecord record;
  for (const CsvColumn& column : kColumns) record.push_back(csv_text(at(figures, column.at)));
  return record;
}

void add_csv_deltas(CsvRecord& record, const Plan& plan, const Plan* base, const std::string& baseline) {
  record.push_back(baseline);
  if (base == nullptr) return record.resize(record.size() + kDeltas.size() + 1);
  const Json deltas = deltas_json(plan, base);
  for (const auto& delta : deltas) record.push_back(csv_text(delta["absolute"]));
  const double from = base->time.tokens_per_second;
  record.push_back(from > 0 ? csv_text(plan.time.tokens_per_second / from) : "");
}

std::vector<CsvRecord> csv_records(const Report& report) {
  const Comparison* compared = report.comparison;
  std::vector<CsvRecord> records{csv_names(compared != nullptr)};
  for (const Plan* plan : plans_in_order(report)) {
    CsvRecord& record = records.emplace_back(csv_fields(*plan));
    if (compared != nullptr) add_csv_deltas(record, *plan, baseline_of(*plan, report), compared->baseline);
  }
  return records;
}

}  // namespace zplan

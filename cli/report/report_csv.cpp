#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "cli/commands/compare.h"
#include "cli/document/text.h"
#include "cli/report/report_deltas.h"
#include "cli/report/report_json.h"

namespace zplan {

namespace {

struct Field {
  std::string_view name;
  std::function<std::string(const Plan&)> text;
};

std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{:.9g}", value); }

std::vector<Field> memory_fields() {
  std::vector<Field> fields;
  for (const auto& [part, name] : EnumNames<MemoryPart>::table)
    // A copy: clang 14 cannot capture a structured binding.
    fields.push_back(
        {name, [wanted = part](const Plan& p) { return text_of(p.memory.peak.holds.part(wanted).value); }});
  return fields;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = [] {
    std::vector<Field> list{
        {"id", [](const Plan& p) { return p.id(); }},
        {"fits", [](const Plan& p) { return std::string(p.fits ? "true" : "false"); }},
        {"zero_stage", [](const Plan& p) { return text_of(std::int64_t{p.strategy.zero_stage}); }},
        {"tensor_parallel", [](const Plan& p) { return text_of(p.strategy.tensor_parallel); }},
        {"data_parallel", [](const Plan& p) { return text_of(p.strategy.data_parallel); }},
        {"offload_optimizer",
         [](const Plan& p) { return std::string(to_name(p.strategy.offload_optimizer)); }},
        {"offload_parameters",
         [](const Plan& p) { return std::string(to_name(p.strategy.offload_parameters)); }},
        {"micro_batch_size", [](const Plan& p) { return text_of(p.strategy.micro_batch_size); }},
        {"gradient_accumulation_steps",
         [](const Plan& p) { return text_of(p.strategy.gradient_accumulation_steps); }},
    };
    for (Field& field : memory_fields()) list.push_back(std::move(field));
    const std::vector<Field> rest{
        {"peak", [](const Plan& p) { return text_of(p.memory.peak.bytes().value); }},
        {"required", [](const Plan& p) { return text_of(p.memory.required.value); }},
        {"required_low", [](const Plan& p) { return text_of(p.memory.required_low.value); }},
        {"required_high", [](const Plan& p) { return text_of(p.memory.required_high.value); }},
        {"host", [](const Plan& p) { return text_of(p.memory.host.total.value); }},
        {"nvme", [](const Plan& p) { return text_of(p.memory.host.nvme.value); }},
        {"wire_bytes_per_gpu",
         [](const Plan& p) { return text_of(p.communication.wire_bytes_per_gpu().value); }},
        {"step_seconds", [](const Plan& p) { return text_of(p.time.step.value); }},
        {"tokens_per_second", [](const Plan& p) { return text_of(p.time.tokens_per_second); }},
        {"mfu", [](const Plan& p) { return text_of(p.time.mfu); }},
        {"why", [](const Plan& p) { return p.why.empty() ? std::string() : p.why.front(); }},
        {"launching_seconds", [](const Plan& p) { return text_of(p.time.launching.value); }},
        {"hfu", [](const Plan& p) { return text_of(p.time.hfu); }},
    };
    list.insert(list.end(), rest.begin(), rest.end());
    return list;
  }();
  return all;
}

/// "required_delta_bytes", "step_delta_seconds", "tokens_per_second_delta".
std::string heading(const Delta& delta) {
  return fmt::format("{}_delta{}{}", delta.name, delta.unit.empty() ? "" : "_", delta.unit);
}

}  // namespace

std::string csv_headings() {
  std::string out;
  for (const Field& field : fields()) (out += out.empty() ? "" : ",") += field.name;
  return out;
}

std::string csv_fields(const Plan& plan) {
  std::string line;
  for (const Field& field : fields())
    (line += &field == &fields().front() ? "" : ",") += csv_field(field.text(plan));
  return line;
}

std::string csv_delta_headings() {
  std::string out = ",baseline";
  for (const Delta& delta : deltas()) out += "," + heading(delta);
  return out + ",tokens_per_second_ratio";
}

/// Empty where the saved report that is the baseline has no such plan.
std::string csv_delta_fields(const Plan& plan, const Plan* base, const std::string& baseline) {
  std::string out = "," + csv_field(baseline);
  if (base == nullptr) return out + std::string(deltas().size() + 1, ',');
  for (const Delta& delta : deltas()) {
    const double change = delta.value(plan) - delta.value(*base);
    out += "," + (delta.unit == "bytes" ? text_of(std::int64_t{std::llround(change)}) : text_of(change));
  }
  const double from = base->time.tokens_per_second;
  return out + "," + (from > 0 ? text_of(plan.time.tokens_per_second / from) : "");
}

std::string report_csv(const Report& report) {
  const Comparison* compared = report.comparison;
  std::string out = csv_headings() + (compared != nullptr ? csv_delta_headings() : "") + "\r\n";
  for (const Plan* plan : plans_in_order(report)) {
    out += csv_fields(*plan);
    if (compared != nullptr) out += csv_delta_fields(*plan, baseline_of(*plan, report), compared->baseline);
    out += "\r\n";
  }
  return out;
}

}  // namespace zplan

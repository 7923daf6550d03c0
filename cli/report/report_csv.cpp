#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "cli/document/text.h"
#include "cli/report/report_deltas.h"
#include "cli/report/report_json.h"

namespace zplan {

namespace {

struct Field {
  std::string_view name;
  std::function<std::string(const Plan&)> text;
};

std::string number(std::int64_t value) { return fmt::format("{}", value); }
std::string number(double value) { return fmt::format("{:.9g}", value); }

std::vector<Field> memory_fields() {
  std::vector<Field> fields;
  for (const auto& [part, name] : EnumNames<MemoryPart>::table)
    // A copy: clang 14 cannot capture a structured binding.
    fields.push_back(
        {name, [wanted = part](const Plan& p) { return number(p.memory().peak.holds.part(wanted).value); }});
  return fields;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = [] {
    std::vector<Field> list{
        {"id", [](const Plan& p) { return p.id(); }},
        {"fits", [](const Plan& p) { return std::string(p.fits ? "true" : "false"); }},
        {"zero_stage", [](const Plan& p) { return number(std::int64_t{p.strategy.zero_stage}); }},
        {"tensor_parallel", [](const Plan& p) { return number(p.strategy.layout.tensor); }},
        {"data_parallel", [](const Plan& p) { return number(p.strategy.layout.data_ranks()); }},
        {"offload_optimizer",
         [](const Plan& p) { return std::string(to_name(p.strategy.offload_optimizer)); }},
        {"offload_parameters",
         [](const Plan& p) { return std::string(to_name(p.strategy.offload_parameters)); }},
        {"micro_batch_size", [](const Plan& p) { return number(p.strategy.micro_batch_size); }},
        {"gradient_accumulation_steps",
         [](const Plan& p) { return number(p.strategy.gradient_accumulation_steps); }},
    };
    for (Field& field : memory_fields()) list.push_back(std::move(field));
    const std::vector<Field> rest{
        {"peak", [](const Plan& p) { return number(p.memory().peak.bytes().value); }},
        {"required", [](const Plan& p) { return number(p.memory().required.value); }},
        {"required_low", [](const Plan& p) { return number(p.memory().required_low.value); }},
        {"required_high", [](const Plan& p) { return number(p.memory().required_high.value); }},
        {"host", [](const Plan& p) { return number(p.memory().host.total.value); }},
        {"nvme", [](const Plan& p) { return number(p.memory().host.nvme.value); }},
        {"wire_bytes_per_gpu",
         [](const Plan& p) { return number(p.communication().wire_bytes_per_gpu().value); }},
        {"step_seconds", [](const Plan& p) { return number(p.time.step.value); }},
        {"tokens_per_second", [](const Plan& p) { return number(p.time.tokens_per_second); }},
        {"mfu", [](const Plan& p) { return number(p.time.mfu); }},
        {"why", [](const Plan& p) { return p.why.empty() ? std::string() : p.why.front(); }},
        {"launching_seconds", [](const Plan& p) { return number(p.time.launching.value); }},
        {"hfu", [](const Plan& p) { return number(p.time.hfu); }},
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

CsvRecord csv_names(bool compared) {
  CsvRecord names;
  for (const Field& field : fields()) names.emplace_back(field.name);
  if (!compared) return names;
  names.emplace_back("baseline");
  for (const Delta& delta : deltas()) names.push_back(heading(delta));
  names.emplace_back("tokens_per_second_ratio");
  return names;
}

CsvRecord csv_fields(const Plan& plan) {
  CsvRecord record;
  for (const Field& field : fields()) record.push_back(field.text(plan));
  return record;
}

void add_csv_deltas(CsvRecord& record, const Plan& plan, const Plan* base, const std::string& baseline) {
  record.push_back(baseline);
  if (base == nullptr) return record.resize(record.size() + deltas().size() + 1);
  for (const Delta& delta : deltas()) {
    const double change = delta.value(plan) - delta.value(*base);
    record.push_back(delta.unit == "bytes" ? number(std::int64_t{std::llround(change)}) : number(change));
  }
  const double from = base->time.tokens_per_second;
  record.push_back(from > 0 ? number(plan.time.tokens_per_second / from) : "");
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

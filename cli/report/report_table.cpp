// Strategies as tables.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cli/report/report_text.h"
#include "planner/explain/why.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

/// Figures of one plan by what they are made of; they add up to what it needs.
struct Breakdown {
  Bytes parameters, gradients, optimizer, activations, buffers, overhead;
};

Breakdown breakdown(const Plan& plan) {
  const Composition& holds = plan.memory().peak.holds;
  const Bytes slack = plan.memory().required - plan.memory().peak.bytes();
  return {.parameters = holds.part(MemoryPart::parameters),
          .gradients = holds.part(MemoryPart::gradients),
          .optimizer = holds.part(MemoryPart::optimizer_states),
          .activations = holds.part(MemoryPart::activations) + holds.part(MemoryPart::loss),
          .buffers = holds.part(MemoryPart::communication_buffers) + holds.part(MemoryPart::temporaries),
          .overhead = holds.part(MemoryPart::framework_overhead) + slack};
}

/// "load", "evaluation", "save": where the steps fit and that does not.
std::string_view short_at(RunMoment moment) {
  switch (moment) {
    case RunMoment::load: return "load";
    case RunMoment::weight_sync: return "weight sync";
    case RunMoment::scoring: return "scoring";
    case RunMoment::evaluation: return "evaluation";
    case RunMoment::generation: return "generation";
    case RunMoment::save_model:
    case RunMoment::save_checkpoint: return "save";
    case RunMoment::training: break;
  }
  return "host";
}

std::string verdict(const Plan& plan, const Question& q) {
  if (plan.fits) return "fits";
  const bool device_short = shortage(plan, q).value > 0, host_short = host_shortage(plan, q).value > 0;
  if (device_short || host_short) return !host_short ? "short" : device_short ? "short, host" : "host";
  const MomentMemory* at = short_moment(plan, q);
  return at == nullptr ? "short" : std::string(short_at(at->moment));
}

std::string signed_bytes(Bytes size, ByteUnit unit) {
  const std::string text = format_bytes_value(size, unit);
  return size.value > 0 ? "+" + text : text;
}

std::string traffic(const Plan& plan) {
  return format_bytes_value(plan.communication().wire_bytes_per_gpu(), ByteUnit::gb);
}

/// A column with the text of its cell.
struct PlanField {
  Column column;
  std::string (*text)(const Plan&, const Question&);
};

template <Bytes Breakdown::*member>
std::string part_text(const Plan& plan, const Question& q) {
  return format_bytes_value(breakdown(plan).*member, q.unit);
}

std::string other_text(const Plan& plan, const Question& q) {
  const Breakdown parts = breakdown(plan);
  return format_bytes_value(parts.buffers + parts.overhead, q.unit);
}

std::string states_text(const Plan& plan, const Question& q) {
  const Breakdown parts = breakdown(plan);
  return format_bytes_value(parts.parameters + parts.gradients + parts.optimizer, q.unit);
}

/// How finely memory is broken down. Whatever is shown adds up to what is needed.
enum class Detail { full, merged, coarse };

void add_memory(std::vector<PlanField>& list, const std::string& unit, Detail detail) {
  constexpr int kParts = 30;
  if (detail == Detail::coarse) {
    list.push_back({{"states", unit, true, kParts}, states_text});
  } else {
    list.push_back({{"param", unit, true, kParts}, part_text<&Breakdown::parameters>});
    list.push_back({{"grad", unit, true, kParts}, part_text<&Breakdown::gradients>});
    list.push_back({{"optim", unit, true, kParts}, part_text<&Breakdown::optimizer>});
  }
  list.push_back({{"activ", unit, true, kParts}, part_text<&Breakdown::activations>});
  if (detail == Detail::full) {
    list.push_back({{"buffers", unit, true, kParts}, part_text<&Breakdown::buffers>});
    list.push_back({{"overhead", unit, true, kParts}, part_text<&Breakdown::overhead>});
  } else {
    list.push_back({{"other", unit, true, kParts}, other_text});
  }
}

std::string host_text(const Plan& plan, const Question& q) {
  const Bytes host = plan.memory().host.total;
  return host > Bytes{} ? format_bytes_value(host, q.unit) : "-";
}

using P = const Plan&;
using Q = const Question&;

std::string hours_text(P plan, Q q) {
  const auto cost = run_cost(plan, q);
  return cost ? fmt::format("{:.1f}", cost->wall.value / 3600) : "-";
}
std::string money_text(P plan, Q q) {
  const auto cost = run_cost(plan, q);
  return cost && cost->money ? amount_text(*cost->money) : "-";
}

std::vector<PlanField> fields(const std::string& unit, Detail detail, bool host, const Budget& budget) {
  std::vector<PlanField> all{{{"strategy", "", false, kAlways}, [](P p, Q) { return p.id(); }}};
  add_memory(all, unit, detail);
  all.push_back({{"needs", unit, true, kAlways},
                 [](P p, Q q) { return format_bytes_value(p.memory().required, q.unit); }});
  all.push_back(
      {{"free", unit, true, 20}, [](P p, Q q) { return signed_bytes(Bytes{} - shortage(p, q), q.unit); }});
  if (host) all.push_back({{"host", unit, true, 1}, host_text});
  all.push_back({{"sent", "GB", true, 5}, [](P p, Q) { return traffic(p); }});
  all.push_back({{"step", "s", true, 9}, [](P p, Q) { return seconds_value(p.time.step); }});
  all.push_back(
      {{"tok/s", "", true, 10}, [](P p, Q) { return fmt::format("{:.0f}", p.time.tokens_per_second); }});
  if (budget.is_known()) all.push_back({{"run", "h", true, 25}, hours_text});
  if (budget.price) all.push_back({{"cost", "", true, 26}, money_text});
  if (detail == Detail::full)
    all.push_back({{"peak in", "", false, 0},
                   [](P p, Q) { return std::string(to_name(reported(p.memory().peak.phase))); }});
  all.push_back({{"verdict", "", false, kAlways}, [](P p, Q q) { return verdict(p, q); }});
  return all;
}

bool varies_micro_batch(const Report& report) { return !report.question.space.micro_batch_size.has_value(); }

Table filled(const Report& report, const std::vector<PlanField>& list) {
  Table table;
  for (const PlanField& field : list) table.columns.push_back(field.column);
  const Plan* recommended = report.answer.recommended();
  for (const Plan* plan : plans_in_order(report)) {
    Row row;
    for (const PlanField& field : list) row.cells.push_back(field.text(*plan, report.question));
    row.tone = plan == recommended ? Tone::strong : plan->fits ? Tone::plain : Tone::faint;
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool any_host(const Report& report) {
  return std::ranges::any_of(report.answer.plans,
                             [](const Plan& plan) { return plan.memory().host.total > Bytes{}; });
}

}  // namespace

Table strategies_table(const Report& report, int width) {
  const auto build = [&report](Detail detail, bool host) {
    std::vector<PlanField> list =
        fields(std::string(unit_name(report.question.unit)), detail, host, report.question.budget);
    if (varies_micro_batch(report))
      list.insert(list.begin() + 1, {{"batch", "", true, 15}, [](const Plan& p, const Question&) {
                                       return fmt::format("{}", p.strategy.micro_batch_size);
                                     }});
    return filled(report, list);
  };
  const bool host = any_host(report);
  const std::array<std::pair<Detail, bool>, 4> tries{
      {{Detail::full, host}, {Detail::merged, host}, {Detail::merged, false}, {Detail::coarse, host}}};
  for (const auto& [detail, with_host] : tries) {
    Table table = build(detail, with_host);
    if (width <= 0 || natural_width(table) <= static_cast<std::size_t>(width)) return table;
  }
  return build(Detail::coarse, false);
}

}  // namespace zplan

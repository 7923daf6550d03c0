// The comparison as a slide: a title, five lines, a sentence.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/report/comparison.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "planner/explain/why.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/search/crossover.h"

namespace zplan {

namespace {

Measure named(const std::vector<Measure>& all, std::string_view name) {
  return *std::ranges::find(all, name, &Measure::name);
}

Measure renamed(Measure measure, std::string name) {
  measure.name = std::move(name);
  return measure;
}

/// Returns the samples of a step where all plans train as many; else nothing.
std::optional<std::int64_t> common_samples(const Report& report) {
  const std::vector<const Plan*> plans = plans_in_order(report);
  const std::int64_t first = plans.front()->strategy.global_batch_size();
  const bool alike = std::ranges::all_of(
      plans, [first](const Plan* plan) { return plan->strategy.global_batch_size() == first; });
  return alike ? std::optional(first) : std::nullopt;
}

/// Returns "Qwen3-14B on 4 x A100-SXM-80GB: zero3 or zero3+offload-all".
std::string slide_title(const Report& report) {
  const Question& q = report.question;
  std::vector<std::string> ids;
  for (const Plan* plan : plans_in_order(report)) ids.push_back(plan->id());
  return fmt::format("{} on {} x {}{}: {}", q.model.name.empty() ? q.model.shape.architecture : q.model.name,
                     q.cluster.gpus, q.cluster.gpu.name,
                     q.cluster.nodes > 1 ? fmt::format(" in {} nodes", q.cluster.nodes) : "",
                     fmt::join(ids, " or "));
}

std::string batch_text(const Report& report) {
  const std::optional<std::int64_t> samples = common_samples(report);
  return samples ? fmt::format("{} samples", *samples) : "samples differ";
}

std::string verdict_text(const Plan& plan, const Question& q) {
  const Bytes missing = shortage(plan, q);
  return !plan.fits && missing.value > 0 ? fmt::format("short by {}", format_bytes(missing, q.unit))
                                         : comparison_verdict(plan);
}

std::vector<Line> slide_lines(const Report& report, const Sides& sides) {
  const Question& q = report.question;
  const std::vector<Measure> memory = memory_measures(q.unit), time = time_measures();
  const bool offloads =
      std::ranges::any_of(sides, [](const Side& side) { return side.plan->memory().host.total > Bytes{}; });
  const Measure third =
      offloads ? named(memory, "host memory per node") : named(time, "exposed communication");
  const auto line = [&](const Measure& measure) { return measured_line(measure, sides, q.unit, true); };
  return {text_line("verdict", sides, verdict_text, Tone::strong),
          line(renamed(
              named(memory, "needs"),
              fmt::format("memory per GPU, of {}", format_bytes(available(q.cluster, q.headroom), q.unit)))),
          line(third), line(renamed(named(time, "step"), fmt::format("step of {}", batch_text(report)))),
          line(named(time, "tokens per second"))};
}

}  // namespace

void add_slide(Document& doc, const Report& report) {
  const std::vector<Sides> groups = comparison_sides(report);
  const Sides sides = in_one_row(groups);
  doc.shown = Shown::both;
  doc.heading(slide_title(report));
  doc.line();
  const ComparedLines compared{slide_lines(report, sides), {sides}};
  add_side_by_side(doc, compared, compared, 0);
  doc.shown = Shown::both;
  if (report.comparison->contest)
    doc.line(), doc.paragraph("", fastest_sentence(report, *report.comparison->contest));
  doc.shown = Shown::text;
}

}  // namespace zplan

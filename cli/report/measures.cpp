#include "cli/report/measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/format.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/search/crossover.h"

namespace zplan {

namespace {

using P = const Plan&;
using Q = const Question&;

std::string bytes_text(double value, ByteUnit unit) {
  return format_bytes_value(Bytes(std::llround(value)), unit);
}
std::string traffic_text(double value, ByteUnit) { return bytes_text(value, ByteUnit::gb); }
std::string number_text(double value, ByteUnit) {
  const double size = std::abs(value);
  return size >= 99.95 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}f}", value, size >= 9.995 ? 1 : 2);
}
std::string seconds_text(double value, ByteUnit unit) {
  return std::abs(value) < 0.9995 ? fmt::format("{:.3f}", value) : number_text(value, unit);
}
std::string count_text(double value, ByteUnit) { return fmt::format("{:.0f}", value); }
std::string percent_text(double value, ByteUnit) { return fmt::format("{:.1f}", value * 100); }

template <MemoryPart part>
double held(P plan, Q) {
  return number_of_bytes(plan.memory().peak.holds.part(part));
}

template <Seconds StepTime::*member>
double time_of(P plan, Q) {
  return (plan.time.*member).value;
}

bool says_nothing(const std::string& number) {
  return number.find_first_of("123456789") == std::string::npos;
}

/// The name that all of them have; "" where they differ.
template <class F>
std::string common(const std::vector<const Question*>& questions, const F& name) {
  const std::string first = name(*questions.front());
  for (const Question* each : questions)
    if (name(*each) != first) return "";
  return first;
}

std::string with_name(std::string_view what, const std::string& name) {
  return name.empty() ? std::string(what) : fmt::format("{}, {}", what, name);
}

}  // namespace

std::vector<Measure> memory_measures(ByteUnit byte_unit) {
  const std::string unit(unit_name(byte_unit));
  return {{"parameters", unit, held<MemoryPart::parameters>, bytes_text},
          {"gradients", unit, held<MemoryPart::gradients>, bytes_text},
          {"optimizer states", unit, held<MemoryPart::optimizer_states>, bytes_text},
          {"activations", unit, held<MemoryPart::activations>, bytes_text},
          {"loss", unit, held<MemoryPart::loss>, bytes_text},
          {"communication buffers", unit, held<MemoryPart::communication_buffers>, bytes_text},
          {"temporaries", unit, held<MemoryPart::temporaries>, bytes_text},
          {"framework overhead", unit, held<MemoryPart::framework_overhead>, bytes_text},
          {"allocator slack", unit,
           [](P p, Q) { return number_of_bytes(p.memory().required - p.memory().peak.bytes()); }, bytes_text},
          {"needs", unit, [](P p, Q) { return number_of_bytes(p.memory().required); }, bytes_text},
          {"free", unit, [](P p, Q q) { return number_of_bytes(Bytes{} - shortage(p, q)); }, bytes_text,
           Best::most},
          {"host memory per node", unit, [](P p, Q) { return number_of_bytes(p.memory().host.total); },
           bytes_text}};
}

std::vector<Measure> traffic_measures(const std::vector<const Question*>& questions) {
  const auto any = [&questions](auto holds) {
    for (const Question* each : questions)
      if (holds(each->cluster)) return true;
    return false;
  };
  std::vector<Measure> list;
  if (!any([](const Cluster& cluster) { return cluster.gpus > 1; })) return list;
  list.push_back({"collective calls", "",
                  [](P p, Q) { return static_cast<double>(p.communication().calls()); }, count_text});
  if (any([](const Cluster& cluster) { return cluster.gpus_per_node > 1; }))
    list.push_back(
        {with_name("sent per GPU", common(questions, [](Q q) { return name_of_inner_link(q.cluster); })),
         "GB", [](P p, Q) { return number_of_bytes(p.communication().inside_bytes_per_gpu()); },
         traffic_text});
  if (any([](const Cluster& cluster) { return cluster.network.has_value(); }))
    list.push_back(
        {with_name("sent per GPU",
                   common(questions,
                          [](Q q) { return q.cluster.network ? q.cluster.network->name : "out of a node"; })),
         "GB", [](P p, Q) { return number_of_bytes(p.communication().outside_bytes_per_gpu()); },
         traffic_text});
  list.push_back({"communication", "s", time_of<&StepTime::communication>, seconds_text});
  return list;
}

std::vector<Measure> cost_measures(const std::vector<const Question*>& questions) {
  std::vector<Measure> list;
  const auto all = [&questions](auto holds) {
    return std::ranges::all_of(questions, [&](const Question* each) { return holds(each->budget); });
  };
  if (all([](const Budget& budget) { return budget.is_known(); })) {
    list.push_back({"run", "h", [](P p, Q q) { return run_cost(p, q)->wall.value / 3600; }, number_text});
    list.push_back({"GPU-hours", "", [](P p, Q q) { return run_cost(p, q)->gpu_hours; }, number_text});
  }
  if (all([](const Budget& budget) { return budget.is_known() && budget.price; }))
    list.push_back({"cost", "", [](P p, Q q) { return *run_cost(p, q)->money; }, number_text});
  return list;
}

std::vector<Measure> time_measures() {
  return {{"step", "s", time_of<&StepTime::step>, seconds_text},
          {"of that compute", "s", time_of<&StepTime::compute>, seconds_text},
          {"waiting for launches", "s", time_of<&StepTime::launching>, seconds_text},
          {"exposed communication", "s", time_of<&StepTime::exposed_communication>, seconds_text},
          {"offload", "s", time_of<&StepTime::offload>, seconds_text},
          {"optimizer", "s", time_of<&StepTime::optimizer>, seconds_text},
          {"samples per step", "", [](P p, Q) { return static_cast<double>(p.strategy.global_batch_size()); },
           count_text, Best::none},
          {"tokens per second", "", [](P p, Q) { return p.time.tokens_per_second; }, number_text, Best::most},
          {"MFU", "%", [](P p, Q) { return p.time.mfu; }, percent_text, Best::most}};
}

std::string difference_text(const Measure& measure, double value, double base, ByteUnit unit) {
  const std::string text = measure.text(value - base, unit);
  if (says_nothing(text)) return "=";
  return value > base ? "+" + text : text;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table{
      {"model", [](P, Q q) { return q.model.name; }},
      {"GPUs", [](P, Q q) { return fmt::format("{}", q.cluster.gpus); }},
      {"GPU", [](P, Q q) { return q.cluster.gpu.name; }},
      {"memory per GPU", [](P, Q q) { return format_bytes(q.cluster.memory, q.unit); }},
      {"nodes", [](P, Q q) { return fmt::format("{}", q.cluster.nodes); }},
      {"strategy", [](P p, Q) { return p.id(); }},
      {"method", [](P, Q q) { return std::string(to_name(q.training.method)); }},
      {"precision", [](P, Q q) { return std::string(to_name(q.training.precision)); }},
      {"optimizer used", [](P, Q q) { return std::string(to_name(q.training.optimizer)); }},
      {"checkpointing", [](P p, Q) { return std::string(to_name(p.strategy.checkpointing)); }},
      {"sequence length", [](P, Q q) { return fmt::format("{}", q.training.sequence_length); }},
      {"micro-batch", [](P p, Q) { return fmt::format("{}", p.strategy.micro_batch_size); }},
      {"micro-batches per step",
       [](P p, Q) { return fmt::format("{}", p.strategy.gradient_accumulation_steps); }},
  };
  return table;
}

std::string comparison_verdict(const Plan& plan) {
  if (plan.fits) return "fits";
  return plan.fits_device ? "short of host" : "does not fit";
}

}  // namespace zplan

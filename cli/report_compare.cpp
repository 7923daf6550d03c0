// `compare`: figures as lines, strategies as columns, and what that says in sentences.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/report_text.h"
#include "planner/search/why.h"

namespace zplan {

namespace {

enum class Best { none, least, most };

struct Measure {
  std::string name, unit;
  double (*value)(const Plan&, const Question&);
  std::string (*text)(double, ByteUnit);
  Best best{Best::least};
};

double as_number(Bytes size) { return static_cast<double>(size.value); }

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
double held(const Plan& plan, const Question&) {
  return as_number(plan.memory.peak.holds.part(part));
}

template <Seconds StepTime::*member>
double time_of(const Plan& plan, const Question&) {
  return (plan.time.*member).value;
}

using P = const Plan&;
using Q = const Question&;

std::vector<Measure> memory_measures(const std::string& unit) {
  return {
      {"parameters", unit, held<MemoryPart::parameters>, bytes_text},
      {"gradients", unit, held<MemoryPart::gradients>, bytes_text},
      {"optimizer states", unit, held<MemoryPart::optimizer_states>, bytes_text},
      {"activations", unit, held<MemoryPart::activations>, bytes_text},
      {"loss", unit, held<MemoryPart::loss>, bytes_text},
      {"communication buffers", unit, held<MemoryPart::communication_buffers>, bytes_text},
      {"temporaries", unit, held<MemoryPart::temporaries>, bytes_text},
      {"framework overhead", unit, held<MemoryPart::framework_overhead>, bytes_text},
      {"allocator slack", unit, [](P p, Q) { return as_number(p.memory.required - p.memory.peak.bytes()); },
       bytes_text},
      {"needs", unit, [](P p, Q) { return as_number(p.memory.required); }, bytes_text},
      {"free", unit, [](P p, Q q) { return as_number(Bytes{} - shortage(p, q)); }, bytes_text, Best::most},
      {"host memory per node", unit, [](P p, Q) { return as_number(p.memory.host.total); }, bytes_text}};
}

/// One GPU sends nothing, one node nothing out of it.
std::vector<Measure> traffic_measures(const Cluster& cluster) {
  std::vector<Measure> list;
  if (cluster.gpus == 1) return list;
  list.push_back({"collective calls", "", [](P p, Q) { return static_cast<double>(p.communication.calls()); },
                  count_text});
  if (cluster.gpus_per_node > 1)
    list.push_back({"sent per GPU, " + name_of_inner_link(cluster), "GB",
                    [](P p, Q) { return as_number(p.communication.inside_bytes_per_gpu()); }, traffic_text});
  if (cluster.network)
    list.push_back({"sent per GPU, " + cluster.network->name, "GB",
                    [](P p, Q) { return as_number(p.communication.outside_bytes_per_gpu()); }, traffic_text});
  list.push_back({"communication", "s", time_of<&StepTime::communication>, seconds_text});
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

bool says_nothing(const std::string& number) {
  return number.find_first_of("123456789") == std::string::npos;
}

std::string difference(const Measure& measure, double value, double base, ByteUnit unit) {
  const std::string text = measure.text(value - base, unit);
  if (says_nothing(text)) return "=";
  return value > base ? "+" + text : text;
}

/// The best value of a row as it is printed; empty where all plans print the same.
std::string best_text(const Measure& measure, const std::vector<const Plan*>& plans, const Question& q) {
  if (measure.best == Best::none) return "";
  double best = measure.value(*plans.front(), q);
  bool alike = true;
  for (const Plan* plan : plans) {
    const double value = measure.value(*plan, q);
    alike = alike && measure.text(value, q.unit) == measure.text(best, q.unit);
    best = measure.best == Best::least ? std::min(best, value) : std::max(best, value);
  }
  return alike ? "" : measure.text(best, q.unit);
}

Row measured_row(const Measure& measure, const Report& report, const std::vector<const Plan*>& plans) {
  const Question& q = report.question;
  Row row{{measure.name, measure.unit}, measure.name == "needs" ? Tone::strong : Tone::plain};
  const std::string best = best_text(measure, plans_in_order(report), q);
  const double base = measure.value(*plans.front(), q);
  for (const Plan* plan : plans) {
    const double value = measure.value(*plan, q);
    const std::string text = measure.text(value, q.unit);
    row.cells.push_back(text + (text == best ? "*" : " "));
    if (plan != plans.front()) row.cells.push_back(difference(measure, value, base, q.unit));
  }
  return row;
}

std::string verdict(const Plan& plan) {
  if (plan.fits) return "fits";
  return plan.fits_device ? "short of host" : "does not fit";
}

Row text_row(std::string name, const std::vector<const Plan*>& plans, std::string (*text)(const Plan&),
             Tone tone) {
  Row row{{std::move(name), ""}, tone};
  for (const Plan* plan : plans) {
    row.cells.push_back(text(*plan) + " ");
    if (plan != plans.front()) row.cells.emplace_back();
  }
  return row;
}

const Plan& plan_of(const Report& report, const std::string& id) {
  const std::vector<Plan>& plans = report.answer.plans;
  return *std::find_if(plans.begin(), plans.end(), [&id](const Plan& plan) { return plan.id() == id; });
}

std::string tokens(const Plan& plan) {
  return fmt::format("{} tokens per second", group_digits(std::llround(plan.time.tokens_per_second)));
}

/// A contest between plans that fit says nothing of faster ones that do not.
std::string superlative(const Report& report, const Plan& first) {
  const std::vector<Plan>& plans = report.answer.plans;
  const bool outrun = std::any_of(plans.begin(), plans.end(), [&first](const Plan& plan) {
    return plan.time.tokens_per_second > first.time.tokens_per_second;
  });
  if (plans.size() == 2) return "faster";
  return outrun ? "the fastest that fits" : "fastest";
}

std::string fastest_sentence(const Report& report, const Contest& contest) {
  const Plan &first = plan_of(report, contest.faster), &second = plan_of(report, contest.slower);
  const std::string misses = first.fits ? "" : ", though it does not fit";
  if (contest.ratio < 1.005)
    return fmt::format("{} and {} are equally fast here, at {}{}", contest.faster, contest.slower,
                       tokens(first), misses);
  const std::string much = contest.ratio < 2 ? fmt::format("{:.0f} % more than", (contest.ratio - 1) * 100)
                                             : fmt::format("{:.1f} times that of", contest.ratio);
  return fmt::format("{} is {} here: {}, {} {} with {}{}", contest.faster, superlative(report, first),
                     tokens(first), much, contest.slower, tokens(second), misses);
}

std::string memory_sentence(const Report& report, const Contest& contest) {
  const std::vector<Plan>& plans = report.answer.plans;
  const auto least = std::min_element(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return a.memory.required < b.memory.required;
  });
  const Plan& faster = plan_of(report, contest.faster);
  const ByteUnit unit = report.question.unit;
  const Plan& other = least->id() == contest.faster ? plan_of(report, contest.slower) : faster;
  return fmt::format("{} needs {} memory: {} per GPU against {} of {}", least->id(),
                     plans.size() > 2 ? "least" : "less", format_bytes(least->memory.required, unit),
                     format_bytes(other.memory.required, unit), other.id());
}

std::string crossover_sentence(const Contest& contest) {
  const DecisiveLink& link = *contest.link;
  const std::string now = fmt::format("(now {})", format_rate(link.now));
  const std::string of = link.between ? fmt::format("network bandwidth out of each node ({})", link.name)
                                      : fmt::format("{} bus bandwidth", link.name);
  if (!contest.crossover)
    return fmt::format("{} is the faster of the two at any {} from {} to {} {}", contest.faster, of,
                       format_rate(link.now * (1 / kMostLinkFactor)), format_rate(link.now * kMostLinkFactor),
                       now);
  const Crossover& at = *contest.crossover;
  return fmt::format("the two trade places at {} of {} {}: {} is faster below, {} above", format_rate(at.at),
                     of, now, at.below.id(), at.above.id());
}

}  // namespace

Table comparison_table(const Report& report, const std::vector<const Plan*>& plans) {
  const Question& q = report.question;
  Table table{{{"", "", false, kAlways}, {"", "", false, kAlways}}, {}};
  for (const Plan* plan : plans) {
    table.columns.push_back({plan->id() + " ", "", true, kAlways});
    if (plan != plans.front()) table.columns.push_back({"", "", true, kAlways});
  }
  const auto add = [&](const std::vector<Measure>& measures) {
    for (const Measure& measure : measures) table.rows.push_back(measured_row(measure, report, plans));
  };
  add(memory_measures(unit_name(q.unit)));
  table.rows.push_back(text_row(
      "peak in", plans, [](P p) { return std::string(to_name(reported(p.memory.peak.phase))); },
      Tone::plain));
  table.rows.push_back(text_row("verdict", plans, verdict, Tone::strong));
  add(traffic_measures(q.cluster));
  add(time_measures());
  return table;
}

std::vector<std::string> comparison_sentences(const Report& report) {
  if (!report.contest) return {};
  std::vector<std::string> sentences{fastest_sentence(report, *report.contest),
                                     memory_sentence(report, *report.contest)};
  if (report.contest->link) sentences.push_back(crossover_sentence(*report.contest));
  return sentences;
}

}  // namespace zplan

#include "cli/report/fit_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/command_line.h"
#include "cli/report/report_text.h"
#include "planner/search/scale.h"

namespace zplan {

namespace {

std::string item(std::string_view sentence, const Style& style) {
  return paragraph("  - ", sentence, style.width);
}

std::string unit_of(Solve solve, const Question& q) {
  switch (solve) {
    case Solve::sequence: return "tokens";
    case Solve::memory:
    case Solve::host_memory: return unit_name(q.unit);
    default: return "";
  }
}

std::string size_cell(Bytes size, const Question& q) { return format_bytes_value(size, q.unit); }

/// Figures of a plan, from `needs` on.
std::vector<std::string> plan_cells(const Plan& plan, const Question& at) {
  return {size_cell(plan.memory.required, at),
          size_cell(available(at.cluster, at.headroom) - plan.memory.required, at),
          plan.memory.host.total.value > 0 ? size_cell(plan.memory.host.total, at) : "",
          fmt::format("{:.3g}", plan.time.step.value), fmt::format("{:.0f}", plan.time.tokens_per_second)};
}

void append(std::vector<std::string>& cells, const std::vector<std::string>& more) {
  cells.insert(cells.end(), more.begin(), more.end());
}

std::vector<Column> plan_columns(const Question& q) {
  return {{"needs", unit_name(q.unit), true, kAlways},
          {"free", unit_name(q.unit), true, 6},
          {"host", unit_name(q.unit), true, 4},
          {"step", "s", true, 5},
          {"tok/s", "", true, 8},
          {"bound by", "", false, 9}};
}

/// A cell of a question that is asked in GiB, in the unit of the report.
std::string shown_value(Solve solve, std::int64_t value, const Question& q) {
  const bool bytes = solve == Solve::memory || solve == Solve::host_memory;
  return bytes ? size_cell(kGiB * value, q) : value_cell(solve, value);
}

/// A value behind the words that ask for it: "12", "4096 tokens", "24.0 GiB".
std::string value_words(Solve solve, std::int64_t value, const Question& q) {
  switch (solve) {
    case Solve::sequence: return fmt::format("{} tokens", value);
    case Solve::model: return value_text(solve, value, q.unit);
    case Solve::memory:
    case Solve::host_memory: return format_bytes(kGiB * value, q.unit);
    default: return value_cell(solve, value);
  }
}

std::string_view short_name(Solve solve) {
  switch (solve) {
    case Solve::micro_batch: return "micro-batch";
    case Solve::sequence: return "sequence";
    case Solve::gpus: return "GPUs";
    case Solve::model: return "model";
    case Solve::memory: return "card";
    case Solve::host_memory: return "host memory";
  }
  return "";
}

/// Every strategy is held against what there is at its own value: only what is asked for in memory differs.
Table strategies_of(const SolvedQuestion& solved) {
  const Solve asked = solved.inverse.solve;
  Table table{{{"strategy", "", false, kAlways},
               {std::string(short_name(asked)), unit_of(asked, solved.at), true, kAlways}},
              {}};
  for (Column& each : plan_columns(solved.at))
    if (each.heading != "free" || (asked != Solve::memory)) table.columns.push_back(std::move(each));
  for (const Solution& each : solved.inverse.solutions) {
    Row row{{each.plan.id(), each.value ? shown_value(asked, *each.value, solved.at) : "none"},
            each.value ? Tone::plain : Tone::faint};
    std::vector<std::string> cells = plan_cells(each.plan, solved.at);
    if (asked == Solve::memory) cells.erase(cells.begin() + 1);
    append(row.cells, cells);
    row.cells.emplace_back(to_name(each.limit));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table questions_of(const FitReport& report) {
  Table table{
      {{"asked for", "", false, kAlways}, {"answer", "", false, kAlways}, {"strategy", "", false, kAlways}},
      {}};
  for (Column& each : plan_columns(report.question)) table.columns.push_back(std::move(each));
  for (const SolvedQuestion& each : report.solved) {
    const Solution& first = each.inverse.solutions.front();
    Row row{{std::string(asked_words(each.inverse.solve)),
             first.value ? value_words(each.inverse.solve, *first.value, each.at) : "none", first.plan.id()},
            first.value ? Tone::plain : Tone::faint};
    append(row.cells, plan_cells(first.plan, each.at));
    row.cells.emplace_back(to_name(first.limit));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string capital(std::string_view words) {
  std::string text(words);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string header(const FitReport& report) {
  if (report.solved.size() == 1)
    return fmt::format("{}, by strategy\n\n", capital(asked_words(report.solved.front().inverse.solve)));
  return "What the options leave open, one thing at a time\n\n";
}

/// What turns the question into the one that is answered.
std::vector<std::pair<std::string, std::string>> options_of(const SolvedQuestion& solved) {
  const Solve asked = solved.inverse.solve;
  const Solution& first = solved.inverse.solutions.front();
  const std::int64_t value = first.rounded.value_or(*first.value);
  const Strategy& s = first.plan.strategy;
  std::vector<std::pair<std::string, std::string>> options{
      {"--solve", ""},
      {"--zero", fmt::format("{}", s.zero_stage)},
      {"--tp", fmt::format("{}", s.tensor_parallel)},
      {"--offload", std::string(to_name(Offload{s.offload_optimizer, s.offload_parameters}))}};
  const auto add = [&](const char* name, std::string text) { options.emplace_back(name, std::move(text)); };
  switch (asked) {
    case Solve::micro_batch: add("--micro-batch", fmt::format("{}", value)); break;
    case Solve::sequence: add("--seq", fmt::format("{}", value)); break;
    case Solve::gpus:
      add("--gpus", fmt::format("{}", value));
      add("--nodes", solved.at.cluster.nodes > 1 ? fmt::format("{}", solved.at.cluster.nodes) : "");
      break;
    case Solve::model: add("--model", fmt::format("{:g}B", static_cast<double>(value) / 1e9)); break;
    case Solve::memory: add("--mem", fmt::format("{}", value)); break;
    case Solve::host_memory: add("--host-mem", fmt::format("{}", value)); break;
  }
  return options;
}

std::string next_command(const FitReport& report, const SolvedQuestion& solved) {
  std::vector<std::string> arguments = with_options(report.arguments, options_of(solved));
  if (const auto at = std::find(arguments.begin(), arguments.end(), "fit"); at != arguments.end())
    arguments.erase(at);
  return "  " + command_line(arguments) + "\n";
}

std::vector<std::string> answer_sentences(const SolvedQuestion& solved) {
  const Solve asked = solved.inverse.solve;
  const Solution& first = solved.inverse.solutions.front();
  std::vector<std::string> sentences;
  if (first.rounded.value_or(*first.value) != *first.value)
    sentences.push_back(fmt::format("{} as a multiple of 128, which fits too",
                                    value_text(asked, *first.rounded, solved.at.unit)));
  sentences.push_back(first.reason);
  sentences.insert(sentences.end(), first.plan.why.begin(), first.plan.why.end());
  return sentences;
}

std::string cards_text(const SolvedQuestion& solved, const Style& style) {
  constexpr std::size_t kMost = 8;
  if (solved.cards.empty()) return "";
  Table table{{{"card", "", false, kAlways},
               {"memory", unit_name(solved.at.unit), true, kAlways},
               {"strategy", "", false, kAlways},
               {"needs", unit_name(solved.at.unit), true, 6},
               {"tok/s", "", true, 8}},
              {}};
  for (std::size_t i = 0; i < std::min(solved.cards.size(), kMost); ++i) {
    const CardFit& each = solved.cards[i];
    table.rows.push_back({{each.name, size_cell(each.memory, solved.at), each.plan.id(),
                           size_cell(each.plan.memory.required, solved.at),
                           fmt::format("{:.0f}", each.plan.time.tokens_per_second)},
                          Tone::plain});
  }
  std::string out = heading("Cards that would do, least memory first", style) + render_text(table, style);
  if (solved.cards.size() > kMost)
    out += fmt::format("and {} more (--json lists them)\n", solved.cards.size() - kMost);
  return out;
}

std::string models_text(const SolvedQuestion& solved, const Style& style) {
  if (solved.models.empty()) return "";
  Table table{{{"model", "", false, kAlways},
               {"parameters", "", true, kAlways},
               {"strategy", "", false, kAlways},
               {"needs", unit_name(solved.at.unit), true, 6},
               {"tok/s", "", true, 8}},
              {}};
  for (const ModelFit& each : solved.models)
    table.rows.push_back(
        {{each.name, format_count(each.size), each.plan.id(), size_cell(each.plan.memory.required, solved.at),
          fmt::format("{:.0f}", each.plan.time.tokens_per_second)},
         Tone::plain});
  return heading("Largest models of the catalogue that fit", style) + render_text(table, style);
}

std::string answer_text(const FitReport& report, const SolvedQuestion& solved, const Style& style) {
  const Solution& first = solved.inverse.solutions.front();
  std::string out =
      heading(fmt::format("{}: {} with {}", capital(asked_words(solved.inverse.solve)),
                          value_words(solved.inverse.solve, *first.value, solved.at), first.plan.id()),
              style, Tone::good);
  for (const std::string& each : answer_sentences(solved)) out += item(each, style);
  return out + cards_text(solved, style) + models_text(solved, style) + heading("Next", style) +
         next_command(report, solved);
}

/// The search's own verdict on the value that comes nearest.
std::string miss_text(const FitReport& report, const SolvedQuestion& solved, const Style& style) {
  const Solution& first = solved.inverse.solutions.front();
  std::string out =
      "\n" + paragraph("",
                       fmt::format("Not even {}: {}",
                                   value_text(solved.inverse.solve, first.next.value_or(1), solved.at.unit),
                                   first.reason),
                       style.width);
  if (!solved.instead) return out;
  return out + verdict_text({solved.at, *solved.instead, report.options, report.arguments, {}, {}}, style) +
         models_text(solved, style);
}

std::string several_text(const FitReport& report, const Style& style) {
  std::string out = heading("Why no more and no less", style);
  for (const SolvedQuestion& each : report.solved)
    out += item(fmt::format("{}: {}", asked_words(each.inverse.solve), each.inverse.solutions.front().reason),
                style);
  out += heading("Next", style);
  for (const SolvedQuestion& each : report.solved)
    if (each.inverse.fits()) out += next_command(report, each);
  const SolvedQuestion& first = report.solved.front();
  out +=
      "  " +
      command_line(with_options(report.arguments, {{"--solve", std::string(to_name(first.inverse.solve))}})) +
      "\n";
  return out;
}

/// The report's header, at the answer where one thing is asked for.
std::string question_text(const FitReport& report, const Style& style) {
  const SolvedQuestion& first = report.solved.front();
  const bool one = report.solved.size() == 1;
  Answer shown;
  shown.plans.push_back(first.inverse.solutions.front().plan);
  shown.warnings = report.warnings;
  Options options = report.options;
  if (one) options.given.insert(options.given.end(), {"--micro-batch", "--seq", "--gpus"});
  return header_text({one ? first.at : report.question, shown, options, report.arguments, {}, {}}, style);
}

}  // namespace

bool has_answer(const FitReport& report) {
  return std::any_of(report.solved.begin(), report.solved.end(),
                     [](const SolvedQuestion& each) { return each.inverse.fits(); });
}

std::string_view asked_words(Solve solve) {
  switch (solve) {
    case Solve::micro_batch: return "largest micro-batch";
    case Solve::sequence: return "longest sequence";
    case Solve::gpus: return "fewest GPUs";
    case Solve::model: return "biggest model";
    case Solve::memory: return "smallest card";
    case Solve::host_memory: return "smallest host memory";
  }
  return "";
}

std::string value_cell(Solve solve, std::int64_t value) {
  return solve == Solve::model ? format_count(Elements(value)) : fmt::format("{}", value);
}

Table fit_table(const FitReport& report) {
  return report.solved.size() == 1 ? strategies_of(report.solved.front()) : questions_of(report);
}

std::string fit_text(const FitReport& report, const Style& style) {
  const std::string top =
      question_text(report, style) + "\n" + header(report) + render_text(fit_table(report), style);
  if (report.solved.size() > 1) return top + several_text(report, style);
  const SolvedQuestion& only = report.solved.front();
  return top + (only.inverse.fits() ? answer_text(report, only, style) : miss_text(report, only, style));
}

}  // namespace zplan

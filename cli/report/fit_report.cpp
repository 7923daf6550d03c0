#include "cli/report/fit_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/document/text.h"
#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "cli/report/report_text.h"
#include "planner/search/scale.h"

namespace zplan {

namespace {

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
  return {size_cell(plan.memory().required, at),
          size_cell(available(at.cluster, at.headroom) - plan.memory().required, at),
          plan.memory().host.total.value > 0 ? size_cell(plan.memory().host.total, at) : "",
          seconds_value(plan.time.step), fmt::format("{:.0f}", plan.time.tokens_per_second)};
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
    case Solve::memory: return "memory";
    case Solve::host_memory: return "host memory";
  }
  return "";
}

/// Every strategy is compared with what there is at its own value: only what is asked for in memory differs.
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
    return fmt::format("{}, by strategy", capital(asked_words(report.solved.front().inverse.solve)));
  return "What the options leave open, one thing at a time";
}

/// What turns the question into one that `strategy` answers with `value`.
std::vector<std::pair<std::string, std::string>> options_of(const SolvedQuestion& solved,
                                                            const Strategy& strategy, std::int64_t value) {
  std::vector<std::pair<std::string, std::string>> options{
      {"--solve", ""},
      {"--zero", fmt::format("{}", strategy.zero_stage)},
      {"--tp", fmt::format("{}", strategy.layout.tensor)},
      {"--offload", std::string(to_name(Offload{strategy.offload_optimizer, strategy.offload_parameters}))}};
  for (auto& each : token_options(strategy)) options.push_back(std::move(each));
  const auto add = [&](const char* name, std::string text) { options.emplace_back(name, std::move(text)); };
  switch (solved.inverse.solve) {
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

std::string plan_command(const FitReport& report, const SolvedQuestion& solved, const Strategy& strategy,
                         std::int64_t value) {
  std::vector<std::string> arguments = with_options(report.arguments, options_of(solved, strategy, value));
  if (const auto at = std::find(arguments.begin(), arguments.end(), "fit"); at != arguments.end())
    arguments.erase(at);
  return "  " + command_line(arguments);
}

std::string next_command(const FitReport& report, const SolvedQuestion& solved) {
  const Solution& first = solved.inverse.solutions.front();
  return plan_command(report, solved, first.plan.strategy, first.rounded.value_or(*first.value));
}

/// The longest of the ladder, where it is longer than what the search found without its means.
const Rung* longest_rung(const SolvedQuestion& solved) {
  const auto longest =
      std::ranges::max_element(solved.ladder, {}, [](const Rung& each) { return each.tokens.value_or(0); });
  if (longest == solved.ladder.end() || !longest->tokens) return nullptr;
  return *longest->tokens > solved.inverse.solutions.front().value.value_or(0) ? &*longest : nullptr;
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
  if (const Rung* longest = longest_rung(solved))
    sentences.push_back(fmt::format("{} tokens with {} and the means above it in the ladder below",
                                    *longest->tokens, longest->step));
  return sentences;
}

void add_cards(Document& doc, const SolvedQuestion& solved) {
  if (solved.cards.empty()) return;
  Table table{{{"GPU", "", false, kAlways},
               {"memory", unit_name(solved.at.unit), true, kAlways},
               {"strategy", "", false, kAlways},
               {"needs", unit_name(solved.at.unit), true, 6},
               {"tok/s", "", true, 8}},
              {}};
  for (const CardFit& each : solved.cards) {
    if (!each.plan || table.rows.size() == kMostCards) break;
    table.rows.push_back({{each.name, size_cell(each.memory, solved.at), each.plan->id(),
                           size_cell(each.plan->memory().required, solved.at),
                           fmt::format("{:.0f}", each.plan->time.tokens_per_second)},
                          Tone::plain});
  }
  const std::size_t more = solved.cards.size() - table.rows.size();
  doc.heading("GPUs that would do, least memory first");
  doc.table(std::move(table));
  if (more > 0) doc.line(fmt::format("and {} more (--json lists them)", more));
}

void add_models(Document& doc, const SolvedQuestion& solved) {
  if (solved.models.empty()) return;
  Table table{{{"model", "", false, kAlways},
               {"parameters", "", true, kAlways},
               {"strategy", "", false, kAlways},
               {"needs", unit_name(solved.at.unit), true, 6},
               {"tok/s", "", true, 8}},
              {}};
  for (const ModelFit& each : solved.models)
    table.rows.push_back({{each.name, format_count(each.size), each.plan.id(),
                           size_cell(each.plan.memory().required, solved.at),
                           fmt::format("{:.0f}", each.plan.time.tokens_per_second)},
                          Tone::plain});
  doc.heading("Largest models of the catalogue that fit");
  doc.table(std::move(table));
}

void add_ladder(Document& doc, const SolvedQuestion& solved) {
  if (solved.ladder.empty()) return;
  Table table{{{"on top", "", false, kAlways},
               {"tokens", "", true, kAlways},
               {"gained", "", true, kAlways},
               {"needs", unit_name(solved.at.unit), true, 6},
               {"host", unit_name(solved.at.unit), true, 4},
               {"step", "s", true, 5},
               {"tok/s", "", true, 8}},
              {}};
  for (const Rung& each : solved.ladder) {
    const Bytes host = each.plan.memory().host.total;
    table.rows.push_back(
        {{each.step + (each.options.empty() ? "" : " (" + each.options + ")"),
          each.tokens ? fmt::format("{}", *each.tokens) : "none",
          each.options.empty() ? "" : fmt::format("{:+}", each.gained),
          size_cell(each.plan.memory().required, solved.at), host.value > 0 ? size_cell(host, solved.at) : "",
          seconds_value(each.plan.time.step), fmt::format("{:.0f}", each.plan.time.tokens_per_second)},
         each.kept ? Tone::plain : Tone::faint});
  }
  doc.heading("What makes sequences longer, each on top of those before that lost nothing");
  doc.table(std::move(table));
  doc.line("positions are taken to reach as far (RoPE scaling): memory and time alone");
}

void add_answer(Document& doc, const FitReport& report, const SolvedQuestion& solved) {
  const Solution& first = solved.inverse.solutions.front();
  doc.heading(fmt::format("{}: {} with {}", capital(asked_words(solved.inverse.solve)),
                          value_words(solved.inverse.solve, *first.value, solved.at), first.plan.id()),
              Tone::good);
  doc.items(answer_sentences(solved));
  add_cards(doc, solved);
  add_models(doc, solved);
  add_ladder(doc, solved);
  doc.heading("Next");
  doc.line(next_command(report, solved));
  if (const Rung* longest = longest_rung(solved))
    doc.line(plan_command(report, solved, longest->plan.strategy, *longest->tokens));
}

/// The search's own verdict on the value that comes nearest.
void add_miss(Document& doc, const FitReport& report, const SolvedQuestion& solved) {
  const Solution& first = solved.inverse.solutions.front();
  doc.line();
  doc.paragraph("", fmt::format("Not even {}: {}",
                                value_text(solved.inverse.solve, first.next.value_or(1), solved.at.unit),
                                first.reason));
  add_ladder(doc, solved);
  if (const Rung* longest = longest_rung(solved)) {
    doc.heading("Next");
    doc.line(plan_command(report, solved, longest->plan.strategy, *longest->tokens));
  }
  if (!solved.instead) return;
  add_verdict(doc, {.question = solved.at,
                    .answer = *solved.instead,
                    .options = report.options,
                    .arguments = report.arguments,
                    .details = solved.details});
  add_models(doc, solved);
}

void add_several(Document& doc, const FitReport& report) {
  doc.heading("Why no more and no less");
  for (const SolvedQuestion& each : report.solved)
    doc.items(
        {fmt::format("{}: {}", asked_words(each.inverse.solve), each.inverse.solutions.front().reason)});
  doc.heading("Next");
  for (const SolvedQuestion& each : report.solved)
    if (each.inverse.fits()) doc.line(next_command(report, each));
  const std::string first(to_name(report.solved.front().inverse.solve));
  doc.line("  " + command_line(with_options(report.arguments, {{"--solve", first}})));
}

/// The report's header, at the answer where one thing is asked for.
void add_question(Document& doc, const FitReport& report) {
  const SolvedQuestion& first = report.solved.front();
  const bool one = report.solved.size() == 1;
  Answer shown;
  shown.plans.push_back(first.inverse.solutions.front().plan);
  shown.warnings = report.warnings;
  Options options = report.options;
  if (one) options.given.insert(options.given.end(), {"--micro-batch", "--seq", "--gpus"});
  add_header(doc, {one ? first.at : report.question, shown, options, report.arguments, {}, {}});
}

std::vector<CsvRecord> csv_records(const FitReport& report) {
  std::vector<CsvRecord> records{{"solve", "strategy", "value", "next", "limit", "required_bytes",
                                  "host_bytes", "step_seconds", "tokens_per_second", "reason"}};
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  for (const SolvedQuestion& solved : report.solved)
    for (const Solution& each : solved.inverse.solutions)
      records.push_back(
          {std::string(to_name(solved.inverse.solve)), each.plan.id(), number(each.value), number(each.next),
           std::string(to_name(each.limit)), number(each.plan.memory().required.value),
           number(each.plan.memory().host.total.value), fmt::format("{:.6g}", each.plan.time.step.value),
           fmt::format("{:.6g}", each.plan.time.tokens_per_second), each.reason});
  return records;
}

/// One question: a line per strategy. Several: a line per question.
Table fit_table(const FitReport& report) {
  return report.solved.size() == 1 ? strategies_of(report.solved.front()) : questions_of(report);
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
    case Solve::memory: return "smallest GPU";
    case Solve::host_memory: return "smallest host memory";
  }
  return "";
}

std::string value_cell(Solve solve, std::int64_t value) {
  return solve == Solve::model ? format_count(Elements(value)) : fmt::format("{}", value);
}

Document fit_document(const FitReport& report) {
  const SolvedQuestion& first = report.solved.front();
  Document doc;
  add_question(doc, report);
  doc.line(), doc.line(header(report)), doc.line();
  doc.shown = Shown::both;
  doc.table(fit_table(report));
  doc.shown = Shown::text;
  if (report.solved.size() > 1)
    add_several(doc, report);
  else if (first.inverse.fits())
    add_answer(doc, report, first);
  else
    add_miss(doc, report, first);
  doc.records = csv_records(report);
  return doc;
}

}  // namespace zplan

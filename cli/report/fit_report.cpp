// The answers of `zplan fit`, as a document and as JSON.

#include "cli/report/fit_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/document/json_values.h"
#include "cli/document/text.h"
#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "cli/report/report_text.h"
#include "models/base/version.h"
#include "planner/search/scale.h"

namespace zplan {

namespace {

/// The names of one unknown.
struct SolveWords {
  Solve solve;
  std::string_view short_name, asked, unit;  ///< a column's heading, the question, the unit in JSON
};

const SolveWords& words_of(Solve solve) {
  static constexpr std::array<SolveWords, 7> kAll{
      {{Solve::micro_batch, "micro-batch", "largest micro-batch", "samples"},
       {Solve::sequence, "sequence", "longest sequence", "tokens"},
       {Solve::gpus, "GPUs", "fewest GPUs", "gpus"},
       {Solve::model, "model", "biggest model", "parameters"},
       {Solve::memory, "memory", "smallest GPU", "gib"},
       {Solve::host_memory, "host memory", "smallest host memory", "gib"},
       {Solve::vllm_memory, "vLLM's share", "largest share for vLLM", "percent"}}};
  return *std::ranges::find(kAll, solve, &SolveWords::solve);
}

bool in_gib(Solve solve) { return solve == Solve::memory || solve == Solve::host_memory; }

std::string unit_of(Solve solve, const Question& q) {
  if (in_gib(solve)) return unit_name(q.unit);
  return solve == Solve::sequence ? "tokens" : "";
}

std::string size_cell(Bytes size, const Question& q) { return format_bytes_value(size, q.unit); }
std::string host_cell(const Plan& plan, const Question& q) {
  return plan.memory().host.total.value > 0 ? size_cell(plan.memory().host.total, q) : "";
}
std::string speed_cell(const Plan& plan) { return fmt::format("{:.0f}", plan.time.tokens_per_second); }

/// A plan, and the question that it answers.
struct PlanAt {
  const Plan& plan;
  const Question& at;
};

/// Adds the columns of a plan's figures.
template <class Item, class PlanOf>
void add_plan(std::vector<Field<Item>>& fields, const Question& q, bool with_free, const PlanOf& plan_of) {
  const auto add = [&](Column column, std::string (*text)(const PlanAt&)) {
    fields.push_back({std::move(column), [=](const Item& each) { return text(plan_of(each)); }});
  };
  const std::string unit = unit_name(q.unit);
  add(number_column("needs", unit),
      [](const PlanAt& p) { return size_cell(p.plan.memory().required, p.at); });
  if (with_free)
    add(number_column("free", unit, 6), [](const PlanAt& p) {
      return size_cell(available(p.at.cluster, p.at.headroom) - p.plan.memory().required, p.at);
    });
  add(number_column("host", unit, 4), [](const PlanAt& p) { return host_cell(p.plan, p.at); });
  add(number_column("step", "s", 5), [](const PlanAt& p) { return seconds_value(p.plan.time.step); });
  add(number_column("tok/s", "", 8), [](const PlanAt& p) { return speed_cell(p.plan); });
}

/// Returns a value without its unit: "12", "8.1 B", "24".
std::string value_cell(Solve solve, std::int64_t value) {
  if (solve == Solve::vllm_memory) return fmt::format("{:.2f}", static_cast<double>(value) / 100);
  return solve == Solve::model ? format_count(Elements(value)) : fmt::format("{}", value);
}

/// Returns a value in a column: in the unit of the report where it is memory.
std::string shown_value(Solve solve, std::int64_t value, const Question& q) {
  return in_gib(solve) ? size_cell(kGiB * value, q) : value_cell(solve, value);
}

/// Returns a value with its unit: "12", "4096 tokens", "24.0 GiB".
std::string value_words(Solve solve, std::int64_t value, const Question& q) {
  if (in_gib(solve)) return format_bytes(kGiB * value, q.unit);
  if (solve == Solve::sequence) return fmt::format("{} tokens", value);
  return solve == Solve::model ? value_text(solve, value, q.unit) : value_cell(solve, value);
}

/// Returns a line per strategy. Where memory is asked for nothing is free, and that column is left out.
Table strategies_of(const SolvedQuestion& solved) {
  const Solve asked = solved.inverse.solve;
  const Question& at = solved.at;
  using S = const Solution&;
  std::vector<Field<Solution>> fields{
      {text_column("strategy"), [](S each) { return each.plan.id(); }},
      {number_column(std::string(words_of(asked).short_name), unit_of(asked, at)),
       [&](S each) { return each.value ? shown_value(asked, *each.value, at) : "none"; }}};
  add_plan(fields, at, asked != Solve::memory, [&at](S each) { return PlanAt{each.plan, at}; });
  fields.push_back({text_column("bound by", 9), [](S each) { return std::string(to_name(each.limit)); }});
  return table_of<Solution>(fields, solved.inverse.solutions,
                            [](S each) { return each.value ? Tone::plain : Tone::faint; });
}

/// Returns a line per question.
Table questions_of(const FitReport& report) {
  using S = const SolvedQuestion&;
  const auto first = [](S each) -> const Solution& { return each.inverse.solutions.front(); };
  std::vector<Field<SolvedQuestion>> fields{
      {text_column("asked for"), [](S each) { return std::string(words_of(each.inverse.solve).asked); }},
      {text_column("answer"),
       [=](S each) {
         const auto& value = first(each).value;
         return value ? value_words(each.inverse.solve, *value, each.at) : "none";
       }},
      {text_column("strategy"), [=](S each) { return first(each).plan.id(); }}};
  add_plan(fields, report.question, true, [=](S each) { return PlanAt{first(each).plan, each.at}; });
  fields.push_back(
      {text_column("bound by", 9), [=](S each) { return std::string(to_name(first(each).limit)); }});
  return table_of<SolvedQuestion>(fields, report.solved,
                                  [=](S each) { return first(each).value ? Tone::plain : Tone::faint; });
}

std::string capital(std::string_view words) {
  std::string text(words);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string header(const FitReport& report) {
  if (report.solved.size() == 1)
    return fmt::format("{}, by strategy", capital(words_of(report.solved.front().inverse.solve).asked));
  return "What the options leave open, one thing at a time";
}

/// Returns the options that turn the question into one that `strategy` answers with `value`.
OptionChanges options_of(const SolvedQuestion& solved, const Strategy& strategy, std::int64_t value) {
  OptionChanges options{{"--solve", ""}};
  for (auto& each : strategy_options(strategy)) options.push_back(std::move(each));
  const auto add = [&](const char* name, std::string text) { options.emplace_back(name, std::move(text)); };
  switch (solved.inverse.solve) {
    case Solve::micro_batch: add("--micro-batch", fmt::format("{}", value)); break;
    case Solve::sequence: add("--seq", fmt::format("{}", value)); break;
    case Solve::gpus:
      add("--gpus", fmt::format("{}", value));
      add("--nodes", solved.at.cluster.nodes > 1 ? fmt::format("{}", solved.at.cluster.nodes) : "");
      if (const Cluster& cluster = solved.at.cluster;
          !cluster.instance && cluster.host_memory_per_node != cluster.node.host_memory)
        add("--host-mem", fmt::format("{:g}", ratio(cluster.host_memory_per_node, kGiB)));
      break;
    case Solve::model: add("--model", fmt::format("{:g}B", static_cast<double>(value) / 1e9)); break;
    case Solve::memory: add("--mem", fmt::format("{}", value)); break;
    case Solve::host_memory: add("--host-mem", fmt::format("{}", value)); break;
    case Solve::vllm_memory:
      add("--vllm-memory", fmt::format("{:.2f}", static_cast<double>(value) / 100));
      break;
  }
  return options;
}

std::string plan_command(const FitReport& report, const SolvedQuestion& solved, const Strategy& strategy,
                         std::int64_t value) {
  return "  " + plan_command_line(report.arguments, options_of(solved, strategy, value));
}

std::string next_command(const FitReport& report, const SolvedQuestion& solved) {
  const Solution& first = solved.inverse.solutions.front();
  return plan_command(report, solved, first.plan.strategy, first.rounded.value_or(*first.value));
}

/// Returns the longest rung, where it is longer than the answer without any means; else null.
const Rung* longest_rung(const SolvedQuestion& solved) {
  const auto longest =
      std::ranges::max_element(solved.ladder, {}, [](const Rung& each) { return each.tokens.value_or(0); });
  if (longest == solved.ladder.end() || !longest->tokens) return nullptr;
  return *longest->tokens > solved.inverse.solutions.front().value.value_or(0) ? &*longest : nullptr;
}

/// "0.22 holds all 8 sequences of a generation at once; up to 0.40 fits".
std::string share_sentence(const EngineShares& shares, std::int64_t most) {
  const double upper = static_cast<double>(most) / 100;
  if (!shares.starts || *shares.starts > upper)
    return fmt::format(
        "vLLM starts from {:.2f} on, and no more than {:.2f} fits: another GPU, or --vllm-sleep",
        shares.starts.value_or(1), upper);
  if (!shares.holds_all || *shares.holds_all > upper)
    return fmt::format(
        "{:.2f} starts, up to {:.2f} fits, and not all {} sequences of a generation run at once",
        *shares.starts, upper, shares.wanted);
  return fmt::format("{:.2f} holds all {} sequences of a generation at once; up to {:.2f} fits",
                     *shares.holds_all, shares.wanted, upper);
}

std::vector<std::string> answer_sentences(const SolvedQuestion& solved) {
  const Solve asked = solved.inverse.solve;
  const Solution& first = solved.inverse.solutions.front();
  std::vector<std::string> sentences;
  if (first.rounded.value_or(*first.value) != *first.value)
    sentences.push_back(fmt::format("{} as a multiple of 128, which fits too",
                                    value_text(asked, *first.rounded, solved.at.unit)));
  sentences.push_back(first.reason);
  if (solved.shares) sentences.insert(sentences.begin(), share_sentence(*solved.shares, *first.value));
  sentences.insert(sentences.end(), first.plan.why.begin(), first.plan.why.end());
  if (const Rung* longest = longest_rung(solved))
    sentences.push_back(fmt::format("{} tokens with {} and the means above it in the ladder below",
                                    *longest->tokens, longest->step));
  return sentences;
}

void add_cards(Document& doc, const SolvedQuestion& solved) {
  if (solved.cards.empty()) return;
  const auto end = std::ranges::find_if(solved.cards, [](const CardFit& each) { return !each.plan; });
  const auto planned = static_cast<std::size_t>(end - solved.cards.begin());
  const std::span shown(solved.cards.data(), std::min(planned, kMostCards));
  const Question& at = solved.at;
  const std::string unit = unit_name(at.unit);
  doc.heading("GPUs that would do, least memory first");
  doc.table(table_of<CardFit>(
      {{text_column("GPU"), [](const CardFit& each) { return each.name; }},
       {number_column("memory", unit), [&](const CardFit& each) { return size_cell(each.memory, at); }},
       {text_column("strategy"), [](const CardFit& each) { return each.plan->id(); }},
       {number_column("needs", unit, 6),
        [&](const CardFit& each) { return size_cell(each.plan->memory().required, at); }},
       {number_column("tok/s", "", 8), [](const CardFit& each) { return speed_cell(*each.plan); }}},
      shown));
  const std::size_t more = solved.cards.size() - shown.size();
  if (more > 0) doc.line(fmt::format("and {} more (--json lists them)", more));
}

void add_models(Document& doc, const SolvedQuestion& solved) {
  if (solved.models.empty()) return;
  doc.heading("Largest models of the catalogue that fit");
  doc.table(table_of<ModelFit>(
      {{text_column("model"), [](const ModelFit& each) { return each.name; }},
       {number_column("parameters"), [](const ModelFit& each) { return format_count(each.size); }},
       {text_column("strategy"), [](const ModelFit& each) { return each.plan.id(); }},
       {number_column("needs", unit_name(solved.at.unit), 6),
        [&](const ModelFit& each) { return size_cell(each.plan.memory().required, solved.at); }},
       {number_column("tok/s", "", 8), [](const ModelFit& each) { return speed_cell(each.plan); }}},
      solved.models));
}

/// The three answers to the longest sequence: without loss of speed, with levers, with everything.
void add_lengths(Document& doc, const SolvedQuestion& solved) {
  if (solved.lengths.empty()) return;
  const Question& at = solved.at;
  const std::string unit = unit_name(at.unit);
  using L = const LengthRow&;
  doc.heading("How long, by what you are ready to change");
  doc.table(table_of<LengthRow>(
      {{text_column("with"), [](L each) { return each.means; }},
       {number_column("tokens"),
        [](L each) { return each.tokens ? fmt::format("{}", *each.tokens) : "none"; }},
       {text_column("strategy"), [](L each) { return each.plan.id(); }},
       {number_column("needs", unit, 6), [&](L each) { return size_cell(each.plan.memory().required, at); }},
       {number_column("host", unit, 4), [&](L each) { return host_cell(each.plan, at); }},
       {number_column("tok/s", "", 8), [](L each) { return speed_cell(each.plan); }}},
      solved.lengths, [](L each) { return each.tokens ? Tone::plain : Tone::faint; }));
  for (const LengthRow& each : solved.lengths)
    if (!each.options.empty()) doc.line(fmt::format("  {}: {}", each.means, each.options));
}

void add_ladder(Document& doc, const SolvedQuestion& solved) {
  if (solved.ladder.empty()) return;
  const Question& at = solved.at;
  const std::string unit = unit_name(at.unit);
  using R = const Rung&;
  doc.heading("What makes sequences longer, each on top of those before that lost nothing");
  doc.table(table_of<Rung>(
      {{text_column("on top"),
        [](R each) { return each.step + (each.options.empty() ? "" : " (" + each.options + ")"); }},
       {number_column("tokens"),
        [](R each) { return each.tokens ? fmt::format("{}", *each.tokens) : "none"; }},
       {number_column("gained"),
        [](R each) { return each.options.empty() ? "" : fmt::format("{:+}", each.gained); }},
       {number_column("needs", unit, 6), [&](R each) { return size_cell(each.plan.memory().required, at); }},
       {number_column("host", unit, 4), [&](R each) { return host_cell(each.plan, at); }},
       {number_column("step", "s", 5), [](R each) { return seconds_value(each.plan.time.step); }},
       {number_column("tok/s", "", 8), [](R each) { return speed_cell(each.plan); }}},
      solved.ladder, [](R each) { return each.kept ? Tone::plain : Tone::faint; }));
  doc.line("positions are taken to reach as far (RoPE scaling): memory and time alone");
}

void add_answer(Document& doc, const FitReport& report, const SolvedQuestion& solved) {
  const Solution& first = solved.inverse.solutions.front();
  doc.heading(fmt::format("{}: {} with {}", capital(words_of(solved.inverse.solve).asked),
                          value_words(solved.inverse.solve, *first.value, solved.at), first.plan.id()),
              Tone::good);
  add_lengths(doc, solved);
  doc.items(answer_sentences(solved));
  add_cards(doc, solved);
  add_models(doc, solved);
  add_ladder(doc, solved);
  doc.heading("Next");
  doc.line(next_command(report, solved));
  if (const Rung* longest = longest_rung(solved))
    doc.line(plan_command(report, solved, longest->plan.strategy, *longest->tokens));
}

/// Returns the report of what fits instead.
Report instead_of(const FitReport& report, const SolvedQuestion& solved) {
  return {.question = solved.at,
          .answer = *solved.instead,
          .options = report.options,
          .arguments = report.arguments,
          .details = solved.details};
}

/// Adds why nothing fits, and the verdict at the nearest value.
void add_miss(Document& doc, const FitReport& report, const SolvedQuestion& solved) {
  const Solution& first = solved.inverse.solutions.front();
  doc.line();
  doc.paragraph("", fmt::format("Not even {}: {}",
                                value_text(solved.inverse.solve, first.next.value_or(1), solved.at.unit),
                                first.reason));
  add_lengths(doc, solved);
  add_ladder(doc, solved);
  if (const Rung* longest = longest_rung(solved)) {
    doc.heading("Next");
    doc.line(plan_command(report, solved, longest->plan.strategy, *longest->tokens));
  }
  if (!solved.instead) return;
  add_verdict(doc, instead_of(report, solved));
  add_models(doc, solved);
}

void add_several(Document& doc, const FitReport& report) {
  doc.heading("Why no more and no less");
  for (const SolvedQuestion& each : report.solved)
    doc.items(
        {fmt::format("{}: {}", words_of(each.inverse.solve).asked, each.inverse.solutions.front().reason)});
  doc.heading("Next");
  for (const SolvedQuestion& each : report.solved)
    if (each.inverse.fits()) doc.line(next_command(report, each));
  const std::string first(to_name(report.solved.front().inverse.solve));
  doc.line("  " + command_line(with_options(report.arguments, {{"--solve", first}})));
}

/// Adds the header of the report: of the question at its answer where there is one unknown.
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

/// Returns a line per strategy for one question, else a line per question.
Table fit_table(const FitReport& report) {
  return report.solved.size() == 1 ? strategies_of(report.solved.front()) : questions_of(report);
}

}  // namespace

bool has_answer(const FitReport& report) {
  return std::any_of(report.solved.begin(), report.solved.end(),
                     [](const SolvedQuestion& each) { return each.inverse.fits(); });
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

namespace {

/// Returns the verdict in one sentence.
std::string brief_answer(const FitReport& report) {
  std::vector<std::string> answers;
  for (const SolvedQuestion& each : report.solved) {
    const Solution& first = each.inverse.solutions.front();
    answers.push_back(
        each.inverse.fits()
            ? fmt::format("{}: {} with {}", words_of(each.inverse.solve).asked,
                          value_words(each.inverse.solve, *first.value, each.at), first.plan.id())
            : fmt::format("{}: not even {}", words_of(each.inverse.solve).asked,
                          value_text(each.inverse.solve, first.next.value_or(1), each.at.unit)));
  }
  return capital(fmt::format("{}.", fmt::join(answers, "; ")));
}

/// Adds what fits where no value of the unknown does.
void add_brief_instead(Document& doc, const SolvedQuestion& solved, const Screen& screen) {
  if (!solved.instead || !solved.instead->alternative) return;
  add_verdict_sentence(doc, true, screen,
                       fmt::format("It fits with {} ({}).", solved.instead->alternative->id(),
                                   options_text(alternative_changes(*solved.instead))));
}

std::vector<std::string> fit_commands(const FitReport& report) {
  std::vector<std::string> commands;
  for (const SolvedQuestion& each : report.solved) {
    if (!each.inverse.fits() && each.instead)
      for (std::string& command : next_commands(instead_of(report, each)))
        commands.push_back(std::move(command));
    if (each.inverse.fits()) commands.push_back(next_command(report, each));
    if (const Rung* longest = longest_rung(each))
      commands.push_back(plan_command(report, each, longest->plan.strategy, *longest->tokens));
  }
  for (std::string& each : commands) each.erase(0, each.find_first_not_of(' '));
  return commands;
}

/// FitExtent holds how many rows and reasons an answer shows, and whether every rung of the ladder.
struct FitExtent {
  std::size_t rows{}, reasons{};
  bool has_ladder{true};
};

Document brief_fit_of(const FitReport& report, const Screen& screen, const FitExtent& extent) {
  const auto [rows, reasons, has_ladder] = extent;
  Document doc;
  const bool fits = has_answer(report);
  add_verdict_sentence(doc, fits, screen, brief_answer(report));
  if (report.solved.size() == 1) add_brief_instead(doc, report.solved.front(), screen);
  for (const std::string& each : report.warnings) doc.paragraph("! ", each);
  doc.line();
  const auto add_rows = [&doc, most = rows](Table table) {
    if (table.rows.size() > most) table.rows.resize(most);
    doc.table(std::move(table));
  };
  add_rows(fit_table(report));
  const SolvedQuestion& first = report.solved.front();
  if (report.solved.size() == 1) {
    if (std::ranges::any_of(first.lengths, [](const LengthRow& each) { return each.tokens.has_value(); }))
      add_lengths(doc, first);
    if (has_ladder) add_ladder(doc, first);
  }
  doc.line();
  std::vector<std::string> sentences;
  if (report.solved.size() > 1)
    for (const SolvedQuestion& each : report.solved)
      sentences.push_back(
          fmt::format("{}: {}", words_of(each.inverse.solve).asked, each.inverse.solutions.front().reason));
  else if (first.inverse.fits())
    sentences = answer_sentences(first);
  else
    sentences.push_back(first.inverse.solutions.front().reason);
  if (sentences.size() > reasons) sentences.resize(reasons);
  for (std::size_t i = 0; i < sentences.size(); ++i)
    doc.paragraph(i == 0 ? "  Why      " : "           ", sentences[i] + ".");
  add_commands(doc, fit_commands(report), screen);
  return doc;
}

}  // namespace

Document brief_fit_document(const FitReport& report, const Screen& screen) {
  Document doc;
  static constexpr FitExtent kExtents[]{{8, 3}, {6, 2}, {4, 2}, {3, 1}, {2, 0}, {3, 2, false}};
  for (const FitExtent& extent : kExtents) {
    doc = brief_fit_of(report, screen, extent);
    if (line_count(doc, screen) <= screen.lines) break;
  }
  return doc;
}

namespace {

Json figures_json(const Plan& plan) {
  return {{"strategy", plan.id()},
          {"required", plan.memory().required.value},
          {"host", plan.memory().host.total.value},
          {"step", plan.time.step.value},
          {"tokens_per_second", plan.time.tokens_per_second}};
}

Json solution_json(const Solution& solution) {
  Json out = figures_json(solution.plan);
  out["value"] = or_null(solution.value);
  out["next"] = or_null(solution.next);
  out["limit"] = name_json(solution.limit);
  out["reason"] = solution.reason;
  return out;
}

Json rejection_json(const Rejection& each) {
  return {{"id", strategy_id(each.strategy)}, {"reasons", each.reasons}};
}

Json card_json(const CardFit& each) {
  Json card = figures_json(*each.plan);
  card["name"] = each.name, card["memory_bytes"] = each.memory.value;
  return card;
}

Json catalogue_model_json(const ModelFit& each) {
  Json model = figures_json(each.plan);
  model["name"] = each.name, model["parameters"] = each.size.value;
  return model;
}

Json rung_json(const Rung& each) {
  Json rung = figures_json(each.plan);
  rung["means"] = each.step, rung["options"] = each.options;
  rung["value"] = or_null(each.tokens);
  rung["gained"] = each.gained, rung["kept"] = each.kept;
  return rung;
}

Json length_json(const LengthRow& each) {
  Json row = figures_json(each.plan);
  row["means"] = each.means, row["options"] = each.options, row["value"] = or_null(each.tokens);
  return row;
}

Json question_json(const SolvedQuestion& solved) {
  const Inverse& inverse = solved.inverse;
  Json out{{"solve", name_json(inverse.solve)},
           {"unit", std::string(words_of(inverse.solve).unit)},
           {"answer", inverse.fits() ? or_null(inverse.best()->value) : Json(nullptr)},
           {"strategy", inverse.fits() ? Json(inverse.best()->plan.id()) : Json(nullptr)},
           {"why", inverse.solutions.front().plan.why},
           {"solutions", json_list(inverse.solutions, solution_json)},
           {"rejected", json_list(inverse.rejected, rejection_json)},
           {"cards", json_list(solved.cards, card_json)},
           {"models", json_list(solved.models, catalogue_model_json)}};
  if (solved.shares)
    out["shares"] = {{"starts", or_null(solved.shares->starts)},
                     {"holds_all", or_null(solved.shares->holds_all)},
                     {"sequences", solved.shares->wanted}};
  if (!solved.lengths.empty()) out["lengths"] = json_list(solved.lengths, length_json);
  if (!solved.ladder.empty()) out["ladder"] = json_list(solved.ladder, rung_json);
  return out;
}

}  // namespace

Json fit_json(const FitReport& report) {
  return {{"schema", "zplan.fit/1"},
          {"zplan_version", std::string(version())},
          {"questions", json_list(report.solved, question_json)},
          {"warnings", report.warnings}};
}

}  // namespace zplan

#include "cli/report/brief.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/document/bar.h"
#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "cli/report/advice.h"
#include "cli/report/report_text.h"
#include "cli/report/script_settings.h"
#include "planner/explain/why.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/framework.h"
#include "planner/search/explore.h"
#include "planner/search/levers.h"

namespace zplan {

namespace {

/// Returns a command as lines of at most `width` columns, each but the last with a backslash for the shell.
/// Words in quotes stay whole.
std::vector<std::string> continued(const std::string& command, std::size_t width) {
  std::vector<std::string> words(1), lines(1);
  char quote = 0;
  for (const char c : command) {
    if (quote == 0 && c == ' ') {
      words.emplace_back();
      continue;
    }
    if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
    words.back() += c;
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t end = i + 1 < words.size() ? 2 : 0;  // " \\"
    const bool is_value = i > 0 && words[i - 1].starts_with("--") && !words[i].starts_with("--");
    const std::size_t next =
        is_value || i + 1 == words.size() || !words[i].starts_with("--") || words[i + 1].starts_with("--")
            ? 0
            : display_width(words[i + 1]) + 1;
    const std::size_t indent = lines.size() > 1 ? 2 : 0;
    const bool fits =
        display_width(lines.back()) + 1 + display_width(words[i]) + next + end + indent <= width;
    if (!lines.back().empty() && !fits && !is_value) {
      lines.back() += " \\";
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + words[i];
  }
  return lines;
}

/// Extent holds how many rows, reasons and notes, and how many lines of assumptions, an answer shows.
struct Extent {
  std::size_t rows{8}, reasons{2}, notes{2}, assumed{2};
};

std::string_view mark(bool fits, bool unicode) {
  if (unicode) return fits ? "\u2713" : "\u2717";
  return fits ? "+" : "x";
}

/// Returns "1,234" or, below 100, three digits.
std::string speed_text(double tokens_per_second) {
  return tokens_per_second < 100 ? fmt::format("{:.3g}", tokens_per_second)
                                 : group_digits(static_cast<std::int64_t>(tokens_per_second + 0.5));
}

std::string step_text(Seconds step) { return seconds_value(step) + " s"; }

// ---- the verdict

/// Returns a format in the language of `say`, filled in.
template <class... Values>
std::string phrase(const Say& say, const char* format, const Values&... values) {
  return fmt::vformat(say ? say(format) : format, fmt::make_format_args(values...));
}

std::string method_text(const Training& t, const Say& say) {
  const std::string method = t.method == Method::full   ? phrase(say, "full fine-tuning")
                             : t.method == Method::lora ? "LoRA"
                                                        : "QLoRA";
  return t.objective == Objective::sft ? method : phrase(say, "{} by {}", to_name(t.objective), method);
}

std::string cluster_text(const Question& q, const Say& say) {
  const Cluster& c = q.cluster;
  const std::string memory =
      c.gpu.name.find("GB") == std::string::npos ? phrase(say, " of {}", format_bytes(c.memory, q.unit)) : "";
  return c.gpus == 1 ? phrase(say, "one {}{}", c.gpu.name, memory)
                     : phrase(say, "{} x {}{}", group_digits(c.gpus), c.gpu.name, memory);
}

/// Returns what is planned: "8B, full fine-tuning on 5 x H100", or the recipe that says it.
std::string subject(const Report& report, const Say& say) {
  const Question& q = report.question;
  const std::string what =
      phrase(say, "{}, {}, on {}", q.model.name, method_text(q.training, say), cluster_text(q, say));
  if (report.options.recipes.empty()) return what;
  const std::string& file = report.options.recipes.front().file;
  return fmt::format("{} ({})", file.substr(file.rfind('/') + 1), what);
}

/// Returns "34.1 of 39.1 GiB per GPU (29.9 to 40.8), 2.46 s a step (1.96 to 3.60), 4,158 tokens/s"; in
/// brackets the ranges that held 80 % of comparable runs, where they are known.
std::string figures_text(const Plan& plan, const Question& q, const Say& say) {
  const PlanFigures figures = figures_of(plan, q);
  const auto size = [&](double bytes) {
    return format_bytes_value(Bytes(static_cast<std::int64_t>(bytes)), q.unit);
  };
  std::string text = phrase(say, "{} of {} per GPU", format_bytes_value(plan.memory().required, q.unit),
                            format_bytes(figures.available, q.unit));
  if (figures.peaks) {
    const Ends ends = figures.peaks->around(static_cast<double>(plan.memory().required.value));
    text += phrase(say, " ({} to {})", size(ends.low), size(ends.high));
  }
  if (plan.memory().host.total > Bytes{})
    text += phrase(say, ", {} of host memory per node", format_bytes(plan.memory().host.total, q.unit));
  text += phrase(say, ", {} a step", step_text(plan.time.step));
  if (figures.speeds) {
    const Ends ends = figures.speeds->of_time(plan.time.step.value);
    text += phrase(say, " ({} to {})", seconds_value(Seconds(ends.low)), seconds_value(Seconds(ends.high)));
  }
  return text + phrase(say, ", {} tokens/s", speed_text(plan.time.tokens_per_second));
}

/// Returns what a plan lacks: "needs 48.5 of 39.1 GiB per GPU", of the device, the host or at a moment.
std::string lack_text(const Plan& plan, const Question& q, const Say& say = {}) {
  const PlanFigures figures = figures_of(plan, q);
  const auto needs = [&](const char* format, Bytes needed, Bytes there) {
    return phrase(say, format, format_bytes_value(needed, q.unit), format_bytes(there, q.unit));
  };
  if (figures.missing.value > 0)
    return needs("needs {} of {} per GPU", plan.memory().required, figures.available);
  if (figures.host_missing.value > 0)
    return needs("needs {} of {} of host memory per node", figures.host_available + figures.host_missing,
                 figures.host_available);
  if (figures.short_moment == nullptr) return phrase(say, "does not fit");
  const std::string_view moment = moment_words(figures.short_moment->moment);
  for (const std::string& each : plan.why)
    if (each.starts_with(moment))
      return phrase(say, "lacks memory beside the steps: {}", each.substr(0, each.find(" (")));
  return phrase(say, "runs out of memory in {}", moment);
}

/// Returns whether a plan fits, and its figures or what it lacks.
std::string statement(const Plan& plan, const Report& report, const Say& say) {
  const Question& q = report.question;
  if (plan.fits)
    return phrase(say, report.found != nullptr ? "fastest with {}, {}" : "fits with {}, {}", plan.id(),
                  figures_text(plan, q, say));
  const bool is_nearest = !report.answer.fits() && &plan == &leading_plan(report);
  return phrase(say, is_nearest ? "does not fit. The nearest, {}, {}" : "does not fit with {}, which {}",
                plan.id(), lack_text(plan, q, say));
}

/// Returns what would fit where nothing does and the advice names nothing; empty where there is no such plan.
std::string alternative_text(const Report& report, const Say& say) {
  const auto& alternative = report.answer.alternative;
  if (report.answer.fits() || !alternative || !advised_commands(report).empty()) return "";
  return phrase(say, "It fits with {} ({}): {}", alternative->id(),
                options_text(alternative_changes(report.answer)),
                figures_text(*alternative, report.question, say));
}

void add_brief_verdict(Document& doc, const Report& report, const Screen& screen) {
  const Plan& plan = leading_plan(report);
  const Question& q = report.question;
  const Verdict verdict = verdict_of(plan, report);
  add_verdict_sentence(doc, plan.fits, screen, fmt::format("{}: {}.", verdict.subject, verdict.statement));
  if (plan.fits && plan.memory().required_high > q.cluster.usable_memory)
    doc.paragraph("! ",
                  fmt::format("The allocator may need up to {}, more than the GPU has.",
                              format_bytes(plan.memory().required_high, q.unit)),
                  Tone::bad, "!");
  if (!verdict.alternative.empty()) add_verdict_sentence(doc, true, screen, verdict.alternative + ".");
}

/// Adds what is advised; its command is the first of the next ones.
void add_brief_advice(Document& doc, const Report& report, const Screen& screen, std::size_t most) {
  std::size_t shown = 0;
  for (const AdviceLine& each : advice_lines(report)) {
    if (each.is_command || each.indented) continue;
    if (shown++ == most) return;
    const std::string sign(each.tone == Tone::good ? mark(true, screen.unicode) : ">");
    doc.paragraph(sign + " ", each.text + ".", each.tone, sign);
  }
}

/// Returns "10.9 days (8.0 days to 14.6 days), 33606 GPU-hours, 67212 at 2.00 per GPU-hour".
std::string run_text(const RunCost& cost) {
  const Ends wall = cost.speeds.of_time(cost.wall.value);
  std::string text =
      fmt::format("{} ({} to {}), {} GPU-hours", duration_text(cost.wall), duration_text(Seconds(wall.low)),
                  duration_text(Seconds(wall.high)), amount_text(cost.gpu_hours));
  if (cost.money)
    text += fmt::format(", {} at {} per GPU-hour", amount_text(*cost.money),
                        amount_text(*cost.money / cost.gpu_hours));
  return text;
}

/// Adds how long the run takes and what it costs, where the question has its tokens or samples; of what is
/// advised too.
void add_run(Document& doc, const Report& report) {
  const Plan* plan = report.answer.recommended();
  const Advised* advised = improving_advice(report);
  const auto now = plan == nullptr ? std::nullopt : run_cost(*plan, question_of(*plan, report));
  const auto then = advised == nullptr ? std::nullopt : run_cost(advised->plan(), advised->question);
  if (!now && !then) return;
  std::string text = fmt::format("The run: {} steps take {}", group_digits((now ? now : then)->steps),
                                 run_text(now ? *now : *then));
  if (now && then)
    text += fmt::format(
        "; faster: {}, {}", duration_text(then->wall),
        then->money ? amount_text(*then->money) + " in money" : amount_text(then->gpu_hours) + " GPU-hours");
  doc.paragraph("> ", text + ".", Tone::good, ">");
}

// ---- recipes and warnings

void add_recipes(Document& doc, const Report& report) {
  for (const Recipe& recipe : report.options.recipes) {
    std::vector<std::string> named, silent;
    for (const RecipeKey& each : recipe.not_planned) named.push_back(each.key);
    for (const RecipeSetting& each : recipe.settings)
      if (!each.unused.empty()) silent.push_back(each.key);
    if (!named.empty())
      doc.paragraph("! ", fmt::format("Not planned, may change memory or time: {}.", fmt::join(named, ", ")),
                    Tone::bad, "!");
    if (!silent.empty()) doc.paragraph("! ", fmt::format("Not used: {}.", fmt::join(silent, ", ")));
    if (!recipe.unknown.empty()) {
      std::vector<std::string> unknown;
      for (const RecipeKey& each : recipe.unknown) unknown.push_back(each.key);
      doc.paragraph("! ", fmt::format("Unknown to {} as to zplan: {}.", to_name(recipe.format),
                                      fmt::join(unknown, ", ")));
    }
  }
}

/// Returns the text up to the first break behind its third word, so that an assumption takes a few words.
std::string first_part(const std::string& text) {
  std::size_t third = 0;
  for (int i = 0; i < 3 && third != std::string::npos; ++i) third = text.find(' ', third + 1);
  if (third == std::string::npos) return text;
  std::size_t end = text.size();
  for (const std::string_view stop : {": ", "; ", " (", ", where", ", usual", ", of which"})
    end = std::min(end, text.find(stop, third));
  return text.substr(0, end);
}

void add_warnings(Document& doc, const Report& report, std::size_t most) {
  const std::vector<std::string>& all = report.answer.warnings;
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) doc.paragraph("! ", all[i], Tone::plain, "!");
  if (all.size() > most) doc.line(fmt::format("! {} more warnings: --verbose", all.size() - most));
}

// ---- the table

/// One line of the table: a plan, or several that miss alike.
struct BriefRow {
  const Plan* plan{};
  const Found* found{};
  bool fits{};
};

constexpr std::size_t kMostCompared = 8;

/// Returns the plans of the table: those that fit, then misses, plain ones first. A comparison keeps its
/// order, and up to eight strategies of it are shown on any screen.
std::vector<BriefRow> rows_of(const Report& report, std::size_t most) {
  if (report.comparison != nullptr) most = std::max(most, kMostCompared);
  std::vector<BriefRow> rows;
  if (report.found != nullptr && !report.found->best.empty()) {
    for (const Found& each : report.found->best) rows.push_back({&each.plan, &each, true});
  } else {
    for (const Plan* each : plans_in_order(report)) rows.push_back({each, nullptr, each->fits});
    const Plan* nearest = &leading_plan(report);
    const auto rank = [&](const BriefRow& row) {
      return row.fits ? 0 : row.plan == nearest ? 1 : is_plain(*row.plan) ? 2 : 3;
    };
    if (report.comparison == nullptr)
      std::ranges::stable_sort(rows, [&](const BriefRow& a, const BriefRow& b) { return rank(a) < rank(b); });
  }
  // One miss at least is shown: by how much the next does not fit.
  if (rows.size() > most && most > 1) {
    const auto miss = std::ranges::find_if(rows, [](const BriefRow& row) { return !row.fits; });
    if (miss != rows.end() && miss - rows.begin() >= static_cast<std::ptrdiff_t>(most))
      std::iter_swap(miss, rows.begin() + static_cast<std::ptrdiff_t>(most) - 1);
  }
  if (rows.size() > most) rows.resize(most);
  return rows;
}

std::array<double, kBarParts> bar_parts(const Plan& plan) {
  const Breakdown parts = breakdown(plan);
  const auto size = [](Bytes bytes) { return static_cast<double>(bytes.value); };
  return {size(parts.parameters), size(parts.gradients), size(parts.optimizer),
          size(parts.activations + parts.buffers), size(parts.overhead)};
}

std::string over_text(const Plan& plan, const Question& q) {
  const Bytes missing = shortage(plan, q);
  if (missing.value > 0) return "+" + format_bytes_value(missing, q.unit);
  return plan.fits ? "" : verdict(plan, q);
}

Table brief_table(const Report& report, const std::vector<BriefRow>& rows, const Screen& screen,
                  std::size_t bar_width) {
  const Question& q = report.question;
  const std::string unit = unit_name(q.unit);
  const double limit = static_cast<double>(available(q.cluster, q.headroom).value);
  const Plan* recommended = report.answer.recommended();
  using R = const BriefRow&;
  const auto any = [&](auto&& holds) { return std::ranges::any_of(rows, holds); };
  std::vector<Field<BriefRow>> fields{
      {text_column(""), [&](R row) { return std::string(mark(row.fits, screen.unicode)); }},
      {text_column("strategy"), [](R row) { return row.plan->id(); }}};
  const bool batches = report.found != nullptr || !q.space.micro_batch_size;
  if (batches)
    fields.push_back({number_column("batch", "", 40), [](R row) {
                        const Strategy& s = row.plan->strategy;
                        return s.gradient_accumulation_steps == 1
                                   ? fmt::format("{}", s.micro_batch_size)
                                   : fmt::format("{}x{}", s.micro_batch_size, s.gradient_accumulation_steps);
                      }});
  fields.push_back({number_column(unit + "/GPU"),
                    [&](R row) { return format_bytes_value(row.plan->memory().required, q.unit); }});
  if (bar_width > 0)
    fields.push_back({text_column("", 20), [&, limit, bar_width](R row) {
                        return bar(bar_parts(*row.plan), limit, bar_width, bar_glyphs(screen.unicode));
                      }});
  if (any([](R row) { return !row.fits; }))
    fields.push_back({text_column("over", 50), [&](R row) { return over_text(*row.plan, q); }});
  if (any([](R row) { return row.plan->memory().host.total > Bytes{}; }))
    fields.push_back({number_column("host", "", 60), [&](R row) {
                        const Bytes host = row.plan->memory().host.total;
                        return host > Bytes{} ? format_bytes_value(host, q.unit) : std::string("-");
                      }});
  fields.push_back({number_column("step s"), [](R row) { return seconds_value(row.plan->time.step); }});
  fields.push_back(
      {number_column("tokens/s"), [](R row) { return speed_text(row.plan->time.tokens_per_second); }});
  if (report.found != nullptr)
    fields.push_back({number_column("", "", 30), [&](R row) {
                        if (row.found == nullptr || row.found == &report.found->best.front())
                          return std::string();
                        return row.found->ties()
                                   ? std::string("a tie")
                                   : fmt::format("-{:.0f} %", (1 - row.found->share_of_best) * 100);
                      }});
  return table_of<BriefRow>(fields, rows, [&](R row) {
    return row.plan == recommended ? Tone::strong : row.fits ? Tone::plain : Tone::faint;
  });
}

constexpr std::size_t kWidestBar = 30, kNarrowestBar = 8;

void add_bars(Document& doc, const Report& report, const Screen& screen, std::size_t most) {
  const std::vector<BriefRow> rows = rows_of(report, most);
  const auto width = static_cast<std::size_t>(screen.width);
  const std::size_t without = natural_width(brief_table(report, rows, screen, 0));
  const std::size_t room = width > without + 4 ? width - without - 4 : 0;
  const std::size_t bar_width = room < kNarrowestBar ? 0 : std::min(room, kWidestBar);
  doc.table(brief_table(report, rows, screen, bar_width));
  if (bar_width == 0) return;
  const BarGlyphs& glyphs = bar_glyphs(screen.unicode);
  const Question& q = report.question;
  doc.paragraph("  ",
                fmt::format("{} parameters  {} gradients  {} optimizer  {} activations, temporaries  {} "
                            "overhead, of {}",
                            glyphs.parts[0], glyphs.parts[1], glyphs.parts[2], glyphs.parts[3],
                            glyphs.parts[4], format_bytes(available(q.cluster, q.headroom), q.unit)),
                Tone::faint);
}

// ---- why not the others

constexpr std::size_t kMostIds = 5;

/// Returns ids with stages of one kind joined: "zero0-2, tp2+zero0-1 and 3 more".
std::string joined_ids(const std::vector<std::string>& ids) {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;
  for (const std::string& id : ids) {
    const std::size_t at = id.find("zero");
    const bool staged =
        at != std::string::npos && at + 4 < id.size() && id[at + 4] >= '0' && id[at + 4] <= '3';
    std::string kind = id;
    if (staged) kind[at + 4] = '#';
    auto found = std::ranges::find(kinds, kind, &std::pair<std::string, std::vector<int>>::first);
    if (found == kinds.end()) found = kinds.insert(found, {kind, {}});
    if (staged) found->second.push_back(id[at + 4] - '0');
  }
  std::vector<std::string> words;
  for (auto& [kind, stages] : kinds) {
    std::ranges::sort(stages);
    std::string word = kind;
    if (!stages.empty()) {
      const bool run =
          stages.size() > 1 && stages.back() - stages.front() == static_cast<int>(stages.size()) - 1;
      const std::string text = run ? fmt::format("{}-{}", stages.front(), stages.back())
                                   : fmt::format("{}", fmt::join(stages, "/"));
      word.replace(word.find('#'), 1, text);
    }
    words.push_back(std::move(word));
  }
  const std::size_t more = words.size() > kMostIds ? words.size() - kMostIds : 0;
  words.resize(words.size() - more);
  return fmt::format("{}{}", fmt::join(words, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// Returns the sentence that says on what a plan would fit, of those that explain it; else the last.
std::string remedy_of(const Plan& plan) {
  for (const std::string& each : plan.why)
    if (each.starts_with("would fit")) return "it " + each;
  return {};
}

/// Returns the reasons against the plans that a reader would have expected: the plain one that misses by
/// least.
std::vector<std::string> brief_reasons(const Report& report) {
  const Question& q = report.question;
  std::vector<const Plan*> near;
  for (const Plan& plan : report.answer.plans)
    if (!plan.fits && is_plain(plan) && &plan != &leading_plan(report)) near.push_back(&plan);
  std::ranges::stable_sort(near, {}, [&](const Plan* plan) { return shortage(*plan, q).value; });
  std::vector<std::string> lines;
  for (const Plan* plan : near) {
    std::vector<std::string> parts{lack_text(*plan, q)};
    if (plan->why.size() > 1 && shortage(*plan, q).value > 0) parts.push_back(plan->why[1]);
    if (std::string remedy = remedy_of(*plan); !remedy.empty()) parts.push_back(std::move(remedy));
    lines.push_back(fmt::format("{} {}.", plan->id(), fmt::join(parts, "; ")));
  }
  return lines;
}

std::string_view cause(FamilyOutcome outcome) {
  switch (outcome) {
    case FamilyOutcome::too_large: return "too large for the GPU";
    case FamilyOutcome::gaps: return "out of memory by the allocator's gaps";
    case FamilyOutcome::host_memory: return "too large for the host";
    case FamilyOutcome::illegal: return "not possible";
    case FamilyOutcome::slower: return "slower";
    case FamilyOutcome::not_looked_at: return "not looked at";
    case FamilyOutcome::best: break;
  }
  return "";
}

/// Returns the plans of a search that need less memory at less speed, of frameworks with stages; "" where
/// there is none.
std::string less_memory(const Report& report) {
  const Exploration& found = *report.found;
  if (!found.layouts || found.front.size() < 2) return "";
  std::vector<std::string> plans;
  for (auto each = found.front.begin() + 1; each != found.front.end(); ++each)
    plans.push_back(fmt::format("{} {} at {:.0f} % of the speed", each->plan.id(),
                                format_bytes(each->plan.memory().required_low, report.question.unit),
                                each->share_of_best * 100));
  return fmt::format("live memory of slower plans: {}", fmt::join(plans, ", "));
}

/// Returns the strategies of a search of which nothing was chosen, by cause; "" where none is left.
std::string lost_by_cause(const Report& report) {
  std::map<std::string, FamilyOutcome> outcomes;
  std::vector<std::string> order;
  for (const FamilyReport& each : report.found->families) {
    const std::string id = short_id(each.name);
    const bool won =
        std::ranges::any_of(report.found->best, [&](const Found& best) { return short_id(best.name) == id; });
    if (won) continue;
    const auto [at, is_new] = outcomes.emplace(id, each.outcome);
    if (is_new) order.push_back(id);
    at->second = std::min(at->second, each.outcome);
  }
  std::vector<std::string> groups;
  for (const FamilyOutcome outcome : {FamilyOutcome::slower, FamilyOutcome::too_large, FamilyOutcome::gaps,
                                      FamilyOutcome::host_memory, FamilyOutcome::illegal}) {
    std::vector<std::string> ids;
    for (const std::string& id : order)
      if (outcomes.at(id) == outcome) ids.push_back(id);
    if (!ids.empty()) groups.push_back(fmt::format("{}: {}", cause(outcome), joined_ids(ids)));
  }
  return fmt::format("{}", fmt::join(groups, "; "));
}

// ---- peak, training, assumptions, next

const HeaderBlock* block_named(const std::vector<HeaderBlock>& blocks, std::string_view label) {
  const auto at = std::ranges::find(blocks, label, &HeaderBlock::label);
  return at == blocks.end() || at->lines.empty() ? nullptr : &*at;
}

/// Returns the sentence about the peak, of those that explain the leading plan.
std::string peak_of(const Plan& plan) {
  constexpr std::string_view kPeak = "the peak is in ";
  for (const std::string& each : plan.why)
    if (each.starts_with(kPeak)) return each.substr(kPeak.size());
  return {};
}

/// Returns what each stage of a pipeline needs, which of them most, and which is through last; empty for one
/// stage.
std::string stages_of(const Plan& plan, const Question& q) {
  constexpr std::size_t kMostListed = 8;
  if (plan.ranks.size() == 1) return {};
  std::vector<std::string> needs;
  for (const RankPlan& each : plan.ranks) {
    const std::string text = format_bytes(each.memory.required, q.unit);
    needs.push_back(&each == &plan.ranks.back() ? text : text.substr(0, text.find(' ')));
  }
  if (needs.size() > kMostListed)
    needs = {needs.front(), needs[1], "…", needs[needs.size() - 2], needs.back()};
  return fmt::format("{}: stage {} needs most, stage {} is through last", fmt::join(needs, ", "),
                     plan.neediest().place.stage, plan.slowest().place.stage);
}

std::string assumed_text(const Report& report, const std::vector<HeaderBlock>& blocks) {
  std::vector<std::string> parts;
  const Question& q = report.question;
  if (q.model.source == ModelSource::size) parts.push_back(first_part(q.model.origin));
  if (const HeaderBlock* assumed = block_named(blocks, "Assumed"))
    for (const std::string& each : assumed->lines)
      if (!each.starts_with("defaults of options") && !each.starts_with("bucket sizes") &&
          !each.starts_with("overlap_comm"))
        parts.push_back(first_part(each));
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// Adds text of at most `lines` lines; what does not fit is cut, and --verbose named.
void add_cut(Document& doc, const std::string& label, const std::string& text, const Screen& screen,
             std::size_t lines) {
  if (text.empty() || lines == 0) return;
  const std::size_t room = lines * (static_cast<std::size_t>(screen.width) - label.size()) - lines * 8;
  constexpr std::string_view kMore = " ... (--verbose)";
  std::string shown = text;
  if (display_width(text) > room) {
    shown = text.substr(0, room - kMore.size());
    shown.resize(shown.rfind(' ') == std::string::npos ? shown.size() : shown.rfind(' '));
    while (!shown.empty() && (shown.back() == ';' || shown.back() == ',')) shown.pop_back();
    shown += kMore;
  }
  doc.paragraph(label, shown);
}

}  // namespace

Verdict verdict_of(const Plan& plan, const Report& report, const Say& say) {
  return {.subject = subject(report, say),
          .statement = statement(plan, report, say),
          .alternative = alternative_text(report, say),
          .remedy = plan.fits ? "" : remedy_of(plan)};
}

void add_verdict_sentence(Document& doc, bool fits, const Screen& screen, const std::string& text) {
  const std::string sign(mark(fits, screen.unicode));
  doc.paragraph(sign + " ", text, fits ? Tone::good : Tone::bad, sign);
}

void add_commands(Document& doc, const std::vector<std::string>& commands, const Screen& screen) {
  constexpr std::string_view kFirst = "  Next     ";
  bool is_first = true;
  for (const std::string& command : commands) {
    if (command.empty()) continue;
    std::string indent(is_first ? kFirst : std::string(kFirst.size(), ' '));
    is_first = false;
    for (std::string& part : continued(command, static_cast<std::size_t>(screen.width) - kFirst.size())) {
      doc.line(indent + part);
      indent = std::string(kFirst.size() + 2, ' ');
    }
  }
}

namespace {

void add_next(Document& doc, const Report& report, const Screen& screen, std::size_t notes) {
  add_commands(doc, next_commands(report), screen);
  const Plan* plan = report.answer.recommended();
  if (plan == nullptr || notes == 0) return;
  std::vector<std::string> all = config_notes(*plan, report);
  // The settings say how it checkpoints.
  std::erase_if(all, [](const std::string& each) {
    return each.starts_with("activation checkpointing is the training script's");
  });
  const std::string_view between = spec(plan->framework).has_stages ? " " : ", ";
  if (report.options.recipes.empty())
    add_cut(doc, "  Script   ",
            fmt::format("{}",
                        fmt::join(script_calls(script_of(*plan, report), report.question.training.objective),
                                  between)),
            screen, notes + 2);
  const std::string_view first = report.options.recipes.empty() ? "           " : "  Script   ";
  for (std::size_t i = 0; i < std::min(notes, all.size()); ++i)
    doc.paragraph(std::string(i == 0 ? first : "           "), all[i]);
}

void add_reasons(Document& doc, const Report& report, const Screen& screen, std::size_t most) {
  if (report.found != nullptr) {
    if (report.found->layouts && most > 0)
      add_cut(doc, "  Searched ", layouts_line(*report.found->layouts) + ".", screen, 2);
    if (const std::string less = less_memory(report); !less.empty() && most > 0)
      add_cut(doc, "  Less     ", less + ".", screen, 2);
    const std::string lost = report.found->layouts ? "" : lost_by_cause(report);
    if (!lost.empty() && most > 0) doc.paragraph("  Lost     ", lost + ".");
    return;
  }
  const bool compares = report.comparison != nullptr;
  const std::vector<std::string> reasons = compares ? comparison_sentences(report) : brief_reasons(report);
  const std::string first = compares ? "  Compared " : "  Why not  ";
  for (std::size_t i = 0; i < std::min(compares ? most + 1 : most, reasons.size()); ++i)
    doc.paragraph(i == 0 ? first : std::string(first.size(), ' '), reasons[i]);
}

Document brief_of_extent(const Report& report, const Screen& screen, const Extent& extent) {
  Document doc;
  const std::vector<HeaderBlock> blocks = header_blocks(report);
  add_brief_verdict(doc, report, screen);
  add_brief_advice(doc, report, screen, std::max<std::size_t>(1, extent.notes));
  add_run(doc, report);
  add_recipes(doc, report);
  add_warnings(doc, report, extent.notes);
  doc.line();
  add_bars(doc, report, screen, extent.rows);
  doc.line();
  if (const std::string peak = peak_of(leading_plan(report)); !peak.empty())
    add_cut(doc, "  Peak     ", peak, screen, 2);
  if (const std::string stages = stages_of(leading_plan(report), report.question); !stages.empty())
    add_cut(doc, "  Stages   ", stages, screen, 2);
  const std::vector<std::string> reaches = reach_lines(report);
  for (std::size_t i = 0; i < reaches.size(); ++i)
    doc.paragraph(i == 0 ? "  Room     " : "           ", reaches[i]);
  add_reasons(doc, report, screen, extent.reasons);
  if (const HeaderBlock* training = block_named(blocks, "Training"))
    add_cut(doc, "  Trains   ", training->lines.front(), screen, 2);
  add_cut(doc, "  Assumed  ", assumed_text(report, blocks), screen, extent.assumed);
  add_next(doc, report, screen, extent.notes);
  return doc;
}

}  // namespace

std::size_t line_count(const Document& doc, const Screen& screen) {
  const std::string text = text_of(doc, {.width = screen.width});
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

Document brief_document(const Report& report, const Screen& screen) {
  static constexpr Extent kExtents[]{{8, 2, 2, 2}, {6, 2, 2, 2}, {6, 1, 2, 2}, {5, 1, 1, 2},
                                     {4, 1, 1, 1}, {3, 1, 1, 1}, {3, 0, 1, 1}, {2, 0, 0, 0}};
  Document doc;
  for (const Extent& extent : kExtents) {
    doc = brief_of_extent(report, screen, extent);
    if (line_count(doc, screen) <= screen.lines) break;
  }
  return doc;
}

}  // namespace zplan

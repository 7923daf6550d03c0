#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/document/json_values.h"
#include "cli/document/table.h"
#include "cli/options/strategy_words.h"
#include "cli/report/explain.h"
#include "cli/report/report_text.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

std::string share_text(const Found& found, bool first) {
  if (first) return "fastest";
  return found.ties() ? "tie" : fmt::format("-{:.0f} %", (1 - found.share_of_best) * 100);
}

Table found_table(const std::vector<Found>& all, const Question& q) {
  const std::string unit = unit_name(q.unit);
  const auto size = [&](Bytes bytes) { return format_bytes_value(bytes, q.unit); };
  using F = const Found&;
  return table_of<Found>(
      {{text_column("strategy"), [](F each) { return each.plan.id(); }},
       {text_column("buckets", 4),
        [](F each) { return each.name.buckets ? std::string(to_name(*each.name.buckets)) : "-"; }},
       {number_column("batch"),
        [](F each) { return fmt::format("{}", each.plan.strategy.micro_batch_size); }},
       {number_column("accum", "", 15),
        [](F each) { return fmt::format("{}", each.plan.strategy.gradient_accumulation_steps); }},
       {number_column("live", unit), [&](F each) { return size(each.plan.memory().required_low); }},
       {number_column("host", unit, 10),
        [&](F each) {
          const Bytes host = each.plan.memory().host.total;
          return host > Bytes{} ? size(host) : "-";
        }},
       {number_column("sent", "GB", 3),
        [](F each) {
          return format_bytes_value(each.plan.communication().wire_bytes_per_gpu(), ByteUnit::gb);
        }},
       {number_column("step", "s", 9), [](F each) { return seconds_value(each.plan.time.step); }},
       {number_column("tok/s"),
        [](F each) { return fmt::format("{:.0f}", each.plan.time.tokens_per_second); }},
       {number_column(""), [&](F each) { return share_text(each, &each == all.data()); }}},
      all, [&](F each) { return &each == all.data() ? Tone::strong : Tone::plain; });
}

/// Returns the strategies of which nothing was chosen, with the reason of the family that came nearest.
std::vector<std::pair<std::string, std::string>> lost(const Exploration& found) {
  std::vector<std::pair<std::string, std::string>> all;
  std::map<std::string, const FamilyReport*> nearest;
  const auto need = [](const FamilyReport& each) {
    return each.best ? each.best->required_low : each.states;
  };
  for (const FamilyReport& each : found.families) {
    const std::string id = short_id(each.name);
    const bool won =
        std::ranges::any_of(found.best, [&](const Found& best) { return short_id(best.name) == id; });
    if (won) continue;
    const FamilyReport*& kept = nearest[id];
    if (kept == nullptr) all.emplace_back(id, "");
    if (kept == nullptr || need(each) < need(*kept)) kept = &each;
  }
  for (auto& [id, reason] : all) reason = nearest[id]->reason;
  return all;
}

void add_lost(Document& doc, const Exploration& found) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const auto& [id, reason] : lost(found)) {
    const auto at = std::find_if(by_reason.begin(), by_reason.end(),
                                 [&why = reason](const auto& each) { return each.first == why; });
    if (at == by_reason.end())
      by_reason.push_back({reason, {id}});
    else
      at->second.push_back(id);
  }
  if (by_reason.empty()) return;
  doc.heading("Why not the others");
  for (const auto& [reason, ids] : by_reason)
    doc.paragraph("  ", fmt::format("{}: {}", fmt::join(ids, ", "), reason));
}

/// Plans that are as fast as the winner, within the widest of their ties.
struct Ties {
  std::vector<std::string> ids;
  Tie widest;
  void add(std::string id, const Tie& tie) {
    ids.push_back(std::move(id));
    if (tie.within > widest.within) widest = tie;
  }
};

/// Returns the strategies, and variants of the winner's, that tie with it.
Ties ties_of(const Exploration& found, const Question& question) {
  const Found& best = found.best.front();
  const auto tie_with = [&](const FamilyName& name) {
    return speed_tie(best.name.framework, name.framework, question.cluster.gpu.name);
  };
  Ties ties;
  for (const Found& each : found.best)
    if (&each != &best && each.ties()) ties.add(each.plan.id(), tie_with(each.name));
  for (const FamilyReport& each : found.families) {
    if (each.outcome != FamilyOutcome::slower || short_id(each.name) != short_id(best.name)) continue;
    const Tie tie = tie_with(each.name);
    if (each.best->tokens_per_second <= best.plan.time.tokens_per_second * (1 - tie.within)) continue;
    ties.add(plan_id(each.name.framework, each.name.strategy) +
                 (each.name.buckets ? fmt::format(" with {} buckets", to_name(*each.name.buckets)) : ""),
             tie);
  }
  return ties;
}

void add_ties(Document& doc, const Exploration& found, const Question& question) {
  const Ties ties = ties_of(found, question);
  if (ties.ids.empty()) return;
  doc.line();
  doc.paragraph("", fmt::format("As fast, for all that is known ({}): {}", tie_text(ties.widest),
                                fmt::join(ties.ids, ", ")));
}

Json buckets_json(const FamilyName& name) { return name.buckets ? name_json(*name.buckets) : Json(nullptr); }

Json family_json(const FamilyReport& family) {
  Json out{{"id", plan_id(family.name.framework, family.name.strategy)},
           {"framework", name_json(family.name.framework)},
           {"activation_checkpointing", name_json(family.name.strategy.checkpointing)},
           {"buckets", buckets_json(family.name)},
           {"outcome", name_json(family.outcome)},
           {"reason", family.reason},
           {"candidates", family.candidates},
           {"largest_micro_batch", family.largest_micro_batch}};
  if (!family.best) return out;
  out["micro_batch_size"] = family.best->micro_batch_size;
  out["gradient_accumulation_steps"] = family.best->gradient_accumulation_steps;
  out["required_low"] = family.best->required_low.value;
  out["host"] = family.best->host.value;
  out["tokens_per_second"] = family.best->tokens_per_second;
  return out;
}

std::vector<CsvRecord> family_records(const Exploration& found) {
  std::vector<CsvRecord> records{{"id", "framework", "activation_checkpointing", "buckets", "outcome",
                                  "micro_batch_size", "gradient_accumulation_steps", "required_low", "host",
                                  "tokens_per_second", "reason"}};
  for (const FamilyReport& each : found.families) {
    const Json family = family_json(each);
    CsvRecord record;
    for (const std::string& name : records.front()) record.push_back(csv_text(family.value(name, Json())));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

Json found_json(const Found& found) {
  const Strategy& s = found.plan.strategy;
  return {{"id", found.plan.id()},
          {"framework", name_json(found.name.framework)},
          {"activation_checkpointing", name_json(s.checkpointing)},
          {"buckets", buckets_json(found.name)},
          {"micro_batch_size", s.micro_batch_size},
          {"gradient_accumulation_steps", s.gradient_accumulation_steps},
          {"global_batch_size", s.global_batch_size()},
          {"required_low", found.plan.memory().required_low.value},
          {"host", found.plan.memory().host.total.value},
          {"wire_bytes_per_gpu", found.plan.communication().wire_bytes_per_gpu().value},
          {"step", found.plan.time.step.value},
          {"tokens_per_second", found.plan.time.tokens_per_second},
          {"share_of_fastest", found.share_of_best},
          {"tie", found.ties()},
          {"tie_within", found.tie_within}};
}

std::string layouts_line(const LayoutCounts& counts) {
  const auto number = [](std::size_t count) { return group_digits(static_cast<std::int64_t>(count)); };
  return fmt::format(
      "{} plans of legal layouts: {} are too large, {} cannot be faster or need less, {} were simulated{}",
      number(counts.seen), number(counts.too_large), number(counts.slower), number(counts.simulated),
      counts.not_looked_at > 0 ? fmt::format(", {} not looked at", number(counts.not_looked_at)) : "");
}

std::string searched_line(const Report& report) {
  const Exploration& found = *report.found;
  std::vector<std::string> varied;
  for (const auto& [option, what] : {std::pair{"--framework", "framework"},
                                     {"--zero", "stage"},
                                     {"--tp", "tensor parallelism"},
                                     {"--offload", "offload"},
                                     {"--checkpointing", "checkpointing"},
                                     {"--buckets", "bucket sizes"},
                                     {"--micro-batch", "micro-batch"}})
    if (!report.options.has(option) ||
        (std::string_view(option) == "--micro-batch" && !report.options.space.micro_batch_size))
      varied.emplace_back(what);
  return fmt::format("{}{} plans in {} families that differ in {}{}",
                     found.layouts ? layouts_line(*found.layouts) + "; " : "",
                     group_digits(static_cast<std::int64_t>(found.candidates)), found.families.size(),
                     fmt::join(varied, ", "), found.stopped ? "; stopped before the end" : "");
}

void add_search(Document& doc, const Report& report) {
  const Exploration& found = *report.found;
  const Question& q = report.question;
  doc.line(fmt::format("The fastest of each strategy, in {} per GPU",
                       format_bytes(available(q.cluster, q.headroom), q.unit)));
  doc.line();
  doc.shown = Shown::both;
  doc.table(found_table(found.best, q));
  doc.shown = Shown::text;
  add_ties(doc, found, q);
  if (found.front.size() > 1) {
    doc.heading("Less memory at less speed"), doc.line();
    doc.table(found_table(found.front, q));
  }
  doc.line();
  doc.paragraph("", "live: bytes in use at the worst moment; they fit with the gaps of PyTorch's allocator",
                Tone::faint);
  add_lost(doc, found);
  doc.records = family_records(found);
}

namespace {

Json layouts_json(const std::optional<LayoutCounts>& counts) {
  if (!counts) return nullptr;
  return {{"illegal_families", counts->illegal}, {"seen", counts->seen},
          {"too_large", counts->too_large},      {"slower", counts->slower},
          {"simulated", counts->simulated},      {"not_looked_at", counts->not_looked_at}};
}

}  // namespace

Json search_json(const Report& report) {
  const Exploration& found = *report.found;
  return {{"candidates", found.candidates},
          {"stopped", found.stopped},
          {"layouts", layouts_json(found.layouts)},
          {"best", json_list(found.best, found_json)},
          {"front", json_list(found.front, found_json)},
          {"families", json_list(found.families, family_json)}};
}

std::string short_id(const FamilyName& name) {
  Strategy s = name.strategy;
  s.checkpointing = Checkpointing::full;
  return plan_id(name.framework, s);
}

OptionChanges pinning_options(const Found& found, const Options& options) {
  const Strategy& s = found.plan.strategy;
  OptionChanges all = sharding_options(s);
  all.emplace_back("--checkpointing", to_name(s.checkpointing));
  all.emplace_back("--micro-batch", fmt::format("{}", s.micro_batch_size));
  for (auto& each : token_options(s)) all.push_back(std::move(each));
  if (found.name.framework != Training{}.framework || options.has("--framework"))
    all.emplace_back("--framework", std::string(to_name(found.name.framework)));
  if (found.name.buckets && (*found.name.buckets != Buckets::hf_auto || options.has("--buckets")))
    all.emplace_back("--buckets", std::string(to_name(*found.name.buckets)));
  if (s.gradient_accumulation_steps > 1 && !options.has("--global-batch"))
    all.emplace_back("--grad-accum", fmt::format("{}", s.gradient_accumulation_steps));
  return all;
}

}  // namespace zplan

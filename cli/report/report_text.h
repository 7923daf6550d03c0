#pragma once
// The report of plans as a document.

#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/options/command_line.h"
#include "cli/report/comparison.h"
#include "cli/report/explain.h"
#include "cli/report/report.h"
#include "models/base/json_reader.h"

namespace zplan {

/// Returns the report as a document for a terminal of `width` columns: model, cluster, training and
/// assumptions, the table of strategies, the verdict with its reasons, the next command. Its Markdown is the
/// table with all columns, or the comparison. Its CSV has a line per plan or, for `search`, per family of
/// plans.
[[nodiscard]] Document report_document(const Report& report, int width);

/// Returns a line of names, then one per plan.
[[nodiscard]] std::vector<CsvRecord> csv_records(const Report& report);

/// Adds every figure of a plan with its formula and source, and its traffic.
void add_explanation(Document& doc, const Plan& plan, const Report& report);

/// Adds the errors of the measurements that cover these plans, for each kind of plan once.
void add_accuracy(Document& doc, const std::vector<Coverage>& plans);

/// Lines above the table under one label, such as "Model" or "Assumed".
struct HeaderBlock {
  std::string label;
  std::vector<std::string> lines;
  bool bullets{};  ///< each line is an item of a list
};
/// Returns the blocks of recipe, model, cluster, training, search, assumptions and warnings; each may be
/// empty.
[[nodiscard]] std::vector<HeaderBlock> header_blocks(const Report& report);

void add_header(Document& doc, const Report& report);

/// Returns the strategies as a table of at most `width` characters, with every column where `width` is 0.
[[nodiscard]] Table strategies_table(const Report& report, int width);

/// The parts of a plan's required memory; they add up to it.
struct Breakdown {
  Bytes parameters, gradients, optimizer, activations, buffers, overhead;
};
[[nodiscard]] Breakdown breakdown(const Plan& plan);

/// Returns "fits", or what does not: "short", "host", "save".
[[nodiscard]] std::string verdict(const Plan& plan, const Question& question);

/// Adds the figures of `compare` side by side, and sentences about them.
void add_comparison(Document& doc, const Report& report, int width);

/// Returns what a comparison shows: the fastest plan, the one with least memory, where they trade places.
[[nodiscard]] std::vector<std::string> comparison_sentences(const Report& report);

/// Returns the range of the required memory that PyTorch's allocator leaves open, and whether its upper end
/// fits.
[[nodiscard]] std::string range_sentence(const Plan& plan, const Question& question);

/// True if a plan neither shards by tensor parallelism nor offloads.
[[nodiscard]] bool is_plain(const Plan& plan);

/// Strategies that cannot be trained for the same reason.
struct Impossible {
  std::string reason;
  std::vector<std::string> ids;
};
[[nodiscard]] std::vector<Impossible> impossible_plans(const Report& report);

/// Returns a line for each of Report::reaches: how far the trainer reaches, and what the same run takes under
/// the trainer beside it.
[[nodiscard]] std::vector<std::string> reach_lines(const Report& report);

/// Returns the options that turn the question into that of the answer's alternative.
[[nodiscard]] OptionChanges alternative_changes(const Answer& answer);

/// Returns the commands that come next: those of the plan, or of the alternative where nothing fits.
[[nodiscard]] std::vector<std::string> next_commands(const Report& report);

/// Adds the recommended plan and why, why others were not chosen, and the next command.
void add_verdict(Document& doc, const Report& report);

struct FamilyName;
struct Found;
struct LayoutCounts;

/// Adds the result of `zplan search`: the fastest plan of each strategy, plans that need less memory at less
/// speed, and why the others lost. Its CSV has a line per family of plans.
void add_search(Document& doc, const Report& report);

/// Returns the id that families of one strategy share, whatever their checkpointing and buckets.
[[nodiscard]] std::string short_id(const FamilyName& name);

/// Returns how many layouts a search looked at, and why it did not simulate the others.
[[nodiscard]] std::string layouts_line(const LayoutCounts& counts);
/// Returns how many plans were looked at, and in which settings they differ.
[[nodiscard]] std::string searched_line(const Report& report);

/// Returns "search" of the JSON report.
[[nodiscard]] Json search_json(const Report& report);

/// Returns a plan that a search found.
[[nodiscard]] Json found_json(const Found& found);

/// Returns the options that pin a plan that the search found.
[[nodiscard]] OptionChanges pinning_options(const Found& found, const Options& options);

}  // namespace zplan

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "cli/commands/commands.h"
#include "cli/options/request.h"
#include "cli/recipes/refusals.h"
#include "cli/report/lint_report.h"
#include "cli/report/report.h"
#include "models/base/json_reader.h"
#include "planner/explain/why.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

bool is_fixing(const Options& options) { return options.fix || !options.emit.empty(); }

LintOptions lint_options(const Options& options, const Environment& environment) {
  LintOptions lint;
  if (options.has("--config-style")) lint.style = options.config_style;
  if (options.has("--gpus")) lint.gpus = options.cluster.gpus;
  if (options.has("--nvme-path")) lint.nvme_path = options.nvme_path;
  lint.release = options.training.deepspeed;
  if (options.space.tensor_parallel.size() > 1)
    throw InputError("--tp", "several degrees with lint", "accepted: one");
  if (!options.space.tensor_parallel.empty()) lint.tensor_parallel = options.space.tensor_parallel.front();
  if (options.space.sequence_parallel.size() > 1)
    throw InputError("--sp", "several degrees with lint", "accepted: one");
  if (!options.space.sequence_parallel.empty())
    lint.sequence_parallel = options.space.sequence_parallel.front();
  if (options.has("--gpu"))
    lint.compute_capability =
        assemble_cluster(options.cluster, with_user_profiles(user_hardware_folder(environment)))
            .gpu.compute_capability;
  return lint;
}

LintedFile linted(const std::string& path, const Options& options, const LintOptions& asked) {
  LintedFile file{.path = path, .text = read_file(path)};
  LintOptions lint_as = asked;
  lint_as.style = asked.style.value_or(inferred_style(read_ds_text(file.text, path).document));
  file.style = *lint_as.style;
  if (is_fixing(options)) {
    FixedText fixed = fix(file.text, path, lint_as);
    file.text = std::move(fixed.text);
    file.fixed = std::move(fixed.fixed);
  }
  file.findings = lint(file.text, path, lint_as);
  return file;
}

// ---- what the config costs
// --------------------------------------------------------------------------------------------------

bool asks_for_plan(const Options& options) { return options.has("--model"); }

LintPlan lint_plan(const Question& question, const Answer& answer) {
  const Plan& plan = answer.plans.front();
  return {.id = plan.id(),
          .fits = plan.fits,
          .required = plan.memory().required,
          .available = available(question.cluster, question.headroom),
          .step = plan.time.step,
          .tokens_per_second = plan.time.tokens_per_second,
          .why = plan.why};
}

void add_misfit(LintedFile& file) {
  if (!file.plan || file.plan->fits) return;
  file.findings.push_back(
      {.rule = "does-not-fit",
       .severity = Severity::error,
       .pointer = "",
       .outcome = Outcome::raises,
       .found = fmt::format("{} does not fit", file.plan->id),
       .effect = file.plan->why.empty() ? "it ends out of memory" : file.plan->why.front(),
       .advice = "zplan with --model and --gpus says what fits"});
}

/// Adds DeepSpeed's reasons against sequence parallelism of this model; true if there are any.
bool add_refusals(LintedFile& file, const Question& question) {
  const Candidates found = candidates(question);
  if (!found.legal.empty() || found.rejected.empty()) return false;
  const Rejection& first = found.rejected.front();
  if (first.strategy.layout.sequence == 1) return false;
  for (const std::string& reason : first.reasons)
    file.findings.push_back(
        {.rule = "sequence-parallel-refused",
         .severity = Severity::error,
         .pointer = "",
         .outcome = Outcome::raises,
         .found = fmt::format("sequence parallel {} of this model", first.strategy.layout.sequence),
         .effect = reason,
         .advice = "take another degree, or other samples"});
  file.not_planned = first.reasons.front();
  return true;
}

/// The plan of the file as --fix writes it, which is what it says wherever nothing is wrong.
void plan_file(LintedFile& file, const Options& options, const LintOptions& asked,
               const Environment& environment) {
  LintOptions lint_as = asked;
  lint_as.style = file.style;
  const FixedText fixed = fix(file.text, file.path, lint_as);
  Options planning = options;
  planning.command = Command::plan;
  planning.ds_config = file.path;
  planning.ds_config_text = fixed.text;
  if (has_errors(lint(fixed.text, file.path, lint_as))) {
    file.not_planned = "errors remain that only you can repair";
    return;
  }
  try {
    const Request request = make_request(planning, environment);
    if (add_refusals(file, request.question)) return;
    const Answer result = answer(request.question);
    if (result.plans.empty()) {
      file.not_planned = result.rejected.empty() || result.rejected.front().reasons.empty()
                             ? "no strategy is legal"
                             : result.rejected.front().reasons.front();
      return;
    }
    file.plan = lint_plan(request.question, result);
    file.plan->as_fixed = !fixed.fixed.empty();
    add_misfit(file);
  } catch (const InputError& error) {
    file.not_planned = error.what();
  }
}

/// Returns the model to plan. Errors of the model or the cluster are thrown: they are not the file's.
Model model_asked_for(const Options& options, const Environment& environment) {
  Options alone = options;
  alone.command = Command::plan;
  alone.ds_config.clear();
  return make_request(alone, environment).question.model;
}

// ---- scripts that train with Megatron-Core
// --------------------------------------------------------------------------------------------------

bool is_script(const std::string& path) {
  return path.ends_with(".sh") || path.ends_with(".yaml") || path.ends_with(".yml");
}

Finding refusal(std::string pointer, LineColumn place, std::string found, std::string effect,
                std::string advice) {
  return {.rule = "megatron-refused",
          .severity = Severity::error,
          .pointer = std::move(pointer),
          .place = place,
          .outcome = Outcome::raises,
          .found = std::move(found),
          .effect = std::move(effect),
          .advice = std::move(advice)};
}

/// A finding of "file:12: key", or of what stands at no key.
Finding refusal(const InputError& error, const std::string& path) {
  const std::string& place = error.place();
  int line = 0;
  std::string key = place;
  if (place.starts_with(path + ":")) {
    const std::size_t end = std::min(place.find(':', path.size() + 1), place.size());
    std::from_chars(place.data() + path.size() + 1, place.data() + end, line);
    key = end + 2 < place.size() ? place.substr(end + 2) : std::string();
  }
  return refusal(key, {.line = std::max(line, 1), .column = 1}, error.found(),
                 "the training ends here, or zplan has no plan of it", error.accepted());
}

/// Adds Megatron-Core's reasons against the layout that the script asks for.
void add_layout_refusals(LintedFile& file, Options planning, const Environment& environment) {
  planning.command = Command::plan;
  planning.recipe_files = {file.path};
  planning.words.clear();
  // Any GPU does: only shapes and degrees are checked.
  if (!planning.has("--gpu") && !planning.has("--mem")) planning.cluster.gpu = "H100-SXM-80GB";
  const Candidates found = candidates(make_request(with_recipes(planning), environment).question);
  if (!found.legal.empty() || found.rejected.empty()) return;
  for (const std::string& reason : found.rejected.front().reasons)
    file.findings.push_back(refusal("", {.line = 1, .column = 1}, "this layout", reason, ""));
}

/// Reads a script, whose keys and layout Megatron-Core may refuse.
LintedFile linted_script(const std::string& path, const Options& options, const Environment& environment) {
  LintedFile file{.path = path, .text = read_file(path)};
  RecipeAsked asked{
      .gpus = {}, .has_model = options.has("--model"), .model = options.model, .given = options.given};
  if (options.has("--gpus")) asked.gpus = options.cluster.gpus;
  const RecipeRefusals refusals = recipe_refusals(file.text, path, asked);
  if (refusals.format != RecipeFormat::swift_megatron && refusals.format != RecipeFormat::megatron_lm)
    throw InputError(path, fmt::format("a recipe of {}", to_name(refusals.format)),
                     "accepted: DeepSpeed configs, and scripts that train with Megatron-Core");
  for (const InputError& each : refusals.errors) file.findings.push_back(refusal(each, path));
  if (!file.findings.empty()) return file;
  try {
    add_layout_refusals(file, options, environment);
  } catch (const InputError& error) {
    file.findings.push_back(refusal(error, path));
  }
  return file;
}

// ---- writing
// --------------------------------------------------------------------------------------------------

std::string report_in_format(const LintReport& report, const Options& options, const Style& style) {
  if (options.sarif) return json_text(lint_sarif(report));
  return options.format == OutputFormat::json ? json_text(lint_json(report))
                                              : text_of(lint_document(report), style);
}

/// Returns FILE.orig, or the first of FILE.orig.1, FILE.orig.2, … where that holds another text.
std::string name_for_original(const std::string& path, const std::string& text) {
  const auto holds_other = [&](const std::string& name) {
    std::error_code ignored;
    return std::filesystem::exists(std::filesystem::symlink_status(name, ignored)) &&
           !(std::filesystem::is_regular_file(name, ignored) && read_file(name) == text);
  };
  std::string name = path + ".orig";
  for (int i = 1; holds_other(name); ++i) name = fmt::format("{}.orig.{}", path, i);
  return name;
}

/// In place: what was there stays beside it. A file that needs no repair is not touched.
void write_in_place(const LintedFile& file, std::ostream& err) {
  if (file.fixed.empty()) return;
  const std::string original = read_file(file.path);
  const std::string kept = name_for_original(file.path, original);
  write_file(kept, original, "--fix", file.path);
  write_file(file.path, file.text, "--fix");
  err << fmt::format("zplan: repaired {}; what it was is in {}\n", printable(file.path), printable(kept));
}

void check_files(const Options& options) {
  if (options.words.empty())
    throw InputError("lint", "no file",
                     "needed: DeepSpeed configs, such as ds_config.json, or scripts of Megatron-Core");
  if (!options.emit.empty() && options.words.size() > 1)
    throw InputError("--emit", fmt::format("one file for {} configs", options.words.size()),
                     "accepted: one config, or --fix, which writes each in place");
}

/// An option that could not do anything would mislead.
void check_options_matter(const Options& options) {
  if (asks_for_plan(options)) return;
  for (const OptionSpec& spec : option_table()) {
    const bool read = spec.group == "Output" || spec.group == "Lint" || spec.name == "--gpus" ||
                      spec.name == "--tp" || spec.name == "--gpu" || spec.name == "--deepspeed-version";
    if (!read && options.has(spec.name))
      throw InputError(std::string(spec.name), "does nothing for lint without --model",
                       "accepted: with --model, which has the config planned");
  }
}

}  // namespace

int lint_command(const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
  check_files(options);
  check_options_matter(options);
  LintOptions asked = lint_options(options, environment);
  if (asks_for_plan(options)) {
    const ModelShape shape = model_asked_for(options, environment).shape;
    asked.architecture = shape.architecture;
    asked.experts = shape.experts ? shape.experts->experts : 0;
  }
  LintReport report{.files = {}, .unit = options.unit};
  for (const std::string& path : options.words) {
    if (is_script(path)) {
      report.files.push_back(linted_script(path, options, environment));
      continue;
    }
    report.files.push_back(linted(path, options, asked));
    if (asks_for_plan(options)) plan_file(report.files.back(), options, asked, environment);
  }
  const int status = has_errors(report) ? kNothingFits : kFits;
  if (options.emit == "-") {
    out << report.files.front().text;
    err << text_of(lint_document(report), {.width = style.width, .color = false});
    return status;
  }
  if (!options.emit.empty()) {
    write_file(options.emit, report.files.front().text, "--emit");
    err << fmt::format("zplan: wrote {}\n", printable(options.emit));
  } else if (options.fix) {
    for (const LintedFile& file : report.files) write_in_place(file, err);
  }
  out << report_in_format(report, options, style);
  return status;
}

}  // namespace zplan

#include "cli/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/options/values.h"
#include "cli/scenarios/scenarios.h"

namespace zplan {

namespace {

std::vector<std::string> command_names() { return all_names<Command>(); }

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const OptionSpec& spec : option_table()) names.emplace_back(spec.name);
  return names;
}

[[noreturn]] void unknown_option(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const auto near = nearest_word(name, option_names());
  throw InputError(in_quotes(name), "no such option",
                   near ? fmt::format("did you mean {}?", *near) : "zplan --help lists the options");
}

[[noreturn]] void unknown_command(const std::string& word) {
  if (word.ends_with(kScenarioEnding))
    throw InputError(in_quotes(word), "a file of scenarios is no command",
                     "accepted: zplan compare FILE.zplan, zplan gui FILE.zplan");
  throw InputError(in_quotes(word), "no such command", accepted_words(word, command_names()));
}

/// How often an option stands in the arguments, with or without "=value".
std::ptrdiff_t times_given(const std::vector<std::string>& arguments, std::string_view name) {
  return std::count_if(arguments.begin(), arguments.end(),
                       [name](const std::string& each) { return each.substr(0, each.find('=')) == name; });
}

/// CLI11's complaint as one of ours. Its messages begin with the option's name.
[[noreturn]] void rethrow(const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const std::string message = error.what();
  for (const OptionSpec& spec : option_table()) {
    if (!message.starts_with(fmt::format("{}:", spec.name)) && !message.ends_with(spec.name)) continue;
    if (times_given(arguments, spec.name) > 1)
      throw InputError(std::string(spec.name), "given more than once", "accepted: once");
    if (spec.value.empty()) throw InputError(std::string(spec.name), "a value", "accepted: none");
    throw InputError(std::string(spec.name), "no value",
                     fmt::format("accepted: {} {}", spec.name, spec.value));
  }
  throw InputError("arguments", message.substr(0, message.find('\n')), "zplan --help lists the options");
}

void add_options(CLI::App& app, Options& options) {
  app.set_help_flag();
  app.add_flag_function("-h,--help", [&](std::int64_t) { options.help = true; });
  app.add_flag_function("-V,--version", [&](std::int64_t) { options.version = true; });
  for (const OptionSpec& spec : option_table()) {
    const auto set = [&options, &spec](const std::string& text) {
      options.given.emplace_back(spec.name);
      if (text.empty() && !spec.value.empty())
        throw InputError(std::string(spec.name), "\"\"",
                         fmt::format("accepted: {} {}", spec.name, spec.value));
      spec.set(options, text);
    };
    const std::string name = (spec.name == "--output" ? "-o," : "") + std::string(spec.name);
    if (spec.name == "--help" || spec.name == "--version") continue;
    if (spec.value.empty())
      app.add_flag_callback(name, [set] { set(""); });
    else
      app.add_option_function<std::string>(name, set)->type_name(std::string(spec.value));
  }
}

void add_commands(CLI::App& app, Options& options) {
  app.require_subcommand(0, 1);
  for (const CommandSpec& spec : command_table()) {
    CLI::App* command = app.add_subcommand(std::string(to_name(spec.command)));
    command->set_help_flag();
    command->fallthrough();
    command->add_option("words", options.words);
    command->callback([&options, &spec] { options.command = spec.command; });
  }
}

/// CLI11 would read "--json=no" as the flag's absence.
void check_flags(const std::vector<std::string>& arguments) {
  for (const OptionSpec& spec : option_table())
    for (const std::string& word : arguments)
      if (spec.value.empty() && word.starts_with(fmt::format("{}=", spec.name)))
        throw InputError(std::string(spec.name), fmt::format("a value: {}", in_quotes(word)),
                         "accepted: none");
}

void check_leftovers(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  for (const std::string& word : left)
    if (is_option(word) && word != "--") unknown_option(word);
  if (!left.empty()) unknown_command(left.front());
}

/// Options that only `compare` takes.
void check_belongs_to_compare(const Options& options) {
  for (const OptionSpec& spec : option_table())
    if (options.command != Command::compare && spec.group == "Compare" && options.has(spec.name))
      throw InputError(std::string(spec.name), fmt::format("not an option of {}", to_name(options.command)),
                       "accepted: with compare");
}

/// Options that only `check` takes, and those of the planning commands that it does not.
void check_belongs_to_check(const Options& options) {
  const bool checks = options.command == Command::check;
  for (const OptionSpec& spec : option_table())
    if (!checks && spec.group == "Check" && options.has(spec.name))
      throw InputError(std::string(spec.name), fmt::format("not an option of {}", to_name(options.command)),
                       "accepted: with check");
  for (const std::string_view option :
       {"--emit", "--config-style", "--nvme-path", "--deepspeed-version", "--explain", "--headroom"})
    if (checks && options.has(option))
      throw InputError(std::string(option), "not an option of check",
                       "accepted: --worst, --tolerance, --json, …");
}

/// Options that only `lint` takes, and those that search or print what it does not.
void check_belongs_to_lint(const Options& options) {
  const bool lints = options.command == Command::lint;
  for (const OptionSpec& spec : option_table())
    if (!lints && spec.group == "Lint" && options.has(spec.name))
      throw InputError(std::string(spec.name), fmt::format("not an option of {}", to_name(options.command)),
                       "accepted: with lint");
  for (const std::string_view option :
       {"--zero", "--offload", "--buckets", "--ds-config", "--csv", "--markdown", "--explain"})
    if (lints && options.has(option))
      throw InputError(std::string(option), "not an option of lint",
                       "accepted: --fix, --json, --sarif, --model, --gpus, …");
  if (options.sarif && options.format != OutputFormat::text)
    throw InputError("--sarif", "a second output format", "accepted: one of --json, --sarif");
}

/// Options that only `fit` takes, and those of a report that it does not.
void check_belongs_to_fit(const Options& options) {
  const bool fits = options.command == Command::fit;
  for (const std::string_view option : {"--solve", "--oom"})
    if (!fits && options.has(option))
      throw InputError(std::string(option), fmt::format("not an option of {}", to_name(options.command)),
                       "accepted: with fit");
  for (const std::string_view option : {"--emit", "--config-style", "--explain"})
    if (fits && options.has(option))
      throw InputError(std::string(option), "not an option of fit", "accepted: with the plan that fit names");
}

bool imports(const Options& options) {
  return options.command == Command::hardware && !options.words.empty() && options.words.front() == "import";
}

/// Options that only `hardware import` takes, and those of a cluster that it does.
void check_belongs_to_import(const Options& options) {
  for (const OptionSpec& spec : option_table()) {
    const bool own = spec.group == "Hardware import";
    const bool machines = spec.name == "--gpu" || spec.name == "--node" || spec.name == "--network";
    if (!imports(options) && own && options.has(spec.name))
      throw InputError(std::string(spec.name), fmt::format("not an option of {}", to_name(options.command)),
                       "accepted: with hardware import");
    if (imports(options) && !own && !machines && spec.name != "--no-color" && options.has(spec.name))
      throw InputError(std::string(spec.name), "not an option of hardware import",
                       "accepted: --gpu, --node, --network, --name, --output");
  }
}

/// Catalogue commands take few of the options, and one that does nothing would mislead.
void check_belongs(const Options& options) {
  check_belongs_to_compare(options);
  check_belongs_to_check(options);
  check_belongs_to_lint(options);
  check_belongs_to_fit(options);
  check_belongs_to_import(options);
  if (imports(options)) return;
  if (options.command == Command::plan || options.command == Command::search ||
      options.command == Command::compare || options.command == Command::fit ||
      options.command == Command::check || options.command == Command::lint)
    return;
  for (const OptionSpec& spec : option_table())
    if (!spec.everywhere && options.has(spec.name))
      throw InputError(std::string(spec.name), fmt::format("not an option of {}", to_name(options.command)),
                       "accepted: --json, --no-color");
}

void check_output(const Options& options) {
  const bool text = options.format == OutputFormat::text;
  if (options.emit == "-" && (!text || options.explain || options.sarif))
    throw InputError("--emit", "- together with another output", "accepted: a file, or --emit - alone");
  if (options.explain && !text && options.format != OutputFormat::json)
    throw InputError("--explain", "together with a table for programs", "accepted: with text or --json");
  const bool plain = options.command == Command::plan || options.command == Command::fit ||
                     options.command == Command::search;
  if (plain && !options.words.empty())
    throw InputError(in_quotes(options.words.front()),
                     fmt::format("{} takes options only", to_name(options.command)),
                     "accepted: --model, --gpus, …");
  if (options.command == Command::search && options.has("--ds-config"))
    throw InputError("--ds-config", "together with search: it decides what a search would",
                     "accepted: zplan --ds-config FILE …");
}

}  // namespace

bool Options::has(std::string_view option) const {
  return std::find(given.begin(), given.end(), option) != given.end();
}

const std::vector<CommandSpec>& command_table() {
  static const std::vector<CommandSpec> table{
      {Command::plan,
       "",
       "every strategy: memory, traffic, time, which fits, which to take and why (the default)",
       {}},
      {Command::search,
       "",
       "the fastest config that fits, over everything that is not pinned, batch and checkpointing too",
       {}},
      {Command::compare,
       "STRATEGY|FILE…",
       "pinned strategies or ds_configs side by side: zero3, tp8+zero1, zero3+offload-all, lora+zero2+b4; or "
       "the scenarios of a FILE.zplan",
       {}},
      {Command::fit,
       "",
       "the inverse: largest micro-batch, longest sequence, fewest GPUs, smallest card, biggest model; what "
       "helps "
       "against an out-of-memory error",
       {}},
      {Command::check,
       "FILE|FOLDER…",
       "predictions against measurements: published or recorded runs, DeepSpeed and nccl-tests logs, memory "
       "snapshots",
       {}},
      {Command::lint,
       "FILE…",
       "what is wrong with DeepSpeed configs, what DeepSpeed makes of it, and what to write instead; with "
       "--model "
       "whether they fit",
       {}},
      {Command::bench,
       "[OPTION…]",
       "real collectives on these machines (NCCL, or MPI where there is no GPU), a plan's calls replayed; "
       "its own "
       "options: zplan bench --help",
       {}},
      {Command::gui,
       "[FILE… | OPTION…]",
       "the window: scenarios side by side, as options or from files (needs Qt 6); its own options: zplan "
       "gui "
       "--help",
       {}},
      {Command::models,
       "[list | show NAME | search WORDS]",
       "the catalogue of models",
       {"list", "show", "search"}},
      {Command::hardware,
       "[list | show NAME | search WORDS | import FILE…]",
       "the catalogue of GPUs, nodes and networks; import makes a card's profile of nccl-tests logs and "
       "zplan-bench results",
       {"list", "show", "search", "import"}},
      {Command::completion,
       "bash | zsh | fish",
       "a completion script for your shell",
       {"bash", "zsh", "fish"}},
  };
  return table;
}

Options parse_options(const std::vector<std::string>& arguments) {
  check_flags(arguments);
  Options options;
  CLI::App app;
  app.allow_extras();
  add_options(app, options);
  add_commands(app, options);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    rethrow(error, arguments);
  }
  check_leftovers(app);
  check_belongs(options);
  check_output(options);
  return options;
}

}  // namespace zplan

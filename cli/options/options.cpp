// Arguments → options: the command first, then by CLI11 the options that are its own.

#include "cli/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/base/values.h"
#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"

namespace zplan {

namespace {

using Words = std::vector<std::string>;

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

/// "-ofile" is the option "-o".
std::string_view option_name(std::string_view word) {
  return word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
}

[[noreturn]] void unknown_option(std::string_view word) {
  const std::string name(word.substr(0, word.find('=')));
  Words known;
  for (const OptionSpec& spec : option_table()) known.emplace_back(spec.name);
  const auto near = nearest_word(name, known);
  throw InputError(in_quotes(name), "no such option",
                   near ? fmt::format("did you mean {}?", *near) : "zplan --help lists the options");
}

/// Refuses a word that stands behind the value of an option as if it belonged to it.
void check_value_of_words(const Words& arguments, std::size_t place) {
  GivenOption before;
  for (const GivenOption& each : given_options(arguments))
    if (each.first + each.words == place) before = each;
  const std::string& word = arguments[place];
  const OptionSpec* option = before.words == 2 ? find_option(before.name) : nullptr;
  if (option == nullptr || option->type.names == NamesOf::nothing || nearest_word(word, command_names()))
    return;
  throw InputError(
      in_quotes(word), fmt::format("no command, and no name is known as {} {}", before.value, word),
      fmt::format("accepted: {} \"{} {}\" in quotes where it is one name", option->name, before.value, word));
}

[[noreturn]] void unknown_command(const Words& arguments, std::size_t place) {
  const std::string& word = arguments[place];
  if (word.ends_with(kScenarioEnding))
    throw InputError(in_quotes(word), "a file of scenarios is no command",
                     "accepted: zplan compare FILE.zplan, zplan gui FILE.zplan");
  if (word == "trace")
    throw InputError(
        "trace", "not in this program",
        "needed: zplan's Python package, whose command zplan has it: pip install zplan torch transformers");
  check_value_of_words(arguments, place);
  throw InputError(in_quotes(word), "no such command", accepted_words(word, command_names()));
}

/// Returns the advice for an option that the command does not accept.
std::string instead_of(const OptionSpec& option, Command command) {
  if (option.commands.is_one())
    for (const auto& [each, name] : EnumNames<Command>::table)
      if (option.commands.has(each)) return fmt::format("with {}", name);
  const CommandSpec* spec = find_command(to_name(command));
  if (spec != nullptr && !spec->instead.empty()) return std::string(spec->instead);
  Words own;
  for (const OptionSpec& each : option_table())
    if (each.commands.has(command) && each.name != "--help" && each.name != "--version")
      own.emplace_back(each.name);
  return fmt::format("{}", fmt::join(own, ", "));
}

[[noreturn]] void foreign_option(std::string_view word, Command command) {
  const OptionSpec* option = find_option(option_name(word));
  if (option == nullptr) unknown_option(word);
  throw InputError(std::string(option->name), fmt::format("not an option of {}", to_name(command)),
                   "accepted: " + instead_of(*option, command));
}

/// CLI11 would read "--json=no" as the flag's absence.
void check_spelling(const GivenOption& given) {
  const OptionSpec* option = find_option(option_name(given.name));
  if (option == nullptr) unknown_option(given.name);
  if (option->value.empty() && given.name == option->name && given.value != kFlagGiven)
    throw InputError(std::string(option->name),
                     "a value: " + in_quotes(fmt::format("{}={}", given.name, given.value)),
                     "accepted: none");
}

/// Places of the words that are no options, nor values of options, as far as they may name a command: two.
std::vector<std::size_t> places_of_words(const Words& arguments) {
  std::vector<std::size_t> places;
  for (const GivenOption& each : given_options(arguments)) {
    if (each.name == "--") break;
    if (is_option(each.name))
      check_spelling(each);
    else if (places.size() < 2)
      places.push_back(each.first);
  }
  return places;
}

struct Typed {
  Command command{Command::plan};
  Words rest;
};

/// The command may stand anywhere among the options; without one it is `plan`.
Typed typed_command(const Words& arguments) {
  const std::vector<std::size_t> places = places_of_words(arguments);
  Typed typed{.rest = arguments};
  if (places.empty()) return typed;
  const auto take = [&typed](std::size_t place) {
    typed.rest.erase(typed.rest.begin() + static_cast<std::ptrdiff_t>(place));
  };
  const CommandSpec* spec = find_command(arguments[places.front()]);
  if (spec == nullptr) unknown_command(arguments, places.front());
  typed.command = spec->command;
  if (typed.command == Command::hardware && places.size() > 1)
    for (const Command two_words : {Command::hardware_import, Command::hardware_compare})
      if (to_name(two_words).substr(to_name(Command::hardware).size() + 1) == arguments[places.back()]) {
        typed.command = two_words;
        take(places.back());
        break;
      }
  take(places.front());
  return typed;
}

void add_option(CLI::App& command, const OptionSpec& spec, Options& options) {
  const auto set = [&options, &spec](const std::string& text) {
    options.given.emplace_back(spec.name);
    if (text.empty() && !spec.value.empty())
      throw InputError(std::string(spec.name), "\"\"", fmt::format("accepted: {} {}", spec.name, spec.value));
    spec.type.set(options, spec.name, text);
  };
  std::string names(spec.name);
  if (!spec.letter.empty()) names = fmt::format("{},{}", spec.letter, spec.name);
  if (spec.value.empty())
    command.add_flag_callback(names, [set] { set(""); });
  else
    command.add_option_function<std::string>(names, set);
}

/// `hardware import` and `hardware compare` take words, though the table has no line of its own for them.
bool takes_words(Command command) {
  const CommandSpec* spec = find_command(to_name(command));
  return spec == nullptr || !spec->arguments.empty();
}

void add_options(CLI::App& app, Command command, Options& options) {
  app.set_help_flag();
  app.allow_extras();
  for (const OptionSpec& spec : option_table())
    if (spec.commands.has(command)) add_option(app, spec, options);
  if (takes_words(command)) app.add_option("words", options.words);
}

/// Values are missing or too many: of an option that is given twice, or last and without one.
[[noreturn]] void wrong_count(const Words& arguments) {
  const std::vector<GivenOption> all = given_options(arguments);
  for (const GivenOption& each : all) {
    const OptionSpec* option = find_option(option_name(each.name));
    if (option == nullptr || option->value.empty()) continue;
    const auto times = std::ranges::count_if(
        all, [option](const GivenOption& other) { return find_option(option_name(other.name)) == option; });
    if (times > 1) throw InputError(std::string(option->name), "given more than once", "accepted: once");
    if (each.value.empty())
      throw InputError(std::string(option->name), "no value",
                       fmt::format("accepted: {} {}", option->name, option->value));
  }
  throw InputError("arguments", "values are missing", "zplan --help lists the options");
}

void check_leftovers(const CLI::App& parsed, Command command) {
  Words left = parsed.remaining();
  std::erase(left, "--");
  for (const std::string& word : left)
    if (is_option(word)) foreign_option(word, command);
  if (!left.empty())
    throw InputError(in_quotes(left.front()), fmt::format("{} takes options only", to_name(command)),
                     "accepted: --model, --gpus, …");
}

void check_output(const Options& options) {
  const bool text = options.format == OutputFormat::text;
  if (options.sarif && !text)
    throw InputError("--sarif", "a second output format", "accepted: one of --json, --sarif");
  if (options.emit == "-" && (!text || options.explain || options.sarif))
    throw InputError("--emit", "- together with another output", "accepted: a file, or --emit - alone");
  if (options.recipe_out == "-" && (!text || options.explain || !options.emit.empty()))
    throw InputError("--recipe-out", "- together with another output", "accepted: a file, or - alone");
  for (const auto& [option, file] :
       {std::pair("--snapshot", options.snapshot), {"--trace", options.trace}, {"--html", options.html}})
    if (file == "-") throw InputError(option, "-", "accepted: a file");
  if (options.explain && !text && options.format != OutputFormat::json)
    throw InputError("--explain", "together with a table for programs", "accepted: with text or --json");
}

}  // namespace

bool Options::has(std::string_view option) const {
  return std::find(given.begin(), given.end(), option) != given.end();
}

const OptionSpec* find_option(std::string_view name) {
  const auto at = std::ranges::find_if(option_table(), [name](const OptionSpec& spec) {
    return spec.name == name || (!spec.letter.empty() && spec.letter == name);
  });
  return at == option_table().end() ? nullptr : &*at;
}

const CommandSpec* find_command(std::string_view name) {
  const auto at = std::ranges::find_if(
      command_table(), [name](const CommandSpec& spec) { return to_name(spec.command) == name; });
  return at == command_table().end() ? nullptr : &*at;
}

std::vector<std::string> command_names() {
  Words names;
  for (const CommandSpec& spec : command_table()) names.emplace_back(to_name(spec.command));
  return names;
}

Options parse_options(const std::vector<std::string>& arguments) {
  const Typed typed = typed_command(arguments);
  Options options;
  options.command = typed.command;
  CLI::App app;
  add_options(app, options.command, options);
  try {
    app.parse(Words(typed.rest.rbegin(), typed.rest.rend()));
  } catch (const CLI::ArgumentMismatch&) {
    wrong_count(typed.rest);
  }
  check_leftovers(app, options.command);
  check_output(options);
  return options;
}

}  // namespace zplan

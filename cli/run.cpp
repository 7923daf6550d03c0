// The program: a command's words to its function, and the process around it with the only catch.

#include "cli/run.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options/command_line.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "cli/options/request.h"
#include "models/base/error.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

Style style_of(const Options& options, const Environment& environment) {
  const bool capable = environment.output_is_terminal && environment.terminal != "dumb";
  return {.width = output_width(environment), .color = capable && !environment.no_color && !options.no_color};
}

int completion_command(const Invocation& invocation) {
  const std::vector<std::string>& words = invocation.options.words;
  if (words.size() != 1)
    throw InputError("completion", fmt::format("{} words", words.size()), "accepted: bash, zsh or fish");
  invocation.out << completion_script(words.front());
  return kFits;
}

int help_command(const Invocation& invocation) {
  const std::vector<std::string>& words = invocation.options.words;
  if (words.size() > 1) throw InputError("help", fmt::format("{} words", words.size()), "accepted: one");
  invocation.out << help_page(words.empty() ? "" : words.front(), invocation.style.width);
  return kFits;
}

int run_command(const Invocation& invocation) {
  switch (invocation.options.command) {
    case Command::plan: return plan_command(invocation);
    case Command::search: return search_command(invocation);
    case Command::compare: return compare_command(invocation);
    case Command::fit: return fit_command(invocation);
    case Command::check: return check_command(invocation);
    case Command::lint: return lint_command(invocation);
    case Command::models: return models_command(invocation);
    case Command::hardware: return hardware_command(invocation);
    case Command::hardware_compare: return hardware_compare(invocation);
    case Command::hardware_import: return hardware_import(invocation);
    case Command::completion: return completion_command(invocation);
    case Command::help: return help_command(invocation);
    case Command::bench:
    case Command::gui: break;  // only where an option stands in front of it
  }
  const std::string command(to_name(invocation.options.command));
  throw InputError(command, "behind an option",
                   fmt::format("accepted: zplan {}, then its own options", command));
}

int fail(const char* what, const char* kind = "") {
  std::fprintf(stderr, "zplan: %s%s\n", kind, what);
  return kBadInput;
}

}  // namespace

int run(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) {
  if (is_program(arguments)) return run_program(arguments, environment, out, err);
  const std::vector<std::string> words = with_joined_names(arguments);
  const Options typed = parse_options(words);
  if (typed.help) {
    out << (typed.format == OutputFormat::json
                ? json_text(options_json())
                : help_page(to_name(typed.command), output_width(environment)));
    return kFits;
  }
  if (typed.version) return out << version_text(), kFits;
  const Options options = without_missing(with_recipes(typed), environment);
  std::vector<std::string> suggested = words;  // commands that a report suggests answer on one screen
  std::erase_if(suggested, [](const std::string& each) { return each == "--verbose" || each == "--json"; });
  return run_command({options, suggested, environment, style_of(options, environment), out, err});
}

int run_process(const std::vector<std::string>& arguments) noexcept {
  try {
    const int status = run(arguments, read_environment(), std::cout, std::cerr);
    if (!std::cout.flush()) return fail("stdout cannot be written");
    return status;
  } catch (const InputError& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what(), "internal error: ");
  }
}

}  // namespace zplan

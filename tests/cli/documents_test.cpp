// The man page and docs/command-line.md list every option and command, and no other.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cli/options/options.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

std::set<std::string> options_in(const std::string& text) {
  std::set<std::string> found;
  const std::regex option(R"(--[a-z][a-z0-9-]*)");
  for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at)
    found.insert(at->str());
  return found;
}

std::set<std::string> options_of_program() {
  std::set<std::string> names;
  for (const OptionSpec& spec : option_table()) names.emplace(spec.name);
  return names;
}

TEST(Documents, TheManPageHasEveryOption) {
  const std::string page =
      std::regex_replace(read_text(std::string(ZPLAN_SOURCE) + "/cli/zplan.1"), std::regex(R"(\\-)"), "-");
  EXPECT_EQ(options_in(page), options_of_program());
  for (const CommandSpec& spec : command_table())
    EXPECT_THAT(page, testing::HasSubstr(std::string(to_name(spec.command))));
}

std::string roff(std::string_view text) {
  return std::regex_replace(std::string(text), std::regex("-"), "\\-");
}

/// "Only with --method lora or qlora." for each condition of the option.
std::string conditions_text(const OptionSpec& option) {
  std::string text;
  for (const Condition& each : option.conditions) {
    const std::string of = each.of.empty() ? std::string() : fmt::format("{}: ", each.of);
    text += fmt::format("{}{} with {}.\n", of, each.is_excluded ? "Not" : "Only", needed_text(each));
  }
  return text;
}

/// The man page's options: a heading for each group, then name, value, help and conditions of each option.
std::string man_options() {
  std::string page;
  std::string_view group;
  for (const OptionSpec& option : option_table()) {
    if (option.group != group) page += fmt::format(".SS {}\n", group = option.group);
    const std::string letter = option.letter.empty() ? "" : fmt::format("{}, ", option.letter);
    page += option.value.empty() ? fmt::format(".TP\n.B {}{}\n", letter, option.name)
                                 : fmt::format(".TP\n.BI \"{}{} \" {}\n", letter, option.name, option.value);
    std::string help(option.help);
    help.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(help.front())));
    page += fmt::format("{}.\n{}", help, conditions_text(option));
  }
  return roff(page);
}

// ZPLAN_UPDATE_GOLDEN=1 writes them.
TEST(Documents, TheManPagesOptionsAreTheTables) {
  const std::string path = std::string(ZPLAN_SOURCE) + "/cli/zplan.1";
  std::string page = read_text(path);
  const std::size_t begin = page.find(".SH OPTIONS\n") + std::string_view(".SH OPTIONS\n").size();
  const std::size_t end = page.find(".SH ", begin);
  ASSERT_NE(end, std::string::npos);
  if (std::getenv("ZPLAN_UPDATE_GOLDEN") != nullptr) {
    page.replace(begin, end - begin, man_options());
    std::ofstream(path, std::ios::binary) << page;
    return;
  }
  EXPECT_EQ(page.substr(begin, end - begin), man_options());
}

TEST(Documents, TheUsersPageHasEveryOption) {
  const std::string page = read_text(std::string(ZPLAN_SOURCE) + "/docs/command-line.md");
  EXPECT_EQ(options_in(page), options_of_program());
}

TEST(Documents, HelpHasEveryOptionAndCommand) {
  const std::string help = in_process("help all").out;
  EXPECT_EQ(options_in(help), options_of_program());
  for (const CommandSpec& spec : command_table())
    EXPECT_THAT(help, testing::HasSubstr("\n  " + std::string(to_name(spec.command))));
}

TEST(Documents, HelpComesForEveryCommand) {
  const std::string help = in_process("--help").out;
  for (const char* line : {"-h", "plan --help", "help", "help plan", "--model 8B --help"})
    EXPECT_EQ(in_process(line).out, help) << line;
  for (const char* command : {"search", "compare", "fit", "check", "lint", "models", "hardware"}) {
    const std::string page = in_process(std::string(command) + " --help").out;
    EXPECT_THAT(page, testing::StartsWith(std::string("Usage: zplan ") + command));
    EXPECT_EQ(page, in_process(std::string("help ") + command).out);
  }
}

/// The lines between the first pair of ``` fences.
std::vector<std::string> first_block(const std::string& markdown) {
  std::istringstream text(markdown);
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      if (inside) break;
      inside = true;
    } else if (inside) {
      lines.push_back(line);
    }
  }
  return lines;
}

// The README shows the output of its first command at 100 columns.
TEST(Readme, ShowsWhatItsFirstCommandPrints) {
  Environment terminal;
  terminal.unicode = true;
  const std::string printed = in_process({"--model", "8B", "--gpus", "5", "--mem", "44"}, terminal).out;
  const std::vector<std::string> shown = first_block(read_text(ZPLAN_SOURCE "/README.md"));
  ASSERT_GE(shown.size(), 10U);
  for (const std::string& line : shown) {
    const std::size_t left_out = line.find("…");
    if (left_out == std::string::npos) {
      EXPECT_THAT(printed, testing::HasSubstr(line + "\n"));
    }
  }
}

}  // namespace
}  // namespace zplan::test

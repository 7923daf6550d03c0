// The man page and docs/command-line.md list every option and command, and no other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "cli/options/options.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

std::set<std::string> options_in(const std::string& text) {
  std::set<std::string> found;
  const std::regex option(R"(--[a-z][a-z-]*)");
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

TEST(Documents, TheUsersPageHasEveryOption) {
  const std::string page = read_text(std::string(ZPLAN_SOURCE) + "/docs/command-line.md");
  EXPECT_EQ(options_in(page), options_of_program());
}

TEST(Documents, HelpHasEveryOptionAndCommand) {
  const std::string help = in_process("--help").out;
  EXPECT_EQ(options_in(help), options_of_program());
  for (const CommandSpec& spec : command_table())
    EXPECT_THAT(help, testing::HasSubstr("\n  " + std::string(to_name(spec.command))));
}

TEST(Documents, HelpComesForEveryCommand) {
  const std::string help = in_process("--help").out;
  for (const char* line : {"-h", "plan --help", "compare --help", "models --help", "--model 8B --help"})
    EXPECT_EQ(in_process(line).out, help) << line;
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
  const std::string printed = in_process("--model 8B --gpus 5 --mem 44").out;
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

// Reports as people see them. ZPLAN_UPDATE_GOLDEN=1 writes what is there now; look at the difference before
// it is kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/document/text.h"
#include "cli/options/options.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct GoldenCase {
  std::string name, line;
  int width;
};

const std::vector<GoldenCase> kCases{
    {"help", "--help", 100},
    {"help_all", "help all", 100},
    {"plan_8b", "--model 8B --gpus 5 --mem 44 --verbose", 100},
    {"plan_8b_narrow", "--model 8B --gpus 5 --mem 44 --verbose", 72},
    {"plan_8b_wide", "--model 8B --gpus 5 --mem 44 --verbose", 150},
    {"nothing_fits",
     "--model Qwen/Qwen3-30B-A3B --method lora --zero 2 --gpus 5 --mem 44 --micro-batch 2 --verbose", 100},
    {"rejected",
     "--model 8B --method qlora --gpus 4 --gpu A100-SXM-80GB --zero 2,3 --global-batch 8 --verbose", 100},
    {"compare",
     "compare --model 70B --gpus 16 --nodes 2 --gpu H100-SXM-80GB zero3 tp8+zero1 zero3+offload-all "
     "--verbose",
     100},
    {"search_8b", "search --model 8B --gpus 5 --mem 44 --global-batch 40 --verbose", 100},
    {"compare_differences",
     "compare --model 8B --gpus 5 --mem 44 --baseline zero2 --differences zero3 zero3+b2 lora+zero2 "
     "--verbose",
     100},
    {"compare_scenarios", "compare TestScenarios", 100},
    {"compare_scenarios_narrow", "compare TestScenarios --differences --baseline adapters", 72},
    {"compare_scenarios_markdown", "compare TestScenarios --markdown", 100},
    {"compare_markdown",
     "compare --model 8B --gpus 5 --mem 44 zero3 zero3+checkpointing-selective --markdown", 100},
    {"fit_micro_batch", "fit --solve micro-batch --model 8B --gpus 5 --mem 44 --zero 2,3 --verbose", 100},
    {"fit_open", "fit --model 8B --gpus 5 --mem 44 --zero 3 --verbose", 100},
    {"fit_memory", "fit --solve memory --model 1B --gpus 2 --zero 2 --offload none --verbose", 100},
    {"fit_nothing", "fit --solve micro-batch --model 8B --gpus 1 --mem 24 --zero 0 --verbose", 100},
    {"fit_oom",
     "fit --oom TestMessage --model Qwen/Qwen3-8B --gpus 5 --mem 44 --zero 2 --seq 4096 --micro-batch 4",
     100},
    {"markdown", "--model 8B --gpus 5 --mem 44 --markdown", 100},
    {"hardware_h100", "hardware show H100-SXM-80GB", 100},
    {"model_qwen3_8b", "models show Qwen/Qwen3-8B", 100},
};

/// Short answers: the verdict is the first line, and 30 lines hold all of it.
const std::vector<GoldenCase> kBrief{
    {"brief_plan", "--model 8B --gpus 5 --mem 44", 100},
    {"brief_plan_narrow", "--model 8B --gpus 5 --mem 44", 80},
    {"brief_plan_ascii", "--model 8B --gpus 5 --mem 44 --headroom 0", 100},
    {"brief_search", "search --model 405B --gpus 512 --nodes 64 --gpu H100-SXM-80GB", 100},
    {"brief_search_narrow", "search --model 405B --gpus 512 --nodes 64 --gpu H100-SXM-80GB", 80},
    {"brief_sequence", "fit --solve sequence --model 8B --gpus 5 --mem 44", 100},
    {"brief_fit", "fit --model 8B --gpus 5 --mem 44 --zero 3", 80},
    {"brief_compare",
     "compare --model 70B --gpus 16 --nodes 2 --gpu H100-SXM-80GB zero3 tp8+zero1 zero3+offload-all", 100},
    {"brief_recipe", "--recipe cli/golden/qlora.yaml --gpus 2 --gpu RTX-4090-24GB", 100},
    {"brief_nothing_fits", "--model 70B --gpus 2 --gpu RTX-3090-24GB --method qlora --seq 512", 100},
    {"brief_nothing_fits_narrow", "--model 70B --gpus 2 --gpu RTX-3090-24GB --method qlora --seq 512", 80},
    {"brief_host", "--model 405B --gpus 512 --nodes 1 --gpu H100-SXM-80GB", 100},
};

void PrintTo(const GoldenCase& each, std::ostream* out) { *out << each.line; }

/// The words of a case; a message is one of them. Files are named as they are seen from the tests' folder.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words = split(line);
  for (std::string& each : words)
    if (each == "TestScenarios") each = "cli/golden/scenarios.zplan";
  for (std::string& each : words)
    if (each == "TestMessage")
      each =
          "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.27 GiB. GPU 0 has a total "
          "capacity of 44.35 GiB "
          "of which 1.38 GiB is free. Including non-PyTorch memory, this process has 42.96 GiB memory in "
          "use. Of the "
          "allocated memory 41.10 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but "
          "unallocated.";
  return words;
}

class Golden : public testing::TestWithParam<GoldenCase> {
 protected:
  void SetUp() override { std::filesystem::current_path(ZPLAN_TEST_DATA); }
  void TearDown() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_{std::filesystem::current_path()};
};

Environment terminal_of(const GoldenCase& each) {
  Environment environment;
  environment.terminal_width = each.width;
  environment.unicode = each.name.starts_with("brief") && !each.name.ends_with("ascii");
  return environment;
}

/// What a case prints: asked once, looked at by several tests.
const Result& answer_to(const GoldenCase& each) {
  static std::map<std::string, Result> answers;
  const auto [found, is_new] = answers.try_emplace(each.name);
  if (is_new) found->second = in_process(words_of(each.line), terminal_of(each));
  return found->second;
}

TEST_P(Golden, ReadsAsBefore) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/cli/golden/" + GetParam().name + ".txt";
  const Result& result = answer_to(GetParam());
  ASSERT_EQ(result.err, "");
  if (std::getenv("ZPLAN_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << result.out;
  EXPECT_EQ(result.out, read_text(path)) << "zplan " << GetParam().line;
}

/// Commands to copy and Markdown are never broken; every other line keeps to the width.
TEST_P(Golden, KeepsToTheWidth) {
  std::istringstream lines(answer_to(GetParam()).out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const bool command =
        line.starts_with("  zplan ") || line.starts_with("  deepspeed ") || line.starts_with("| ");
    if (!command) {
      EXPECT_LE(display_width(line), static_cast<std::size_t>(GetParam().width)) << line;
    }
  }
  EXPECT_GT(count, 5);
}

INSTANTIATE_TEST_SUITE_P(Reports, Golden, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });
INSTANTIATE_TEST_SUITE_P(Brief, Golden, testing::ValuesIn(kBrief),
                         [](const auto& each) { return each.param.name; });

class Brief : public Golden {};

TEST_P(Brief, HoldsTheVerdictInItsFirstLineAndEndsOnOneScreen) {
  const std::string& out = answer_to(GetParam()).out;
  const std::string first = out.substr(0, out.find('\n'));
  EXPECT_TRUE(first.starts_with("✓ ") || first.starts_with("✗ ") || first.starts_with("+ ")) << first;
  EXPECT_LE(std::ranges::count(out, '\n'), 30) << out;
}

INSTANTIATE_TEST_SUITE_P(Reports, Brief, testing::ValuesIn(kBrief),
                         [](const auto& each) { return each.param.name; });

TEST(Help, EveryOptionIsOnAPageOfATopic) {
  std::string pages;
  for (const char* topic : {"model", "cluster", "strategy", "training", "rl", "output", "compare", "fit",
                            "check", "lint", "hardware"})
    pages += in_process(std::vector<std::string>{"help", topic}).out;
  for (const OptionSpec& each : option_table())
    EXPECT_THAT(pages, HasSubstr("\n  " + std::string(each.name) + " ")) << each.name;
}

TEST(Help, TheFirstPageTakesAtMostSixtyLines) {
  const std::string out = in_process("--help").out;
  EXPECT_LE(std::ranges::count(out, '\n'), 60);
  EXPECT_EQ(in_process("help").out, out);
  EXPECT_THAT(in_process("help nonsense").err, HasSubstr("accepted: all, model, cluster"));
}

TEST(Colour, OnlyOnATerminalThatWantsIt) {
  Environment terminal;
  terminal.output_is_terminal = true, terminal.terminal = "xterm";
  const std::vector<std::string> line = split("--model 8B --gpus 5 --mem 44 --no-advice");
  const auto colourful = [&](const Environment& e, std::vector<std::string> words = {}) {
    std::vector<std::string> all = line;
    all.insert(all.end(), words.begin(), words.end());
    return in_process(all, e).out.find('\033') != std::string::npos;
  };
  EXPECT_TRUE(colourful(terminal));
  EXPECT_FALSE(colourful(terminal, {"--no-color"}));
  EXPECT_FALSE(colourful(Environment{}));
  Environment plain = terminal;
  plain.no_color = true;
  EXPECT_FALSE(colourful(plain));
  plain = terminal, plain.terminal = "dumb";
  EXPECT_FALSE(colourful(plain));
}

TEST(Colour, ChangesNothingButTheColour) {
  Environment terminal;
  terminal.output_is_terminal = true, terminal.terminal = "xterm";
  const std::vector<std::string> line = split("--model 8B --gpus 5 --mem 44 --no-advice");
  std::string text = in_process(line, terminal).out;
  for (std::size_t at = 0; (at = text.find('\033')) != std::string::npos;)
    text.erase(at, text.find('m', at) - at + 1);
  EXPECT_EQ(text, in_process(line).out);
}

TEST(Report, ThePipedProgramPrintsTheSame) {
  const std::vector<std::string> line = split("--model 8B --gpus 5 --mem 44");
  EXPECT_EQ(as_process(line).out, in_process(line).out);
}

}  // namespace
}  // namespace zplan::test

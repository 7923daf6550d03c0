// What the program says of its own figures. That the numbers are what `zplan check` prints is docs.accuracy's
// to test.

#include "cli/accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <sstream>

#include "support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(Accuracy, EveryKindIsThere) {
  for (const auto& [of, name] : EnumNames<AccuracyOf>::table)
    EXPECT_FALSE(accuracies(of, Framework::deepspeed).empty()) << name;
  EXPECT_EQ(accuracies(AccuracyOf::memory, Framework::fsdp).front().framework, Framework::fsdp);
  EXPECT_FALSE(accuracies(AccuracyOf::collective_time, Framework::torch).front().framework);
}

TEST(Accuracy, FiguresAreShares) {
  for (const Accuracy& each : accuracies()) {
    EXPECT_GT(each.judged, 0) << each.against;
    EXPECT_LE(each.exact, each.judged) << each.against;
    EXPECT_LE(each.median, each.nine_in_ten) << each.against;
    EXPECT_LE(each.too_low, 1) << each.against;
  }
}

std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading)
    if (c == ' ' || std::isalnum(static_cast<unsigned char>(c)) != 0)
      anchor += c == ' ' ? '-' : static_cast<char>(std::tolower(c));
  return anchor;
}

TEST(Accuracy, EveryHeadingIsOnThePage) {
  std::set<std::string> headings;
  std::istringstream page(read_text(ZPLAN_SOURCE "/docs/accuracy.md"));
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("## ")) headings.insert(anchor_of(line.substr(3)));
  for (const Accuracy& each : accuracies()) EXPECT_EQ(headings.count(each.anchor), 1U) << each.anchor;
}

TEST(Accuracy, ATextSaysNoMoreThanItsNumbers) {
  Accuracy one;
  one.against = "runs", one.judged = 412, one.exact = 3;
  one.median = 0.031, one.nine_in_ten = 0.112;
  EXPECT_EQ(accuracy_text(one), "412 runs, median 3.1 %, 90 % within 11 %");
  one.too_low = 0.25;
  EXPECT_EQ(accuracy_text(one), "412 runs, median 3.1 %, 90 % within 11 %, too low by more than 5 % in 25 %");
  one.median = 0, one.nine_in_ten = 0.0004, one.too_low = 0;
  EXPECT_EQ(accuracy_text(one), "412 runs, median 0.00 %, 90 % within 0.04 %");
  one.exact = 412;
  EXPECT_EQ(accuracy_text(one), "412 runs, all equal");
}

TEST(Accuracy, ABadgeIsOneShortLine) {
  EXPECT_THAT(accuracy_badge(AccuracyOf::memory, Framework::deepspeed),
              MatchesRegex("memory: [0-9]+ published runs, median .* %, 90 % within .*"));
  EXPECT_THAT(accuracy_badge(AccuracyOf::traffic, Framework::deepspeed), HasSubstr("all equal"));
  EXPECT_EQ(accuracy_badge(AccuracyOf::host_memory, Framework::fsdp), "host memory: not checked under fsdp");
}

TEST(Accuracy, ExplainEndsWithIt) {
  const std::string line = "--model 0.5B --gpus 2 --mem 24";
  const std::string explained = in_process(line + " --explain").out;
  EXPECT_THAT(explained,
              AllOf(HasSubstr("How far off such figures were: deepspeed"), HasSubstr("docs/accuracy.md")));
  EXPECT_LT(explained.find("How far off"), explained.find("\nRecommended"));
  EXPECT_THAT(in_process(line).out, Not(HasSubstr("How far off")));
  const std::string both = in_process("compare " + line + " zero2 fsdp --explain").out;
  EXPECT_THAT(both, AllOf(HasSubstr("figures were: deepspeed"), HasSubstr("figures were: fsdp")));
}

}  // namespace
}  // namespace zplan::test

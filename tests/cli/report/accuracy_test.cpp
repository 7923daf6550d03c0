// The accuracy that the program reports. The test docs.accuracy compares its numbers with `zplan check`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "cli/report/explain.h"
#include "cli/scenarios/scenario_plan.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Coverage full_on(const std::string& card, Framework framework = Framework::deepspeed) {
  return {framework, Method::full, card};
}

TEST(Accuracy, EveryKindIsThere) {
  for (const auto& [of, name] : EnumNames<AccuracyOf>::table)
    EXPECT_FALSE(accuracies(of, full_on("A100-SXM-80GB")).empty()) << name;
}

TEST(Accuracy, FiguresAreShares) {
  for (const Accuracy& each : accuracies()) {
    EXPECT_GT(each.judged, 0) << each.against;
    EXPECT_LE(each.exact, each.judged) << each.against;
    EXPECT_LE(each.median, each.nine_in_ten) << each.against;
    EXPECT_LE(each.nine_in_ten, each.worst) << each.against;
    EXPECT_LE(each.too_low, 1) << each.against;
  }
}

// A prediction that is chosen by the measurement, or known from one side, says nothing of how far off it is.
TEST(Accuracy, OnlyNamedStatisticsOfPublishedPeaksCount) {
  for (const Accuracy& each : accuracies()) {
    EXPECT_NE(each.statistic, "unknown");
    if (each.of == AccuracyOf::memory && each.on_cards) {
      EXPECT_NE(each.statistic, "required");
    }
  }
}

/// A path through the host's memory that is not known widens what is said of speed, and nothing else.
TEST(Accuracy, RangesReachToOtherPathsThroughTheHost) {
  const auto ranges_on = [](const char* node) {
    const PlannedScenario planned = planned_scenario(
        {.name = "",
         .arguments = {"--model", "7B", "--gpus", "4", "--gpu", "3090", "--node", node, "--zero", "3"}},
        Environment{});
    const Comparable runs = comparable_to(planned.plan(), planned.question);
    return std::pair(likely_range(AccuracyOf::step_time, runs), likely_range(AccuracyOf::memory, runs));
  };
  const auto [peers, peers_memory] = ranges_on("pcie");
  const auto [host, host_memory] = ranges_on("pcie-no-p2p");
  EXPECT_LT(host.low, peers.low);
  EXPECT_GT(host.high, peers.high);
  EXPECT_EQ(host_memory.low, peers_memory.low);
  EXPECT_EQ(host_memory.high, peers_memory.high);
}

TEST(Accuracy, WiderGroupsHoldNarrowerOnes) {
  for (const Accuracy& wide : accuracies()) {
    if (!wide.framework || !wide.method || wide.card) continue;
    std::int64_t parts = 0;
    for (const Accuracy& each : accuracies())
      if (each.card && each.against == wide.against && each.statistic == wide.statistic &&
          each.framework == wide.framework && each.method == wide.method)
        parts += each.judged;
    EXPECT_LE(parts, wide.judged) << wide.against << wide.statistic;
  }
}

TEST(Accuracy, TheNarrowestGroupOfAStatisticSpeaks) {
  const Accuracy& any = *std::find_if(accuracies().begin(), accuracies().end(), [](const Accuracy& each) {
    return each.of == AccuracyOf::memory && each.framework && each.method && each.card;
  });
  const Coverage plan{*any.framework, *any.method, *any.card};
  for (const Accuracy& each : accuracies(AccuracyOf::memory, plan))
    if (each.against == any.against && each.statistic == any.statistic) {
      EXPECT_TRUE(is_of(each, plan));
      EXPECT_EQ(each.judged, any.judged);
    }
  for (const Accuracy& each :
       accuracies(AccuracyOf::memory, {plan.framework, plan.method, "a GPU of tomorrow"}))
    EXPECT_FALSE(each.card) << each.statistic;
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
  one.against = "published runs", one.statistic = "reserved", one.judged = 412, one.exact = 3;
  one.median = 0.031, one.nine_in_ten = 0.112, one.worst = 0.4;
  EXPECT_EQ(accuracy_text(one), "reserved: 412 published runs, median 3.1 %, 90 % within 11 %, worst 40 %");
  one.framework = Framework::fsdp, one.method = Method::lora, one.on_cards = true;
  EXPECT_THAT(accuracy_text(one), HasSubstr("412 published runs of fsdp, lora, on any GPU, median"));
  one.card = "H100-SXM-80GB", one.method.reset();
  EXPECT_THAT(accuracy_text(one),
              HasSubstr("412 published runs of fsdp, any method, on H100-SXM-80GB, median"));
  one.too_low = 0.25;
  EXPECT_THAT(accuracy_text(one), testing::EndsWith("worst 40 %, too low by more than 5 % in 25 %"));
  one.median = 0, one.nine_in_ten = 0.00001, one.too_low = 0;
  EXPECT_THAT(accuracy_text(one), HasSubstr("median 0.00 %, 90 % within 0.01 %"));
  one.exact = 412;
  EXPECT_THAT(accuracy_text(one), testing::EndsWith(", all equal"));
  one.exact = 0, one.judged = 1;
  EXPECT_EQ(accuracy_text(one),
            "reserved: 1 published run of fsdp, any method, on H100-SXM-80GB, off by 40 %");
}

TEST(Accuracy, SentencesSayWhereNothingWasMeasured) {
  const auto first = [](AccuracyOf of, const Coverage& plan) { return accuracy_sentences(of, plan).front(); };
  EXPECT_EQ(first(AccuracyOf::memory, full_on("RTX-5090-32GB")),
            "memory: nothing measured with deepspeed, full, on RTX-5090-32GB");
  EXPECT_THAT(accuracy_sentences(AccuracyOf::memory, full_on("RTX-5090-32GB")),
              testing::Contains(HasSubstr("recorded steps of deepspeed, full, median 0.00 %")));
  EXPECT_THAT(first(AccuracyOf::traffic, full_on("RTX-5090-32GB")), HasSubstr("all equal"));
  EXPECT_THAT(accuracy_sentences(AccuracyOf::host_memory, full_on("H100-SXM-80GB", Framework::torch)),
              testing::ElementsAre("host memory: nothing measured under torch"));
  EXPECT_EQ(first(AccuracyOf::collective_time, full_on("RTX-3090-24GB")),
            "collective time: nothing measured on RTX-3090-24GB");
  EXPECT_THAT(
      first(AccuracyOf::collective_time, full_on("H100-SXM-80GB")),
      testing::ContainsRegex("^collective time, seconds: [0-9]+ published timings on H100-SXM-80GB, "));
}

// Speeds of a source with a slower kernel do not count for plans.
TEST(Accuracy, SlowerKernelsAreToldApart) {
  const std::vector<std::string> sentences =
      accuracy_sentences(AccuracyOf::step_time, full_on("A100-SXM-40GB", Framework::fsdp));
  EXPECT_EQ(sentences.front(), "step time: nothing measured with fsdp, full, on A100-SXM-40GB");
  EXPECT_THAT(sentences,
              testing::Contains(HasSubstr(
                  "published runs with a slower attention kernel of fsdp, full, on A100-SXM-40GB")));
}

TEST(Accuracy, ALineSaysWhatWasRecordedAndMeasured) {
  const PlannedScenario planned = planned_scenario(
      {.name = "", .arguments = {"--model", "0.5B", "--gpus", "2", "--mem", "24"}}, Environment{});
  const auto line = [&](const std::vector<AccuracyOf>& kinds) {
    return validation_line(kinds, planned.plan(), planned.question);
  };
  const LikelyRange memory =
      likely_range(AccuracyOf::memory, comparable_to(planned.plan(), planned.question));
  EXPECT_THAT(
      line({AccuracyOf::memory}),
      testing::MatchesRegex("[0-9]+ recorded steps within [0-9.]+ %; 80 % of " + std::to_string(memory.runs) +
                            " similar measured runs within -[0-9]+ to [+][0-9]+ %"));
  EXPECT_THAT(line({AccuracyOf::step_time}), Not(HasSubstr("recorded")));
  EXPECT_THAT(line({AccuracyOf::traffic, AccuracyOf::collective_time}),
              testing::MatchesRegex("[0-9]+ recorded steps, call for call, all equal; [0-9]+ published "
                                    "timings, 90 % within [0-9.]+ %"));
  EXPECT_THAT(line({AccuracyOf::memory, AccuracyOf::step_time}),
              testing::MatchesRegex("memory -[0-9]+ to .* %.*, step time -.* %.*"));
  // One line of the window.
  for (const std::vector<AccuracyOf>& kinds : std::vector<std::vector<AccuracyOf>>{
           {AccuracyOf::memory}, {AccuracyOf::step_time}, {AccuracyOf::memory, AccuracyOf::step_time}})
    EXPECT_LE(line(kinds).size(), 88U) << line(kinds);
}

// Every figure that is shown, whatever plan it is shown for, has its statistic, its count and its subset.
TEST(Accuracy, EveryFigureSaysWhatItCovers) {
  for (const Framework framework : {Framework::deepspeed, Framework::fsdp, Framework::torch})
    for (const Method method : {Method::full, Method::lora, Method::qlora})
      for (const char* card : {"A100-SXM-80GB", "H100-SXM-80GB", "RTX-4090-24GB", "of my own"})
        for (const std::string& each : accuracy_sentences({framework, method, card}))
          if (each.find('%') != std::string::npos) {
            EXPECT_THAT(each, testing::ContainsRegex("^[a-z ]+, [a-z ]+: [0-9]+ [a-z, ]+")) << each;
          }
}

// Ties are as wide as predictions are off: of the framework, on the GPU.
TEST(Ties, AreHalfOfAllErrorsOfThatFrameworkAndCard) {
  for (const Framework framework : {Framework::deepspeed, Framework::fsdp, Framework::torch})
    for (const char* card : {"A100-SXM-80GB", "A100-SXM-40GB", "H100-SXM-80GB", "RTX-4090-24GB"}) {
      const Tie tie = speed_tie(framework, card);
      EXPECT_EQ(tie.within, tie.basis.median);
      EXPECT_EQ(tie.basis.framework, framework);
      EXPECT_GE(tie.basis.judged, 5);
      EXPECT_TRUE(!tie.basis.card || *tie.basis.card == card);
      EXPECT_THAT(tie_text(tie), testing::MatchesRegex("half of the [0-9]+ speeds of published runs.* of " +
                                                       std::string(to_name(framework)) +
                                                       ", any method, on .* were further off than .* %"));
    }
  const Tie deepspeed = speed_tie(Framework::deepspeed, "A100-SXM-80GB");
  EXPECT_FALSE(deepspeed.basis.slower_attention);
  EXPECT_EQ(deepspeed.basis.card, "A100-SXM-80GB");
  EXPECT_EQ(speed_tie(Framework::deepspeed, Framework::fsdp, "A100-SXM-80GB").within,
            std::max(deepspeed.within, speed_tie(Framework::fsdp, "A100-SXM-80GB").within));
}

TEST(Accuracy, ExplainEndsWithIt) {
  const std::string line = "--model 0.5B --gpus 2 --mem 24";
  const std::string explained = in_process(line + " --explain").out;
  EXPECT_THAT(explained, AllOf(HasSubstr("How far off such figures were: deepspeed, full, on "),
                               HasSubstr("docs/accuracy.md")));
  EXPECT_LT(explained.find("How far off"), explained.find("\nRecommended"));
  EXPECT_THAT(in_process(line).out, Not(HasSubstr("How far off")));
  const std::string both = in_process("compare " + line + " zero2 fsdp --explain").out;
  EXPECT_THAT(both, AllOf(HasSubstr("figures were: deepspeed"), HasSubstr("figures were: fsdp")));
}

}  // namespace
}  // namespace zplan::test

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

const json& explained() {
  static const json plan =
      report("--model 8B --gpus 5 --mem 44 --zero 3 --tp 1 --offload optimizer --explain").at("plans").at(0);
  return plan;
}

TEST(Explain, EveryFigureHasFormulaAndSource) {
  int figures = 0;
  for (const auto& [name, section] : explained().at("explain").items()) {
    if (name == "symbols") continue;
    for (const json& figure : section) {
      EXPECT_NE(figure.at("formula"), "") << figure;
      EXPECT_NE(figure.at("source"), "") << figure;
      ++figures;
    }
  }
  EXPECT_GT(figures, 25);
}

TEST(Explain, TermsAddUpToThePeak) {
  const json& figures = explained().at("explain").at("memory");
  double sum = 0;
  for (const json& figure : figures)
    if (figure.at("name") != "peak") sum += figure.at("value").get<double>();
  EXPECT_EQ(sum, figures.back().at("value").get<double>());
  EXPECT_EQ(sum, explained().at("memory").at("peak").get<double>());
}

TEST(Explain, CollectivesAddUpToWhatIsSent) {
  double sum = 0;
  for (const json& figure : explained().at("explain").at("communication"))
    if (!figure.at("name").get<std::string>().ends_with("device") &&
        !figure.at("name").get<std::string>().ends_with("host"))
      sum += figure.at("value").get<double>();
  EXPECT_EQ(sum, explained().at("communication").at("wire_bytes_per_gpu").get<double>());
}

TEST(Explain, TrafficStandsByPhaseGroupAndLink) {
  const Result text =
      in_process("--model 8B --gpus 16 --nodes 2 --gpu H100-SXM-80GB --zero 1 --tp 2 --explain");
  EXPECT_THAT(text.out, HasSubstr("Traffic per optimizer step and GPU\n"));
  for (const char* word : {"NVLink", "8x400g", "exposed", "backward  tensor", "step      data"})
    EXPECT_THAT(text.out, HasSubstr(word));
}

TEST(Explain, SymbolsHaveTheModelsValues) {
  const Result text =
      in_process("--model Qwen/Qwen3-8B --gpus 5 --mem 44 --zero 3 --tp 1 --offload none --explain");
  EXPECT_THAT(text.out,
              HasSubstr("8,190,735,360  trainable parameters"));  // named_parameters() of the Hub's module
  for (const char* symbol : {"  Ψ ", "  F ", "  N ", "  t ", "  P ", "  T ", "  h ", "  f ", "  a ", "  k ",
                             "  d ", "  V ", "  L ", "  s ", "  S ", "  w "})
    EXPECT_THAT(text.out, HasSubstr(symbol));
}

TEST(Explain, CompareExplainsEachPlan) {
  const Result text = in_process("compare --model 8B --gpus 5 --mem 44 zero3 zero2 --explain");
  EXPECT_THAT(text.out, HasSubstr("zero3 explained"));
  EXPECT_THAT(text.out, HasSubstr("zero2 explained"));
}

}  // namespace
}  // namespace zplan::test

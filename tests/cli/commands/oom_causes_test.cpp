// Causes of out-of-memory errors, over runs that ended for a known one (tests/reference/oom_runs).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

json records() {
  return json::parse(read_text(std::string(ZPLAN_TEST_DATA) + "/reference/oom_runs/runs.json"));
}

json answer(const json& run, const std::string& message) {
  std::vector<std::string> words = split(run.at("options").get<std::string>());
  words.insert(words.begin(),
               {"fit", "--oom", message, "--model", run.at("model").get<std::string>(), "--json"});
  return json::parse(in_process(words).out).at("oom");
}

std::vector<std::string> causes(const json& oom) {
  std::vector<std::string> named;
  for (const json& each : oom.at("causes")) named.push_back(each.at("cause"));
  return named;
}

TEST(OomCauses, TheCauseOfARunIsNamedFirst) {
  int first = 0;
  const json all = records();
  ASSERT_EQ(all.size(), 30U);
  for (const json& run : all) {
    const json oom = answer(run, run.at("message"));
    std::vector<std::string> named = causes(oom);
    ASSERT_FALSE(named.empty()) << run.at("id");
    if (named.front() == run.at("cause")) ++first;
    if (named.size() > 3) named.resize(3);
    EXPECT_THAT(named, Contains(run.at("cause").get<std::string>())) << run.at("id");
    EXPECT_FALSE(oom.at("causes").front().at("check").get<std::string>().empty()) << run.at("id");
  }
  EXPECT_GE(first, 26);
}

/// A length is found by the block that was asked for, whatever --seq says.
TEST(OomCauses, ALengthIsSolvedFor) {
  const json all = records();
  const auto run =
      std::find_if(all.begin(), all.end(), [](const json& each) { return each.at("id") == "length-1"; });
  ASSERT_NE(run, all.end());
  const json oom = answer(*run, run->at("message"));
  EXPECT_THAT(oom.at("causes").front().at("what").get<std::string>(),
              HasSubstr("samples of 16384 tokens, not 2048"));
  EXPECT_EQ(oom.at("causes").front().at("options"), "--seq 16384");
}

/// Weights that are whole on a GPU are said to be.
TEST(OomCauses, WholeWeightsAreSaid) {
  const json all = records();
  const auto run =
      std::find_if(all.begin(), all.end(), [](const json& each) { return each.at("id") == "zero-1"; });
  ASSERT_NE(run, all.end());
  std::string evidence;
  const json oom = answer(*run, run->at("message"));
  for (const json& each : oom.at("causes").front().at("evidence")) evidence += each.get<std::string>();
  EXPECT_THAT(evidence, HasSubstr("is this model's weights whole"));
}

/// What the message says by itself is not lost where a model is named.
TEST(OomCauses, NamingTheModelKeepsTheMessagesCause) {
  const std::string message =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 44.35 GiB of which 1.00 "
      "GiB is "
      "free. Including non-PyTorch memory, this process has 43.35 GiB memory in use. Of the allocated memory "
      "30.00 "
      "GiB is allocated by PyTorch, and 12.50 GiB is reserved by PyTorch but unallocated.";
  const json run{{"model", "Qwen/Qwen3-8B"}, {"options", "--gpus 8 --zero 3"}};
  EXPECT_THAT(causes(answer(run, message)), Contains("fragmentation"));
  const std::string text =
      in_process({"fit", "--oom", message, "--model", "Qwen/Qwen3-8B", "--gpus", "8", "--zero", "3"}).out;
  EXPECT_THAT(text, HasSubstr("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
}

}  // namespace
}  // namespace zplan::test

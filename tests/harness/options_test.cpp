#include "harness/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.h"

namespace zplan::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Options parsed(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  return parse_options(words);
}

TEST(Options, TakeTheFlagsOfNcclTests) {
  const Options o = parsed("-b 1K -e 1G -f 4 -n 7 -w 2 -d bfloat16");
  EXPECT_EQ(o.lowest, kKiB);
  EXPECT_EQ(o.highest, kGiB);
  EXPECT_EQ(o.factor, 4);
  EXPECT_EQ(o.iterations, 7);
  EXPECT_EQ(o.warmup, 2);
  EXPECT_THAT(o.dtypes, ElementsAre(DataType::bfloat16));
  EXPECT_EQ(parsed("-d all").dtypes.size(), 8U);
  EXPECT_THAT(parsed("--op all_gather,broadcast").operations,
              ElementsAre(Operation::all_gather, Operation::broadcast));
}

TEST(Options, StepSizesByFactorOrBytes) {
  EXPECT_THAT(sizes(parsed("-b 8 -e 100")), ElementsAre(Bytes(8), Bytes(16), Bytes(32), Bytes(64)));
  EXPECT_THAT(sizes(parsed("-b 1K -e 3K -i 1K")), ElementsAre(kKiB, kKiB * 2, kKiB * 3));
  EXPECT_THAT(sizes(parsed("-b 0 -e 2")), ElementsAre(Bytes(0), Bytes(2)));
}

TEST(Options, TimesHaveUnits) {
  EXPECT_EQ(parsed("--budget 60s").budget, Seconds(60));
  EXPECT_EQ(parsed("--budget 2m").budget, Seconds(120));
  EXPECT_EQ(parsed("--timeout 500ms").timeout, Seconds(0.5));
}

TEST(Options, WhatIsMeasuredFollowsFromWhatIsAskedFor) {
  EXPECT_EQ(parsed("").measured_operations().size(), 7U);
  EXPECT_TRUE(parsed("--plan p.json").measured_operations().empty());
  EXPECT_TRUE(parsed("--storage .").measured_operations().empty());
  EXPECT_EQ(parsed("--storage . --calibrate").measured_operations().size(), 7U);
}

struct Refused {
  std::string line, named;
};
class BadOptions : public testing::TestWithParam<Refused> {};
TEST_P(BadOptions, AreNamedWithTheirValue) {
  try {
    (void)parsed(GetParam().line);
    FAIL() << GetParam().line;
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().named));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}
INSTANTIATE_TEST_SUITE_P(
    Lines, BadOptions,
    testing::Values(Refused{"-b x", "--min-bytes: \"x\""}, Refused{"-b -1", "--min-bytes: \"-1\""},
                    Refused{"-e 1T5", "--max-bytes: \"1T5\""}, Refused{"-b 2M -e 1M", "--min-bytes"},
                    Refused{"-i 0", "--step-bytes"}, Refused{"-f 1", "--step-factor"},
                    Refused{"-n 0", "--iters"}, Refused{"-d float33", "float33"},
                    Refused{"--op allreduce", "allreduce"}, Refused{"--groups tensor", "--tp"},
                    Refused{"--budget 0s", "--budget: \"0s\""}, Refused{"--budget 5x", "--budget: \"5x\""},
                    Refused{"--timeout -1", "--timeout"}, Refused{"--local 0", "--local"},
                    Refused{"--compute", "--plan"}, Refused{"--plan p --op all_reduce", "--op"},
                    Refused{"--backend gloo", "gloo"}, Refused{"--frobnicate", "--frobnicate"},
                    Refused{"-b", "--min-bytes"}, Refused{"-b 99999999999999999999", "--min-bytes"}));

}  // namespace
}  // namespace zplan::bench

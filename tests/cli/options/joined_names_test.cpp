// Names of several words that were typed without quotes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/options/command_line.h"
#include "cli/options/options.h"
#include "models/base/error.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> joined(const std::string& line) { return with_joined_names(split(line)); }

TEST(JoinedNames, MakeOneValueOfWordsThatNameOneThing) {
  EXPECT_THAT(joined("--gpu A100 80GB --gpus 4"), ElementsAre("--gpu", "A100 80GB", "--gpus", "4"));
  EXPECT_THAT(joined("--model Qwen3 14b --seq 8k"), ElementsAre("--model", "Qwen3 14b", "--seq", "8k"));
  EXPECT_THAT(joined("fit --gpu RTX PRO 6000"), ElementsAre("fit", "--gpu", "RTX PRO 6000"));
  EXPECT_THAT(joined("--gpu RTX 4090 fit"), ElementsAre("--gpu", "RTX 4090", "fit"));
  EXPECT_THAT(joined("--model Llama 3.1 8B --gpu H100 SXM 80GB"),
              ElementsAre("--model", "Llama 3.1 8B", "--gpu", "H100 SXM 80GB"));
}

TEST(JoinedNames, LeaveWordsOfTheCommandAlone) {
  for (const std::string line :
       {"compare --model Qwen3-8B --gpu A100 zero3 tp2+zero1", "lint --gpu A100 ds.json",
        "check --model Qwen3-8B Instruct", "--gpu A100 search", "--model 8B fit --gpus 2",
        "--gpu A100 --gpus 8", "lint --model Qwen3-8B base /tmp/ds.json", "--model 8B serch"})
    EXPECT_EQ(joined(line), split(line)) << line;
  EXPECT_THAT(joined("compare --gpu A100 80GB zero3"), ElementsAre("compare", "--gpu", "A100 80GB", "zero3"));
}

TEST(JoinedNames, AWordThatMakesNoNameIsRefusedWithTheName) {
  try {
    static_cast<void>(parse_options(split("--model 8B --gpus 4 --gpu A100 81GB")));
    FAIL() << "81GB is no command";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no name is known as A100 81GB"));
    EXPECT_THAT(error.what(), HasSubstr("--gpu \"A100 81GB\" in quotes"));
  }
}

}  // namespace
}  // namespace zplan::test

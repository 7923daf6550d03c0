// Shell scripts as recipes: what of them is expanded, which command is taken, and what they leave open.

#include "cli/recipes/shell_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "cli/recipes/recipe.h"
#include "cli/recipes/recipe_text.h"
#include "models/base/error.h"
#include "tests/cli/support.h"
#include "tests/mutated.h"

namespace zplan::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// Words of the last command of a script.
std::vector<std::string> words_of(const std::string& script) {
  const ShellScript followed = follow_shell(script, "run.sh", [](const ShellCall&) { return false; });
  std::vector<std::string> words;
  if (followed.calls.empty()) return words;
  for (const ShellField& each : followed.calls.back().words) words.push_back(each.text);
  return words;
}

RecipeText script_of(const std::string& text) { return with_named_config(read_recipe_text(text, "run.sh")); }

/// A flag's value, or "(none)".
std::string flag_of(const std::string& text, const std::string& key) {
  const RecipeText script = script_of(text);
  const RecipeValue* value = script.root.find_path(key);
  return value == nullptr ? "(none)" : value->text;
}

std::string script_error(const std::string& text) {
  try {
    static_cast<void>(read_recipe(text, "run.sh", {.gpus = 8, .has_model = true, .given = {}}));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(ShellScript, TakesQuotesCommentsAndContinuedLinesAway) {
  EXPECT_THAT(words_of("a 'b c' \"d e\" f\\ g \\\n  h # i\n"), ElementsAre("a", "b c", "d e", "f g", "h"));
  EXPECT_THAT(words_of("a --x=\"b\"'c'd #e"), ElementsAre("a", "--x=bcd"));
  EXPECT_THAT(words_of("a ''"), ElementsAre("a", ""));
  EXPECT_THAT(words_of("a 2>&1 >log <in b"), ElementsAre("a", "b"));
}

TEST(ShellScript, ExpandsVariables) {
  EXPECT_THAT(words_of("A=1\nB=${A}2\na $A ${B} \"$A$B\" '$A'"), ElementsAre("a", "1", "12", "112", "$A"));
  EXPECT_THAT(words_of("A='x y'\na $A \"$A\""), ElementsAre("a", "x", "y", "x y"));
  EXPECT_THAT(words_of("A=\na $A b \"$A\""), ElementsAre("a", "b", ""));
  EXPECT_THAT(words_of("A=1; A+=2; export B=$A; a $B"), ElementsAre("a", "12"));
}

TEST(ShellScript, ExpandsParameters) {
  EXPECT_THAT(words_of("A=x\na ${A:-1} ${B:-2} ${B-3} ${A:+4} ${B:=5} $B"),
              ElementsAre("a", "x", "2", "3", "4", "5", "5"));
  EXPECT_THAT(words_of("B=9\na ${A:-$((B + 1))} ${#B}"), ElementsAre("a", "10", "1"));
  EXPECT_THAT(words_of("P=/m/Qwen/Qwen3-8B.tar.gz\na ${P##*/} ${P#/m/} ${P%.*} ${P%%.*}"),
              ElementsAre("a", "Qwen3-8B.tar.gz", "Qwen/Qwen3-8B.tar.gz", "/m/Qwen/Qwen3-8B.tar",
                          "/m/Qwen/Qwen3-8B"));
  EXPECT_THAT(words_of("A=a-b-c\na ${A/-/+} ${A//-/+} ${A:2:1} ${A^^}"),
              ElementsAre("a", "a+b-c", "a+b+c", "b", "A-B-C"));
}

TEST(ShellScript, ExpandsArrays) {
  EXPECT_THAT(words_of("A=(x 'y z' # no\n  w)\nA+=(v)\na \"${A[@]}\" ${#A[@]} ${A[1]}"),
              ElementsAre("a", "x", "y z", "w", "v", "4", "y", "z"));
  EXPECT_THAT(words_of("A=()\na \"${A[@]}\" b"), ElementsAre("a", "b"));
}

TEST(ShellScript, DoesArithmetic) {
  EXPECT_THAT(words_of("N=4\na $((16 / N)) $((1280*28*28)) $(( (N + 2) % 5 )) $((2**10)) $((N > 3 ? 7 : 8))"),
              ElementsAre("a", "4", "1003520", "1", "1024", "7"));
  EXPECT_THAT(words_of("N=4\na $(expr 16 / $N) `expr 2 \\* 3` $(expr 32 / $N / 2)"),
              ElementsAre("a", "4", "6", "4"));
  EXPECT_THAT(words_of("((N = 3)); ((N++)); a $N"), ElementsAre("a", "4"));
  EXPECT_THAT(words_of("a $((1 / 0))"), ElementsAre("a", "$((1 / 0))"));
}

TEST(ShellScript, KnowsWhatCommandsPrintThatOnlyLookAtText) {
  EXPECT_THAT(
      words_of("G=0,1,2\na $(echo $G | tr ',' '\\n' | wc -l) $(echo \"$G\" | awk -F',' '{print NF}')"),
      ElementsAre("a", "3", "3"));
  EXPECT_THAT(words_of("a $(basename /m/x) $(dirname /m/x) $(echo b c) $(seq 2)"),
              ElementsAre("a", "x", "/m", "b", "c", "1", "2"));
  EXPECT_THAT(words_of("a \"$(nvidia-smi -L | wc -l)\""), ElementsAre("a", "$(nvidia-smi -L | wc -l)"));
}

TEST(ShellScript, FollowsBranchesAndLoops) {
  EXPECT_THAT(
      words_of("A=b\nif [ \"$A\" = a ]; then x 1; elif [[ $A == b && -z $C ]]; then x 2; else x 3; fi"),
      ElementsAre("x", "2"));
  EXPECT_THAT(words_of("N=8\nif (( N > 4 )); then x big; else x small; fi"), ElementsAre("x", "big"));
  EXPECT_THAT(words_of("if [ -z \"$A\" ]; then A=3; fi\nx $A"), ElementsAre("x", "3"));
  EXPECT_THAT(words_of("case x-7b in *-70b) A=1;; *-7b|y) A=2;; *) A=3;; esac\nx $A"), ElementsAre("x", "2"));
  EXPECT_THAT(words_of("for i in 1 2; do A=\"$A$i\"; done; x $A"), ElementsAre("x", "$A12"));
  EXPECT_THAT(words_of("[ $# -ge 1 ] || B=2; x $B"), ElementsAre("x", "2"));
  // A branch that leaves is not what the script does, and what is unknown takes the first branch.
  EXPECT_THAT(words_of("if [ -f y ]; then exit 1; else A=2; fi; x $A"), ElementsAre("x", "2"));
  EXPECT_THAT(words_of("if [ -f y ]; then A=1; else A=2; fi; x $A"), ElementsAre("x", "1"));
}

TEST(ShellScript, CallsFunctionsAndReadsWhatIsEvaluated) {
  EXPECT_THAT(words_of("f() {\n  local m=$1; shift\n  x $m \"$@\"\n}\nf a"), ElementsAre("x", "a", "a"));
  EXPECT_THAT(words_of("C='x --a 1'\neval $C"), ElementsAre("x", "--a", "1"));
  EXPECT_THAT(words_of("bash -c 'x $A' "), ElementsAre("x", "$A"));
}

TEST(ShellScript, KeepsFilesThatItWrites) {
  const ShellScript script = follow_shell(
      "L=3\ncat <<EOF > a.yaml\nx: $L \\$L\nEOF\ncat > b.yaml <<-'E'\n\ty: $L\n\tE\necho z: 1 > c\n",
      "run.sh", [](const ShellCall&) { return false; });
  EXPECT_EQ(script.files.at("a.yaml"), "x: 3 $L\n");
  EXPECT_EQ(script.files.at("b.yaml"), "y: $L\n");
  EXPECT_EQ(script.files.at("c"), "z: 1\n");
}

TEST(ShellRecipe, IsTheFirstCommandThatTrains) {
  EXPECT_EQ(flag_of("pip install x --upgrade\nswift infer --model a\nswift sft --model b\nswift sft --model "
                    "c\nswift export --model d\n",
                    "model"),
            "b");
  EXPECT_EQ(flag_of("python prepare.py --out x\npython train.py --model_name_or_path b --output_dir "
                    "c\npython test.py --model_name_or_path d",
                    "model_name_or_path"),
            "b");
}

TEST(ShellRecipe, HasTheEnvironmentsVariables) {
  const std::string script = "export A=1 B=2\nC=3\nunset B\nD=4 env E=5 nohup swift sft --model m";
  EXPECT_EQ(flag_of(script, "A"), "1");
  EXPECT_EQ(flag_of(script, "B"), "(none)");
  EXPECT_EQ(flag_of(script, "C"), "(none)");
  EXPECT_EQ(flag_of(script, "D"), "4");
  EXPECT_EQ(flag_of(script, "E"), "5");
}

TEST(ShellRecipe, KnowsLaunchers) {
  for (const char* launcher :
       {"torchrun --standalone --nproc_per_node=4 --nnodes 2",
        "python3 -m torch.distributed.run --nproc-per-node 4 --nnodes 2",
        "deepspeed --num_gpus 4 --num_nodes=2", "accelerate launch --num_machines 2 --num_processes 8"}) {
    const Recipe read = read_recipe(
        std::string(launcher) + " -m swift.cli.sft --model Qwen/Qwen3-8B --tuner_type lora", "run.sh", {});
    EXPECT_EQ(read.format, RecipeFormat::swift) << launcher;
    RecipeOptions options;
    for (const Recipe& each : read.launched_by)
      for (const RecipeSetting& setting : each.settings)
        options.insert(options.end(), setting.options.begin(), setting.options.end());
    for (const RecipeSetting& setting : read.settings)
      options.insert(options.end(), setting.options.begin(), setting.options.end());
    EXPECT_THAT(options, testing::Contains(testing::Pair("--gpus", "8"))) << launcher;
    EXPECT_THAT(options, testing::Contains(testing::Pair("--nodes", "2"))) << launcher;
  }
}

TEST(ShellRecipe, ReadsAcceleratesConfigBelowItsFlags) {
  const Folder folder;
  folder.write("acc.yaml",
               "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_reshard_after_forward: true\n "
               " fsdp_offload_params: true\n");
  const std::string script = folder.write("run.sh",
                                          "accelerate launch --config_file acc.yaml --num_processes 4 "
                                          "swift/cli/sft.py --model Qwen/Qwen3-8B --tuner_type full");
  const json r = report("--recipe " + script + " --mem 80");
  EXPECT_EQ(r.at("cluster").at("gpus"), 4);
  EXPECT_EQ(r.at("training").at("framework"), "fsdp");
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("offload_parameters"), "cpu");
}

TEST(ShellRecipe, ReadsConfigsThatTheCommandNames) {
  const std::string written =
      "cat <<EOF > x.yaml\nmodel: a\nmax_length: 10\nENV:\n  MAX_PIXELS: 5\nEOF\nswift sft ./x.yaml "
      "--max_length 20";
  EXPECT_EQ(flag_of(written, "model"), "a");
  EXPECT_EQ(flag_of(written, "max_length"), "20");
  EXPECT_EQ(flag_of(written, "MAX_PIXELS"), "5");
  const Folder folder;
  folder.write("x.yaml", "model: Qwen/Qwen3-8B\ntuner_type: lora\nlora_rank: 0\n");
  EXPECT_THAT(in_process("--mem 80 --recipe " + folder.write("run.sh", "swift sft x.yaml")).err,
              HasSubstr("x.yaml:3: lora_rank: \"0\""));
  EXPECT_THAT(script_error("\nswift sft y.yaml"),
              StartsWith("run.sh:2: \"y.yaml\": there is no such file; accepted: "));
}

TEST(ShellRecipe, NamesWhatItDoesNotSay) {
  EXPECT_EQ(script_error("swift sft --model Qwen/Qwen3-8B \\\n  --lora_rank $RANK"),
            "run.sh:2: lora_rank: the script does not set $RANK; accepted: RANK=… in the script, or "
            "--lora-rank beside --recipe");
  EXPECT_EQ(script_error("swift sft --model $M"),
            "run.sh:1: --model: missing: the script does not set $M; accepted: M=… in the script, or --model "
            "beside --recipe");
  EXPECT_THAT(
      script_error(
          "N=$(nvidia-smi -L | wc -l)\nswift sft --model Qwen/Qwen3-8B --gradient_accumulation_steps "
          "$((64 / N))"),
      HasSubstr("run.sh:2: gradient_accumulation_steps: the script does not set $(nvidia-smi -L | wc -l)"));
  // Where nothing follows from it, it is no error.
  EXPECT_THAT(script_error("swift sft --model $HOME/Qwen3-8B --output_dir $OUT --num_train_epochs $E"),
              IsEmpty());
  const Recipe read = read_recipe("swift sft --model m --bf16 true $MORE", "run.sh", {});
  ASSERT_EQ(read.not_planned.size(), 1U);
  EXPECT_EQ(read.not_planned[0].key, "$MORE");
}

TEST(ShellRecipe, IsWrittenBack) {
  const auto changed = [](const std::string& text, const std::vector<RecipeChange>& changes) {
    return changed_recipe(read_recipe_text(text, "r.sh"), changes);
  };
  EXPECT_EQ(changed("B=2\nswift sft --model m --batch $B --x y\n# end\n", {{"batch", "4"}, {"new", "1"}}),
            "B=2\nswift sft --model m --batch 4 --x y \\\n    --new 1\n# end\n");
  EXPECT_EQ(changed("A=(--batch 2 # why\n --x 1)\nswift sft \"${A[@]}\" --y 1\n", {{"batch", "4"}}),
            "A=(--batch 4 # why\n --x 1)\nswift sft \"${A[@]}\" --y 1\n");
  // Of a variable that holds several words none stands in the text by itself.
  EXPECT_EQ(changed("A='--batch 2'\nswift sft $A --y 1\n", {{"batch", "4"}}),
            "A='--batch 2'\nswift sft $A --y 1 \\\n    --batch 4\n");
}

TEST(ShellScript, EndsWhateverItIsGiven) {
  EXPECT_THAT(script_error("A=xxxxxxxxxxxxxxxx\nfor i in $(seq 1000); do A=$A$A; done\nswift sft --model $A"),
              HasSubstr("accepted"));
  EXPECT_THAT(script_error("f() { f; f; f; f; f; f; }\nf\nswift sft --model Qwen/Qwen3-8B"),
              testing::AnyOf(IsEmpty(), HasSubstr("expands to too much")));
  EXPECT_THAT(script_error("swift sft --model \"a \\"), HasSubstr("a quote that nothing closes"));
  std::string deep = "swift sft --model ";
  for (int i = 0; i < 20'000; ++i) deep += "$(echo \"";
  static_cast<void>(script_error(deep));
  std::string nested;
  for (int i = 0; i < 20'000; ++i) nested += "if x; then (";
  static_cast<void>(script_error(nested + "swift sft --model Qwen/Qwen3-8B"));
  EXPECT_THAT(script_error("A='A+A+A+A+A+A+A+A'\nswift sft --model Qwen/Qwen3-8B --lora_rank $((A))"),
              HasSubstr("lora_rank"));
}

// A fixed seed: the same bytes every time.
TEST(ShellScript, MutatedEndsInARecipeOrAnInputError) {
  const std::vector<std::string> words{
      "$",    "$(",    ")",   "${",  "}",  "$((", "))",    "'",    "\"",        "\\",  "\n",     ";",
      "&&",   "||",    "|",   "(",   "{",  "if ", "then ", "fi\n", "for i in ", "do ", "done\n", "case ",
      "esac", "<<E\n", "E\n", "[[ ", "]]", "`",   "A=",    "A=(",  "${A[@]}",   "#",   "%",      "eval "};
  const std::string text =
      "set -e\nexport N=4\nA=(--lora_rank 8 \"--tuner_type\" lora)\nf() { swift sft \"$@\" \"${A[@]}\"; }\n"
      "if [ -z \"$M\" ]; then M=Qwen/Qwen3-8B; elif [[ $N -gt 2 ]]; then M=b; fi\ncat <<EOF > x.yaml\nmodel: "
      "$M\nEOF\n"
      "case $N in 4|5) B=$((16 / N));; *) B=1;; esac\nfor i in 1 2; do C+=\"$i\"; done\n"
      "f --model ${M:-x} --gradient_accumulation_steps $(expr $B \\* 2) --max_length ${C//2/0}\n";
  std::mt19937 random(20'261'126);
  int read = 0, errors = 0;
  for (int round = 0; round < 4'000; ++round) {
    const std::string changed = mutated(text, words, random);
    try {
      static_cast<void>(read_recipe(changed, "run.sh", {.gpus = 2, .has_model = true, .given = {}}));
      ++read;
      static_cast<void>(
          changed_recipe(read_recipe_text(changed, "run.sh"), {{"lora_rank", "4"}, {"seed", "1"}}));
    } catch (const InputError& error) {
      ++errors;
      const std::string what = error.what();
      ASSERT_TRUE(std::ranges::none_of(what, [](unsigned char c) { return std::iscntrl(c) != 0; }))
          << changed;
    }
  }
  EXPECT_GT(read, 300);
  EXPECT_GT(errors, 300);
}

}  // namespace
}  // namespace zplan::test

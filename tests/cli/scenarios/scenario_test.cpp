// `compare FILE.zplan`: the scenarios of a file side by side, and what a file may not be.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/document/text.h"
#include "cli/scenarios/scenario_plan.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

json scenario(const std::string& name, const std::string& arguments) {
  return {{"name", name}, {"arguments", split(arguments)}};
}

json file_of(const std::vector<json>& scenarios) {
  return {{"schema", "zplan.scenarios/1"}, {"scenarios", scenarios}};
}

const std::string kSmallScenario = "--model 0.5B --gpus 2 --mem 24";

json two() {
  return file_of({scenario("two", kSmallScenario), scenario("four", "--model 0.5B --gpus 4 --mem 24")});
}

/// A folder with one file of scenarios.
class Scenarios : public testing::Test {
 protected:
  Result compare(const json& file, const std::string& more = {}) const {
    std::vector<std::string> words{"compare", folder_.write("x.zplan", file.dump())};
    for (const std::string& word : split(more)) words.push_back(word);
    return in_process(words);
  }
  json comparison(const json& file, const std::string& more = {}) const {
    return json::parse(compare(file, more + " --json").out);
  }
  /// One line that names what is wrong, and nothing on stdout.
  std::string error_of(const Result& result) const {
    EXPECT_EQ(result.status, kBadInput);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  }
  std::string error_of(const json& file, const std::string& more = {}) const {
    return error_of(compare(file, more));
  }
  std::string error_of_text(const std::string& text) const {
    return error_of(in_process({"compare", folder_.write("x.zplan", text)}));
  }
  Folder folder_;
};

std::vector<std::string> line_beginning(const std::string& text, const std::string& begin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(begin)) return split(line);
  return {};
}

/// Returns the report of a command line without the advice, which scenarios do not have.
json unadvised(const std::string& line) {
  json all = report(line);
  all["advice"] = nullptr;
  return all;
}

/// Each report is what the scenario's own command line prints.
TEST_F(Scenarios, EachIsWhatItsArgumentsGive) {
  const json all = comparison(two());
  ASSERT_EQ(all.at("scenarios").size(), 2U);
  EXPECT_EQ(all.at("schema"), "zplan.comparison/1");
  EXPECT_EQ(all.at("scenarios")[0].at("report"), unadvised(kSmallScenario));
  EXPECT_EQ(all.at("scenarios")[1].at("report"), unadvised("--model 0.5B --gpus 4 --mem 24"));
  EXPECT_EQ(all.at("scenarios")[1].at("strategy"), all.at("scenarios")[1].at("report").at("recommended"));
  EXPECT_EQ(all.at("scenarios")[1].at("arguments"), json(split("--model 0.5B --gpus 4 --mem 24")));
}

TEST_F(Scenarios, DifferencesAreFromTheBaseline) {
  const auto needs = [](const json& each) {
    return each.at("report").at("plans")[0].at("memory").at("required").get<std::int64_t>();
  };
  json file = two();
  file["baseline"] = 1;
  for (const auto& [more, baseline] :
       std::vector<std::pair<std::string, std::size_t>>{{"", 1}, {"--baseline two", 0}}) {
    const json all = comparison(file, more);
    EXPECT_EQ(all.at("baseline"), baseline) << more;
    const json& scenarios = all.at("scenarios");
    for (const json& each : scenarios)
      EXPECT_EQ(each.at("delta").at("required").at("absolute").get<std::int64_t>(),
                needs(each) - needs(scenarios[baseline]))
          << more;
  }
  EXPECT_EQ(comparison(two()).at("baseline"), 0U);
}

TEST_F(Scenarios, TheTableHasSettingsFiguresDifferencesAndTheBest) {
  const Result result = compare(two());
  EXPECT_EQ(result.status, kFits);
  EXPECT_EQ(result.err, "");
  const std::vector<std::string> gpus = line_beginning(result.out, "GPUs");
  EXPECT_EQ(gpus, split("GPUs 2 4"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("differences are from two"), HasSubstr("model 0.5B"),
                    HasSubstr("four is faster"), HasSubstr("zplan --model 0.5B --gpus 4 --mem 24  # four")));
  EXPECT_THAT(result.out, Not(HasSubstr("\nmodel ")));
  const std::vector<std::string> speed = line_beginning(result.out, "tokens per second");
  ASSERT_EQ(speed.size(), 6U);
  EXPECT_THAT(speed[4], HasSubstr("*"));
  EXPECT_THAT(speed[5], HasSubstr("+"));
}

TEST_F(Scenarios, AStrategyStandsForItsScenario) {
  json file = two();
  file["scenarios"][0]["strategy"] = "zero3";
  const json all = comparison(file);
  EXPECT_EQ(all.at("scenarios")[0].at("strategy"), "zero3");
  EXPECT_NE(all.at("scenarios")[0].at("report").at("recommended"), "zero3");
  EXPECT_EQ(all.at("scenarios")[1].at("delta").at("step").at("absolute").get<double>(),
            plan_of(all.at("scenarios")[1].at("report"), all.at("scenarios")[1].at("strategy"))
                    .at("time")
                    .at("step")
                    .get<double>() -
                plan_of(all.at("scenarios")[0].at("report"), "zero3").at("time").at("step").get<double>());
}

TEST_F(Scenarios, AStrategyThatIsNotThereIsSaid) {
  json file = two();
  file["scenarios"][1]["strategy"] = "zero9";
  const Result result = compare(file);
  EXPECT_EQ(result.status, kFits);
  EXPECT_THAT(result.err, AllOf(HasSubstr("x.zplan#/scenarios/1/strategy"), HasSubstr("zero9")));
}

TEST_F(Scenarios, OnlyThoseThatAreCompared) {
  json file = two();
  file["scenarios"].push_back(scenario("broken", "--gpus none"));
  file["scenarios"][2]["compared"] = false;
  file["baseline"] = 2;
  const json all = comparison(file);
  EXPECT_EQ(all.at("scenarios").size(), 2U);
  EXPECT_EQ(all.at("baseline"), 0U);
  EXPECT_THAT(error_of(file, "--baseline broken"),
              AllOf(HasSubstr("--baseline"), HasSubstr("broken"), HasSubstr("two")));
}

TEST_F(Scenarios, TheStatusSaysWhetherAllFit) {
  EXPECT_EQ(compare(two()).status, kFits);
  json file = two();
  file["scenarios"].push_back(scenario("too large", "--model 70B --gpus 1 --mem 24 --offload none"));
  const Result result = compare(file);
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_THAT(result.out, AllOf(HasSubstr("does not fit"), HasSubstr("too large: "), HasSubstr("short by")));
  // Tokens of another model are not the same.
  EXPECT_THAT(result.out, HasSubstr("four is faster"));
}

TEST_F(Scenarios, ADraftOfDifferentModelsNamesNoFastest) {
  const json file =
      file_of({scenario("half", kSmallScenario), scenario("one", "--model 1B --gpus 2 --mem 24")});
  EXPECT_THAT(compare(file).out, AllOf(Not(HasSubstr("is faster")), HasSubstr("needs less memory")));
}

/// Thirty-two GPUs finish sooner than eight, and pay for what the network costs them.
TEST_F(Scenarios, FastestAndCheapestAreOrders) {
  const std::string asked =
      "--model 8B --gpu h100 --zero 3 --offload none --tp 1 --micro-batch 2 --global-batch 64 "
      "--samples 50000 --price ";
  const json file = file_of({scenario("one node", asked + "2.5 --gpus 8"),
                             scenario("four nodes", asked + "2.5 --gpus 32 --nodes 4")});
  const auto names = [&](const std::string& more) {
    const json answer = comparison(file, more);
    std::vector<std::string> all;
    for (const json& each : answer.at("scenarios")) all.push_back(each.at("name"));
    return all;
  };
  EXPECT_THAT(names("--order fastest"), testing::ElementsAre("four nodes", "one node"));
  EXPECT_THAT(names("--order cheapest"), testing::ElementsAre("one node", "four nodes"));
  EXPECT_EQ(comparison(file, "--order fastest").at("baseline"), 1U);
  EXPECT_THAT(error_of(two(), "--order cheapest"), HasSubstr("cheapest, but \"two\" has no cost"));
}

TEST_F(Scenarios, DifferencesLeaveOutWhatIsAlike) {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '|'); };
  const std::string all = compare(two(), "--markdown").out,
                    some = compare(two(), "--markdown --differences").out;
  EXPECT_LT(lines(some), lines(all));
  EXPECT_THAT(some, AllOf(HasSubstr("are left out"), Not(HasSubstr("(=)"))));
  json file = two();
  file["differences"] = true;
  EXPECT_EQ(compare(file, "--markdown").out, some);
}

TEST_F(Scenarios, OneAloneHasNoDifferences) {
  json file = file_of({scenario("alone", kSmallScenario)});
  file["differences"] = true;
  const Result result = compare(file);
  EXPECT_EQ(result.status, kFits);
  EXPECT_EQ(line_beginning(result.out, "needs").size(), 3U) << result.out;
  EXPECT_THAT(result.out, Not(HasSubstr("*")));
}

TEST_F(Scenarios, CsvHasALineForEach) {
  const std::string csv = compare(two(), "--csv").out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv, AllOf(testing::StartsWith("scenario,command,model,gpu,gpus,id,fits,"),
                         HasSubstr("\r\nfour,zplan --model 0.5B --gpus 4"),
                         HasSubstr(",baseline,required_delta_bytes,")));
  std::istringstream lines(csv);
  std::string first, second;
  std::getline(lines, first), std::getline(lines, second);
  EXPECT_EQ(std::count(first.begin(), first.end(), ','), std::count(second.begin(), second.end(), ','));
}

TEST_F(Scenarios, ManyStandInTablesThatKeepToTheWidth) {
  std::vector<json> many;
  for (int gpus = 1; gpus <= 9; ++gpus)
    many.push_back(scenario(fmt::format("a name that is rather long, of {} GPUs", gpus),
                            fmt::format("--model 0.5B --mem 24 --gpus {}", gpus)));
  std::istringstream lines(compare(file_of(many)).out);
  std::size_t headings = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("GPUs ")) ++headings;
    if (!line.starts_with("  zplan ")) {
      EXPECT_LE(display_width(line), 100U) << line;
    }
  }
  EXPECT_GT(headings, 1U);
}

TEST_F(Scenarios, FilesBesideItAreFound) {
  fs::create_directories(folder_.path("sub"));
  folder_.write("mine.json", R"({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2})");
  const json file = file_of({scenario("mine", kSmallScenario + " --ds-config mine.json")});
  EXPECT_EQ(comparison(file).at("scenarios")[0].at("strategy"), "zero2");
}

TEST_F(Scenarios, ASavedReportIsShownAsItWas) {
  json saved = report(kSmallScenario);
  saved["plans"][0]["memory"]["required"] = std::int64_t{5} << 30;
  folder_.write("then.json", saved.dump());
  json file = two();
  file["scenarios"].push_back({{"name", "then"}, {"report", "then.json"}});
  const json all = comparison(file);
  EXPECT_EQ(all.at("scenarios")[2].at("report"), saved);
  EXPECT_TRUE(all.at("scenarios")[2].at("arguments").is_null());
  const std::string text = compare(file).out;
  EXPECT_THAT(text, AllOf(HasSubstr("then: "), HasSubstr("a report as it was saved in"), HasSubstr("5.00")));
  EXPECT_THAT(text, Not(HasSubstr("# then")));
  EXPECT_NE(compare(file, "--explain").status, kBadInput);
  folder_.write("then.json", "{}");
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("x.zplan#/scenarios/2/report"), HasSubstr("then.json")));
}

TEST_F(Scenarios, ExplainsEach) {
  const Result result = compare(two(), "--explain");
  EXPECT_THAT(result.out, AllOf(HasSubstr("\ntwo\n"), HasSubstr("\nfour\n")));
  EXPECT_TRUE(
      comparison(two(), "--explain").at("scenarios")[1].at("report").at("plans")[0].contains("explain"));
}

TEST_F(Scenarios, UnitsAreOfTheLineOrOfTheBaseline) {
  json file = two();
  EXPECT_EQ(line_beginning(compare(file, "--units GB").out, "needs").at(1), "GB");
  file["scenarios"][0]["arguments"].push_back("--units");
  file["scenarios"][0]["arguments"].push_back("GB");
  EXPECT_EQ(line_beginning(compare(file).out, "needs").at(1), "GB");
  EXPECT_EQ(line_beginning(compare(file, "--units GiB").out, "needs").at(1), "GiB");
}

TEST_F(Scenarios, WhatIsPlannedIsTheFilesToSay) {
  for (const char* option : {"--gpus 3", "--model 8B", "--zero 3", "--emit out.json", "--ds-config a.json"})
    EXPECT_THAT(error_of(two(), option),
                AllOf(HasSubstr(split(option).front()), HasSubstr("a file of scenarios")))
        << option;
  EXPECT_THAT(error_of(two(), "zero3"), HasSubstr("x.zplan"));
  EXPECT_THAT(error_of(two(), "--csv --differences"), HasSubstr("--differences"));
  EXPECT_THAT(error_of(two(), "--baseline towo"), AllOf(HasSubstr("--baseline"), HasSubstr("two")));
  EXPECT_THAT(error_of(in_process(std::vector<std::string>{"x.zplan"})), HasSubstr("zplan compare"));
  EXPECT_THAT(error_of(file_of({scenario("same", kSmallScenario), scenario("same", kSmallScenario)}),
                       "--baseline same"),
              HasSubstr("2 scenarios are called"));
}

/// File, pointer and option.
TEST_F(Scenarios, AWrongArgumentIsNamedByPlaceAndOption) {
  json file = two();
  file["scenarios"][1]["arguments"] = split("--model 0.5B --gpus 0");
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("x.zplan#/scenarios/1/arguments: --gpus"), HasSubstr("\"0\"")));
  file["scenarios"][1]["arguments"] = split("--model 0.5B --gpsu 2");
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("/scenarios/1/arguments"), HasSubstr("did you mean --gpus?")));
  file["scenarios"][1]["arguments"] = split("--model 0.5B --json");
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("/scenarios/1/arguments"), HasSubstr("--json")));
  file["scenarios"][1]["arguments"] = split("compare --model 0.5B zero2 zero3");
  EXPECT_THAT(error_of(file), AllOf(HasSubstr("/scenarios/1/arguments"), HasSubstr("planned, nothing else")));
  file["scenarios"][1]["arguments"] = json::array({1});
  EXPECT_THAT(error_of(file), HasSubstr("x.zplan#/scenarios/1/arguments/0"));
}

TEST_F(Scenarios, ABrokenFileIsNamed) {
  const std::string good = two().dump();
  for (std::size_t length = 0; length < good.size(); length += 7)
    EXPECT_THAT(error_of_text(good.substr(0, length)), HasSubstr("x.zplan")) << length;
  EXPECT_THAT(error_of_text(std::string("\x7f"
                                        "ELF\x02\x00\xff\xfe",
                                        8)),
              HasSubstr("x.zplan"));
  EXPECT_THAT(error_of_text("[]"), HasSubstr("x.zplan"));
  EXPECT_THAT(error_of_text(R"({"schema": 1})"), HasSubstr("x.zplan#/schema"));
  const auto with = [](const std::string& pointer, const json& value) {
    json file = two();
    file[json::json_pointer(pointer)] = value;
    return file;
  };
  EXPECT_THAT(error_of(with("/schema", "zplan.scenarios/2")),
              AllOf(HasSubstr("x.zplan#/schema"), HasSubstr("zplan.scenarios/1")));
  EXPECT_THAT(error_of(with("/schema", "zplan.report/1")), HasSubstr("x.zplan#/schema"));
  EXPECT_THAT(error_of(with("/basline", 1)), AllOf(HasSubstr("basline"), HasSubstr("baseline")));
  EXPECT_THAT(error_of(with("/scenarios/0/nmae", "x")), AllOf(HasSubstr("/scenarios/0"), HasSubstr("nmae")));
  EXPECT_THAT(error_of(with("/baseline", 2)), HasSubstr("x.zplan#/baseline"));
  EXPECT_THAT(error_of(with("/baseline", -1)), HasSubstr("x.zplan#/baseline"));
  EXPECT_THAT(error_of(with("/differences", "yes")), HasSubstr("x.zplan#/differences"));
  EXPECT_THAT(error_of(with("/scenarios/1/name", "a\x1b[31m")),
              AllOf(HasSubstr("/scenarios/1/name"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(error_of(with("/scenarios/1/report", "r.json")), HasSubstr("/scenarios/1"));
  EXPECT_THAT(error_of(file_of({{{"name", "neither"}}})), HasSubstr("neither arguments nor a report"));
  EXPECT_THAT(error_of(file_of(std::vector<json>(201, scenario("x", kSmallScenario)))),
              HasSubstr("201 scenarios"));
  EXPECT_THAT(error_of(file_of({})), HasSubstr("x.zplan#/scenarios"));
}

TEST_F(Scenarios, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(error_of(in_process({"compare", folder_.path("none.zplan")})), HasSubstr("none.zplan"));
  fs::create_directories(folder_.path("folder.zplan"));
  EXPECT_THAT(error_of(in_process({"compare", folder_.path("folder.zplan")})), HasSubstr("folder.zplan"));
}

TEST_F(Scenarios, AQuestionThatNobodyNamedIsCalledAfterItself) {
  const std::vector<std::pair<const char*, const char*>> called{
      {"--model Qwen/Qwen3-8B --gpus 5 --mem 44", "Qwen3-8B on 5 × 44 GiB"},
      {"--gpus=5 --mem=44 --model=8B --zero 3", "8B on 5 × 44 GiB"},
      {"--model 70B --method lora --gpus 16 --gpu H100-SXM-80GB --nodes 2",
       "70B, lora, on 16 × H100-SXM-80GB in 2 nodes"},
      {"--model 8B --method full --gpu A100 --mem 39.5 --nodes 1", "8B on 1 × A100 of 39.5 GiB"},
      {"--model /models/Llama-3.1-8B/config.json --gpus 4", "Llama-3.1-8B on 4 GPUs"},
      {"--model my/shape.json --gpus 1 --gpu cards/mine.json", "shape on 1 × mine"},
      {"--model Qwen3-1.7B/ --method qlora", "Qwen3-1.7B, qlora"},
      {"--ds-config runs/zero3.json --mem 80", "zero3 on 1 × 80 GiB"},
      {"--gpus 8 --mem x", "no model on 8 × x GiB"}};
  for (const auto& [options, name] : called) EXPECT_EQ(name_of_question(split(options)), name) << options;
  EXPECT_EQ(name_of_question({"--model", "a\x1b[31mb"}), "a [31mb");
  EXPECT_EQ(name_of_question({"--model"}), "no model");
}

TEST_F(Scenarios, WhatIsWrittenIsReadBack) {
  const ScenarioFile file{
      .scenarios = {{.name = "a", .arguments = split(kSmallScenario), .strategy = "zero2"},
                    {.name = "b", .arguments = split(kSmallScenario), .compared = false}},
      .baseline = 0,
      .differences = true};
  const std::string path = folder_.path("x.zplan");
  EXPECT_EQ(read_scenarios(parse_json(scenarios_text(file, path), path), path), file);
}

}  // namespace
}  // namespace zplan::test

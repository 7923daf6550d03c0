// Broken documents end in an InputError of one line that names file and place, and in nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "hardware_profiles/cluster.h"
#include "support.h"
#include "tests/mutated.h"

namespace zplan::check::testing {
namespace {

namespace fs = std::filesystem;

const std::string kCorpus = std::string(ZPLAN_TEST_DATA) + "/check/corpus";

std::vector<std::string> broken_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(kCorpus)) files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_printable_line(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

class BrokenFile : public ::testing::TestWithParam<std::string> {};

TEST_P(BrokenFile, EndsInOneLineThatNamesThePlace) {
  const std::string message = message_of(read_file(kCorpus + "/" + GetParam()), "file");
  EXPECT_THAT(message, ::testing::ContainsRegex("^file[^:]*: .+; .+")) << message;
  EXPECT_TRUE(is_printable_line(message)) << message;
  EXPECT_LT(message.size(), 1200U);
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Corpus, BrokenFile, ::testing::ValuesIn(broken_files()), test_name);

/// The first row of a reference file as a document of its own.
std::string first_row(const std::string& path) {
  const std::string full = std::string(ZPLAN_TEST_DATA) + "/reference/" + path;
  return Json::array({parse_json(read_file(full), path).front()}).dump();
}

std::vector<std::string> good_documents() {
  std::vector<std::string> documents;
  for (const char* name : {"all_reduce.txt", "all_gather_old.txt", "reduce_scatter.json", "deepspeed.log",
                           "snapshot.json", "bench_nccl.json", "runs.json"})
    documents.push_back(sample(name));
  for (const char* path :
       {"steps/steps.json", "qlora/steps.json", "capacity/capacity.json", "schedules/schedules.json",
        "deepspeed_runs/runs.json", "activations/activations.json", "published/memory.json",
        "published/speed.json", "published/collectives.json"})
    documents.push_back(first_row(path));
  return documents;
}

const std::vector<std::string> kWords{"-",  "0",  "9",  "null", "true", "\"",  "[",    "]",
                                      "{",  "}",  ",",  ":",    "e9",   ".",   "1e",   "{}",
                                      "[]", "\\", "\n", " ",    "GB",   "nan", "1e300"};

// A fixed seed: the same bytes every time. Judging is left out: what a wrong digit makes of a run may take
// long.
TEST(MutatedDocument, EndsInCasesOrAnInputError) {
  std::mt19937 random(20'260'101);
  int read = 0, errors = 0;
  const std::vector<std::string> documents = good_documents();
  for (const std::string& text : documents) ASSERT_FALSE(cases_of(text).empty()) << text.substr(0, 200);
  for (int round = 0; round < 4'000; ++round) {
    const std::string text =
        mutated(documents[static_cast<std::size_t>(round) % documents.size()], kWords, random);
    try {
      for (const Case& each : cases_of(text))
        for (const MeasuredFigure& figure : std::holds_alternative<MeasuredMemory>(each.measured)
                                                ? std::get<MeasuredMemory>(each.measured).figures
                                                : std::vector<MeasuredFigure>{})
          ASSERT_GE(figure.range.high.value_or(figure.range.low), figure.range.low) << text;
      ++read;
    } catch (const InputError& error) {
      ++errors;
      ASSERT_TRUE(is_printable_line(error.what())) << text;
    }
  }
  // Both ends are reached often, or the mutations are too mild or too wild to test anything.
  EXPECT_GT(read, 400);
  EXPECT_GT(errors, 800);
}

}  // namespace
}  // namespace zplan::check::testing

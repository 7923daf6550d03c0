// Errors, names and JSON that somebody else wrote.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/base/files.h"
#include "models/base/json_reader.h"
#include "models/base/names.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The message of the InputError that `act` throws.
template <class Act>
std::string message_of(Act act) {
  try {
    if constexpr (std::is_void_v<decltype(act())>)
      act();
    else
      static_cast<void>(act());
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

std::string parse_error(std::string_view text) {
  return message_of([&] { static_cast<void>(parse_json(text, "file.json")); });
}

TEST(InputErrors, AreOneLineOfPlaceFoundAndAccepted) {
  EXPECT_STREQ(InputError("--gpus", "0", "accepted: at least 1").what(), "--gpus: 0; accepted: at least 1");
  EXPECT_STREQ(InputError("a.json", "is a folder", "").what(), "a.json: is a folder");
}

// A name from somebody else's file neither writes to the terminal nor begins another line.
TEST(InputErrors, ShowControlCharactersAndMarksOfDirection) {
  EXPECT_STREQ(InputError("a\x1b[31m\n.json",
                          "\xC2\x9B"
                          "1m",
                          "x\xE2\x80\xAEy")
                   .what(),
               "a\\x1b[31m\\x0a.json: \\x9b1m; x\\u202ey");
  EXPECT_EQ(printable("größer 模型 … é"), "größer 模型 … é");
  EXPECT_EQ(printable("a\nb\tc", true), "a\nb\\x09c");
  EXPECT_EQ(printable("\xC2"), "\xC2") << "half a character stays";
}

TEST(Quotes, EscapeControlCharactersAndCutLongText) {
  EXPECT_EQ(in_quotes("a\nb\"c"), "\"a\\x0ab\\\"c\"");
  EXPECT_EQ(in_quotes("abcdef", 3), "\"abc…\"");
  EXPECT_EQ(in_quotes("ααα", 3), "\"α…\"") << "cut inside a character";
}

TEST(NearestWord, FindsWhatWasMeant) {
  const std::vector<std::string> words{"zero_optimization", "gradient_clipping", "H100-SXM-80GB"};
  EXPECT_EQ(nearest_word("gradient_clipp1ng", words), "gradient_clipping");
  EXPECT_EQ(nearest_word("h100 sxm 80gb", words), "H100-SXM-80GB");
  EXPECT_EQ(nearest_word("zero_optimisation", words), "zero_optimization");
  EXPECT_EQ(nearest_word("banana", words), std::nullopt);
  EXPECT_EQ(nearest_word("", words), std::nullopt);
  EXPECT_EQ(nearest_word("...", words), std::nullopt);
}

/// One letter in eight: what was meant is certain.
TEST(NearestWord, OfAMisspellingIsNearer) {
  const std::vector<std::string> words{"comet", "gradient_clipping", "bf16"};
  EXPECT_EQ(misspelt_word("gradient_clipp1ng", words), "gradient_clipping");
  EXPECT_EQ(misspelt_word("bf_16", words), "bf16");
  EXPECT_EQ(nearest_word("_comment", words), "comet");
  EXPECT_EQ(misspelt_word("_comment", words), std::nullopt);
  EXPECT_EQ(similarity("RTX 4090", "rtx-4090"), 1);
  EXPECT_EQ(similarity("", "x"), 0);
}

TEST(Json, IsReadWithItsOrder) {
  const Json json = parse_json(R"({"b": 1, "a": [true, null]})", "file.json");
  EXPECT_EQ(JsonReader(json, "file.json").keys(), (std::vector<std::string>{"b", "a"}));
}

TEST(Json, EndsAtNoNul) {
  EXPECT_EQ(parse_error(std::string_view("{\"a\": 1}\0{{{", 12)),
            "file.json: not JSON: a NUL byte at line 1, column 9; accepted: a JSON document");
}

// nlohmann's parser with a callback takes the square of it: half an hour.
TEST(Json, OfAMillionObjectsTakesSeconds) {
  std::string text = "{\"x\": [{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";
  const Json read = parse_json(text + "]}", "file.json");
  EXPECT_EQ(read.at("x").size(), 1'000'000U);
}

TEST(Json, ThatIsBrokenNamesThePlace) {
  EXPECT_THAT(parse_error("{\"a\": 1,\n \"b\": }"),
              HasSubstr("file.json: not JSON: unexpected text at line 2, column 7"));
  EXPECT_THAT(parse_error("{\"a\": [1, 2"), HasSubstr("the text ends"));
  EXPECT_THAT(parse_error(""), HasSubstr("the text ends"));
  EXPECT_THAT(parse_error(R"({"a": 1, "a": 2})"), HasSubstr("the key \"a\" stands twice"));
  EXPECT_THAT(parse_error(std::string(70, '[') + std::string(70, ']')), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(parse_error("{\"a\": 1e999}"), HasSubstr("not JSON"));
  EXPECT_THAT(parse_error("\xff\xfe\x00{"), HasSubstr("not JSON"));
  EXPECT_THAT(parse_error("// comment\n{}"), HasSubstr("not JSON"));
}

class Reading : public ::testing::Test {
 protected:
  Json json_ = parse_json(R"({"n": 32, "f": 5e8, "half": 0.5, "s": "text", "big": 18446744073709551615,
                              "deep": {"list": [1, "two"]}, "none": null})",
                          "c.json");
  JsonReader reader_{json_, "c.json"};
};

TEST_F(Reading, NumbersWithinBounds) {
  EXPECT_EQ(reader_.at("n").integer(1, 100), 32);
  EXPECT_EQ(reader_.at("f").integer(1, 1'000'000'000), 500'000'000)
      << "a float with a whole value is a whole number";
  EXPECT_EQ(reader_.integer_or("absent", 7, 1, 10), 7);
  EXPECT_EQ(reader_.integer_or("none", 7, 1, 10), 7) << "null is absent";
}

TEST_F(Reading, WrongValuesNameThePointer) {
  EXPECT_EQ(message_of([&] { return reader_.at("n").integer(1, 10); }),
            "c.json#/n: 32; accepted: a whole number from 1 to 10");
  EXPECT_THAT(message_of([&] { return reader_.at("half").integer(0, 10); }), HasSubstr("c.json#/half: 0.5"));
  EXPECT_THAT(message_of([&] { return reader_.at("s").integer(0, 10); }), HasSubstr("c.json#/s: \"text\""));
  EXPECT_THAT(message_of([&] { return reader_.at("big").integer(0, INT64_MAX); }), HasSubstr("c.json#/big"));
  EXPECT_THAT(message_of([&] { return reader_.at("deep").text(); }),
              HasSubstr("c.json#/deep: a JSON object"));
  EXPECT_THAT(message_of([&] { return reader_.at("deep").at("list").items()[1].integer(0, 9); }),
              HasSubstr("c.json#/deep/list/1"));
  EXPECT_THAT(message_of([&] { return reader_.at("absent"); }), HasSubstr("has no \"absent\""));
  EXPECT_THAT(message_of([&] { return reader_.at("n").boolean(); }), HasSubstr("true or false"));
}

TEST_F(Reading, UnknownKeysNameTheNearest) {
  EXPECT_THAT(message_of([&] {
                reader_.only_keys({"n", "f", "half", "s", "big", "deap", "none"});
              }),
              HasSubstr("unknown key \"deep\"; did you mean deap?"));
}

/// A folder of its own for each test of writing.
class Writing : public testing::Test {
 protected:
  Writing() { std::filesystem::remove_all(folder_), std::filesystem::create_directories(folder_); }
  ~Writing() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] auto permissions(const std::string& name) const {
    return std::filesystem::status(path(name)).permissions();
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

 private:
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "zplan_writing";
};

TEST_F(Writing, KeepsPermissions) {
  using std::filesystem::perms;
  const auto secret = perms::owner_read | perms::owner_write;
  write_file(path("a"), "1", "--output");
  std::filesystem::permissions(path("a"), secret);
  write_file(path("a"), "2", "--output");
  write_file(path("a.orig"), "1", "--output", path("a"));
  EXPECT_EQ(read_file(path("a")), "2");
  EXPECT_EQ(permissions("a"), secret);
  EXPECT_EQ(permissions("a.orig"), secret);
  EXPECT_EQ(files(), 2U) << "nothing temporary stays";
}

TEST_F(Writing, GoesThroughLinksThatLeadNowhereYet) {
  std::filesystem::create_symlink("target", path("link"));
  write_file(path("link"), "text", "--output");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("target")), "text");
}

TEST_F(Writing, ANameThatNobodyGaveReplacesNothing) {
  write_files({path("new"), "1"}, {path("a"), "1"}, "--recipe-out");
  write_files({path("new"), "2"}, {path("a"), "1"}, "--recipe-out");
  EXPECT_THAT(message_of([&] {
                write_files({path("new"), "3"}, {path("a"), "2"}, "--recipe-out");
              }),
              HasSubstr("is there with another text"));
  EXPECT_EQ(read_file(path("a")), "1");
  EXPECT_EQ(read_file(path("new")), "2");
  EXPECT_EQ(files(), 2U);
}

TEST_F(Writing, TwoFilesAreWrittenOrNeither) {
  std::filesystem::create_directory(path("folder"));
  for (const std::string& bad : {path("folder"), path("no/folder"), std::string("/dev/full")}) {
    EXPECT_THAT(message_of([&] {
                  write_files({bad, "1"}, {path("a"), "1"}, "--recipe-out");
                }),
                HasSubstr("cannot be written"));
    EXPECT_EQ(files(), 1U) << bad;
  }
  write_files({path("new"), "1"}, {path("a"), "1"}, "--recipe-out");
  EXPECT_THAT(message_of([&] {
                write_files({"/dev/full", "1"}, {path("a"), "1"}, "--recipe-out");
              }),
              HasSubstr("No space left"));
  EXPECT_EQ(read_file(path("a")), "1") << "it was there before";
}

TEST(Files, ThatCannotBeReadAreNamed) {
  const auto folder = std::filesystem::temp_directory_path();
  EXPECT_THAT(message_of([&] { return read_file(folder.string()); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of([&] { return read_file((folder / "zplan-no-such-file").string()); }),
              HasSubstr("No such file"));
}

TEST(Files, ThatAreTooLargeAreRefused) {
  const auto path = std::filesystem::temp_directory_path() / "zplan-large-file-test";
  std::ofstream(path) << std::string(2000, 'x');
  EXPECT_THAT(message_of([&] { return read_file(path.string(), 1000); }),
              HasSubstr("is larger than 1000 bytes"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace zplan

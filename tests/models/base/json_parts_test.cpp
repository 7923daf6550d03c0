#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"

namespace zplan {
namespace {

std::vector<std::string> values(std::string_view text) {
  std::vector<std::string> all;
  for (const JsonPart& each : json_parts(text)) all.emplace_back(each.value);
  return all;
}

TEST(JsonParts, ElementsAreCutWhereTheyEnd) {
  EXPECT_THAT(values(R"( [ 1 , "a,]b" , [2, 3] , {"k": "}"} ,null] )"),
              testing::ElementsAre("1 ", R"("a,]b")", "[2, 3]", R"({"k": "}"})", "null"));
  EXPECT_THAT(values("[]"), testing::IsEmpty());
  EXPECT_THAT(values("{}"), testing::IsEmpty());
  EXPECT_THAT(values(" "), testing::IsEmpty());
}

TEST(JsonParts, MembersHaveTheirKeys) {
  const std::string_view text = R"({"a": {"b": 1}, "b" : "x\"}", "c":[]})";
  EXPECT_EQ(json_member(text, "a"), R"({"b": 1})");
  EXPECT_EQ(json_member(text, "b"), R"("x\"}")");
  EXPECT_EQ(json_member(text, "c"), "[]");
  EXPECT_EQ(json_member(text, "d"), "");
}

TEST(JsonParts, StringsSayWhatTheyAreWrittenFor) {
  EXPECT_EQ(json_string(R"("plain")"), "plain");
  EXPECT_EQ(json_string(R"("")"), "");
  EXPECT_EQ(json_string(R"("a\"b\\\u00e9\n")"), "a\"b\\\xc3\xa9\n");
}

// Put together again, parts are what a parser reads, however it is written.
TEST(JsonParts, PartsTogetherAreTheWhole) {
  const nlohmann::ordered_json whole = nlohmann::ordered_json::parse(
      R"({"name": "a/b", "n": -1.5e3, "on": true, "list": [[], {}, "\\", {"x": [1, {"y": "]"}]}], "none": null})");
  for (const int indent : {-1, 0, 2}) {
    const std::string text = whole.dump(indent);
    nlohmann::ordered_json again = nlohmann::ordered_json::object();
    for (const auto& [key, value] : json_parts(text))
      again[std::string(key)] = nlohmann::ordered_json::parse(value);
    EXPECT_EQ(again, whole) << text;
  }
}

// Cut short it comes to an end.
TEST(JsonParts, TextThatEndsEarlyEndsThere) {
  const std::string text = R"({"a": ["b\"", {"c": 1}], "d": "e"})";
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_LE(json_parts(std::string_view(text).substr(0, length)).size(), 2U);
}

}  // namespace
}  // namespace zplan

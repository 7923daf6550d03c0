#include "planner/frameworks/deepspeed/config/lint_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/frameworks/deepspeed/config/lint.h"

namespace zplan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string at(const DsText& ds, Span span) { return ds.text.substr(span.begin, span.end - span.begin); }

std::vector<FlawKind> kinds(const DsText& ds) {
  std::vector<FlawKind> all;
  for (const TextFlaw& flaw : ds.flaws) all.push_back(flaw.kind);
  return all;
}

TEST(LintText, KnowsWhereEverythingStands) {
  const DsText ds = read_ds_text("{\"a\": 5e8,\n \"b~/c\": {\"d\": [1, {\"e\": \"x, \\\" }\"}]}}", "ds.json");
  EXPECT_EQ(at(ds, ds.keys.at("/a")), "\"a\"");
  EXPECT_EQ(at(ds, ds.values.at("/a")), "5e8");
  EXPECT_EQ(at(ds, ds.values.at("/b~0~1c/d/1/e")), "\"x, \\\" }\"");
  EXPECT_EQ(line_and_column(ds.text, ds.keys.at("/b~0~1c").begin), (LineColumn{2, 2}));
  EXPECT_TRUE(ds.flaws.empty());
}

TEST(LintText, ReadsPastWhatIsNotJson) {
  const DsText ds = read_ds_text(
      "\xEF\xBB\xBF{ // one\n \"a\": [1, 2,], # two\n /* three\n */ \"b\": NaN, \"c\": \"// no\", }",
      "ds.json");
  EXPECT_EQ(ds.document.dump(), R"({"a":[1,2],"b":0,"c":"// no"})");
  EXPECT_THAT(kinds(ds), ElementsAre(FlawKind::byte_order_mark, FlawKind::comment, FlawKind::trailing_comma,
                                     FlawKind::comment, FlawKind::comment, FlawKind::not_finite,
                                     FlawKind::trailing_comma));
}

TEST(LintText, OfDuplicatesTheLastCounts) {
  const DsText ds = read_ds_text(R"({"a": {"x": 1, "y": 2}, "a": {"x": 3}, "b": 1})", "ds.json");
  EXPECT_EQ(ds.document.dump(), R"({"a":{"x":3},"b":1})");
  EXPECT_EQ(at(ds, ds.values.at("/a/x")), "3");
  EXPECT_THAT(kinds(ds), ElementsAre(FlawKind::duplicate_key));
}

TEST(LintText, ColumnsAreCodePoints) {
  EXPECT_EQ(line_and_column("{\"\xC3\xA4\": 1}", 4), (LineColumn{1, 4}));
}

TEST(LintText, OtherTextIsRefusedWithItsPlace) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      (void)read_ds_text(text, "ds.json");
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(error_of("{\"a\": 1,\n  b: 2}"), HasSubstr("line 2, column 3"));
  EXPECT_THAT(error_of("{\"a\": /* no end"), HasSubstr("ds.json: not JSON"));
  EXPECT_THAT(error_of(""), HasSubstr("not JSON"));
  EXPECT_THAT(error_of(std::string(100, '[') + std::string(100, ']')), HasSubstr("64 levels"));
  EXPECT_THAT(error_of("{\"a\": 1, , \"b\": 2}"), HasSubstr("not JSON")) << "hardly a trailing comma";
}

struct EditCase {
  std::string text, pointer, expected;
};

TEST(LintText, MembersAreTakenOutWithTheirComma) {
  for (const EditCase& each :
       {EditCase{R"({"a": 1, "b": 2})", "/a", R"({"b": 2})"},
        EditCase{R"({"a": 1, "b": 2})", "/b", R"({"a": 1})"}, EditCase{"{\n  \"a\": 1\n}", "/a", "{}"},
        EditCase{"{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", "/b", "{\n  \"a\": 1,\n  \"c\": 3\n}"}}) {
    const DsText ds = read_ds_text(each.text, "ds.json");
    EXPECT_EQ(edited(each.text, remove_member(ds, each.pointer)), each.expected);
  }
}

TEST(LintText, MembersAreAddedAsTheOthersStand) {
  const auto with = [](const std::string& text) {
    return edited(text, set_member(read_ds_text(text, "ds.json"), "", "z", "5e8"));
  };
  EXPECT_EQ(with("{}"), R"({"z": 5e8})");
  EXPECT_EQ(with(R"({"a": 1})"), R"({"a": 1, "z": 5e8})");
  EXPECT_EQ(with("{\n  \"a\": 1\n}"), "{\n  \"a\": 1,\n  \"z\": 5e8\n}");
  EXPECT_EQ(with(R"({"z": 1, "a": 2})"), R"({"z": 5e8, "a": 2})");
}

}  // namespace
}  // namespace zplan::testing

// The text of a recipe: YAML as PyYAML reads it.

#include "cli/recipes/recipe_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.h"
#include "tests/cli/support.h"

namespace zplan::test::of_text {
namespace {

using testing::HasSubstr;

RecipeValue root_of(const std::string& text) { return read_recipe_text(text, "r.yaml").root; }
std::string message_of(const std::string& text) {
  try {
    static_cast<void>(root_of(text));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}
std::string value_of(const std::string& written) { return root_of("k: " + written + "\n").find("k")->text; }

// What yaml.safe_load of PyYAML 6 makes of each.
TEST(RecipeText, NumbersAreThoseOfPyYaml) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"500_000", "500000"},
      {"0x10", "16"},
      {"0b101", "5"},
      {"0777", "511"},
      {"+5", "5"},
      {"-1_0", "-10"},
      {"1:30", "90"},
      {"1:30:00", "5400"},
      {"1_000.5", "1000.5"},
      {"1e-4", "1e-4"},
      {"1.0e-4", "1.0e-4"},
      {"0o17", "0o17"},
      {"08", "08"},
      {"1_a", "1_a"},
      {"'500_000'", "500_000"},
      {"1:99", "1:99"},
      {"_1", "_1"},
      {"0", "0"},
      {"!!str 0x10", "0x10"},
      {"v1_0.5x", "v1_0.5x"},
      {"99999999999999999999", "99999999999999999999"}};
  for (const auto& [written, read] : cases) EXPECT_EQ(value_of(written), read) << written;
}

TEST(RecipeText, TheLaterOfTwoKeysCounts) {
  const RecipeText text = read_recipe_text("a: 1\nb: 2\na: 3\n", "r.yaml");
  EXPECT_EQ(text.root.find("a")->text, "3");
  EXPECT_EQ(text.root.entries.size(), 2U);
  ASSERT_EQ(text.repeated.size(), 1U);
  EXPECT_EQ(text.repeated.front().key, "a");
  EXPECT_EQ(text.repeated.front().line, 1U);
  EXPECT_EQ(text.repeated.front().later_line, 3U);
}

TEST(RecipeText, MergesSections) {
  const RecipeValue root = root_of(
      "base: &base {a: 1, b: 2}\nother: &other {b: 5, c: 6}\none:\n  <<: *base\n  b: 3\n"
      "two:\n  <<: [*base, *other]\n");
  EXPECT_EQ(root.find_path("one.a")->text, "1");
  EXPECT_EQ(root.find_path("one.b")->text, "3");
  EXPECT_EQ(root.find_path("two.b")->text, "2");
  EXPECT_EQ(root.find_path("two.c")->text, "6");
  EXPECT_EQ(root.find_path("two.<<"), nullptr);
  EXPECT_THROW(root_of("a:\n  <<: 3\n"), InputError);
  EXPECT_EQ(root_of("a:\n  '<<': 3\n").find_path("a.<<")->text, "3");
}

TEST(RecipeText, BeginsBehindAByteOrderMark) {
  const RecipeText text = read_recipe_text(
      "\xEF\xBB\xBF"
      "a: 1\nb: 2\n",
      "r.yaml");
  EXPECT_EQ(text.root.find("a")->text, "1");
  EXPECT_EQ(changed_recipe(text, {{"b", "3"}}),
            "\xEF\xBB\xBF"
            "a: 1\nb: 3\n");
}

// An alias of a long text is that text again: 20,000 of a mebibyte are 20 GB.
TEST(RecipeText, AliasesOfLongTextsEnd) {
  std::string text = "big: &b \"" + std::string(1 << 20, 'x') + "\"\nl: [";
  for (int i = 0; i < 20'000; ++i) text += "*b,";
  EXPECT_THAT(message_of(text + "]\n"), HasSubstr("more than 64 MiB of text"));
}

TEST(RecipeText, SectionsOfManyKeysEnd) {
  std::string text;
  for (int i = 0; i < 99'000; ++i) text += "key_" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(message_of(text), HasSubstr("r.yaml:4097: more than 4096 keys in one section"));
}

TEST(RecipeText, HasOneDocument) {
  EXPECT_THROW(root_of("a: 1\n---\nb: 2\n"), InputError);
  EXPECT_EQ(root_of("---\na: 1\n...\n").find("a")->text, "1");
}

TEST(RecipeText, BlockScalarsAreText) {
  const RecipeValue root = root_of("a: |\n  500_000\nb: >-\n  x\n  y\n");
  EXPECT_EQ(root.find("a")->text, "500_000\n");
  EXPECT_EQ(root.find("b")->text, "x y");
}

}  // namespace
}  // namespace zplan::test::of_text

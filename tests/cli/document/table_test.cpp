#include <gtest/gtest.h>

#include <sstream>

#include "cli/document/document.h"

namespace zplan {
namespace {

const Table kTable{{{"name", "", false, kAlways}, {"size", "GiB", true, kAlways}, {"note", "", true, 1}},
                   {{{"a", "1.5", "first"}}, {{"größer", "10.25", "x"}}, {{"模型", "3", ""}}}};

TEST(Table, AlignsByWhatIsSeen) {
  EXPECT_EQ(render_text(kTable, {.width = 100}),
            "name     size   note\n"
            "          GiB\n"
            "a         1.5  first\n"
            "größer  10.25      x\n"
            "模型        3\n");
}

TEST(Table, DropsTheLeastImportantColumnRatherThanWrap) {
  EXPECT_EQ(render_text(kTable, {.width = 15}),
            "name     size\n"
            "          GiB\n"
            "a         1.5\n"
            "größer  10.25\n"
            "模型        3\n");
}

// Names come from files of others.
TEST(Document, ShowsNamesAsText) {
  Document document;
  document.shown = Shown::both;
  document.line("a\x1b[31m");
  document.table({{{"name", "", false, kAlways}}, {{{"<img src=x>\x07"}}}});
  EXPECT_EQ(text_of(document, {.width = 100}), "a\\x1b[31m\nname\n<img src=x>\\x07\n");
  EXPECT_EQ(markdown_of(document), "a\\x1b[31m\n| name |\n| --- |\n| &lt;img src=x>\\\\x07 |\n");
  EXPECT_EQ(csv_field("=1+1.json"), "'=1+1.json");
  EXPECT_EQ(csv_field("-3.5"), "-3.5");
  EXPECT_EQ(csv_field("--zero 3"), "--zero 3");
}

TEST(Table, NoLineIsLongerThanTheWidth) {
  Table table = kTable;
  table.rows.push_back({{"a name that is far too long for a narrow terminal", "7", "y"}});
  for (int width = 20; width < 80; ++width) {
    std::istringstream lines(render_text(table, {.width = width}));
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(display_width(line), static_cast<std::size_t>(width)) << line;
  }
}

TEST(Table, MarkdownKeepsEveryColumnAndEscapesBars) {
  EXPECT_EQ(render_markdown({{{"a", "", false, 1}, {"b", "s", true, 1}}, {{{"x|y", "1"}}}}),
            "| a | b (s) |\n| --- | ---: |\n| x\\|y | 1 |\n");
}

TEST(Text, WidthCountsColumns) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("Ψ·⌈n⌉"), 5U);
  EXPECT_EQ(display_width("模型"), 4U);
  EXPECT_EQ(display_width("e\xCC\x81"), 1U);  // e and a combining acute
}

TEST(Text, ParagraphsHangBehindTheirBeginning) {
  EXPECT_EQ(paragraph("- ", "one two three", 9), "- one two\n  three\n");
  EXPECT_EQ(paragraph("", "", 9), "\n");
  EXPECT_EQ(paragraph("", "unbreakablyLongWord x", 9), "unbreakablyLongWord\nx\n");
}

TEST(Text, NumbersKeepTheirUnits) { EXPECT_EQ(paragraph("", "aaaa 86 % of it", 8), "aaaa\n86 % of\nit\n"); }

TEST(Text, ColourOnlyWhereAskedFor) {
  EXPECT_EQ(Style{.color = false}(Tone::good, "fits"), "fits");
  EXPECT_EQ((Style{.width = 100, .color = true}(Tone::good, "fits")), "\033[32mfits\033[0m");
}

TEST(Document, IsSetAsTextMarkdownAndCsv) {
  Document doc;
  doc.heading("Plans");
  doc.paragraph("Model  ", "one two three", Tone::strong, "Model");
  doc.shown = Shown::both;
  doc.items({"fits"});
  doc.shown = Shown::markdown;
  doc.table({{{"a", "", false, kAlways}}, {{{"1"}}}});
  doc.records = {{"id", "why"}, {"zero3", "a, b"}};
  EXPECT_EQ(text_of(doc, {.width = 14}), "\nPlans\nModel  one two\n       three\n  - fits\n");
  EXPECT_EQ(markdown_of(doc), "- fits\n| a |\n| --- |\n| 1 |\n");
  EXPECT_EQ(csv_of(doc), "id,why\r\nzero3,\"a, b\"\r\n");
  EXPECT_EQ(in_format(doc, OutputFormat::csv, {}), csv_of(doc));
}

}  // namespace
}  // namespace zplan

#pragma once
// A document that a command prints: as text for a terminal, as Markdown, or as CSV.

#include <string>
#include <vector>

#include "cli/document/table.h"

namespace zplan {

enum class OutputFormat { text, json, csv, markdown };

/// The formats that a block is part of. Markdown has the tables and the sentences about them.
enum class Shown { text, markdown, both };

struct Block {
  enum class Kind { heading, paragraph, item, line, table };
  Kind kind{};
  std::string text{};
  std::string first{};   ///< of a paragraph: text before it; further lines are indented as far
  std::string marked{};  ///< the part of `first` that has the tone; empty: the whole block
  Tone tone{Tone::plain};
  Table table{};
  Shown shown{};
};

/// The fields of a line; the first line has their names.
using CsvRecord = std::vector<std::string>;

struct Document {
  std::vector<Block> blocks;
  std::vector<CsvRecord> records;  ///< for programs: names first
  Shown shown{Shown::text};        ///< of the blocks that follow

  void heading(std::string text, Tone tone = Tone::strong);
  /// Adds wrapped text behind `first`; further lines are indented as far.
  void paragraph(std::string first, std::string text, Tone tone = Tone::plain, std::string marked = "");
  void items(const std::vector<std::string>& sentences);
  /// Adds a line that is never wrapped, such as a command to be copied.
  void line(std::string text = "", Tone tone = Tone::plain);
  void table(Table table);
  void append(const Document& more);
};

[[nodiscard]] std::string text_of(const Document& document, const Style& style);
[[nodiscard]] std::string markdown_of(const Document& document);
/// RFC 4180.
[[nodiscard]] std::string csv_of(const Document& document);
/// Returns the document in one of these formats. JSON is made from the schemas instead.
[[nodiscard]] std::string in_format(const Document& document, OutputFormat format, const Style& style);

}  // namespace zplan

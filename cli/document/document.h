#pragma once
// What a command has to say, before it is set: as text for a terminal, as Markdown for a document, as CSV for
// a program.

#include <string>
#include <vector>

#include "cli/document/table.h"

namespace zplan {

enum class OutputFormat { text, json, csv, markdown };

/// Where blocks are shown. Markdown is the tables and what belongs beside them.
enum class Shown { text, markdown, both };

struct Block {
  enum class Kind { heading, paragraph, item, line, table };
  Kind kind{};
  std::string text{};
  std::string first{};   ///< of a paragraph: what it hangs behind
  std::string marked{};  ///< of `first`: what has the tone; empty: the whole block
  Tone tone{Tone::plain};
  Table table{};
  Shown shown{};
};

/// Fields in the order of the names in the first record.
using CsvRecord = std::vector<std::string>;

struct Document {
  std::vector<Block> blocks;
  std::vector<CsvRecord> records;  ///< for programs: names first
  Shown shown{Shown::text};        ///< of the blocks that follow

  void heading(std::string text, Tone tone = Tone::strong);
  /// Wrapped; its further lines are indented as far as `first` is wide.
  void paragraph(std::string first, std::string text, Tone tone = Tone::plain, std::string marked = "");
  void items(const std::vector<std::string>& sentences);
  /// A line that is never wrapped, as commands are there to be copied.
  void line(std::string text = "", Tone tone = Tone::plain);
  void table(Table table);
  void append(const Document& more);
};

[[nodiscard]] std::string text_of(const Document& document, const Style& style);
[[nodiscard]] std::string markdown_of(const Document& document);
/// RFC 4180.
[[nodiscard]] std::string csv_of(const Document& document);
/// As any of these; JSON has schemas of its own.
[[nodiscard]] std::string in_format(const Document& document, OutputFormat format, const Style& style);

}  // namespace zplan

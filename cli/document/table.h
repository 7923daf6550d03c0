#pragma once
// A small aligned table: the same rows as text or as Markdown.

#include <string>
#include <vector>

#include "cli/document/text.h"

namespace zplan {

/// Columns of this importance are never dropped.
inline constexpr int kAlways = 100;

struct Column {
  std::string heading;
  std::string unit;  ///< second line of the heading; may be empty
  bool right{true};
  int importance{kAlways};  ///< the least important columns are dropped first where the table is too wide
};

struct Row {
  std::vector<std::string> cells;
  Tone tone{Tone::plain};
};

struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// The first `width` columns of the text, the last of them "…" where something is cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

/// Columns of the terminal that the whole table takes.
[[nodiscard]] std::size_t natural_width(const Table& table);

/// The table without its least important columns, as far as `width` asks for it;
/// those of one importance go together.
[[nodiscard]] Table narrowed(Table table, std::size_t width);

/// Lines of at most style.width columns: first the least important columns go, then text columns are cut with
/// "…".
[[nodiscard]] std::string render_text(const Table& whole, const Style& style);

/// A GitHub-flavoured Markdown table with every column.
[[nodiscard]] std::string render_markdown(const Table& table);

}  // namespace zplan

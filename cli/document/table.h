#pragma once
// A table, printed as aligned text or as Markdown.

#include <functional>
#include <string>
#include <vector>

#include "cli/document/text.h"

namespace zplan {

/// The importance of columns that are never dropped.
inline constexpr int kAlways = 100;

struct Column {
  std::string heading;
  std::string unit;  ///< second line of the heading; may be empty
  bool right{true};
  int importance{kAlways};  ///< the least important columns are dropped first where the table is too wide
};

/// Returns a column of text, aligned left.
[[nodiscard]] inline Column text_column(std::string heading, int importance = kAlways) {
  return {std::move(heading), "", false, importance};
}
/// Returns a column of numbers, aligned right.
[[nodiscard]] inline Column number_column(std::string heading, std::string unit = "",
                                          int importance = kAlways) {
  return {std::move(heading), std::move(unit), true, importance};
}

struct Row {
  std::vector<std::string> cells;
  Tone tone{Tone::plain};
};

struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// A column and the text of its cells.
template <class Item>
struct Field {
  Column column;
  std::function<std::string(const Item&)> text;
};

/// Returns a table with a column for each field and a row for each item. `tone` gives a row's tone.
template <class Item, class Items>
[[nodiscard]] Table table_of(const std::vector<Field<Item>>& fields, const Items& items,
                             const std::function<Tone(const Item&)>& tone = {}) {
  Table table;
  for (const Field<Item>& field : fields) table.columns.push_back(field.column);
  for (const Item& item : items) {
    Row& row = table.rows.emplace_back();
    for (const Field<Item>& field : fields) row.cells.push_back(field.text(item));
    if (tone) row.tone = tone(item);
  }
  return table;
}

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

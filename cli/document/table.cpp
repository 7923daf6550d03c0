#include "cli/document/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace zplan {

namespace {

constexpr std::size_t kGap = 2;

std::size_t column_width(const Table& table, std::size_t column) {
  std::size_t width =
      std::max(display_width(table.columns[column].heading), display_width(table.columns[column].unit));
  for (const Row& row : table.rows) width = std::max(width, display_width(row.cells[column]));
  return width;
}

void drop_column(Table& table, std::size_t column) {
  table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
  for (Row& row : table.rows) row.cells.erase(row.cells.begin() + static_cast<std::ptrdiff_t>(column));
}

std::string padded(std::string_view text, std::size_t width, bool right) {
  const std::string room(width - std::min(width, display_width(text)), ' ');
  return right ? room + std::string(text) : std::string(text) + room;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// Returns the widths of the columns. The widest column of text is cut where the table is too wide.
std::vector<std::size_t> widths_of(const Table& table, std::size_t width) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) widths.push_back(column_width(table, i));
  const std::size_t natural = natural_width(table);
  if (natural <= width) return widths;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < widths.size(); ++i)
    if (!table.columns[i].right && (table.columns[widest].right || widths[i] > widths[widest])) widest = i;
  const std::size_t excess = natural - width;
  constexpr std::size_t kLeast = 8;
  if (!table.columns.empty() && widths[widest] > kLeast)
    widths[widest] = std::max(kLeast, widths[widest] - std::min(widths[widest], excess));
  return widths;
}

std::string line_of(const Table& table, const std::vector<std::size_t>& widths,
                    const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += std::string(kGap, ' ');
    line += padded(shortened(cells[i], widths[i]), widths[i], table.columns[i].right);
  }
  return without_trailing_blanks(line);
}

std::string heading_lines(const Table& table, const std::vector<std::size_t>& widths, const Style& style) {
  std::vector<std::string> headings, units;
  for (const Column& column : table.columns) headings.push_back(column.heading), units.push_back(column.unit);
  std::string out = style(Tone::strong, line_of(table, widths, headings)) + "\n";
  const bool has_units =
      std::any_of(units.begin(), units.end(), [](const std::string& unit) { return !unit.empty(); });
  return has_units ? out + style(Tone::faint, line_of(table, widths, units)) + "\n" : out;
}

std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\' || (c == '[' && out.ends_with('!'))) out += '\\';
    if (c == '<')
      out += "&lt;";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += fmt::format(" {} |", markdown_cell(cell));
  return line + "\n";
}

}  // namespace

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  std::size_t end = text.size();
  while (end > 0 && (display_width(text.substr(0, end)) + 1 > width ||
                     (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U))
    --end;
  return std::string(text.substr(0, end)) + "…";
}

std::size_t natural_width(const Table& table) {
  std::size_t width = table.columns.empty() ? 0 : (table.columns.size() - 1) * kGap;
  for (std::size_t i = 0; i < table.columns.size(); ++i) width += column_width(table, i);
  return width;
}

Table narrowed(Table table, std::size_t width) {
  while (natural_width(table) > width) {
    const auto least =
        std::min_element(table.columns.begin(), table.columns.end(),
                         [](const Column& a, const Column& b) { return a.importance < b.importance; });
    if (least == table.columns.end() || least->importance >= kAlways) break;
    const int dropped = least->importance;
    for (std::size_t i = table.columns.size(); i-- > 0;)
      if (table.columns[i].importance == dropped) drop_column(table, i);
  }
  return table;
}

std::string render_text(const Table& whole, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  const Table table = narrowed(whole, width);
  const std::vector<std::size_t> widths = widths_of(table, width);
  std::string out = heading_lines(table, widths, style);
  for (const Row& row : table.rows) out += style(row.tone, line_of(table, widths, row.cells)) + "\n";
  return out;
}

std::string render_markdown(const Table& table) {
  std::vector<std::string> headings, rules;
  for (const Column& column : table.columns) {
    headings.push_back(column.unit.empty() ? column.heading
                                           : fmt::format("{} ({})", column.heading, column.unit));
    rules.emplace_back(column.right ? "---:" : "---");
  }
  std::string out = markdown_line(headings) + markdown_line(rules);
  for (const Row& row : table.rows) out += markdown_line(row.cells);
  return out;
}

}  // namespace zplan

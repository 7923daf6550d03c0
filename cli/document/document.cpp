#include "cli/document/document.h"

#include <algorithm>
#include <utility>

#include "models/base/error.h"

namespace zplan {

namespace {

constexpr int kMarkdownWidth = 100;

/// Returns the text with words of more than a few lines cut: names of others can have megabytes.
std::string with_cut_words(const std::string& text) {
  constexpr std::size_t kLongest = 1000, kKept = 200;
  if (text.size() <= kLongest) return text;
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    std::size_t kept = end - at > kLongest ? at + kKept : end;
    while (kept < end && (static_cast<unsigned char>(text[kept]) & 0xC0U) == 0x80U) --kept;
    made.append(text, at, kept - at).append(kept < end ? "…" : "");
    if (end < text.size()) made += text[end];
    at = end + 1;
  }
  return made;
}

/// Names in reports come from files of others: none writes to the terminal, or fills it.
std::string shown_text(const std::string& text) { return printable(with_cut_words(text), true); }

/// Markdown is shown as HTML: a name is no element, and no picture that is fetched.
std::string without_elements(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' && out.ends_with('!')) out += '\\';
    out += c == '<' ? std::string("&lt;") : std::string(1, c);
  }
  return out;
}

std::string toned_paragraph(const Block& block, const Style& style) {
  std::string text = paragraph(block.first, block.text, style.width);
  if (block.marked.empty()) return style(block.tone, text);
  return text.replace(block.first.find(block.marked), block.marked.size(), style(block.tone, block.marked));
}

std::string block_text(const Block& block, const Style& style) {
  switch (block.kind) {
    case Block::Kind::heading: return "\n" + style(block.tone, block.text) + "\n";
    case Block::Kind::paragraph: return toned_paragraph(block, style);
    case Block::Kind::item: return paragraph("  - ", block.text, style.width);
    case Block::Kind::line: return style(block.tone, block.text) + "\n";
    case Block::Kind::table: return render_text(block.table, style);
  }
  return "";
}

std::string block_markdown(const Block& block) {
  switch (block.kind) {
    case Block::Kind::heading: return "\n## " + without_elements(block.text) + "\n\n";
    case Block::Kind::paragraph: return paragraph(block.first, without_elements(block.text), kMarkdownWidth);
    case Block::Kind::item: return paragraph("- ", without_elements(block.text), kMarkdownWidth);
    case Block::Kind::line: return without_elements(block.text) + "\n";
    case Block::Kind::table: return render_markdown(block.table);
  }
  return "";
}

}  // namespace

void Document::heading(std::string text, Tone tone) {
  blocks.push_back({.kind = Block::Kind::heading, .text = shown_text(text), .tone = tone, .shown = shown});
}

void Document::paragraph(std::string first, std::string text, Tone tone, std::string marked) {
  blocks.push_back({.kind = Block::Kind::paragraph,
                    .text = shown_text(text),
                    .first = shown_text(first),
                    .marked = shown_text(marked),
                    .tone = tone,
                    .shown = shown});
}

void Document::items(const std::vector<std::string>& sentences) {
  for (const std::string& each : sentences)
    blocks.push_back({.kind = Block::Kind::item, .text = shown_text(each), .shown = shown});
}

void Document::line(std::string text, Tone tone) {
  blocks.push_back({.kind = Block::Kind::line, .text = shown_text(text), .tone = tone, .shown = shown});
}

void Document::table(Table table) {
  for (Column& column : table.columns) column.heading = shown_text(column.heading);
  for (Row& row : table.rows)
    for (std::string& cell : row.cells) cell = shown_text(cell);
  blocks.push_back({.kind = Block::Kind::table, .table = std::move(table), .shown = shown});
}

void Document::append(const Document& more) {
  blocks.insert(blocks.end(), more.blocks.begin(), more.blocks.end());
}

std::string text_of(const Document& document, const Style& style) {
  std::string text;
  for (const Block& block : document.blocks)
    if (block.shown != Shown::markdown) text += block_text(block, style);
  return text;
}

std::string markdown_of(const Document& document) {
  std::string text;
  for (const Block& block : document.blocks)
    if (block.shown != Shown::text) text += block_markdown(block);
  return text;
}

std::string csv_of(const Document& document) {
  std::string text;
  for (const CsvRecord& record : document.records) {
    for (const std::string& field : record) text += (&field == &record.front() ? "" : ",") + csv_field(field);
    text += "\r\n";
  }
  return text;
}

std::string in_format(const Document& document, OutputFormat format, const Style& style) {
  switch (format) {
    case OutputFormat::csv: return csv_of(document);
    case OutputFormat::markdown: return markdown_of(document);
    default: return text_of(document, style);
  }
}

}  // namespace zplan

#include "cli/document/document.h"

#include <utility>

namespace zplan {

namespace {

constexpr int kMarkdownWidth = 100;

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
    case Block::Kind::heading: return "\n## " + block.text + "\n\n";
    case Block::Kind::paragraph: return paragraph(block.first, block.text, kMarkdownWidth);
    case Block::Kind::item: return paragraph("- ", block.text, kMarkdownWidth);
    case Block::Kind::line: return block.text + "\n";
    case Block::Kind::table: return render_markdown(block.table);
  }
  return "";
}

}  // namespace

void Document::heading(std::string text, Tone tone) {
  blocks.push_back({.kind = Block::Kind::heading, .text = std::move(text), .tone = tone, .shown = shown});
}

void Document::paragraph(std::string first, std::string text, Tone tone, std::string marked) {
  blocks.push_back({.kind = Block::Kind::paragraph,
                    .text = std::move(text),
                    .first = std::move(first),
                    .marked = std::move(marked),
                    .tone = tone,
                    .shown = shown});
}

void Document::items(const std::vector<std::string>& sentences) {
  for (const std::string& each : sentences)
    blocks.push_back({.kind = Block::Kind::item, .text = each, .shown = shown});
}

void Document::line(std::string text, Tone tone) {
  blocks.push_back({.kind = Block::Kind::line, .text = std::move(text), .tone = tone, .shown = shown});
}

void Document::table(Table table) {
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

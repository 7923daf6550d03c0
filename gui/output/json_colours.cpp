#include "gui/output/json_colours.h"

#include <QRegularExpression>

namespace zplan::gui {

namespace {

/// Okabe and Ito's blue, vermilion and green: no two of them are alike to any eye.
constexpr int kBlue = 202, kVermilion = 26, kGreen = 164;

QColor hue_on(const QPalette& palette, int hue) {
  const bool dark = palette.color(QPalette::Base).lightness() < 128;
  return QColor::fromHsl(hue, dark ? 160 : 255, dark ? 175 : 58);
}

}  // namespace

JsonColours::JsonColours(QTextDocument* document) : QSyntaxHighlighter(document) {
  key_.setFontWeight(QFont::DemiBold);
}

void JsonColours::set_palette(const QPalette& palette) {
  key_.setForeground(hue_on(palette, kBlue));
  text_.setForeground(hue_on(palette, kGreen));
  number_.setForeground(hue_on(palette, kVermilion));
  rehighlight();
}

void JsonColours::highlightBlock(const QString& text) {
  static const QRegularExpression json(
      R"re((?<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?<text>"(?:[^"\\]|\\.)*")|(?<number>-?\b\d[\d.eE+-]*\b|\b(?:true|false|null)\b))re");
  static const QRegularExpression yaml(
      R"re((?<key>^[\s-]*[\w.-]+(?=:))|(?<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?<number>-?\b\d[\d.eE+-]*\b|\b(?:true|false|null)\b))re");
  for (auto each = (yaml_ ? yaml : json).globalMatch(text); each.hasNext();) {
    const QRegularExpressionMatch match = each.next();
    for (const auto& [name, format] :
         {std::pair{"key", &key_}, std::pair{"text", &text_}, std::pair{"number", &number_}})
      if (match.capturedLength(QLatin1String(name)) > 0)
        setFormat(static_cast<int>(match.capturedStart(QLatin1String(name))),
                  static_cast<int>(match.capturedLength(QLatin1String(name))), *format);
  }
}

}  // namespace zplan::gui

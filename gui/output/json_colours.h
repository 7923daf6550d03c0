#pragma once

#include <QPalette>
#include <QSyntaxHighlighter>

namespace zplan::gui {

/// Keys, texts and numbers of JSON, and of the YAML that accelerate takes, in hues that can be told apart and
/// read on the palette's ground.
class JsonColours : public QSyntaxHighlighter {
  Q_OBJECT

 public:
  explicit JsonColours(QTextDocument* document);
  void set_palette(const QPalette& palette);
  /// Of YAML, a word in front of a colon is a key.
  void set_yaml(bool yaml) { yaml_ = yaml; }

 protected:
  void highlightBlock(const QString& text) override;

 private:
  bool yaml_{};
  QTextCharFormat key_, text_, number_;
};

}  // namespace zplan::gui

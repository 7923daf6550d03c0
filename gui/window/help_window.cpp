#include "gui/window/help_window.h"

#include <QFile>
#include <QTextBlock>
#include <QTextBrowser>
#include <QVBoxLayout>

namespace zplan::gui {

HelpWindow::HelpWindow(QWidget* parent) : QDialog(parent), text_(new QTextBrowser(this)) {
  setWindowTitle(tr("Help"));
  resize(720, 560);
  auto* column = new QVBoxLayout(this);
  column->addWidget(text_);
  text_->setAccessibleName(tr("Help"));
  text_->setOpenLinks(false);
  // Languages without a page of their own have the English one.
  QFile page(tr(":/help/desktop.md", "the page of this language"));
  if (!page.open(QIODevice::ReadOnly)) return;
  QStringList lines = QString::fromUtf8(page.readAll()).split(QLatin1Char('\n'));
  // Leaves out the picture of the window.
  lines.removeIf([](const QString& line) { return line.startsWith(QStringLiteral("![")); });
  text_->document()->setMarkdown(lines.join(QLatin1Char('\n')));
}

void HelpWindow::show_topic(const QString& heading) {
  show();
  raise();
  topic_.clear();
  text_->moveCursor(QTextCursor::Start);
  for (QTextBlock block = text_->document()->begin(); block.isValid(); block = block.next()) {
    if (block.blockFormat().headingLevel() == 0 || block.text() != heading) continue;
    topic_ = heading;
    // First to the end, so that the heading then appears at the top.
    text_->moveCursor(QTextCursor::End);
    text_->setTextCursor(QTextCursor(block));
    text_->ensureCursorVisible();
    return;
  }
}

QString help_topic(const QWidget* widget) {
  for (; widget != nullptr; widget = widget->parentWidget())
    if (const QVariant topic = widget->property("help_topic"); topic.isValid()) return topic.toString();
  return {};
}

}  // namespace zplan::gui

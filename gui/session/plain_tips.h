#pragma once
// Tooltips that show text as it is: Qt takes what looks like HTML for rich text, with pictures of local
// files.

#include <QObject>
#include <QString>

namespace zplan::gui {

/// Returns the text so that a tooltip shows each character: names come from files of others.
[[nodiscard]] QString plain_tip(const QString& text);

/// Shows so the tooltips of tables, lists and their headings, once it is an event filter of the application.
class PlainTips : public QObject {
 public:
  using QObject::QObject;

  bool eventFilter(QObject* watched, QEvent* event) override;
};

}  // namespace zplan::gui

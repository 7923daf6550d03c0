#pragma once
// A name out of many: typed, searched or chosen from a table of them; or a path.

#include <QCompleter>
#include <QTreeView>

#include "gui/editors/name_table.h"
#include "gui/editors/value_editor.h"

namespace zplan::gui {

class Picker : public ValueEditor {
  Q_OBJECT

 public:
  /// `title`: of the dialog that chooses a file; empty: there is none.
  Picker(NameTable* names, const QString& title, QWidget* parent = nullptr);
  void show_value(const QString& value) override { edit_->show_text(value); }
  void show_default(const QString& text) override { edit_->setPlaceholderText(text); }
  [[nodiscard]] QList<QWidget*> inputs() const override { return {edit_}; }
  /// All names, whatever is typed.
  void show_all();
  [[nodiscard]] const NameFilter* filter() const { return filter_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  FieldEdit* edit_;
  NameFilter* filter_;
  QCompleter* completer_;
  QTreeView* popup_;
  QAction* all_;
};

}  // namespace zplan::gui

#pragma once
// Fields under a heading that folds them away.

#include <QToolButton>
#include <QVBoxLayout>
#include <vector>

#include "gui/editors/option_field.h"

namespace zplan::gui {

class Section : public QWidget {
  Q_OBJECT

 public:
  explicit Section(const QString& title, QWidget* parent = nullptr);
  void add(OptionField* field);
  /// Fields of which `shown` says so; with `unfolded`, whether or not they are folded away.
  void show_fields(const std::function<bool(const OptionField&)>& shown, bool unfolded);
  /// Shows in the heading how many options are given.
  void count_given();
  void set_folded(bool folded);
  [[nodiscard]] bool is_folded() const { return !heading_->isChecked(); }
  [[nodiscard]] const std::vector<OptionField*>& fields() const { return fields_; }

 private:
  void show_body();

  QString title_;
  QToolButton* heading_;
  QWidget* body_;
  QVBoxLayout* rows_;
  std::vector<OptionField*> fields_;
  bool unfolded_{};  ///< for as long as options are looked for
};

}  // namespace zplan::gui

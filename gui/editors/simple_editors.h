#pragma once
// Editors of flags, of a word out of a few, of several such words, and of text.

#include <QCheckBox>
#include <QComboBox>
#include <QGridLayout>
#include <QToolButton>
#include <functional>
#include <vector>

#include "gui/editors/value_editor.h"

namespace zplan::gui {

class FlagEditor : public ValueEditor {
  Q_OBJECT

 public:
  explicit FlagEditor(const QString& label, QWidget* parent = nullptr);
  void show_value(const QString& value) override;
  void show_default(const QString&) override {}
  [[nodiscard]] QList<QWidget*> inputs() const override { return {box_}; }
  [[nodiscard]] bool has_label() const override { return true; }

 private:
  QCheckBox* box_;
};

/// One of `words`; a word that is none of them stays shown, behind them.
class ChoiceEditor : public ValueEditor {
  Q_OBJECT

 public:
  explicit ChoiceEditor(const QStringList& words, QWidget* parent = nullptr);
  void show_value(const QString& value) override;
  void show_default(const QString& text) override;
  [[nodiscard]] QList<QWidget*> inputs() const override { return {box_}; }

 private:
  QComboBox* box_;
  int known_;  ///< items, the default's included
};

/// Any of `words`, separated by commas on the command line. Where the option is not given, those that hold by
/// default are half ticked.
class ChecksEditor : public ValueEditor {
  Q_OBJECT

 public:
  ChecksEditor(const QStringList& words, int columns, QWidget* parent = nullptr);
  void show_value(const QString& value) override;
  void show_default(const QString& text) override;
  [[nodiscard]] QList<QWidget*> inputs() const override;
  [[nodiscard]] bool is_wide() const override { return columns_ < 4; }

 private:
  void add(const QString& word);
  void remove_unknown();
  void toggle(const QString& word);
  void show_ticks();

  QGridLayout* grid_;
  int columns_;
  QStringList given_, used_;
  qsizetype known_;                ///< boxes of words that are legal
  std::vector<QCheckBox*> boxes_;  ///< behind those: words that are given and not legal
};

/// Text, with suggestions for it.
class TextEditor : public ValueEditor {
  Q_OBJECT

 public:
  explicit TextEditor(const QStringList& suggestions, QWidget* parent = nullptr);
  void show_value(const QString& value) override { edit_->show_text(value); }
  void show_default(const QString& text) override { edit_->setPlaceholderText(text); }
  [[nodiscard]] QList<QWidget*> inputs() const override { return {edit_}; }

 private:
  FieldEdit* edit_;
};

/// A file's path.
class FileEditor : public ValueEditor {
  Q_OBJECT

 public:
  explicit FileEditor(QWidget* parent = nullptr);
  void show_value(const QString& value) override { edit_->show_text(value); }
  void show_default(const QString& text) override { edit_->setPlaceholderText(text); }
  [[nodiscard]] QList<QWidget*> inputs() const override { return {edit_}; }

 private:
  FieldEdit* edit_;
};

/// A button that hands a chosen JSON file over. The path that stands in `near` is where it begins.
[[nodiscard]] QToolButton* make_browse_button(const FieldEdit* near, const QString& title,
                                              const std::function<void(const QString&)>& chosen);

}  // namespace zplan::gui

#include "gui/editors/simple_editors.h"

#include <QCompleter>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QSignalBlocker>

#include "cli/options/command_line.h"

namespace zplan::gui {

namespace {

QHBoxLayout* tight_row(QWidget* of) {
  auto* row = new QHBoxLayout(of);
  row->setContentsMargins(0, 0, 0, 0);
  return row;
}

QString flag_given() {
  return QString::fromUtf8(kFlagGiven.data(), static_cast<qsizetype>(kFlagGiven.size()));
}

}  // namespace

// ---- a flag
// ---------------------------------------------------------------------------------------------------------

FlagEditor::FlagEditor(const QString& label, QWidget* parent)
    : ValueEditor(parent), box_(new QCheckBox(label, this)) {
  tight_row(this)->addWidget(box_);
  connect(box_, &QCheckBox::clicked, this,
          [this](bool on) { Q_EMIT edited(on ? flag_given() : QString(), Step::own); });
}

void FlagEditor::show_value(const QString& value) { box_->setChecked(!value.isEmpty()); }

// ---- a word out of a few
// ---------------------------------------------------------------------------------------------------------

ChoiceEditor::ChoiceEditor(const QStringList& words, QWidget* parent)
    : ValueEditor(parent), box_(new QComboBox(this)), known_(static_cast<int>(words.size()) + 1) {
  box_->addItem(tr("default"), QString());
  for (const QString& word : words) box_->addItem(word, word);
  box_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box_->setMinimumContentsLength(8);
  guard_wheel(box_);
  tight_row(this)->addWidget(box_);
  connect(box_, &QComboBox::activated, this,
          [this](int item) { Q_EMIT edited(box_->itemData(item).toString(), Step::own); });
}

void ChoiceEditor::show_value(const QString& value) {
  int item = box_->findData(value);
  if (item < 0) {
    box_->addItem(value, value);
    item = box_->count() - 1;
  }
  box_->setCurrentIndex(item);
  for (int unknown = box_->count() - 1; unknown >= known_; --unknown)
    if (unknown != item) box_->removeItem(unknown);
}

void ChoiceEditor::show_default(const QString& text) {
  box_->setItemText(0, text.isEmpty() ? tr("default") : tr("default (%1)").arg(text));
}

// ---- several words
// ---------------------------------------------------------------------------------------------------------

ChecksEditor::ChecksEditor(const QStringList& words, int columns, QWidget* parent)
    : ValueEditor(parent), grid_(new QGridLayout(this)), columns_(columns), known_(words.size()) {
  grid_->setContentsMargins(0, 0, 0, 0);
  grid_->setVerticalSpacing(2);
  grid_->setHorizontalSpacing(4);
  for (const QString& word : words) add(word);
}

void ChecksEditor::add(const QString& word) {
  auto* box = new QCheckBox(word, this);
  box->setObjectName(word);
  const int place = static_cast<int>(boxes_.size());
  grid_->addWidget(box, place / columns_, place % columns_);
  connect(box, &QCheckBox::clicked, this, [this, word] { toggle(word); });
  boxes_.push_back(box);
}

void ChecksEditor::remove_unknown() {
  for (auto place = static_cast<qsizetype>(boxes_.size()) - 1; place >= known_; --place) {
    QCheckBox* box = boxes_[static_cast<std::size_t>(place)];
    if (given_.contains(box->objectName())) continue;
    boxes_.erase(boxes_.begin() + place);
    box->hide();
    box->deleteLater();  // it may be the one that was just clicked
  }
}

void ChecksEditor::show_value(const QString& value) {
  given_ = value.isEmpty() ? QStringList() : value.split(QLatin1Char(','));
  remove_unknown();
  for (const QString& word : std::as_const(given_))
    if (std::ranges::none_of(boxes_, [&word](const QCheckBox* box) { return box->objectName() == word; })) {
      add(word);
      boxes_.back()->setText(tr("“%1”").arg(word));
      boxes_.back()->show();
    }
  show_ticks();
}

void ChecksEditor::show_default(const QString& text) {
  used_ = text.split(QLatin1Char(','));
  show_ticks();
}

void ChecksEditor::show_ticks() {
  for (QCheckBox* box : boxes_) {
    const bool by_default = given_.isEmpty() && used_.contains(box->objectName());
    const bool ticked = given_.contains(box->objectName());
    box->setTristate(by_default);
    box->setCheckState(by_default ? Qt::PartiallyChecked : ticked ? Qt::Checked : Qt::Unchecked);
    box->setAccessibleDescription(by_default ? tr("considered by default") : QString());
  }
}

void ChecksEditor::toggle(const QString& word) {
  const bool add = !given_.contains(word);
  QStringList words;
  for (const QCheckBox* box : boxes_)
    if (box->objectName() == word ? add : given_.contains(box->objectName())) words << box->objectName();
  Q_EMIT edited(words.join(QLatin1Char(',')), Step::own);
  show_ticks();
}

QList<QWidget*> ChecksEditor::inputs() const {
  return QList<QWidget*>(boxes_.begin(), boxes_.begin() + known_);
}

// ---- text
// ---------------------------------------------------------------------------------------------------------

TextEditor::TextEditor(const QStringList& suggestions, QWidget* parent)
    : ValueEditor(parent), edit_(new FieldEdit(this)) {
  tight_row(this)->addWidget(edit_);
  if (!suggestions.isEmpty()) {
    auto* completer = new QCompleter(suggestions, this);
    completer->setCaseSensitivity(Qt::CaseInsensitive);
    edit_->setCompleter(completer);
  }
  // Text that a suggestion put there was not typed, so textEdited would miss it.
  connect(edit_, &QLineEdit::textChanged, this, [this] { Q_EMIT edited(edit_->value(), Step::continued); });
}

// ---- a file
// ---------------------------------------------------------------------------------------------------------

FileEditor::FileEditor(QWidget* parent) : ValueEditor(parent), edit_(new FieldEdit(this)) {
  QHBoxLayout* row = tight_row(this);
  row->addWidget(edit_, 1);
  row->addWidget(make_browse_button(edit_, tr("Browse for a file"),
                                    [this](const QString& file) { Q_EMIT edited(file, Step::own); }));
  connect(edit_, &QLineEdit::textChanged, this, [this] { Q_EMIT edited(edit_->value(), Step::continued); });
}

QToolButton* make_browse_button(const FieldEdit* near, const QString& title,
                                const std::function<void(const QString&)>& chosen) {
  auto* button = new QToolButton;
  button->setText(ValueEditor::tr("…"));
  button->setAccessibleName(title);
  button->setToolTip(title);
  button->setFocusPolicy(Qt::TabFocus);
  QObject::connect(button, &QToolButton::clicked, near, [button, near, title, chosen] {
    const QString file = QFileDialog::getOpenFileName(button->window(), title, near->value(),
                                                      ValueEditor::tr("JSON files (*.json);;All files (*)"));
    if (!file.isEmpty()) chosen(file);
  });
  return button;
}

}  // namespace zplan::gui

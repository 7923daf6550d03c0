#include "gui/editors/option_field.h"

#include <QCoreApplication>
#include <QStyle>

#include "gui/editors/used_values.h"

namespace zplan::gui {

namespace {

/// Texts of the table of options are translated in a context of their own.
QString translated(std::string_view text) {
  return QCoreApplication::translate("zplan::gui::Options", std::string(text).c_str());
}

}  // namespace

QString option_label(const OptionSpec& spec) { return translated(spec.label); }

QString option_help(const OptionSpec& spec) { return translated(spec.help); }

QString option_usage(const OptionSpec& spec) {
  std::string usage(spec.name);
  if (!spec.value.empty()) (usage += ' ') += spec.value;
  return QString::fromStdString(usage);
}

QString group_label(std::string_view group) { return translated(group); }

OptionField::OptionField(const OptionSpec& spec, ValueEditor* editor, QWidget* parent)
    : QWidget(parent),
      spec_(spec),
      label_(new QLabel(option_label(spec), this)),
      editor_(editor),
      reset_(new QToolButton(this)),
      message_(new MessageLine(this)) {
  setObjectName(QString::fromStdString(std::string(spec.name)));
  lay_out();
  name_inputs();
  connect(editor_, &ValueEditor::edited, this, &OptionField::edited);
  connect(editor_, &ValueEditor::began, this, &OptionField::began);
  connect(reset_, &QToolButton::clicked, this, [this] {
    editor_->inputs().front()->setFocus();  // the button goes, and the focus with it
    Q_EMIT edited({}, Step::own);
  });
  show_used({});
  show_state();
}

void OptionField::lay_out() {
  auto* grid = new QGridLayout(this);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setVerticalSpacing(2);
  grid->setColumnStretch(1, 1);
  label_->setWordWrap(true);
  label_->setFixedWidth(label_->fontMetrics().horizontalAdvance(QStringLiteral("Sequence lengths")));
  label_->setVisible(!editor_->has_label());
  if (editor_->has_label()) {
    grid->addWidget(editor_, 0, 0, 1, 2);
  } else if (editor_->is_wide()) {
    grid->addWidget(label_, 0, 0);
    grid->addWidget(editor_, 1, 0, 1, 3);
  } else {
    grid->addWidget(label_, 0, 0);
    grid->addWidget(editor_, 0, 1);
  }
  editor_->setParent(this);
  grid->addWidget(reset_, 0, 2, Qt::AlignVCenter);
  grid->addWidget(message_, 2, 0, 1, 3);
  reset_->setAutoRaise(true);
  reset_->setFocusPolicy(Qt::TabFocus);
  reset_->setIcon(style()->standardIcon(QStyle::SP_LineEditClearButton));
  QSizePolicy policy = reset_->sizePolicy();
  policy.setRetainSizeWhenHidden(true);
  reset_->setSizePolicy(policy);
  setTabOrder(editor_->inputs().back(), reset_);
}

void OptionField::name_inputs() {
  const QString label = option_label(spec_);
  const QList<QWidget*> inputs = editor_->inputs();
  for (QWidget* input : inputs) {
    const QString word = input->objectName();  // of a check box among several
    input->setAccessibleName(inputs.size() > 1 && !word.isEmpty() ? tr("%1: %2").arg(label, word) : label);
  }
  editor_->setFocusProxy(inputs.front());
  label_->setBuddy(inputs.front());
  reset_->setAccessibleName(tr("Reset %1").arg(label));
  reset_->setToolTip(tr("Back to the default"));
  setToolTip(QStringLiteral("<p>%1</p><p><code>%2</code></p>")
                 .arg(option_help(spec_).toHtmlEscaped(), option_usage(spec_).toHtmlEscaped()));
}

void OptionField::show_value(const QString& value) {
  value_ = value;
  editor_->show_value(value);
  show_state();
}

void OptionField::show_used(const QString& used) {
  const QString stated = stated_default(spec_);
  editor_->show_default(is_given() || used.isEmpty() ? stated : used);
}

void OptionField::show_problem(const QString& text) {
  problem_ = text;
  describe();
}

void OptionField::show_idle(const QString& why) {
  idle_ = why;
  show_state();
}

void OptionField::show_state() {
  QFont font = label_->font();
  font.setBold(is_given());
  label_->setFont(font);
  if (editor_->has_label()) editor_->inputs().front()->setFont(font);
  reset_->setVisible(is_given());
  // One that is given can be taken out, whatever it does.
  const bool enabled = idle_.isEmpty() || is_given();
  editor_->setEnabled(enabled);
  label_->setEnabled(enabled);
  describe();
}

void OptionField::describe() {
  if (problem_.isEmpty())
    message_->remark(is_given() ? QString() : idle_);
  else
    message_->warn(problem_);
  QStringList all{option_help(spec_), option_usage(spec_)};
  for (const QString& each : {problem_, idle_})
    if (!each.isEmpty()) all.prepend(each);
  editor_->inputs().front()->setAccessibleDescription(all.join(QLatin1Char('\n')));
}

bool OptionField::matches(const QString& words) const {
  const QString text = QStringList{option_label(spec_), option(), option_help(spec_)}.join(QLatin1Char('\n'));
  const QStringList wanted = words.split(QLatin1Char(' '), Qt::SkipEmptyParts);
  return std::ranges::all_of(
      wanted, [&text](const QString& word) { return text.contains(word, Qt::CaseInsensitive); });
}

}  // namespace zplan::gui

#include "gui/output/validation_line.h"

#include <QPlainTextEdit>
#include <QToolButton>
#include <QVBoxLayout>

#include "cli/report/explain.h"
#include "gui/session/plain_tips.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

constexpr int kLinesOfDetails = 6;

}  // namespace

ValidationLine::ValidationLine(QWidget* parent)
    : QWidget(parent), toggle_(new QToolButton(this)), details_(new QPlainTextEdit(this)) {
  toggle_->setObjectName(QStringLiteral("validated"));
  toggle_->setCheckable(true);
  toggle_->setAutoRaise(true);
  toggle_->setFocusPolicy(Qt::StrongFocus);
  toggle_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  toggle_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  details_->setObjectName(QStringLiteral("validation details"));
  details_->setAccessibleName(tr("What the figures were validated against"));
  details_->setReadOnly(true);
  details_->setTabChangesFocus(true);
  details_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  details_->setFixedHeight(kLinesOfDetails * details_->fontMetrics().lineSpacing() + 10);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(toggle_);
  column->addWidget(details_);
  connect(toggle_, &QToolButton::toggled, this, &ValidationLine::set_open);
  set_open(false);
  clear();
}

void ValidationLine::show_plan(const std::vector<AccuracyOf>& kinds, const Subject& subject) {
  const Coverage coverage = coverage_of(subject.plan(), subject.question());
  QStringList sentences;
  for (const AccuracyOf of : kinds)
    for (const std::string& each : accuracy_sentences(of, coverage)) sentences << qt(each);
  show_text(tr("Validated: %1").arg(qt(validation_line(kinds, subject.plan(), subject.question()))),
            sentences.join(u'\n'));
}

void ValidationLine::clear() { show_text({}, {}); }

void ValidationLine::show_text(const QString& line, const QString& details) {
  setVisible(!line.isEmpty());
  if (details != details_->toPlainText()) details_->setPlainText(details);
  line_ = line;
  toggle_->setAccessibleName(line);
  toggle_->setToolTip(plain_tip(tr("%1\nA click shows the details.").arg(line)));
  fit();
}

void ValidationLine::set_open(bool open) {
  toggle_->setArrowType(open ? Qt::DownArrow : Qt::RightArrow);
  toggle_->setAccessibleDescription(open ? tr("unfolded") : tr("folded"));
  details_->setVisible(open);
}

/// Shortens the text of the button to the width that there is.
void ValidationLine::fit() {
  toggle_->setText(line_);
  const int around = toggle_->sizeHint().width() - toggle_->fontMetrics().horizontalAdvance(line_);
  toggle_->setText(toggle_->fontMetrics().elidedText(line_, Qt::ElideRight, width() - around));
}

void ValidationLine::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fit();
}

}  // namespace zplan::gui

#include "gui/window/verdict_bar.h"

#include <QGridLayout>
#include <QLabel>
#include <QStyle>
#include <QToolButton>
#include <algorithm>
#include <array>

#include "cli/options/command_line.h"
#include "cli/report/brief.h"
#include "cli/report/report_text.h"
#include "gui/output/text_label.h"
#include "gui/output/why_view.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

/// Sizes of the verdict in multiples of the window's font; the first is taken at which it needs one line.
constexpr std::array kSizes{1.4, 1.25, 1.15};
constexpr int kGap = 8, kLeast = 200, kUsual = 1000;  ///< pixels

/// The texts of the bar, and its mark.
struct Lines {
  QString statement, about{};
  QStyle::StandardPixmap sign{QStyle::SP_MessageBoxInformation};
  bool has_alternative{};
};

Lines lines_of(const Session::Entry* entry) {
  if (entry == nullptr)
    return {VerdictBar::tr("No scenario: add one on the left, or drop a config.json here")};
  const QString name = qt(entry->scenario.name);
  if (entry->problem && !entry->glance)
    return {VerdictBar::tr("%1: %2").arg(name, entry->problem->text), {}, QStyle::SP_MessageBoxCritical};
  if (!entry->newest()) return {VerdictBar::tr("%1: planning…").arg(name)};
  const Planned& planned = *entry->newest();
  const Verdict verdict = verdict_of(planned);
  QString about = qt(verdict.subject);
  for (const std::string& each : {verdict.alternative, verdict.remedy})
    if (!each.empty()) about += VerdictBar::tr(". %1").arg(capitalised(qt(each)));
  return {headline_of(planned), about,
          planned.plan().fits ? QStyle::SP_DialogApplyButton : QStyle::SP_MessageBoxWarning,
          !planned.saved && !verdict.alternative.empty()};
}

}  // namespace

VerdictBar::VerdictBar(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      sign_(new QLabel(this)),
      statement_(text_label(this)),
      about_(text_label(this)),
      take_(new QToolButton(this)) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  statement_->setObjectName(QStringLiteral("banner"));
  about_->setObjectName(QStringLiteral("about"));
  auto* grid = new QGridLayout(this);
  grid->setContentsMargins(6, 4, 6, 2);
  grid->setHorizontalSpacing(kGap);
  grid->setVerticalSpacing(2);
  grid->setColumnStretch(1, 1);
  grid->addWidget(sign_, 0, 0, Qt::AlignTop);
  grid->addWidget(statement_, 0, 1);
  grid->addWidget(about_, 1, 1);
  grid->addWidget(take_, 0, 2, 2, 1, Qt::AlignVCenter);
  take_->setObjectName(QStringLiteral("alternative"));
  take_->setText(tr("Add what fits"));
  take_->setToolTip(tr("Adds the plan that would fit instead as a scenario"));
  take_->setFocusPolicy(Qt::StrongFocus);
  connect(take_, &QToolButton::clicked, this, &VerdictBar::add_alternative);

  soon_.setSingleShot(true);
  connect(&soon_, &QTimer::timeout, this, &VerdictBar::refresh);
  const auto changed = [this] { later(); };
  connect(&session, &Session::inserted, this, changed);
  connect(&session, &Session::removed, this, changed);
  connect(&session, &Session::changed, this, changed);
  connect(&session, &Session::glanced, this, changed);
  connect(&session, &Session::answered, this, changed);
  connect(&session, &Session::current_changed, this, changed);
  connect(&session, &Session::reset, this, changed);
  refresh();
}

void VerdictBar::later() {
  if (!soon_.isActive()) soon_.start(0);
}

void VerdictBar::refresh() {
  const int row = session_.current();
  const Lines lines = lines_of(row < 0 ? nullptr : &session_.at(row));
  statement_->setText(lines.statement);
  about_->setText(lines.about);
  take_->setVisible(lines.has_alternative);
  const int side = QFontMetrics(heading_font(font(), kSizes.front())).height();
  sign_->setPixmap(style()->standardIcon(lines.sign).pixmap(side, side));
  fit();
}

/// Sets the size of the verdict, and the heights that the texts have at the bar's width: a tool bar asks for
/// heights alone.
void VerdictBar::fit() {
  const QMargins around = layout()->contentsMargins();
  const int room = width() - around.left() - around.right() - sign_->sizeHint().width() - kGap -
                   (take_->isHidden() ? 0 : take_->sizeHint().width() + kGap);
  const int width = room < kLeast ? kUsual : room;  // before the window is laid out
  for (const double size : kSizes) {
    statement_->setFont(heading_font(font(), size));
    if (statement_->fontMetrics().horizontalAdvance(statement_->text()) <= width) break;
  }
  for (QLabel* each : {statement_, about_}) {
    each->setMinimumHeight(0);  // it would count
    each->setFixedHeight(std::max(each->fontMetrics().height(), each->heightForWidth(width)));
  }
  setFixedHeight(layout()->sizeHint().height());
}

void VerdictBar::add_alternative() {
  const int row = session_.current();
  if (row < 0 || !session_.at(row).planned || !session_.at(row).planned->answer.alternative) return;
  const Planned& planned = *session_.at(row).planned;
  const std::vector<std::string> arguments =
      with_options(planned.scenario.arguments, alternative_changes(planned.answer));
  session_.add(
      {.name = session_.free_name(qt(name_of_question(arguments))).toStdString(), .arguments = arguments});
}

void VerdictBar::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fit();
}

}  // namespace zplan::gui

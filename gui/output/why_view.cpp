#include "gui/output/why_view.h"

#include <QBoxLayout>
#include <QEvent>
#include <QScrollBar>
#include <QTextBrowser>
#include <algorithm>

#include "cli/report/brief.h"
#include "cli/report/report_text.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

QString escaped(const std::string& text) { return qt(text).toHtmlEscaped(); }

QString heading(const QString& text) { return QStringLiteral("<h4>%1</h4>").arg(text.toHtmlEscaped()); }

QString list_of(const QString& items) {
  return items.isEmpty() ? items : QStringLiteral("<ul>%1</ul>").arg(items);
}

QString list(const std::vector<std::string>& sentences) {
  QString items;
  for (const std::string& each : sentences) items += QStringLiteral("<li>%1</li>").arg(escaped(each));
  return list_of(items);
}

QString section(const QString& title, const QString& content) {
  return content.isEmpty() ? content : heading(title) + content;
}

/// Returns the translated label of a block of the command line's header.
QString label_of(const std::string& label) {
  static const char* const known[]{QT_TRANSLATE_NOOP("zplan::gui::WhyView", "Model"),
                                   QT_TRANSLATE_NOOP("zplan::gui::WhyView", "Cluster"),
                                   QT_TRANSLATE_NOOP("zplan::gui::WhyView", "Training"),
                                   QT_TRANSLATE_NOOP("zplan::gui::WhyView", "Assumed"),
                                   QT_TRANSLATE_NOOP("zplan::gui::WhyView", "Warning")};
  for (const char* each : known)
    if (label == each) return WhyView::tr(each);
  return qt(label);
}

/// Returns the header's block with that label as HTML.
QString block(const Report& report, std::string_view label) {
  for (const HeaderBlock& each : header_blocks(report))
    if (each.label == label) {
      if (each.bullets) return section(label_of(each.label), list(each.lines));
      QStringList lines;
      for (const std::string& line : each.lines) lines << escaped(line);
      return section(label_of(each.label),
                     QStringLiteral("<p>%1</p>").arg(lines.join(QStringLiteral("<br>"))));
    }
  return {};
}

/// Returns the sentences about a plan; none for a draft.
std::vector<std::string> sentences_of(const Plan& plan, const Question& question) {
  std::vector<std::string> sentences = plan.why;
  if (!sentences.empty()) sentences.insert(sentences.begin() + 1, range_sentence(plan, question));
  return sentences;
}

QString others(const Planned& planned) {
  QString items;
  for (std::size_t i = 0; i < planned.answer.plans.size(); ++i) {
    const Plan& plan = planned.answer.plans[i];
    if (i == planned.shown || plan.fits || plan.why.empty()) continue;
    QStringList reasons;
    for (const std::string& each : plan.why) reasons << escaped(each);
    items += QStringLiteral("<li><b>%1</b>: %2</li>")
                 .arg(qt(plan.id()).toHtmlEscaped(), reasons.join(QStringLiteral("; ")));
  }
  return list_of(items);
}

QString impossible(const Report& report) {
  QString items;
  for (const Impossible& each : impossible_plans(report)) {
    QStringList ids;
    for (const std::string& id : each.ids) ids << escaped(id);
    items +=
        QStringLiteral("<li><b>%1</b>: %2</li>").arg(ids.join(QStringLiteral(", ")), escaped(each.reason));
  }
  return list_of(items);
}

QString alternative(const Answer& answer, const Question& question) {
  if (!answer.alternative) return {};
  const QString change = qt(answer.alternative_change);
  const QString title =
      change.isEmpty()
          ? WhyView::tr("What fits instead: %1").arg(qt(answer.alternative->id()))
          : WhyView::tr("What fits instead: %1 with %2").arg(qt(answer.alternative->id()), change);
  return section(title, list(sentences_of(*answer.alternative, question)));
}

QString recommended_instead(const Planned& planned) {
  const Plan* best = planned.answer.recommended();
  if (best == nullptr || best == &planned.plan()) return {};
  return QStringLiteral("<p>%1</p>")
      .arg(WhyView::tr("zplan recommends %1.").arg(qt(best->id())).toHtmlEscaped());
}

QString page_of(const Planned& planned) {
  const Report report = report_of(planned);
  const QString top = QStringLiteral("<h3>%1</h3>").arg(headline_of(planned).toHtmlEscaped());
  if (planned.saved)
    return top + QStringLiteral("<p>%1</p>")
                     .arg(WhyView::tr("A report that was saved: %1")
                              .arg(qt(planned.scenario.report))
                              .toHtmlEscaped());
  return top + block(report, "Warning") + recommended_instead(planned) +
         list(sentences_of(planned.plan(), planned.question)) +
         section(WhyView::tr("Room"), list(reach_lines(report))) +
         alternative(planned.answer, planned.question) +
         section(WhyView::tr("Why not the others"), others(planned)) +
         section(WhyView::tr("Not possible"), impossible(report)) + block(report, "Assumed") +
         block(report, "Model") + block(report, "Cluster") + block(report, "Training");
}

}  // namespace

QString headline_of(const Planned& planned) { return capitalised(qt(verdict_of(planned).statement)); }

WhyView::WhyView(QWidget* parent) : QWidget(parent) {
  page_ = new QTextBrowser;
  setFocusProxy(page_);
  page_->setAccessibleName(tr("Why"));
  page_->setOpenLinks(false);
  page_->setTabChangesFocus(true);
  page_->setPlaceholderText(tr("No plan yet"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins({});
  layout->addWidget(page_);
}

void WhyView::show_plan(PlannedPtr planned) {
  planned_ = std::move(planned);
  stale_ = true;
  const QString headline = planned_ ? headline_of(*planned_) : QString();
  if (headline != headline_) {
    headline_ = headline;
    Q_EMIT headline_changed(headline_);
  }
  if (isVisible()) refresh();
}

QString WhyView::text() {
  if (stale_) refresh();
  return page_->toPlainText();
}

void WhyView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (stale_) refresh();
}

void WhyView::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() != QEvent::PaletteChange && event->type() != QEvent::FontChange) return;
  stale_ = true;
  if (isVisible()) refresh();
}

void WhyView::refresh() {
  stale_ = false;
  const int place = page_->verticalScrollBar()->value();
  page_->setHtml(planned_ ? page_of(*planned_) : QString());
  page_->verticalScrollBar()->setValue(place);
}

}  // namespace zplan::gui

#include "gui/output/explain_view.h"

#include <QAction>
#include <QApplication>
#include <QBoxLayout>
#include <QClipboard>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QShortcut>
#include <QSplitter>
#include <QTextBrowser>
#include <QTreeView>

#include "cli/report/explain.h"

namespace zplan::gui {

namespace {

QString in_bold(const QString& text) { return QStringLiteral("<b>%1</b>").arg(text.toHtmlEscaped()); }

}  // namespace

ExplainView::ExplainView(QWidget* parent) : QWidget(parent) {
  found_.setSourceModel(&model_);
  found_.setFilterCaseSensitivity(Qt::CaseInsensitive);
  found_.setFilterKeyColumn(-1);
  found_.setRecursiveFilteringEnabled(true);
  found_.setAutoAcceptChildRows(true);

  title_ = new QLabel;
  title_->setWordWrap(true);
  title_->setTextFormat(Qt::PlainText);
  search_ = new QLineEdit;
  search_->setPlaceholderText(tr("Search figures, formulas and sources"));
  search_->setAccessibleName(tr("Search the explanation"));
  search_->setClearButtonEnabled(true);
  connect(search_, &QLineEdit::textChanged, this, [this](const QString& words) {
    found_.setFilterFixedString(words);
    expand();
  });
  auto* find = new QShortcut(QKeySequence::Find, this, nullptr, nullptr, Qt::WidgetWithChildrenShortcut);
  connect(find, &QShortcut::activated, search_, qOverload<>(&QWidget::setFocus));

  tree_ = new QTreeView;
  setFocusProxy(tree_);
  tree_->setModel(&found_);
  tree_->setAccessibleName(tr("Figures with their formulas"));
  tree_->setAlternatingRowColors(true);
  tree_->setUniformRowHeights(true);
  tree_->setSelectionBehavior(QAbstractItemView::SelectRows);
  tree_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  tree_->header()->setStretchLastSection(true);
  connect(tree_->selectionModel(), &QItemSelectionModel::currentChanged, this, &ExplainView::show_details);
  auto* copy = new QAction(tr("Copy"), tree_);
  copy->setShortcut(QKeySequence::Copy);
  copy->setShortcutContext(Qt::WidgetShortcut);
  connect(copy, &QAction::triggered, this, &ExplainView::copy_current);
  tree_->addAction(copy);
  tree_->setContextMenuPolicy(Qt::ActionsContextMenu);

  details_ = new QTextBrowser;
  details_->setAccessibleName(tr("The figure that is selected"));
  details_->setOpenLinks(false);
  details_->setTabChangesFocus(true);

  auto* parts = new QSplitter(Qt::Vertical);
  parts->setChildrenCollapsible(false);
  parts->addWidget(tree_);
  parts->addWidget(details_);
  parts->setStretchFactor(0, 4);
  parts->setStretchFactor(1, 1);
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(title_);
  layout->addWidget(search_);
  layout->addWidget(parts, 1);
  refresh();
}

void ExplainView::show_subject(const Subject& subject) {
  subject_ = subject;
  stale_ = true;
  if (isVisible()) refresh();
}

void ExplainView::clear() { show_subject({}); }

void ExplainView::search(const QString& words) { search_->setText(words); }

void ExplainView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (stale_) refresh();
}

void ExplainView::refresh() {
  stale_ = false;
  const Place before = current();
  const PlannedPtr& planned = subject_.planned;
  const bool any = planned && !planned->saved;
  model_.show(any ? explain(subject_.plan(), subject_.question()) : Explanation{});
  const QString id = planned ? QString::fromStdString(subject_.plan().id()) : QString();
  title_->setText(!planned              ? tr("No plan yet")
                  : planned->saved      ? tr("A report that was saved holds no formulas.")
                  : subject_.is_draft() ? tr("%1: %2, first estimates").arg(subject_.title, id)
                                        : tr("%1: %2").arg(subject_.title, id));
  expand();
  for (int column = 0; column < ExplainModel::formula + 1; ++column) {
    tree_->resizeColumnToContents(column);
    tree_->setColumnWidth(column, std::min(tree_->columnWidth(column), 480));
  }
  set_current(before);
  show_details();
}

/// Symbols are looked up, not read through.
void ExplainView::expand() {
  tree_->expandAll();
  if (search_->text().isEmpty()) tree_->collapse(found_.index(0, 0));
}

ExplainView::Place ExplainView::current() const {
  const QModelIndex at = found_.mapToSource(tree_->currentIndex());
  return {at.parent().row(), at.siblingAtColumn(0).data().toString()};
}

/// An answer that comes while somebody reads leaves the eye where it is.
void ExplainView::set_current(const Place& place) {
  const QModelIndex section = model_.index(place.section, 0);
  for (int row = 0; section.isValid() && row < model_.rowCount(section); ++row)
    if (const QModelIndex at = model_.index(row, 0, section); at.data().toString() == place.name)
      return tree_->setCurrentIndex(found_.mapFromSource(at));
}

/// What stands where no figure is selected.
QString ExplainView::introduction() const {
  const QString hint =
      QStringLiteral("<p>%1</p>").arg(tr("Select a figure to see all of its formula.").toHtmlEscaped());
  if (model_.rowCount() == 0) return {};
  QString items;
  for (const std::string& each : accuracy_sentences(coverage_of(subject_.plan(), subject_.question())))
    items += QStringLiteral("<li>%1</li>").arg(QString::fromStdString(each).toHtmlEscaped());
  return hint +
         QStringLiteral("<p>%1</p><ul>%2</ul>").arg(in_bold(tr("How far off such figures were")), items);
}

void ExplainView::show_details() {
  const QModelIndex at = tree_->currentIndex();
  const auto text = [&at](int column) { return at.siblingAtColumn(column).data().toString(); };
  if (!at.parent().isValid()) return details_->setHtml(introduction());
  const QString heading =
      in_bold(text(ExplainModel::name)) + QStringLiteral(" ") + text(ExplainModel::value).toHtmlEscaped();
  details_->setHtml(QStringLiteral("<p>%1</p><p>%2</p><p>%3</p>")
                        .arg(heading, text(ExplainModel::formula).toHtmlEscaped(),
                             tr("Source: %1").arg(text(ExplainModel::source)).toHtmlEscaped()));
}

void ExplainView::copy_current() const {
  const QModelIndex at = tree_->currentIndex();
  QStringList fields;
  for (int column = 0; column < ExplainModel::column_count; ++column)
    if (const QString text = at.siblingAtColumn(column).data().toString(); !text.isEmpty()) fields << text;
  if (!fields.isEmpty()) QApplication::clipboard()->setText(fields.join(u'\t'));
}

}  // namespace zplan::gui

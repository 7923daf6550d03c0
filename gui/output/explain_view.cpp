#include "gui/output/explain_view.h"

#include <QAction>
#include <QApplication>
#include <QBoxLayout>
#include <QClipboard>
#include <QFont>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QShortcut>
#include <QSplitter>
#include <QTextBrowser>
#include <QTreeView>

#include "cli/report/explain.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

/// The internal id of an index: 0 for a section, else 1 + the section of the figure.
bool is_section(const QModelIndex& index) { return index.internalId() == 0; }
std::size_t section_of(const QModelIndex& figure) {
  return static_cast<std::size_t>(figure.internalId()) - 1;
}

QString in_bold(const QString& text) { return QStringLiteral("<b>%1</b>").arg(text.toHtmlEscaped()); }

}  // namespace

void ExplainModel::show(Explanation explanation) {
  beginResetModel();
  explanation_ = std::move(explanation);
  endResetModel();
}

QModelIndex ExplainModel::index(int row, int column, const QModelIndex& parent) const {
  if (!hasIndex(row, column, parent)) return {};
  return createIndex(row, column, parent.isValid() ? static_cast<quintptr>(parent.row()) + 1 : quintptr{0});
}

QModelIndex ExplainModel::parent(const QModelIndex& index) const {
  if (!index.isValid() || is_section(index)) return {};
  return createIndex(static_cast<int>(section_of(index)), 0, quintptr{0});
}

int ExplainModel::rowCount(const QModelIndex& parent) const {
  if (!parent.isValid())
    return explanation_.symbols.empty() ? 0 : static_cast<int>(explanation_.sections.size()) + 1;
  if (!is_section(parent) || parent.column() != 0) return 0;
  const auto section = static_cast<std::size_t>(parent.row());
  return static_cast<int>(section == 0 ? explanation_.symbols.size()
                                       : explanation_.sections[section - 1].figures.size());
}

int ExplainModel::columnCount(const QModelIndex&) const { return column_count; }

QString ExplainModel::text(std::size_t section, std::size_t row, int column) const {
  if (section == 0) {
    const Symbol& symbol = explanation_.symbols[row];
    switch (column) {
      case name: return qt(symbol.symbol);
      case value: return qt(symbol.value);
      case formula: return qt(symbol.meaning);
      default: return QStringLiteral("docs/symbols.md");
    }
  }
  const Figure& figure = explanation_.sections[section - 1].figures[row];
  switch (column) {
    case name: return qt(figure.name);
    case value: return qt(figure.value);
    case formula: return qt(figure.formula);
    default: return qt(figure.source);
  }
}

QVariant ExplainModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  if (role == Qt::TextAlignmentRole && index.column() == value)
    return static_cast<int>(Qt::AlignRight | Qt::AlignVCenter);
  if (is_section(index)) {
    QFont font;
    font.setBold(true);
    if (role == Qt::FontRole) return font;
    if (role != Qt::DisplayRole || index.column() != name) return {};
    const auto row = static_cast<std::size_t>(index.row());
    return row == 0 ? tr("Symbols") : qt(explanation_.sections[row - 1].title);
  }
  const std::size_t section = section_of(index);
  const auto row = static_cast<std::size_t>(index.row());
  if (role == NumberRole && section > 0) return explanation_.sections[section - 1].figures[row].number;
  if (role == Qt::DisplayRole) return text(section, row, index.column());
  if (role == Qt::ToolTipRole)
    return QStringLiteral("%1: %2\n%3\n%4")
        .arg(text(section, row, name), text(section, row, value), text(section, row, formula),
             text(section, row, source));
  return {};
}

QVariant ExplainModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || role != Qt::DisplayRole)
    return QAbstractItemModel::headerData(section, orientation, role);
  switch (section) {
    case name: return tr("Figure");
    case value: return tr("Value");
    case formula: return tr("Formula");
    case source: return tr("Source");
    default: return {};
  }
}

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
  const QString id = planned ? qt(subject_.plan().id()) : QString();
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

/// Expands all sections but the symbols, unless the user searches.
void ExplainView::expand() {
  tree_->expandAll();
  if (search_->text().isEmpty()) tree_->collapse(found_.index(0, 0));
}

ExplainView::Place ExplainView::current() const {
  const QModelIndex at = found_.mapToSource(tree_->currentIndex());
  return {at.parent().row(), at.siblingAtColumn(0).data().toString()};
}

/// Selects the figure that was selected before a new answer.
void ExplainView::set_current(const Place& place) {
  const QModelIndex section = model_.index(place.section, 0);
  for (int row = 0; section.isValid() && row < model_.rowCount(section); ++row)
    if (const QModelIndex at = model_.index(row, 0, section); at.data().toString() == place.name)
      return tree_->setCurrentIndex(found_.mapFromSource(at));
}

/// Returns the text that is shown while no figure is selected.
QString ExplainView::introduction() const {
  const QString hint =
      QStringLiteral("<p>%1</p>").arg(tr("Select a figure to see all of its formula.").toHtmlEscaped());
  if (model_.rowCount() == 0) return {};
  QString items;
  for (const std::string& each : accuracy_sentences(coverage_of(subject_.plan(), subject_.question())))
    items += QStringLiteral("<li>%1</li>").arg(qt(each).toHtmlEscaped());
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

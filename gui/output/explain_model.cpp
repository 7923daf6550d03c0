#include "gui/output/explain_model.h"

#include <QFont>

namespace zplan::gui {

namespace {

/// What an index points to: 0 a section, else a figure of the section before.
bool is_section(const QModelIndex& index) { return index.internalId() == 0; }
std::size_t section_of(const QModelIndex& figure) {
  return static_cast<std::size_t>(figure.internalId()) - 1;
}

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
      case name: return QString::fromStdString(symbol.symbol);
      case value: return QString::fromStdString(symbol.value);
      case formula: return QString::fromStdString(symbol.meaning);
      default: return QStringLiteral("docs/symbols.md");
    }
  }
  const Figure& figure = explanation_.sections[section - 1].figures[row];
  switch (column) {
    case name: return QString::fromStdString(figure.name);
    case value: return QString::fromStdString(figure.value);
    case formula: return QString::fromStdString(figure.formula);
    default: return QString::fromStdString(figure.source);
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
    return row == 0 ? tr("Symbols") : QString::fromStdString(explanation_.sections[row - 1].title);
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

}  // namespace zplan::gui

#include "gui/editors/name_table.h"

#include <QRegularExpression>
#include <algorithm>

namespace zplan::gui {

namespace {

QString folded(const QString& text) {
  QString kept;
  for (const QChar c : text)
    if (c.isLetterOrNumber()) kept += c.toLower();
  return kept;
}

/// Of "meta-llama/Llama-3.1-8B": meta, llama, llama, 3, 1, 8b.
QStringList parts(const QString& name) {
  static const QRegularExpression between(QStringLiteral("[^\\p{L}\\p{N}]+"));
  return name.toLower().split(between, Qt::SkipEmptyParts);
}

bool has_all(const QString& name, const QStringList& words) {
  return std::ranges::all_of(words, [&name](const QString& word) { return name.contains(word); });
}

}  // namespace

NameTable::NameTable(QStringList headings, std::vector<Row> rows, QObject* parent)
    : QAbstractTableModel(parent),
      headings_(std::move(headings)),
      rows_(std::move(rows)),
      details_(rows_.size()) {}

int NameTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int NameTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(headings_.size());
}

const QStringList& NameTable::details(std::size_t row) const {
  if (details_[row].isEmpty()) details_[row] = rows_[row].details();
  return details_[row];
}

QVariant NameTable::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid)) return {};
  const auto row = static_cast<std::size_t>(index.row());
  const bool is_name = index.column() == 0;
  switch (role) {
    case Qt::DisplayRole: return is_name ? rows_[row].name : details(row).value(index.column() - 1);
    case Qt::EditRole: return rows_[row].name;
    case Qt::ToolTipRole: return rows_[row].aliases.join(QStringLiteral(", "));
    case Qt::TextAlignmentRole:
      return QVariant(Qt::AlignVCenter | (is_name ? Qt::AlignLeading : Qt::AlignTrailing));
    case kNames: return QStringList(rows_[row].name) + rows_[row].aliases;
    default: return {};
  }
}

QVariant NameTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= headings_.size()) return {};
  if (role == Qt::DisplayRole) return headings_[section];
  if (role == Qt::TextAlignmentRole)
    return QVariant(Qt::AlignVCenter | (section == 0 ? Qt::AlignLeading : Qt::AlignTrailing));
  return {};
}

// ---- what is looked for
// ---------------------------------------------------------------------------------------------------------

NameFilter::NameFilter(NameTable* names, QObject* parent) : QSortFilterProxyModel(parent) {
  setDynamicSortFilter(true);
  setSourceModel(names);
  sort(0);
}

void NameFilter::look_for(const QString& words) {
  QStringList wanted;
  for (const QString& word : words.split(QLatin1Char(' '), Qt::SkipEmptyParts))
    if (const QString bare = folded(word); !bare.isEmpty()) wanted << bare;
  if (wanted == words_) return;
  words_ = wanted;
  invalidate();
}

bool NameFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
  const QStringList names = sourceModel()->index(row, 0, parent).data(NameTable::kNames).toStringList();
  return std::ranges::any_of(names, [this](const QString& name) { return has_all(folded(name), words_); });
}

int NameFilter::distance(const QModelIndex& index) const {
  const QString all = words_.join(QString());
  if (all.isEmpty()) return 0;
  int least = 3;
  for (const QString& name : index.data(NameTable::kNames).toStringList()) {
    const QString whole = folded(name), bare = folded(name.section(QLatin1Char('/'), -1));
    const QStringList own = parts(name);
    const bool has_parts =
        std::ranges::all_of(words_, [&own](const QString& word) { return own.contains(word); });
    const bool begins = bare.startsWith(all) || whole.startsWith(all);
    least = std::min(least, has_parts ? 0 : begins ? 1 : whole.contains(all) ? 2 : 3);
  }
  return least;
}

bool NameFilter::lessThan(const QModelIndex& left, const QModelIndex& right) const {
  const int a = distance(left), b = distance(right);
  return a != b ? a < b : left.row() < right.row();
}

}  // namespace zplan::gui

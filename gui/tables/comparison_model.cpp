#include "gui/tables/comparison_model.h"

#include <QCoreApplication>
#include <QFont>
#include <algorithm>

#include "cli/report/comparison.h"
#include "cli/report/explain.h"
#include "gui/charts/ink.h"
#include "gui/models/figures.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

const QString kAbsent = QStringLiteral("–");
const QString kBest = QStringLiteral("*");

Sides sides_of(const Subjects& subjects, std::size_t baseline) {
  const Subject& base = subjects[baseline];
  Sides sides;
  for (std::size_t i = 0; i < subjects.size(); ++i)
    sides.push_back({&subjects[i].plan(),
                     i == baseline ? nullptr : &base.plan(),
                     {},
                     &subjects[i].question(),
                     &base.question()});
  return sides;
}

/// The figures of --explain behind a row: their section, and the beginnings of their names.
struct Explained {
  const char* line;
  const char* section;
  std::vector<const char*> figures;
};

const std::vector<Explained>& explained_lines() {
  static const std::vector<Explained> table{
      {"needs", "required", {"required", "reserved", "allocated at the peak"}},
      {"free", "required", {"required", "available"}},
      {"collective calls", "communication", {""}},
      {"sent per GPU", "communication", {""}},
      {"communication", "time", {"communication"}},
      {"of that compute", "time", {"matrix products", "attention", "other kernels"}},
      {"exposed communication", "time", {"of that exposed"}},
      {"MFU", "time", {"model FLOPs utilisation"}},
      {"waiting for launches", "time", {"waiting for launches"}},
      {"offload", "time", {"offload"}},
      {"optimizer", "time", {"optimizer"}},
      {"step", "time", {"step"}},
      {"tokens per second", "time", {"tokens per second"}}};
  return table;
}

/// Returns the figures of --explain behind a row. Parts of memory have the same name there.
std::vector<Figure> figures_behind(const std::string& line, const Subject& subject) {
  const auto& table = explained_lines();
  const auto at = std::ranges::find_if(table, [&line](const Explained& each) {
    return line == each.line || line.starts_with(std::string(each.line) + ",");
  });
  const Explained wanted = at != table.end() ? *at : Explained{line.c_str(), "memory", {line.c_str()}};
  std::vector<Figure> found;
  const Explanation explanation = explanation_of(subject);
  for (const char* name : wanted.figures)
    for (Figure& figure : figures_of(explanation, wanted.section, name)) found.push_back(std::move(figure));
  return found;
}

}  // namespace

std::vector<ComparisonModel::Line> ComparisonModel::all_lines(const Subjects& subjects, int baseline) {
  std::vector<Line> lines;
  if (subjects.empty()) return lines;
  const auto base = static_cast<std::size_t>(baseline);
  const Sides sides = sides_of(subjects, base);
  const auto add = [&](const zplan::Line& from) {
    Line line{.name = qt(from.name), .unit = qt(from.unit), .section = from.section, .alike = from.alike};
    for (const Side& side : sides) {
      const bool absent = from.absent && from.absent(side);
      line.cells.push_back(
          {.text = absent ? kAbsent : QCoreApplication::translate("zplan", from.text(side).c_str()),
           .difference = side.base == nullptr ? QString() : qt(from.difference(side)),
           .best = !absent && from.best(side)});
    }
    lines.push_back(std::move(line));
  };
  // No row for the strategy if the columns are named after it.
  const bool says_strategy =
      std::ranges::all_of(subjects, [](const Subject& each) { return each.title == qt(each.plan().id()); });
  for (const Setting& each : settings())
    if (const zplan::Line line = text_line(each.name, sides, each.text);
        !line.alike && (each.name != "strategy" || !says_strategy))
      add(line);
  for (const zplan::Line& each : figure_lines(sides, subjects[base].question().unit, true)) add(each);
  return lines;
}

void ComparisonModel::show(const Subjects& subjects, int baseline, bool differences_only) {
  const int base = subjects.empty() ? -1 : std::clamp(baseline, 0, static_cast<int>(subjects.size()) - 1);
  std::vector<Line> lines = all_lines(subjects, base);
  const std::size_t all = lines.size();
  if (differences_only && subjects.size() > 1)
    std::erase_if(lines, [](const Line& line) { return line.alike; });
  // If rows and columns stay the same, keep the selection and the scroll position.
  const bool same_titles = std::ranges::equal(subjects, subjects_, {}, &Subject::title, &Subject::title);
  const bool same_shape = base == baseline_ && subjects.size() == subjects_.size() &&
                          std::ranges::equal(lines, lines_, {}, &Line::name, &Line::name);
  const bool same_units = std::ranges::equal(lines, lines_, {}, &Line::unit, &Line::unit);
  if (!same_shape) beginResetModel();
  subjects_ = subjects;
  baseline_ = base;
  left_out_ = static_cast<int>(all - lines.size());
  lines_ = std::move(lines);
  if (!same_shape) {
    columns_.clear();
    for (int i = 0; i < static_cast<int>(subjects.size()); ++i) {
      columns_.push_back({i, false});
      if (i != base) columns_.push_back({i, true});
    }
    endResetModel();
  } else if (!lines_.empty() && !columns_.empty()) {
    Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
    if (!same_titles) Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
    if (!same_units) Q_EMIT headerDataChanged(Qt::Vertical, 0, rowCount() - 1);
  }
}

int ComparisonModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(lines_.size());
}

int ComparisonModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(columns_.size());
}

QString ComparisonModel::tip(const Line& line, const Subject& subject) const {
  if (subject.planned->saved || subject.is_draft()) return {};
  QStringList found;
  for (const Figure& figure : figures_behind(line.name.toStdString(), subject)) found << explained(figure);
  return found.join(QLatin1Char('\n'));
}

QVariant ComparisonModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const Line& line = lines_[static_cast<std::size_t>(index.row())];
  const Column column = columns_[static_cast<std::size_t>(index.column())];
  const Subject& subject = subjects_[static_cast<std::size_t>(column.subject)];
  const Cell& cell = line.cells[static_cast<std::size_t>(column.subject)];
  switch (role) {
    case Qt::DisplayRole:
      if (column.difference) return cell.difference;
      return cell.best ? QStringLiteral("%1 %2").arg(kBest, cell.text) : cell.text;
    case Qt::TextAlignmentRole: return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    case Qt::FontRole: {
      if (!subject.is_draft()) return {};
      QFont font;
      font.setItalic(true);
      return font;
    }
    case Qt::ToolTipRole: return tip(line, subject);
    case Qt::AccessibleTextRole: {
      const QString text = QStringLiteral("%1, %2: %3 %4")
                               .arg(subject.title, line_name(line.name),
                                    column.difference ? cell.difference : cell.text, line.unit);
      return cell.best && !column.difference ? tr("%1, the best of the line").arg(text) : text;
    }
    case SectionRole: return line.section;
    case SubjectRole: return column.subject;
    case DifferenceRole: return column.difference;
    case BestRole: return cell.best;
    default: return {};
  }
}

QString ComparisonModel::legend() {
  return tr("%1 best of the line   %2 not there   ± difference from the baseline").arg(kBest, kAbsent);
}

QVariant ComparisonModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    if (section < 0 || section >= rowCount() || (role != Qt::DisplayRole && role != Qt::AccessibleTextRole))
      return {};
    const Line& line = lines_[static_cast<std::size_t>(section)];
    const QString name = line_name(line.name);
    return line.unit.isEmpty() ? name : QStringLiteral("%1, %2").arg(name, line.unit);
  }
  if (section < 0 || section >= columnCount()) return {};
  const Column column = columns_[static_cast<std::size_t>(section)];
  const QString& title = subjects_[static_cast<std::size_t>(column.subject)].title;
  const QString& base = subjects_[static_cast<std::size_t>(baseline_)].title;
  switch (role) {
    case Qt::DisplayRole:
      if (column.difference) return QStringLiteral("±");
      return title;
    case Qt::DecorationRole:
      return column.subject == baseline_ && !column.difference ? ink::icon(ink::aim) : QVariant();
    case Qt::ToolTipRole:
    case Qt::AccessibleTextRole:
      if (column.difference) return tr("%1: difference from %2").arg(title, base);
      return column.subject == baseline_ ? tr("%1, the baseline").arg(title) : title;
    case Qt::TextAlignmentRole: return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    default: return {};
  }
}

}  // namespace zplan::gui

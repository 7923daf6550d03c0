#include "gui/models/stack_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "cli/document/text.h"

namespace zplan::gui {

namespace {

/// A column.
struct Part {
  const char* name;
  const char* meaning;
  std::array<std::string_view, 3> figures{};  ///< beginnings of the names of its figures in --explain
};

constexpr std::array<Part, kMemoryParts + 2> kMemory{{
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "parameters"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel",
                       "Weights on the device: what a rank keeps, and what it has gathered."),
     {"parameters:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "gradients"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel",
                       "Gradients of trained parameters, whole or this rank's share."),
     {"gradients:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "optimizer states"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "Master weights and moments on the device."),
     {"optimizer states:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "activations"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel",
                       "What the forward keeps for the backward, and a layer at work."),
     {"activations:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "loss"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "Logits, and what the loss makes of them."),
     {"loss:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "communication buffers"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "Buckets in which gradients and parameters travel."),
     {"communication buffers:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "temporaries"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel",
                       "What the optimizer step and the framework need for a moment."),
     {"temporaries:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "framework overhead"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel",
                       "CUDA context, NCCL's buffers, workspaces, and blocks rounded up."),
     {"framework overhead:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "allocator slack"),
     QT_TRANSLATE_NOOP(
         "zplan::gui::StackModel",
         "What PyTorch's caching allocator needs beyond what is live at the peak: required less peak."),
     {}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "needs"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "The smallest device on which it runs."),
     {}},
}};

constexpr std::array<Part, 6> kTime{{
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "compute"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "Kernels of the model."),
     {"matrix products", "attention", "other kernels"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "waiting for launches"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "The device waits for the host to issue kernels."),
     {"waiting for launches"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "exposed communication"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "Collectives that no computation hides."),
     {"of that exposed"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "offload"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "Transfers and the host's optimizer that nothing hides."),
     {"offload"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "optimizer"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "The optimizer step on the device."),
     {"optimizer"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "step"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "One optimizer step, all its micro-batches together."),
     {"step"}},
}};

constexpr std::array<Part, 4> kTraffic{{
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "forward"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel",
                       "What a GPU sends in the forward passes of a step, the loss included."),
     {"forward:", "loss:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "backward"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "What a GPU sends in the backward passes of a step."),
     {"backward:", "loss_backward:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "optimizer step"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel", "What a GPU sends in the optimizer step."),
     {"step:", "initialisation:"}},
    {QT_TRANSLATE_NOOP("zplan::gui::StackModel", "all"),
     QT_TRANSLATE_NOOP("zplan::gui::StackModel",
                       "What a GPU sends in a step, within its node and out of it."),
     {}},
}};

std::span<const Part> parts_of(StackModel::Kind kind) {
  switch (kind) {
    case StackModel::Kind::memory: return kMemory;
    case StackModel::Kind::time: return kTime;
    case StackModel::Kind::traffic: break;
  }
  return kTraffic;
}

std::vector<double> memory_values(const Plan& plan) {
  std::vector<double> values;
  for (std::size_t i = 0; i < kMemoryParts; ++i)
    values.push_back(number(plan.memory().peak.holds.part(static_cast<MemoryPart>(i))));
  values.push_back(number(plan.memory().required - plan.memory().peak.bytes()));
  values.push_back(number(plan.memory().required));
  return values;
}

std::vector<double> time_values(const StepTime& time) {
  return {time.compute.value, time.launching.value, time.exposed_communication.value,
          time.offload.value, time.optimizer.value, time.step.value};
}

/// Returns the bytes that a GPU sends. A draft knows no links: it counts a ring's bytes.
Bytes sent(const Collective& each, bool draft) {
  return draft ? each.wire_bytes_per_gpu : each.inside_bytes_per_gpu + each.outside_bytes_per_gpu;
}

std::vector<double> traffic_values(const Schedule& schedule, bool draft) {
  std::vector<double> values(4);
  for (const Collective& each : schedule.collectives) {
    const Phase pass = pass_of(each.phase);
    const std::size_t at = pass == Phase::forward ? 0 : pass == Phase::backward ? 1 : 2;
    values[at] += number(sent(each, draft));
    values[3] += number(sent(each, draft));
  }
  return values;
}

}  // namespace

StackModel::StackModel(Kind kind, QObject* parent) : QAbstractTableModel(parent), kind_(kind) {}

void StackModel::show(const Subjects& subjects) {
  beginResetModel();
  subjects_ = subjects;
  rows_.clear();
  for (const Subject& each : subjects_) rows_.push_back(row_of(each));
  endResetModel();
}

StackModel::Row StackModel::row_of(const Subject& subject) const {
  const Plan& plan = subject.plan();
  switch (kind_) {
    case Kind::memory: return {memory_values(plan)};
    case Kind::time: return {time_values(plan.time)};
    case Kind::traffic: break;
  }
  return {traffic_values(plan.communication(), subject.is_draft())};
}

int StackModel::parts() const { return static_cast<int>(parts_of(kind_).size()) - 1; }

int StackModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int StackModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : parts() + 1; }

QVariant StackModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const int row = index.row(), column = index.column();
  const Subject& subject = subjects_[static_cast<std::size_t>(row)];
  const std::vector<double>& values = rows_[static_cast<std::size_t>(row)].values;
  switch (role) {
    case Qt::DisplayRole:
    case ValueTextRole: return text(row, column);
    case Qt::ToolTipRole: return tooltip(row, column);
    case Qt::AccessibleTextRole: return spoken(row, column);
    case Qt::TextAlignmentRole: return QVariant::fromValue(Qt::AlignRight | Qt::AlignVCenter);
    case ValueRole: return values[static_cast<std::size_t>(column)];
    case TotalRole: return values.back();
    case TotalTextRole: return text(row, parts());
    case MarksRole:
      return QVariant::fromValue(kind_ == Kind::memory ? memory_marks(subject.question()) : QVector<Mark>{});
    case DraftRole: return subject.is_draft();
    case WarningRole: return !subject.plan().fits;
    case NoteRole: return note(subject.plan());
    case VerdictRole: return shortage_words(subject.plan(), subject.question());
    default: return {};
  }
}

QVariant StackModel::headerData(int section, Qt::Orientation orientation, int role) const {
  const bool across = orientation == Qt::Horizontal;
  if (section < 0 || section >= (across ? columnCount() : rowCount())) return {};
  if (!across) {
    const QString& title = subjects_[static_cast<std::size_t>(section)].title;
    return role == Qt::DisplayRole || role == Qt::AccessibleTextRole || role == Qt::ToolTipRole
               ? QVariant(title)
               : QVariant();
  }
  switch (role) {
    case Qt::DisplayRole:
    case Qt::AccessibleTextRole: return name(section);
    case Qt::ToolTipRole: return meaning(section);
    case ScaleRole: return QVariant::fromValue(scale());
    default: return {};
  }
}

QString StackModel::note(const Plan& plan) const {
  if (plan.fits) return {};
  // "48.5 GiB, short" is what is needed, not the shortage.
  return kind_ == Kind::memory && !plan.fits_device ? tr(", short") : tr(", %1").arg(verdict_words(plan));
}

QString StackModel::name(int column) const {
  return tr(parts_of(kind_)[static_cast<std::size_t>(column)].name);
}

QString StackModel::text(int row, int column) const {
  const double value = rows_[static_cast<std::size_t>(row)].values[static_cast<std::size_t>(column)];
  if (kind_ == Kind::time) return seconds_words(Seconds(value));
  const ByteUnit unit =
      kind_ == Kind::traffic ? ByteUnit::gb : subjects_[static_cast<std::size_t>(row)].question().unit;
  return memory_words(Bytes(std::llround(value)), unit);
}

const Explanation& StackModel::explanation(int row) const {
  std::optional<Explanation>& made = rows_[static_cast<std::size_t>(row)].explanation;
  if (!made) made = explanation_of(subjects_[static_cast<std::size_t>(row)]);
  return *made;
}

std::vector<Figure> StackModel::figures(int row, int column) const {
  const Explanation& all = explanation(row);
  if (kind_ == Kind::memory && column >= static_cast<int>(kMemoryParts))
    return figures_of(all, "required", column == parts() ? "" : "required");
  const std::string_view section = kind_ == Kind::memory ? "memory"
                                   : kind_ == Kind::time ? "time"
                                                         : "communication";
  std::vector<Figure> found;
  for (const std::string_view beginning : parts_of(kind_)[static_cast<std::size_t>(column)].figures) {
    if (beginning.empty()) continue;
    const std::vector<Figure> more = figures_of(all, section, beginning);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

QString StackModel::tooltip(int row, int column) const {
  QStringList lines{wrapped(spoken(row, column))};
  if (subjects_[static_cast<std::size_t>(row)].is_draft())
    lines << tr("A first estimate; the full answer follows.");
  lines << wrapped(tr(parts_of(kind_)[static_cast<std::size_t>(column)].meaning));
  // A plan can have dozens of different collectives.
  constexpr std::size_t kMost = 8;
  const std::vector<Figure> all = figures(row, column);
  for (std::size_t i = 0; i < std::min(all.size(), kMost); ++i) lines << explained(all[i]);
  if (all.size() > kMost) lines << tr("… and %n more", nullptr, static_cast<int>(all.size() - kMost));
  return lines.join('\n');
}

QString StackModel::meaning(int column) const {
  QStringList lines{wrapped(tr(parts_of(kind_)[static_cast<std::size_t>(column)].meaning))};
  if (kind_ == Kind::memory && column < static_cast<int>(kMemoryParts)) {
    const Framework framework = subjects_.empty() ? Training{}.framework : subjects_.front().plan().framework;
    for (std::size_t i = 0; i < kTerms; ++i) {
      const TermInfo& term = info(static_cast<Term>(i), framework);
      if (static_cast<int>(term.part) == column)
        lines << explained_in_general(std::string(term.name), std::string(term.formula),
                                      std::string(term.source));
    }
    return lines.join('\n');
  }
  if (kind_ == Kind::traffic)
    return lines.join('\n') + '\n' +
           explained_in_general(name(column).toStdString(),
                                tr("bytes of the algorithm that NCCL would choose, by link").toStdString(),
                                "docs/communication.md");
  // Formulas contain the rates of a GPU: use those of the first subject that has them.
  for (int row = 0; row < rowCount(); ++row) {
    const std::vector<Figure> all = figures(row, column);
    for (const Figure& each : all) lines << explained_in_general(each.name, each.formula, each.source);
    if (!all.empty()) break;
  }
  return lines.join('\n');
}

QString StackModel::spoken(int row, int column) const {
  const Subject& subject = subjects_[static_cast<std::size_t>(row)];
  const QString figure = tr("%1, %2: %3").arg(subject.title, name(column), text(row, column));
  if (column < parts()) return figure;
  const QString verdict = subject.plan().fits ? verdict_words(subject.plan())
                                              : shortage_words(subject.plan(), subject.question());
  if (kind_ != Kind::memory) return figure;
  const QVector<Mark> marks = memory_marks(subject.question());
  return marks.isEmpty() ? tr("%1; %2").arg(figure, verdict)
                         : tr("%1 of %2 available; %3").arg(figure, marks.front().text, verdict);
}

Scale StackModel::scale() const {
  double most = 0;
  for (const Row& each : rows_) most = std::max(most, each.values.back());
  if (kind_ == Kind::time) return {1, QStringLiteral("s")};
  return bytes_scale(most, kind_ == Kind::traffic ? ByteUnit::gb : unit_of(subjects_));
}

}  // namespace zplan::gui

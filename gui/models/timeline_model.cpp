#include "gui/models/timeline_model.h"

#include <algorithm>

namespace zplan::gui {

namespace {

/// Returns the relative width of a phase, whatever its number of layers, so that the short optimizer step is
/// visible.
double width_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return 3;
    case Phase::backward: return 4;
    default: return 1;
  }
}

/// Returns the index after the last moment of the phase that begins at `at`.
std::size_t end_of_phase(const std::vector<Moment>& timeline, std::size_t at) {
  std::size_t end = at + 1;
  while (end < timeline.size() && reported(timeline[end].phase) == reported(timeline[at].phase)) ++end;
  return end;
}

double whole_width(const std::vector<Moment>& timeline) {
  double width = 0;
  for (std::size_t at = 0; at < timeline.size(); at = end_of_phase(timeline, at))
    width += width_of(reported(timeline[at].phase));
  return width;
}

/// Returns the device memory outside PyTorch's allocator.
Bytes outside_of(const Composition& holds) {
  return holds[Term::cuda_context] + holds[Term::nccl_buffers] + holds[Term::nccl_connections] +
         holds[Term::engine];
}

}  // namespace

void TimelineModel::show(const Subjects& subjects) {
  beginResetModel();
  subjects_ = subjects;
  stretches_.clear();
  for (std::size_t i = 0; i < subjects_.size(); ++i) add(i);
  endResetModel();
}

void TimelineModel::add(std::size_t number_of_subject) {
  const MemoryPlan& memory = subjects_[number_of_subject].plan().memory();
  const std::vector<Moment>& timeline = memory.timeline;
  const double whole = whole_width(timeline);
  const auto highest = static_cast<std::size_t>(
      std::max_element(timeline.begin(), timeline.end(),
                       [](const Moment& a, const Moment& b) { return a.live < b.live; }) -
      timeline.begin());
  double begin = 0;
  for (std::size_t at = 0; at < timeline.size();) {
    const std::size_t end = end_of_phase(timeline, at);
    const double each = width_of(reported(timeline[at].phase)) / whole / static_cast<double>(end - at);
    for (; at < end; ++at, begin += each)
      stretches_.push_back(
          {number_of_subject, at, begin, begin + each, outside_of(memory.peak.holds), at == highest});
  }
}

int TimelineModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(stretches_.size());
}

int TimelineModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : column_count;
}

const Moment& TimelineModel::moment_of(const Stretch& stretch) const {
  return subjects_[stretch.subject].plan().memory().timeline[stretch.moment];
}

QString TimelineModel::size(const Stretch& stretch, Bytes bytes) const {
  return memory_words(bytes, subjects_[stretch.subject].question().unit);
}

QVariant TimelineModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const Stretch& stretch = stretches_[static_cast<std::size_t>(index.row())];
  const Subject& of = subjects_[stretch.subject];
  const auto column = static_cast<Column>(index.column());
  switch (role) {
    case Qt::DisplayRole: return text(stretch, column);
    case Qt::ToolTipRole:
    case Qt::AccessibleTextRole: return spoken(stretch);
    case Qt::TextAlignmentRole:
      return QVariant::fromValue((column >= layer ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    case SubjectRole: return static_cast<int>(stretch.subject);
    case PositionRole: return stretch.begin;
    case EndRole: return stretch.end;
    case LiveRole: return number(moment_of(stretch).live);
    case BytesRole: return number(bytes(stretch));
    case PhaseRole: return static_cast<int>(reported(moment_of(stretch).phase));
    case PhaseTextRole: return text(stretch, phase);
    case PeakRole: return stretch.peak;
    case TitleRole: return of.title;
    case ValueTextRole: return size(stretch, bytes(stretch));
    case MarksRole: return QVariant::fromValue(memory_marks(of.question()));
    case DraftRole: return of.is_draft();
    case WarningRole: return !of.plan().fits;
    default: return {};
  }
}

QString TimelineModel::text(const Stretch& stretch, Column column) const {
  const Moment& at = moment_of(stretch);
  switch (column) {
    case subject: return subjects_[stretch.subject].title;
    case phase:
      switch (reported(at.phase)) {
        case Phase::initialisation: return tr("initialisation");
        case Phase::forward: return tr("forward");
        case Phase::backward: return tr("backward");
        case Phase::step: return tr("optimizer step");
        default: return tr("loss");
      }
    case moment: return QString::fromUtf8(at.at.data(), static_cast<qsizetype>(at.at.size()));
    case layer: return at.layer < 0 ? QString() : QString::number(at.layer);
    case live: return size(stretch, at.live);
    case device: return size(stretch, bytes(stretch));
    case column_count: break;
  }
  return {};
}

QString TimelineModel::spoken(const Stretch& stretch) const {
  const Moment& at = moment_of(stretch);
  const QString what =
      at.layer < 0 ? text(stretch, moment) : tr("%1 %2").arg(text(stretch, moment)).arg(at.layer);
  const QString figure = tr("%1, %2, %3: %4 on the device, of which PyTorch holds %5")
                             .arg(text(stretch, subject), text(stretch, phase), what, text(stretch, device),
                                  text(stretch, live));
  return wrapped(stretch.peak ? tr("%1; the peak").arg(figure) : figure);
}

QVariant TimelineModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return role == Qt::DisplayRole ? QVariant(section + 1) : QVariant();
  if (role == ScaleRole) {
    double most = 0;
    for (const Stretch& each : stretches_) most = std::max(most, number(bytes(each)));
    return QVariant::fromValue(bytes_scale(most, unit_of(subjects_)));
  }
  const bool tip = role == Qt::ToolTipRole;
  if (!tip && role != Qt::DisplayRole && role != Qt::AccessibleTextRole) return {};
  switch (static_cast<Column>(section)) {
    case subject: return tip ? QString() : tr("Plan");
    case phase: return tip ? QString() : tr("Phase");
    case moment: return tip ? tr("What happens, in the order in which it happens.") : tr("Moment");
    case layer: return tip ? QString() : tr("Layer");
    case live:
      return tip ? wrapped(tr(
                       "The most that is live in PyTorch's allocator meanwhile, as handed out. Source: the "
                       "run of the steady step (docs/memory.md)."))
                 : tr("In PyTorch");
    case device:
      return tip ? wrapped(tr("The same with what lies outside PyTorch: CUDA context and NCCL's buffers."))
                 : tr("On the device");
    case column_count: break;
  }
  return {};
}

}  // namespace zplan::gui

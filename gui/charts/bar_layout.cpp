#include "gui/charts/bar_layout.h"

#include <algorithm>
#include <cmath>

#include "gui/models/stack_model.h"

namespace zplan::gui {

namespace {

constexpr double kMargin = 8;
constexpr double kBarGap = 8;
/// Largest share of the width for titles.
constexpr double kMostForTitles = 0.3;
/// End of the axis, at most, in multiples of the deciding limit. Bars far beyond it would squeeze all others.
constexpr double kMostOverLimit = 1.6;
/// Share of a row's height for its bar.
constexpr double kBarShare = 0.66;

class Layout {
 public:
  Layout(const QAbstractItemModel& model, const QSizeF& size, const QFontMetricsF& metrics)
      : model_(model), metrics_(metrics), size_(size), line_(metrics.height()) {}

  BarLayout make(double scrolled) {
    if (model_.rowCount() == 0 || model_.columnCount() == 0) return out_;
    set_columns();
    set_shared_marks();
    set_legend();
    set_plot();
    for (int row = 0; row < model_.rowCount(); ++row) add_row(row, scrolled);
    return out_;
  }
  /// Returns the height of everything with rows of the least height.
  double height() {
    static_cast<void>(make(0));
    const double rows = static_cast<double>(model_.rowCount()) * (line_ + 12);
    return size_.height() - out_.plot.height() + rows;
  }

 private:
  [[nodiscard]] int parts() const { return model_.columnCount() - 1; }
  [[nodiscard]] QVariant of(int row, int role) const { return model_.index(row, parts()).data(role); }
  [[nodiscard]] double width(const QString& text) const { return metrics_.horizontalAdvance(text); }
  [[nodiscard]] QString title(int row) const { return model_.headerData(row, Qt::Vertical).toString(); }
  [[nodiscard]] QVector<Mark> marks(int row) const {
    return of(row, StackModel::MarksRole).value<QVector<Mark>>();
  }

  void set_columns() {
    double titles = 0, totals = 0, notes = 0;
    for (int row = 0; row < model_.rowCount(); ++row) {
      titles = std::max(titles, width(title(row)));
      totals = std::max(totals, width(of(row, StackModel::TotalTextRole).toString()));
      notes = std::max(notes, width(of(row, StackModel::NoteRole).toString()));
      warns_ = warns_ || of(row, StackModel::WarningRole).toBool();
      drafts_ = drafts_ || of(row, StackModel::DraftRole).toBool();
      most_ = std::max(most_, of(row, StackModel::TotalRole).toDouble());
    }
    double limit = 0, decides = 0;
    for (int row = 0; row < model_.rowCount(); ++row)
      for (const Mark& mark : marks(row)) {
        limit = std::max(limit, mark.value);
        if (mark.strong) decides = std::max(decides, mark.value);
      }
    if (decides > 0) most_ = std::min(most_, decides * kMostOverLimit);
    most_ = std::max(most_, limit);
    titles_ = std::min(titles + 2, size_.width() * kMostForTitles);
    // The sign precedes the total, "short" follows it.
    totals_ = totals + (warns_ ? line_ + 4 + notes : 0) + (drafts_ ? width(QStringLiteral("≈ ")) : 0) + 2;
    const double left = kMargin + titles_ + kBarGap, right = size_.width() - kMargin - totals_ - kBarGap;
    out_.plot = QRectF(left, 0, std::max(20.0, right - left), 0);
    out_.scale = most_ > 0 ? out_.plot.width() / most_ : 0;
  }

  void set_shared_marks() {
    shared_ = true;
    for (int row = 1; row < model_.rowCount(); ++row) shared_ = shared_ && marks(row) == marks(0);
    if (!shared_) return;
    out_.limits = place_limits(
        marks(0), [this](double value) { return out_.x(value); }, kMargin, size_.width() - kMargin, 0, line_,
        [this](const QString& text) { return width(text); });
  }

  void add_entry(BarLayout::Entry entry) {
    const double sample = line_ * 0.85, whole = sample + 5 + width(entry.words);
    if (at_.x() > kMargin && at_.x() + whole > size_.width() - kMargin)
      at_ = QPointF(kMargin, at_.y() + line_ + 3);
    entry.sample = QRectF(at_.x(), at_.y() + (line_ - sample) / 2, sample, sample);
    entry.text = QRectF(at_.x() + sample + 5, at_.y(), width(entry.words) + 1, line_);
    at_.rx() += whole + 16;
    out_.legend.push_back(std::move(entry));
  }

  [[nodiscard]] bool is_anywhere(int column) const {
    for (int row = 0; row < model_.rowCount(); ++row)
      if (model_.index(row, column).data(StackModel::ValueRole).toDouble() > 0) return true;
    return false;
  }

  /// Places the legend from y = 0; set_plot moves it down.
  void set_legend() {
    at_ = QPointF(kMargin, 0);
    for (int column = 0; column < parts(); ++column)
      if (is_anywhere(column))
        add_entry({column, {}, {}, {}, model_.headerData(column, Qt::Horizontal).toString()});
    if (!shared_)
      for (const Mark& mark : kinds_of_marks()) add_entry({-1, mark, {}, {}, mark.name});
    legend_height_ = out_.legend.empty() ? 0 : at_.y() + line_;
  }

  [[nodiscard]] QVector<Mark> kinds_of_marks() const {
    QVector<Mark> kinds;
    for (int row = 0; row < model_.rowCount(); ++row)
      for (const Mark& mark : marks(row))
        if (std::none_of(kinds.begin(), kinds.end(),
                         [&](const Mark& known) { return known.name == mark.name; }))
          kinds.push_back(mark);
    return kinds;
  }

  /// Gives the plot the height between the labels above and the axis and legend below.
  void set_plot() {
    const double top = kMargin / 2 + tiers(out_.limits) * line_ + (out_.limits.isEmpty() ? 0 : 2);
    const double axis = line_ + 6;
    const double rows = model_.rowCount() * (line_ + 5);
    double bottom = kMargin / 2 + axis + (legend_height_ > 0 ? legend_height_ + 6 : 0);
    // A chart without legend is better than one without bars; its table has the names.
    if (size_.height() - top - bottom < std::min(rows, 2 * (line_ + 5))) {
      bottom = kMargin / 2 + axis;
      out_.legend.clear();
    }
    const double height = std::max(line_, size_.height() - top - bottom);
    const double least = line_ + 5, most = 3.2 * line_;
    out_.row_height = std::clamp(height / model_.rowCount(), least, most);
    out_.content = out_.row_height * model_.rowCount();
    out_.plot.setTop(top);
    out_.plot.setHeight(std::min(height, out_.content));
    for (Limit& each : out_.limits) each.label.translate(0, top - 2);
    const double legend = out_.plot.bottom() + axis + 6;
    for (BarLayout::Entry& each : out_.legend)
      each.sample.translate(0, legend), each.text.translate(0, legend);
    const Scale scale = model_.headerData(parts(), Qt::Horizontal, StackModel::ScaleRole).value<Scale>();
    out_.ticks = round_ticks(most_, scale, std::max(2, static_cast<int>(out_.plot.width() / (5 * line_))));
  }

  void add_row(int row, double scrolled) {
    BarLayout::Row made;
    const double top = out_.plot.top() + row * out_.row_height - scrolled;
    made.area = QRectF(0, top, size_.width(), out_.row_height);
    const double bar = std::max(3.0, std::min(out_.row_height * kBarShare, out_.row_height - 4));
    const double at = top + (out_.row_height - bar) / 2;
    made.label = QRectF(kMargin, top, titles_, out_.row_height);
    made.bar = QRectF(out_.plot.left(), at, of(row, StackModel::TotalRole).toDouble() * out_.scale, bar);
    made.torn = made.bar.right() > out_.plot.right() + 0.5;
    double sum = 0;
    for (int column = 0; column < parts(); ++column) {
      const double value = std::max(0.0, model_.index(row, column).data(StackModel::ValueRole).toDouble());
      if (value > 0) made.segments.push_back({column, QRectF(out_.x(sum), at, value * out_.scale, bar)});
      sum += value;
    }
    set_limits(row, made);
    const double right = size_.width() - kMargin;
    made.total = QRectF(right - totals_, top, totals_, out_.row_height);
    if (of(row, StackModel::WarningRole).toBool())
      made.sign = QRectF(made.total.left(), top + (out_.row_height - line_) / 2, line_, line_);
    if (warns_) made.total.setLeft(made.total.left() + line_ + 4);
    out_.rows.push_back(std::move(made));
  }

  void set_limits(int row, BarLayout::Row& made) const {
    for (const Mark& mark : marks(row)) {
      const double x = out_.x(mark.value);
      if (!shared_) made.limits.push_back({mark, x, -1, {}, {}});
      if (mark.strong && x < made.bar.right())
        made.beyond = QRectF(x, made.bar.top(), made.bar.right() - x, made.bar.height());
    }
  }

  const QAbstractItemModel& model_;
  const QFontMetricsF& metrics_;
  QSizeF size_;
  double line_, titles_{}, totals_{}, most_{}, legend_height_{};
  bool shared_{true}, warns_{}, drafts_{};
  QPointF at_;
  BarLayout out_;
};

}  // namespace

BarLayout bar_layout(const QAbstractItemModel& model, const QSizeF& size, const QFontMetricsF& metrics,
                     double scrolled) {
  return Layout(model, size, metrics).make(scrolled);
}

double whole_height(const QAbstractItemModel& model, double width, const QFontMetricsF& metrics) {
  // Tall enough that the legend stays.
  return model.rowCount() == 0 ? 0 : Layout(model, QSizeF(width, 10'000), metrics).height();
}

}  // namespace zplan::gui

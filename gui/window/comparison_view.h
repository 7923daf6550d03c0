#pragma once
// The middle of the window: charts of the compared plans, and their figures below.

#include <QTimer>
#include <QWidget>

#include "gui/session/session.h"

class QAbstractButton;
class QTabWidget;
class QTableView;

namespace zplan::gui {

class BarChart;
class Chart;
class ComparisonModel;
class ConfigPreview;
class CurveChart;
class ExplainView;
class ScatterChart;
class StackModel;
class StrategiesModel;
class TimelineModel;
class TradeoffModel;
class ValidationLine;
class WhyView;

/// Compares the ticked scenarios, or the strategies of the current one.
class ComparisonView : public QWidget {
  Q_OBJECT

 public:
  enum class Mode { scenarios, strategies };  ///< of the session; of the current scenario

  explicit ComparisonView(Session& session, QWidget* parent = nullptr);

  void set_mode(Mode mode);
  [[nodiscard]] Mode mode() const { return mode_; }
  /// Returns the compared plans and stores the index of the baseline among them (−1: none).
  [[nodiscard]] Subjects subjects(int* baseline) const;
  [[nodiscard]] Chart& chart() const;        ///< the visible one
  [[nodiscard]] QString chart_name() const;  ///< title of its tab
  [[nodiscard]] QTabWidget& charts() const { return *charts_; }
  [[nodiscard]] QTabWidget& tables() const { return *tables_; }
  [[nodiscard]] const ComparisonModel& comparison() const { return *comparison_; }
  /// Updates charts and tables at once instead of in the event loop.
  void refresh();

 Q_SIGNALS:
  void mode_changed();
  void style_wanted(const QString& style);  ///< the user chose this value of --config-style

 private:
  void build_charts();
  void build_tables();
  void build_modes();
  void add_comparison_table();
  void later();
  void refresh_charts(const Subjects& subjects);
  void refresh_tables(const Subjects& subjects, int baseline);
  [[nodiscard]] const Session::Entry* current() const;
  void open_subject(int row);
  void choose(const QString& strategy);

  Session& session_;
  Mode mode_{Mode::strategies};
  quint64 detailed_{};  ///< id of the scenario that the tabs Why, Explain and Config show
  QTimer soon_;
  ValidationLine* validation_;
  QAbstractButton *by_scenario_, *by_strategy_, *differences_;
  QTabWidget *charts_, *tables_;
  StackModel *memory_, *time_, *traffic_;
  TimelineModel* timeline_;
  TradeoffModel* tradeoff_;
  ComparisonModel* comparison_;
  StrategiesModel* strategies_;
  QTableView *comparison_table_, *strategies_table_;
  QWidget* comparison_page_;  ///< the table and its legend
  WhyView* why_;
  ExplainView* explain_;
  ConfigPreview* config_;
};

}  // namespace zplan::gui

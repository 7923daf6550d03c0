#pragma once

#include <QDialog>
#include <QSortFilterProxyModel>
#include <QThreadPool>
#include <atomic>
#include <memory>
#include <optional>

#include "cli/report/check_report.h"
#include "gui/session/planned.h"
#include "gui/tables/text_table_model.h"

class QCheckBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;
class QTableView;

namespace zplan::gui {

/// Predictions compared with measurements, as `zplan check` does it.
struct CheckedFiles {
  CheckReport report;
  QStringList notes;  ///< what was skipped or only partly compared
};

/// Compares files of measurements with predictions. Logs and snapshots do not state what was run: `plan`
/// does. Throws InputError that names file and place.
[[nodiscard]] CheckedFiles check_files(const QStringList& files, const std::optional<Subject>& plan,
                                       const Environment& environment);

/// Shows how well measurements were predicted: a summary, then every record.
class MeasurementsDialog : public QDialog {
  Q_OBJECT

 public:
  explicit MeasurementsDialog(Environment environment, QWidget* parent = nullptr);
  /// Stops a running check at its next step.
  ~MeasurementsDialog() override;
  MeasurementsDialog(const MeasurementsDialog&) = delete;
  MeasurementsDialog& operator=(const MeasurementsDialog&) = delete;

  /// Checks the files off the GUI thread; replaces an earlier check.
  void check(const QStringList& files, const std::optional<Subject>& plan = {});

  [[nodiscard]] const std::optional<CheckedFiles>& result() const { return result_; }
  [[nodiscard]] const QString& problem() const { return problem_; }  ///< empty: none
  [[nodiscard]] TextTableModel& summary() { return summary_; }
  [[nodiscard]] QAbstractItemModel& records() { return found_; }
  void set_worst_first(bool worst_first);
  void copy() const;

 Q_SIGNALS:
  /// The check is done, with a result or a problem.
  void checked();

 private:
  void drop();
  void show_result(CheckedFiles result);
  void arrange_records();
  void show_problem(const QString& problem);
  void set_busy(bool busy);
  [[nodiscard]] QStringList remarks() const;

  Environment environment_;
  QThreadPool thread_;
  int asked_{};                                 ///< number of the latest check
  std::shared_ptr<std::atomic<bool>> dropped_;  ///< stops the latest check
  std::optional<CheckedFiles> result_;
  QString problem_;
  TextTableModel summary_, records_;
  QSortFilterProxyModel found_;
  QLabel *files_{}, *remarks_{}, *problem_label_{};
  QProgressBar* busy_{};
  QTableView *summary_view_{}, *records_view_{};
  QCheckBox* worst_first_{};
  QLineEdit* search_{};
  QPushButton* copy_{};
};

}  // namespace zplan::gui

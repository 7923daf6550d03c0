#pragma once
// Plans scenarios off the GUI thread.

#include <QHash>
#include <QObject>
#include <QThreadPool>
#include <QTimer>
#include <atomic>
#include <functional>
#include <memory>

#include "gui/session/planned.h"

namespace zplan::gui {

/// Answers each question in two steps: first a draft, or a glance at the plan that was shown before (while a
/// slider is dragged), then the full answer once the scenario has not changed for 80 ms. Where the question
/// names a trainer that stands beside another, the full answer comes again with what each leaves room for. A
/// later question about the same scenario replaces an earlier one.
class Planning : public QObject {
  Q_OBJECT

 public:
  using Id = quint64;  ///< of a scenario of the session

  explicit Planning(Environment environment, QObject* parent = nullptr);
  /// Stops running work at its next step and drops what waits.
  ~Planning() override;
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

  /// Plans the scenario and drops earlier work under this id. `likely`: the id of the plan that will probably
  /// be shown, empty if unknown.
  void ask(Id id, const Scenario& scenario, const std::string& likely = {});
  /// Sets whether the first step plans the likely plan alone instead of drafting all.
  void set_glances(bool glances) { glances_ = glances; }
  /// Drops the work for this id.
  void forget(Id id);
  [[nodiscard]] bool is_idle() const { return asked_.isEmpty(); }
  [[nodiscard]] const Environment& environment() const { return environment_; }

 Q_SIGNALS:
  // Emitted for a draft or a glance, and for the full answer, of which trainers that stand beside another
  // make two; on failure `failed` once.
  void planned(zplan::gui::Planning::Id id, zplan::gui::PlannedPtr planned);
  void failed(zplan::gui::Planning::Id id, zplan::gui::Problem problem);
  void idle();

 private:
  /// A scenario to plan, shared with the thread that plans it.
  struct Task {
    Id id{};
    Scenario scenario;
    std::string likely;
    std::atomic<bool> dropped{};  ///< its answer is no longer wanted
    bool drafted{};               ///< its draft was shown and its full answer has not begun
  };
  using TaskPtr = std::shared_ptr<Task>;
  void start(QThreadPool& thread, const TaskPtr& task, Depth depth);
  void start(QThreadPool& thread, const TaskPtr& task, const std::function<PlannedPtr()>& make);
  void settle();
  void finish(const TaskPtr& task);

  Environment environment_;
  bool glances_{};
  QHash<Id, TaskPtr> asked_;  ///< the latest task of each scenario
  QTimer quiet_;              ///< fires 80 ms after the last question
  // One thread each: an answer uses all cores by itself, and a draft must not wait for it.
  QThreadPool drafts_, answers_;
};

}  // namespace zplan::gui

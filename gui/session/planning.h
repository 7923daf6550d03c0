#pragma once
// Planning off the GUI thread. Who asks again before the answer is there gets the later answer only.

#include <QHash>
#include <QObject>
#include <QThreadPool>
#include <QTimer>
#include <atomic>
#include <memory>

#include "gui/session/planned.h"

namespace zplan::gui {

/// An answer comes twice: a draft at once, or a glance at the plan that stood for the scenario before, which
/// is what a slider that is dragged shows, and all of it when the scenario has not changed for a moment.
class Planning : public QObject {
  Q_OBJECT

 public:
  using Id = quint64;  ///< of a scenario of the session

  explicit Planning(Environment environment, QObject* parent = nullptr);
  /// What is under way ends at its next step, what waits is dropped.
  ~Planning() override;
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

  /// Plans the scenario, in place of whatever was asked for under this id before.
  /// `likely`: id of the plan that will probably be shown, if one is known.
  void ask(Id id, const Scenario& scenario, const std::string& likely = {});
  /// Whether a first look at the likely plan alone will do in place of a draft of all.
  void set_glances(bool glances) { glances_ = glances; }
  /// No answer for this id any more.
  void forget(Id id);
  [[nodiscard]] bool is_idle() const { return asked_.isEmpty(); }
  [[nodiscard]] const Environment& environment() const { return environment_; }

 Q_SIGNALS:
  /// A draft or a glance, then the full answer; or else one failure.
  void planned(zplan::gui::Planning::Id id, zplan::gui::PlannedPtr planned);
  void failed(zplan::gui::Planning::Id id, zplan::gui::Problem problem);
  void idle();

 private:
  /// A scenario that is asked for. Shared with the thread that works on it.
  struct Task {
    Id id{};
    Scenario scenario;
    std::string likely;
    std::atomic<bool> dropped{};  ///< nobody waits for it any more: planning it stops
    bool drafted{};               ///< its draft was shown and its full answer is not yet begun
  };
  using TaskPtr = std::shared_ptr<Task>;
  void start(QThreadPool& thread, const TaskPtr& task, Depth depth);
  void settle();
  void finish(const TaskPtr& task);

  Environment environment_;
  bool glances_{};
  QHash<Id, TaskPtr> asked_;  ///< the latest of each
  QTimer quiet_;              ///< runs out when nothing was asked for a moment
  // One thread each, as an answer uses all cores by itself; a draft does not wait for an answer to be done.
  QThreadPool drafts_, answers_;
};

}  // namespace zplan::gui

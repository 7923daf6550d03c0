#include "gui/session/planning.h"

#include <QMetaObject>
#include <chrono>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "gui/session/words.h"
#include "models/base/error.h"
#include "planner/question/work.h"

namespace zplan::gui {

namespace {

using namespace std::chrono_literals;

/// Delay from the last change to the full answer: longer than the pauses of a hand on a slider.
constexpr auto kQuiet = 80ms;

using Outcome = std::variant<PlannedPtr, Problem>;

/// Returns the answer that `make` returns, or the problem; nothing if the task was dropped meanwhile.
std::optional<Outcome> outcome(const std::function<PlannedPtr()>& make, const std::atomic<bool>& dropped) {
  const Work work(&dropped);
  try {
    return make();
  } catch (const Stopped&) {
    return std::nullopt;
  } catch (const InputError& error) {
    return Problem{qt(error.place()), QString::fromUtf8(error.what())};
  } catch (const std::bad_alloc&) {
    return Problem{{}, Planning::tr("out of memory")};
  } catch (const std::exception& error) {
    return Problem{{}, Planning::tr("internal error: %1").arg(QString::fromUtf8(error.what()))};
  }
}

/// True if the answer is whole but for what its trainer leaves room for.
bool lacks_reaches(const Planned& planned) {
  return !planned.draft && !planned.saved && planned.reaches.empty() && has_trainer_beside(planned.options);
}

PlannedPtr with_reaches(const Planned& planned, const Environment& environment) {
  auto made = std::make_shared<Planned>(planned);
  made->reaches = trainer_reaches(planned.options, planned.question, planned.answer, environment);
  return made;
}

}  // namespace

Planning::Planning(Environment environment, QObject* parent)
    : QObject(parent), environment_(std::move(environment)) {
  drafts_.setMaxThreadCount(1);
  answers_.setMaxThreadCount(1);
  quiet_.setSingleShot(true);
  quiet_.setInterval(kQuiet);
  connect(&quiet_, &QTimer::timeout, this, &Planning::settle);
}

Planning::~Planning() {
  for (const TaskPtr& each : std::as_const(asked_)) each->dropped = true;
  for (QThreadPool* each : {&drafts_, &answers_}) {
    each->clear();
    each->waitForDone();
  }
}

void Planning::forget(Id id) {
  if (const TaskPtr before = asked_.take(id)) before->dropped = true;
}

void Planning::ask(Id id, const Scenario& scenario, const std::string& likely) {
  forget(id);
  const auto task = std::make_shared<Task>();
  task->id = id;
  task->scenario = scenario;
  task->likely = likely;
  asked_.insert(id, task);
  start(drafts_, task, glances_ && !likely.empty() ? Depth::glance : Depth::draft);
  quiet_.start();
}

void Planning::settle() {
  for (const TaskPtr& each : std::as_const(asked_))
    if (std::exchange(each->drafted, false)) start(answers_, each, Depth::full);
}

void Planning::start(QThreadPool& thread, const TaskPtr& task, Depth depth) {
  start(thread, task,
        [this, task, depth] { return plan_scenario(task->scenario, environment_, depth, task->likely); });
}

void Planning::start(QThreadPool& thread, const TaskPtr& task, const std::function<PlannedPtr()>& make) {
  thread.start([this, task, make] {
    if (task->dropped) return;
    const auto made = outcome(make, task->dropped);
    if (!made) return;
    // Runs in the GUI thread, or not at all if this object is gone.
    const auto deliver = [this, task, made] {
      if (task->dropped) return;
      if (const auto* problem = std::get_if<Problem>(&*made)) {
        finish(task);
        Q_EMIT failed(task->id, *problem);
      } else {
        const PlannedPtr& planned_now = std::get<PlannedPtr>(*made);
        if (lacks_reaches(*planned_now))
          start(answers_, task, [this, planned_now] { return with_reaches(*planned_now, environment_); });
        else if (!planned_now->draft)
          finish(task);
        task->drafted = planned_now->draft;
        if (planned_now->draft && !quiet_.isActive()) quiet_.start();
        Q_EMIT planned(task->id, planned_now);
      }
      if (is_idle()) Q_EMIT idle();
    };
    QMetaObject::invokeMethod(this, deliver, Qt::QueuedConnection);
  });
}

void Planning::finish(const TaskPtr& task) {
  task->dropped = true;
  asked_.remove(task->id);
}

}  // namespace zplan::gui

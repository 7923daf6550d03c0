#include "gui/session/session.h"

#include <QUndoCommand>
#include <algorithm>
#include <functional>
#include <utility>

#include "gui/session/words.h"

namespace zplan::gui {

namespace {

constexpr int kMergeId = 1;
constexpr int kLongestName = 200;

/// Returns the name as a file may hold it: one line without control characters.
std::string fit_name(QString name) {
  name = name.simplified();
  name.removeIf([](QChar each) { return each.category() == QChar::Other_Control; });
  return name.left(kLongestName).toStdString();
}

/// Returns the name without a trailing " (2)".
QString stem_of(const QString& name) {
  const qsizetype bracket = name.lastIndexOf(QStringLiteral(" ("));
  return bracket > 0 && name.endsWith(QLatin1Char(')')) ? name.left(bracket) : name;
}

/// An undo command of two functions. Consecutive commands with the same key merge.
class SessionChange : public QUndoCommand {
 public:
  using Step = std::function<void(Session&)>;
  SessionChange(Session& session, const QString& text, Step forward, Step back, QString key = {})
      : QUndoCommand(text),
        session_(session),
        forward_(std::move(forward)),
        back_(std::move(back)),
        key_(std::move(key)) {}

  void redo() override { forward_(session_); }
  void undo() override { back_(session_); }
  [[nodiscard]] int id() const override { return key_.isEmpty() ? -1 : kMergeId; }
  bool mergeWith(const QUndoCommand* later) override {
    const auto* other = static_cast<const SessionChange*>(later);
    if (other->key_ != key_) return false;
    forward_ = other->forward_;
    return true;
  }

 private:
  Session& session_;
  Step forward_, back_;
  QString key_;
};

}  // namespace

Session::Session(Environment environment, QObject* parent)
    : QObject(parent), planning_(std::move(environment)) {
  connect(&planning_, &Planning::planned, this, &Session::on_planned);
  connect(&planning_, &Planning::failed, this, &Session::on_failed);
}

int Session::row_of(Id id) const {
  const auto at =
      std::find_if(entries_.begin(), entries_.end(), [id](const Entry& each) { return each.id == id; });
  return at == entries_.end() ? -1 : static_cast<int>(at - entries_.begin());
}

void Session::set_current(int row) {
  const Id id = row >= 0 && row < size() ? at(row).id : 0;
  if (id == current_) return;
  current_ = id;
  Q_EMIT current_changed();
}

// ---- changes

void Session::add(const Scenario& scenario, int row) {
  const int at = row < 0 ? current() + 1 : row;
  // A file with more scenarios would be refused.
  if (entries_.size() >= kMostScenarios) return;
  Entry entry{.id = next_++, .scenario = scenario, .planned = {}, .problem = {}, .pending = false};
  entry.scenario.name = fit_name(qt(scenario.name));
  if (entry.scenario.name.empty()) entry.scenario.name = tr("scenario").toStdString();
  undo_.push(new SessionChange(
      *this, tr("add %1").arg(qt(scenario.name)), [at, entry](Session& s) { s.insert(at, entry); },
      [at](Session& s) { s.take(at); }));
}

void Session::remove(int row) {
  const Entry entry = at(row);
  undo_.push(new SessionChange(
      *this, tr("delete %1").arg(qt(entry.scenario.name)), [row](Session& s) { s.take(row); },
      [row, entry](Session& s) { s.insert(row, entry); }));
}

void Session::duplicate(int row) {
  Scenario copy = at(row).scenario;
  copy.name = free_name(qt(copy.name)).toStdString();
  add(copy, row + 1);
}

void Session::rename(int row, const QString& name) {
  const Entry& entry = at(row);
  Scenario after = entry.scenario;
  after.name = fit_name(name);
  if (after.name.empty()) return;
  change(entry, after, tr("rename %1").arg(qt(entry.scenario.name)));
}

void Session::move(int from, int to) {
  if (from == to) return;
  undo_.push(new SessionChange(
      *this, tr("move %1").arg(qt(at(from).scenario.name)), [from, to](Session& s) { s.shift(from, to); },
      [from, to](Session& s) { s.shift(to, from); }));
}

void Session::set_arguments(int row, const std::vector<std::string>& arguments, const QString& key) {
  const Entry& entry = at(row);
  Scenario after = entry.scenario;
  after.arguments = arguments;
  // A scenario that was named after its question is renamed with it.
  const std::string name = name_of_question(arguments);
  if (const std::string before = name_of_question(entry.scenario.arguments);
      before != name && stem_of(qt(entry.scenario.name)) == qt(before))
    after.name = free_name(qt(name)).toStdString();
  change(entry, after, tr("change %1").arg(qt(entry.scenario.name)),
         key.isEmpty() ? key : QStringLiteral("%1 %2").arg(entry.id).arg(key));
}

void Session::set_strategy(int row, const QString& id) {
  const Entry& entry = at(row);
  Scenario after = entry.scenario;
  after.strategy = id.toStdString();
  change(entry, after, tr("choose %1").arg(id.isEmpty() ? tr("the recommended strategy") : id));
}

void Session::set_compared(int row, bool compared) {
  const Entry& entry = at(row);
  Scenario after = entry.scenario;
  after.compared = compared;
  change(entry, after, (compared ? tr("compare %1") : tr("leave out %1")).arg(qt(after.name)));
}

void Session::change(const Entry& entry, const Scenario& after, const QString& text, const QString& key) {
  if (after == entry.scenario) return;
  undo_.push(new SessionChange(
      *this, text, [id = entry.id, after](Session& s) { s.put(s.row_of(id), after); },
      [id = entry.id, before = entry.scenario](Session& s) { s.put(s.row_of(id), before); }, key));
}

void Session::set_baseline(Id id) {
  if (id == baseline_) return;
  undo_.push(new SessionChange(
      *this, tr("pin the baseline"), [id](Session& s) { s.pin(id); },
      [before = baseline_](Session& s) { s.pin(before); }));
}

void Session::set_differences(bool only) {
  if (only == differences_) return;
  undo_.push(new SessionChange(
      *this, only ? tr("show differences only") : tr("show all lines"),
      [only](Session& s) { s.show_differences(only); }, [only](Session& s) { s.show_differences(!only); }));
}

// ---- steps that changes are made of

void Session::insert(int row, Entry entry) {
  Q_EMIT about_to_insert(row);
  const auto at = entries_.insert(entries_.begin() + row, std::move(entry));
  const Id id = at->id;
  at->planned.reset();
  plan(*at);
  Q_EMIT inserted(row);
  current_ = id;
  Q_EMIT current_changed();
}

Session::Entry Session::take(int row) {
  Q_EMIT about_to_remove(row);
  Entry entry = std::move(entries_[static_cast<std::size_t>(row)]);
  entries_.erase(entries_.begin() + row);
  planning_.forget(entry.id);
  Q_EMIT removed(row);
  if (entry.id == current_) {
    current_ = entries_.empty() ? 0 : at(std::min(row, size() - 1)).id;
    Q_EMIT current_changed();
  }
  return entry;
}

void Session::put(int row, const Scenario& scenario) {
  Entry& entry = entries_[static_cast<std::size_t>(row)];
  const bool other_question =
      entry.scenario.arguments != scenario.arguments || entry.scenario.strategy != scenario.strategy;
  entry.scenario = scenario;
  if (other_question) {
    plan(entry);
  } else if (entry.planned) {
    // The answer stays; only the name changes.
    auto renamed = std::make_shared<Planned>(*entry.planned);
    renamed->scenario = scenario;
    entry.planned = std::move(renamed);
  }
  Q_EMIT changed(row, other_question);
}

void Session::shift(int from, int to) {
  Q_EMIT about_to_move(from, to);
  const auto begin = entries_.begin();
  if (from < to)
    std::rotate(begin + from, begin + from + 1, begin + to + 1);
  else
    std::rotate(begin + to, begin + from, begin + from + 1);
  Q_EMIT moved(from, to);
}

void Session::pin(Id id) {
  baseline_ = id;
  Q_EMIT comparison_changed();
}

void Session::show_differences(bool only) {
  differences_ = only;
  Q_EMIT comparison_changed();
}

void Session::plan(Entry& entry) {
  entry.pending = true;
  planning_.ask(entry.id, entry.scenario, entry.planned ? entry.planned->plan().id() : std::string());
}

void Session::on_planned(Id id, const PlannedPtr& planned) {
  const int row = row_of(id);
  if (row < 0) return;
  Entry& entry = entries_[static_cast<std::size_t>(row)];
  if (planned->glance) {
    entry.glance = planned;
    return Q_EMIT glanced(row);
  }
  entry.glance.reset();
  entry.planned = planned;
  entry.problem.reset();
  entry.pending = planned->draft;
  Q_EMIT answered(row);
}

void Session::on_failed(Id id, const Problem& problem) {
  const int row = row_of(id);
  if (row < 0) return;
  Entry& entry = entries_[static_cast<std::size_t>(row)];
  entry.problem = problem;
  entry.glance.reset();
  entry.pending = false;
  Q_EMIT answered(row);
}

// ---- what is compared

int Session::baseline() const {
  if (const int pinned = row_of(baseline_); pinned >= 0 && at(pinned).scenario.compared) return pinned;
  for (int row = 0; row < size(); ++row)
    if (at(row).scenario.compared) return row;
  return -1;
}

Subjects Session::compared(int* place) const {
  Subjects subjects;
  if (place != nullptr) *place = -1;
  const int base = baseline();
  for (int row = 0; row < size(); ++row) {
    const Entry& entry = at(row);
    if (!entry.scenario.compared || !entry.planned) continue;
    if (row == base && place != nullptr) *place = static_cast<int>(subjects.size());
    QString title = qt(entry.scenario.name);
    const bool stale = entry.problem && !entry.glance;
    if (stale) title += tr(" (before the change)");
    const PlannedPtr& newest = entry.newest();
    subjects.push_back({title, newest, newest->shown, entry.id, stale});
  }
  return subjects;
}

Subjects Session::strategies(const Entry& entry) {
  Subjects subjects;
  if (!entry.planned) return subjects;
  const std::vector<Plan>& plans = entry.planned->answer.plans;
  for (std::size_t i = 0; i < plans.size(); ++i)
    subjects.push_back({qt(plans[i].id()), entry.planned, i, entry.id, entry.problem.has_value()});
  return subjects;
}

QString Session::free_name(const QString& wish) const {
  const auto taken = [this](const QString& name) {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& each) { return each.scenario.name == name.toStdString(); });
  };
  const QString stem = stem_of(wish);
  QString name = wish;
  for (int n = 2; taken(name); ++n) name = QStringLiteral("%1 (%2)").arg(stem).arg(n);
  return name;
}

ScenarioFile Session::contents() const {
  ScenarioFile file{.scenarios = {}, .baseline = {}, .differences = differences_};
  for (const Entry& each : entries_) file.scenarios.push_back(each.scenario);
  if (const int pinned = row_of(baseline_); pinned >= 0) file.baseline = static_cast<std::size_t>(pinned);
  return file;
}

void Session::load(const ScenarioFile& file) {
  Q_EMIT about_to_reset();
  undo_.clear();
  for (const Entry& each : entries_) planning_.forget(each.id);
  entries_.clear();
  for (const Scenario& each : file.scenarios) {
    entries_.push_back({.id = next_++, .scenario = each, .planned = {}, .problem = {}, .pending = false});
    plan(entries_.back());
  }
  baseline_ = file.baseline ? entries_[*file.baseline].id : 0;
  differences_ = file.differences;
  current_ = entries_.empty() ? 0 : entries_.front().id;
  Q_EMIT reset();
  Q_EMIT current_changed();
  Q_EMIT comparison_changed();
}

}  // namespace zplan::gui

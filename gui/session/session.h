#pragma once
// The document: scenarios, their answers, and what is compared. Every change can be undone.

#include <QObject>
#include <QUndoStack>
#include <optional>
#include <vector>

#include "gui/session/planning.h"

namespace zplan::gui {

class Session : public QObject {
  Q_OBJECT

 public:
  using Id = Planning::Id;
  /// A scenario with its answers.
  struct Entry {
    Id id{};
    Scenario scenario;
    PlannedPtr glance{};  ///< the shown plan alone, if newer than the answer; else null
    PlannedPtr planned;   ///< the last answer; null before the first
    std::optional<Problem>
        problem;     ///< why the current question has no answer; `planned` is then of an earlier one
    bool pending{};  ///< the full answer is under way
    [[nodiscard]] const PlannedPtr& newest() const { return glance ? glance : planned; }
  };

  explicit Session(Environment environment, QObject* parent = nullptr);

  [[nodiscard]] int size() const { return static_cast<int>(entries_.size()); }
  [[nodiscard]] bool is_empty() const { return entries_.empty(); }
  [[nodiscard]] const Entry& at(int row) const { return entries_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] int row_of(Id id) const;  ///< -1: none
  /// Returns the row that is edited; -1 if there is none.
  [[nodiscard]] int current() const { return row_of(current_); }
  void set_current(int row);

  // Changes that can be undone. Rows must exist.
  void add(const Scenario& scenario, int row = -1);  ///< becomes current; row -1: after the current one
  void remove(int row);
  void duplicate(int row);
  void rename(int row, const QString& name);
  void move(int from, int to);
  /// Consecutive changes with the same `key` are undone in one step, as when a slider is dragged.
  void set_arguments(int row, const std::vector<std::string>& arguments, const QString& key = {});
  void set_strategy(int row, const QString& id);
  void set_compared(int row, bool compared);
  void set_baseline(Id id);
  void set_differences(bool only);

  /// Returns the row that differences refer to: the pinned one, else the first that is compared; -1 if none.
  [[nodiscard]] int baseline() const;
  [[nodiscard]] bool is_baseline_pinned() const { return row_of(baseline_) >= 0; }
  [[nodiscard]] bool differences() const { return differences_; }

  /// Returns the compared scenarios that have an answer, in order; stores the baseline's index among them, or
  /// -1.
  [[nodiscard]] Subjects compared(int* baseline = nullptr) const;
  /// Returns every plan of a scenario, best first.
  [[nodiscard]] static Subjects strategies(const Entry& entry);

  /// Returns a name like `wish` that no scenario has: "8B", "8B (2)".
  [[nodiscard]] QString free_name(const QString& wish) const;

  [[nodiscard]] ScenarioFile contents() const;
  /// Replaces the whole session and clears the undo stack.
  void load(const ScenarioFile& file);

  /// Sets whether only the shown plan of each scenario is planned while its question changes.
  void set_glances(bool glances) { planning_.set_glances(glances); }

  [[nodiscard]] QUndoStack& undo_stack() { return undo_; }
  [[nodiscard]] const Planning& planning() const { return planning_; }

 Q_SIGNALS:
  void inserted(int row);
  void about_to_insert(int row);
  void about_to_remove(int row);
  void removed(int row);
  void about_to_move(int from, int to);
  void moved(int from, int to);
  /// The scenario changed. An answer follows if its question is another.
  void changed(int row, bool other_question);
  void glanced(int row);   ///< newest() is of the current question; the full answer follows
  void answered(int row);  ///< the answer or the problem arrived
  void current_changed();
  void comparison_changed();  ///< the baseline, or whether only differences are shown
  void about_to_reset();
  void reset();

 private:
  /// Pushes a change of the entry's scenario to `after`, unless they are equal.
  void change(const Entry& entry, const Scenario& after, const QString& text, const QString& key = {});

  // The steps that undo commands consist of.
  void insert(int row, Entry entry);
  Entry take(int row);
  void put(int row, const Scenario& scenario);
  void shift(int from, int to);
  void pin(Id id);
  void show_differences(bool only);

  void plan(Entry& entry);
  void on_planned(Id id, const PlannedPtr& planned);
  void on_failed(Id id, const Problem& problem);

  std::vector<Entry> entries_;
  Id next_{1}, current_{}, baseline_{};
  bool differences_{};
  Planning planning_;
  QUndoStack undo_;
};

}  // namespace zplan::gui

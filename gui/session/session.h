#pragma once
// The document: scenarios, what is compared with what, and their answers. Every change can be undone.

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
  /// A scenario and what is known of it.
  struct Entry {
    Id id{};
    Scenario scenario;
    PlannedPtr glance{};  ///< of the shown plan alone, newer than the answer; null where that is as new
    PlannedPtr planned;   ///< the last answer; null: none yet
    std::optional<Problem> problem;  ///< why the scenario as it is now has none; the answer is then of before
    bool pending{};                  ///< a full answer is being made
    [[nodiscard]] const PlannedPtr& newest() const { return glance ? glance : planned; }
  };

  explicit Session(Environment environment, QObject* parent = nullptr);

  [[nodiscard]] int size() const { return static_cast<int>(entries_.size()); }
  [[nodiscard]] bool is_empty() const { return entries_.empty(); }
  [[nodiscard]] const Entry& at(int row) const { return entries_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] int row_of(Id id) const;  ///< -1: none
  /// The row that is edited; -1 where there is none.
  [[nodiscard]] int current() const { return row_of(current_); }
  void set_current(int row);

  // Changes that can be undone. Rows must exist.
  void add(const Scenario& scenario, int row = -1);  ///< becomes current; -1: behind the current one
  void remove(int row);
  void duplicate(int row);
  void rename(int row, const QString& name);
  void move(int from, int to);
  /// Changes under one `key` in a row are one step to undo: a slider that is dragged.
  void set_arguments(int row, const std::vector<std::string>& arguments, const QString& key = {});
  void set_strategy(int row, const QString& id);
  void set_compared(int row, bool compared);
  void set_baseline(Id id);
  void set_differences(bool only);

  /// The scenario whose plan differences are from: the one that was pinned, else the first that is compared.
  [[nodiscard]] int baseline() const;
  [[nodiscard]] bool is_baseline_pinned() const { return row_of(baseline_) >= 0; }
  [[nodiscard]] bool differences() const { return differences_; }

  /// The scenarios that are compared and have an answer, in order; the baseline's place among them, or -1.
  [[nodiscard]] Subjects compared(int* baseline = nullptr) const;
  /// Every plan of a scenario, best first.
  [[nodiscard]] static Subjects strategies(const Entry& entry);

  /// A name like `wish` that no scenario has: "8B", "8B (2)".
  [[nodiscard]] QString free_name(const QString& wish) const;

  [[nodiscard]] ScenarioFile contents() const;
  /// In place of everything; nothing to undo afterwards.
  void load(const ScenarioFile& file);

  /// Whether only the plans that stand for scenarios are looked at while questions change.
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
  /// The scenario: name, whether it is compared; where the question is another, an answer follows.
  void changed(int row, bool other_question);
  void glanced(int row);   ///< newest() has figures of the question as it is now, answers have not
  void answered(int row);  ///< its answer, or its problem
  void current_changed();
  void comparison_changed();  ///< baseline or differences
  void about_to_reset();
  void reset();

 private:
  /// Pushes what makes `after` of an entry's scenario, where that is another one.
  void change(const Entry& entry, const Scenario& after, const QString& text, const QString& key = {});

  // Steps that changes are made of.
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

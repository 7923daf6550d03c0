#pragma once
// The first start: three questions in place of an empty window.

#include <QWidget>
#include <map>
#include <string>
#include <vector>

#include "cli/scenarios/scenarios.h"

class QPushButton;

namespace zplan {
struct Environment;
}  // namespace zplan

namespace zplan::gui {

class OptionField;

/// Returns the example that the window starts with: the README's question.
[[nodiscard]] Scenario first_scenario();

/// Asks for model, GPUs and method, or lets the user take an example.
class StartPage : public QWidget {
  Q_OBJECT

 public:
  explicit StartPage(const Environment& environment, QWidget* parent = nullptr);
  /// Returns the field of one of the questions: "--model", "--gpus", "--gpu", "--mem", "--method".
  [[nodiscard]] OptionField* field(const QString& option) const;
  /// Returns the options that were answered.
  [[nodiscard]] std::vector<std::string> arguments() const;

 Q_SIGNALS:
  void answered(const zplan::Scenario& scenario);
  void skipped();

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  void showEvent(QShowEvent* event) override;

 private:
  void build(const Environment& environment);
  [[nodiscard]] QWidget* make_question(const QString& text, const std::vector<const char*>& options,
                                       const Environment& environment);
  [[nodiscard]] QWidget* make_examples();
  [[nodiscard]] QWidget* make_buttons();
  void keep(OptionField* field, const QString& value);
  void answer();

  std::vector<OptionField*> fields_;
  std::map<std::string, std::string> values_;
  QPushButton* plan_{};
};

}  // namespace zplan::gui

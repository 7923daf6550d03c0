#include "gui/window/start_page.h"

#include <QKeyEvent>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>

#include "cli/options/command_line.h"
#include "gui/editors/option_field.h"
#include "gui/output/text_label.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

constexpr int kWidth = 560;

Scenario named(const std::vector<std::string>& arguments) {
  return {.name = name_of_question(arguments), .arguments = arguments};
}

QLabel* heading(const QString& text, double size, QWidget* parent) {
  QLabel* label = text_label(parent);
  label->setText(text);
  label->setFont(heading_font(label->font(), size));
  return label;
}

/// A button that Return presses, too.
QPushButton* button(const char* name, const QString& text, QWidget* parent) {
  auto* made = new QPushButton(text, parent);
  made->setObjectName(QLatin1String(name));
  made->setAutoDefault(true);
  return made;
}

}  // namespace

Scenario first_scenario() { return named({"--model", "8B", "--gpus", "5", "--mem", "44"}); }

StartPage::StartPage(const Environment& environment, QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("start_page"));
  build(environment);
}

void StartPage::build(const Environment& environment) {
  auto* middle = new QWidget(this);
  middle->setFixedWidth(kWidth);
  auto* column = new QVBoxLayout(middle);
  column->setSpacing(12);
  column->addWidget(heading(tr("What do you want to train?"), 1.6, middle));
  column->addWidget(make_question(tr("1. Which model?"), {"--model"}, environment));
  column->addWidget(make_question(tr("2. On which GPUs? A name, or the memory of each"),
                                  {"--gpus", "--gpu", "--mem"}, environment));
  column->addWidget(make_question(tr("3. How is it trained?"), {"--method"}, environment));
  column->addWidget(make_buttons());
  column->addWidget(make_examples());
  auto* around = new QVBoxLayout(this);
  around->addStretch(2);
  around->addWidget(middle, 0, Qt::AlignHCenter);
  around->addStretch(3);
}

QWidget* StartPage::make_question(const QString& text, const std::vector<const char*>& options,
                                  const Environment& environment) {
  auto* question = new QWidget(this);
  auto* column = new QVBoxLayout(question);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);
  column->addWidget(heading(text, 1.1, question));
  for (const char* option : options) {
    const OptionSpec& spec = *find_option(option);
    auto* field = new OptionField(spec, make_editor(spec, environment), question);
    connect(field, &OptionField::edited, this, [this, field](const QString& value) { keep(field, value); });
    column->addWidget(field);
    fields_.push_back(field);
  }
  return question;
}

QWidget* StartPage::make_buttons() {
  auto* row = new QWidget(this);
  auto* buttons = new QHBoxLayout(row);
  buttons->setContentsMargins(0, 0, 0, 0);
  plan_ = button("plan", tr("&Plan it"), row);
  plan_->setEnabled(false);
  QPushButton* skip = button("skip", tr("&Skip"), row);
  skip->setToolTip(tr("Begin with the example of the README (Escape)"));
  connect(plan_, &QPushButton::clicked, this, &StartPage::answer);
  connect(skip, &QPushButton::clicked, this, &StartPage::skipped);
  buttons->addWidget(plan_);
  buttons->addWidget(skip);
  buttons->addStretch(1);
  return row;
}

QWidget* StartPage::make_examples() {
  auto* examples = new QWidget(this);
  auto* column = new QVBoxLayout(examples);
  column->setContentsMargins(0, 8, 0, 0);
  column->setSpacing(4);
  column->addWidget(heading(tr("Or take an example:"), 1.1, examples));
  const std::vector<std::pair<QString, Scenario>> all{
      {tr("8B on 5 GPUs of 44 GiB, all weights"), first_scenario()},
      {tr("8B with QLoRA on one RTX 4090"),
       named({"--model", "8B", "--gpus", "1", "--gpu", "RTX-4090-24GB", "--method", "qlora"})},
      {tr("70B on 16 H100 in 2 nodes, all weights"),
       named({"--model", "70B", "--gpus", "16", "--nodes", "2", "--gpu", "H100-SXM-80GB"})}};
  for (const auto& [text, scenario] : all) {
    QPushButton* example = button("example", text, examples);
    example->setToolTip(qt(command_line(scenario.arguments)));
    connect(example, &QPushButton::clicked, this, [this, taken = scenario] { Q_EMIT answered(taken); });
    column->addWidget(example, 0, Qt::AlignLeft);
  }
  return examples;
}

OptionField* StartPage::field(const QString& option) const {
  const auto at = std::ranges::find(fields_, option, &OptionField::option);
  return at == fields_.end() ? nullptr : *at;
}

std::vector<std::string> StartPage::arguments() const {
  std::vector<std::pair<std::string, std::string>> changes;
  for (const OptionField* field : fields_)
    if (const auto at = values_.find(field->option().toStdString()); at != values_.end())
      changes.emplace_back(*at);
  return with_options({}, changes);
}

void StartPage::keep(OptionField* field, const QString& value) {
  const std::string option = field->option().toStdString();
  if (value.isEmpty())
    values_.erase(option);
  else
    values_[option] = value.toStdString();
  field->show_value(value);
  plan_->setEnabled(values_.contains("--model"));
}

void StartPage::answer() {
  if (plan_->isEnabled()) Q_EMIT answered(named(arguments()));
}

void StartPage::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) return Q_EMIT skipped();
  if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) return answer();
  QWidget::keyPressEvent(event);
}

void StartPage::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  fields_.front()->editor()->setFocus();
}

}  // namespace zplan::gui

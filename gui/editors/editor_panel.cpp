#include "gui/editors/editor_panel.h"

#include <QApplication>
#include <QScopedValueRollback>
#include <QScrollBar>
#include <QVBoxLayout>
#include <algorithm>

#include "cli/options/command_line.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "gui/editors/number_editor.h"
#include "gui/editors/used_values.h"

namespace zplan::gui {

namespace {

QString given_text(const Session::Entry& entry, const OptionSpec& spec) {
  return QString::fromStdString(given_value(entry.scenario.arguments, spec.name).value_or(std::string()));
}

/// Returns the option's value in the scenario as it is typed, which may be wrong.
Standing standing_in(const Session::Entry& entry, std::string_view name) {
  const auto given = given_value(entry.scenario.arguments, name);
  return {.words = {given ? *given : find_option(name)->type.show(Options{})}, .is_given = given.has_value()};
}

/// Why an option can do nothing as the scenario stands: what the command line would say, before it fails.
QString why_idle(const Session::Entry& entry, const OptionSpec& option) {
  const Condition* first =
      unmet(option, {}, [&entry](std::string_view name) { return standing_in(entry, name); });
  if (first == nullptr) return {};
  QStringList labels, words;
  for (const std::string_view each : first->options) labels << option_label(*find_option(each));
  for (const std::string& each : first->words) words << QString::fromStdString(each);
  const QString needed = labels.join(QStringLiteral(", "));
  if (first->is_excluded) return EditorPanel::tr("without: %1").arg(needed);
  return words.isEmpty() ? EditorPanel::tr("with: %1").arg(needed)
                         : EditorPanel::tr("with %1: %2").arg(needed, words.join(QStringLiteral(", ")));
}

/// True if the problem's place names this option ("--seq", "--seq, --micro-batch") or the option's file.
bool is_about(const Problem& problem, const OptionField& field, const QString& value) {
  if (problem.place.split(QStringLiteral(", ")).contains(field.option())) return true;
  const bool names_file = value.contains(QLatin1Char('/')) || value.endsWith(QLatin1String(".json"));
  return names_file && problem.place.startsWith(value);
}

/// Below its option, a problem need not name it.
QString text_at(const Problem& problem, const OptionField& field) {
  const QString place = field.option() + QStringLiteral(": ");
  return problem.text.startsWith(place) ? problem.text.mid(place.size()) : problem.text;
}

}  // namespace

EditorPanel::EditorPanel(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      heading_(new ScenarioHeading(session, this)),
      find_(new FieldEdit(this)),
      pages_(new QTabBar(this)),
      message_(new MessageLine(this)),
      scroll_(new QScrollArea(this)),
      content_(new QWidget) {
  build();
  connect(&session_, &Session::changed, this, &EditorPanel::on_changed);
  connect(&session_, &Session::answered, this, [this](int row) {
    if (row == session_.current()) refresh();
  });
  connect(&session_, &Session::current_changed, this, [this] {
    ++edit_;
    refresh();
  });
  connect(&session_, &Session::reset, this, &EditorPanel::refresh);
  connect(qApp, &QApplication::focusChanged, this, [this] {
    ++edit_;
    show_fields();
  });
  refresh();
}

/// Disconnects first: the focus leaves the panel's widgets while they are destroyed.
EditorPanel::~EditorPanel() {
  disconnect(qApp, nullptr, this, nullptr);
  disconnect(&session_, nullptr, this, nullptr);
}

// ---- what stands in it
// ---------------------------------------------------------------------------------------------------------

void EditorPanel::build() {
  find_->setObjectName(QStringLiteral("find"));
  find_->keep_own_undo();
  find_->setPlaceholderText(tr("Find an option"));
  find_->setAccessibleName(tr("Find an option"));
  find_->setClearButtonEnabled(true);
  connect(find_, &QLineEdit::textChanged, this, &EditorPanel::show_fields);
  build_pages();

  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->addWidget(heading_);
  column->addWidget(message_);
  column->addWidget(pages_);
  column->addWidget(find_);
  column->addWidget(scroll_, 1);

  new QVBoxLayout(content_);
  content_->layout()->setContentsMargins(0, 0, 4, 0);
  content_->layout()->setSpacing(2);
  // A section for each group whose options have labels; those of the output are the config's.
  std::vector<std::string_view> groups;
  for (const OptionSpec& spec : option_table())
    if (!spec.label.empty() && std::ranges::find(groups, spec.group) == groups.end())
      groups.push_back(spec.group);
  for (const std::string_view group : groups)
    add_section(group == "Output" ? tr("Config") : group_label(group), group);
  static_cast<QVBoxLayout*>(content_->layout())->addStretch(1);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setWidgetResizable(true);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll_->setFocusPolicy(Qt::NoFocus);
  scroll_->setWidget(content_);
  scroll_->setMinimumWidth(content_->minimumSizeHint().width() +
                           scroll_->verticalScrollBar()->sizeHint().width());
}

void EditorPanel::build_pages() {
  pages_->setObjectName(QStringLiteral("pages"));
  pages_->setAccessibleName(tr("Which options are shown"));
  pages_->setExpanding(false);
  pages_->setDrawBase(false);
  const auto add = [this](const QString& title, const QString& tip) {
    pages_->setTabToolTip(pages_->addTab(title), tip);
  };
  add(tr("Common"), tr("The options that most people use, as far as they apply, and those that are set"));
  add(tr("Set"), tr("The options that this scenario sets"));
  add(tr("All options"), tr("Every option; those that do not apply say why"));
  connect(pages_, &QTabBar::currentChanged, this, &EditorPanel::show_fields);
}

void EditorPanel::add_section(const QString& title, std::string_view group) {
  auto* section = new Section(title, content_);
  for (const OptionSpec& spec : option_table()) {
    if (spec.group != group || spec.label.empty()) continue;
    auto* field = new OptionField(spec, make_editor(spec, session_.planning().environment()), section);
    connect(field, &OptionField::edited, this,
            [this, field](const QString& value, Step step) { apply(field->option(), value, step); });
    connect(field, &OptionField::began, this, [this] { ++edit_; });
    section->add(field);
    fields_.push_back(field);
  }
  content_->layout()->addWidget(section);
  sections_.push_back(section);
}

OptionField* EditorPanel::field(const QString& option) const {
  const auto at = std::ranges::find(fields_, option, &OptionField::option);
  return at == fields_.end() ? nullptr : *at;
}

void EditorPanel::show_option(const QString& option) {
  OptionField* wanted = field(option);
  if (wanted == nullptr) return;
  find_->clear();
  if (!is_on_page(*wanted)) set_page(Page::all);
  for (Section* section : sections_)
    if (std::ranges::find(section->fields(), wanted) != section->fields().end()) section->set_folded(false);
  scroll_->ensureWidgetVisible(wanted);
  wanted->editor()->setFocus(Qt::ShortcutFocusReason);
}

/// True if the field is shown while no option is looked for. What is set, or wrong, is on every page.
bool EditorPanel::is_on_page(const OptionField& field) const {
  if (page() == Page::all || field.is_given() || field.has_problem()) return true;
  return page() == Page::common && is_common(field.spec()) && !field.is_idle();
}

void EditorPanel::show_fields() {
  const QString words = find_->text().trimmed();
  const QWidget* focus = QApplication::focusWidget();
  // A field that was just cleared stays for as long as it has the focus: what is typed next goes there.
  const auto shown = [&](const OptionField& field) {
    return words.isEmpty() ? is_on_page(field) || field.isAncestorOf(focus) : field.matches(words);
  };
  for (Section* section : sections_) section->show_fields(shown, !words.isEmpty());
  show_count();
}

void EditorPanel::show_count() {
  const auto given = static_cast<int>(std::ranges::count_if(fields_, &OptionField::is_given));
  pages_->setTabText(static_cast<int>(Page::given), given == 0 ? tr("Set") : tr("Set (%n)", nullptr, given));
}

// ---- from the fields to the scenario, and back
// ---------------------------------------------------------------------------------------------------------

void EditorPanel::apply(const QString& option, const QString& value, Step step) {
  const int row = session_.current();
  if (row < 0) return;
  const QString key = step == Step::own ? QString() : QStringLiteral("%1 %2").arg(option).arg(edit_);
  const QScopedValueRollback guard(applying_, true);
  session_.set_arguments(
      row, with_options(session_.at(row).scenario.arguments, {{option.toStdString(), value.toStdString()}}),
      key);
}

void EditorPanel::on_changed(int row) {
  if (!applying_) ++edit_;  // undone, say: what is typed now is a step of its own
  if (row == session_.current()) refresh();
}

void EditorPanel::refresh() {
  heading_->refresh();
  const int row = session_.current();
  const bool is_report = row >= 0 && !session_.at(row).scenario.report.empty();
  content_->setEnabled(row >= 0 && !is_report);
  if (row < 0) {
    for (OptionField* field : fields_) {
      field->show_value({});
      field->show_problem({});
    }
    show_fields();
    return message_->remark(tr("There is no scenario."));
  }
  const Session::Entry& entry = session_.at(row);
  show_values(entry);
  show_answer(entry);
  show_problem(entry);
  show_fields();
}

void EditorPanel::show_values(const Session::Entry& entry) {
  for (OptionField* field : fields_) {
    field->show_value(given_text(entry, field->spec()));
    field->show_idle(why_idle(entry, field->spec()));
  }
  for (Section* section : sections_) section->count_given();
}

void EditorPanel::show_answer(const Session::Entry& entry) {
  for (OptionField* field : fields_)
    field->show_used(entry.planned ? used_value(field->spec().name, *entry.planned) : QString());
  if (const OptionField* seq = field(QStringLiteral("--seq")))
    if (const auto* editor = qobject_cast<NumberEditor*>(seq->editor()))
      editor->slider()->set_most(entry.planned ? entry.planned->question.model.shape.max_positions : 0);
}

void EditorPanel::show_problem(const Session::Entry& entry) {
  bool is_placed = false;
  for (Section* section : sections_)
    for (OptionField* field : section->fields()) {
      const bool is_here =
          entry.problem && is_about(*entry.problem, *field, given_text(entry, field->spec()));
      field->show_problem(is_here ? text_at(*entry.problem, *field) : QString());
      if (is_here) section->set_folded(false);
      is_placed = is_placed || is_here;
    }
  if (entry.problem && !is_placed)
    message_->warn(entry.problem->text);
  else if (!entry.scenario.report.empty())
    message_->remark(tr("A saved report, shown as it was: %1. Its options cannot be changed.")
                         .arg(QString::fromStdString(entry.scenario.report)));
  else
    message_->remark({});
}

}  // namespace zplan::gui

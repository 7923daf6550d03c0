#include "gui/output/config_preview.h"

#include <QApplication>
#include <QBoxLayout>
#include <QClipboard>
#include <QComboBox>
#include <QFileDialog>
#include <QFontDatabase>
#include <QGridLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QScrollArea>
#include <QSplitter>
#include <QSyntaxHighlighter>
#include <QTableView>
#include <QTextBlock>
#include <nlohmann/json.hpp>

#include "cli/report/report.h"
#include "gui/output/export.h"
#include "gui/output/text_label.h"
#include "gui/session/words.h"
#include "planner/question/framework.h"

namespace zplan::gui {

/// Colours keys, texts and numbers of JSON, and of the YAML that accelerate reads, in distinct
/// hues that are readable on the palette's background.
class JsonColours : public QSyntaxHighlighter {
 public:
  explicit JsonColours(QTextDocument* document);
  void set_palette(const QPalette& palette);
  /// Sets whether the text is YAML, in which a word before a colon is a key.
  void set_yaml(bool yaml) { yaml_ = yaml; }

 protected:
  void highlightBlock(const QString& text) override;

 private:
  bool yaml_{};
  QTextCharFormat key_, text_, number_;
};

namespace {

/// Blue, vermilion and green of Okabe and Ito, which any colour vision distinguishes.
constexpr int kBlue = 202, kVermilion = 26, kGreen = 164;

QColor hue_on(const QPalette& palette, int hue) {
  const bool dark = palette.color(QPalette::Base).lightness() < 128;
  return QColor::fromHsl(hue, dark ? 160 : 255, dark ? 175 : 58);
}

QFont fixed_font() { return QFontDatabase::systemFont(QFontDatabase::FixedFont); }

QStringList texts_of(const std::vector<std::string>& sentences) {
  QStringList texts;
  for (const std::string& each : sentences) texts << qt(each);
  return texts;
}

std::vector<ConfigContent::Command> commands_of(const Plan& plan, const Report& report) {
  std::vector<ConfigContent::Command> commands;
  const Json lines = launch_json(plan, report);
  for (const auto& [launcher, line] : lines.items())
    if (line.is_string() && launcher != "launcher")
      commands.push_back({qt(launcher), qt(line.get<std::string>())});
  return commands;
}

LintOptions lint_options(const Planned& planned) {
  const Cluster& cluster = planned.question.cluster;
  return {.style = planned.options.config_style,
          .gpus = cluster.gpus,
          .tensor_parallel = planned.plan().strategy.layout.tensor,
          .compute_capability = cluster.gpu.compute_capability,
          .release = planned.question.training.deepspeed};
}

std::string message_of(const Finding& finding) {
  return finding.found + "; " + finding.effect + (finding.advice.empty() ? "" : "; " + finding.advice);
}

/// Returns a line of text that can be selected and is read by screen readers.
QLineEdit* read_only_line(const QString& text, const QString& name) {
  auto* line = new QLineEdit(text);
  line->setReadOnly(true);
  line->setFont(fixed_font());
  line->setCursorPosition(0);
  line->setAccessibleName(name);
  return line;
}

}  // namespace

JsonColours::JsonColours(QTextDocument* document) : QSyntaxHighlighter(document) {
  key_.setFontWeight(QFont::DemiBold);
}

void JsonColours::set_palette(const QPalette& palette) {
  key_.setForeground(hue_on(palette, kBlue));
  text_.setForeground(hue_on(palette, kGreen));
  number_.setForeground(hue_on(palette, kVermilion));
  rehighlight();
}

void JsonColours::highlightBlock(const QString& text) {
  static const QRegularExpression json(
      R"re((?<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?<text>"(?:[^"\\]|\\.)*")|(?<number>-?\b\d[\d.eE+-]*\b|\b(?:true|false|null)\b))re");
  static const QRegularExpression yaml(
      R"re((?<key>^[\s-]*[\w.-]+(?=:))|(?<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?<number>-?\b\d[\d.eE+-]*\b|\b(?:true|false|null)\b))re");
  for (auto each = (yaml_ ? yaml : json).globalMatch(text); each.hasNext();) {
    const QRegularExpressionMatch match = each.next();
    for (const auto& [name, format] :
         {std::pair{"key", &key_}, std::pair{"text", &text_}, std::pair{"number", &number_}})
      if (match.capturedLength(QLatin1String(name)) > 0)
        setFormat(static_cast<int>(match.capturedStart(QLatin1String(name))),
                  static_cast<int>(match.capturedLength(QLatin1String(name))), *format);
  }
}

ConfigContent config_of(const Planned& planned) {
  ConfigContent content;
  if (planned.saved) {
    content.none = ConfigPreview::tr(
        "This is a report that was saved. Its configuration can be made from the question "
        "that it answered: add a scenario for that.");
    return content;
  }
  const Report report = report_of(planned);
  const Plan& plan = planned.plan();
  content.file = qt(config_path(plan, report));
  content.text = qt(config_text(plan, report));
  content.commands = commands_of(plan, report);
  if (content.text.isEmpty()) {
    content.none =
        ConfigPreview::tr("%1 needs no configuration: plain PyTorch is set up by the program itself.")
            .arg(qt(plan.id()));
    return content;
  }
  content.notes = texts_of(config_notes(plan, report));
  content.linted = spec(plan.framework).reads_ds_config;
  if (content.linted)
    content.findings = lint(content.text.toStdString(), content.file.toStdString(), lint_options(planned));
  return content;
}

Table findings_table(const std::vector<Finding>& findings) {
  const auto heading = [](const char* text) { return ConfigPreview::tr(text).toStdString(); };
  Table table{{{heading(QT_TR_NOOP("Level")), "", false, kAlways},
               {heading(QT_TR_NOOP("Line")), "", true, kAlways},
               {heading(QT_TR_NOOP("Key")), "", false, kAlways},
               {heading(QT_TR_NOOP("What is wrong")), "", false, kAlways}},
              {}};
  for (const Finding& each : findings)
    table.rows.push_back({{std::string(to_name(each.severity)), std::to_string(each.place.line),
                           each.pointer.empty() ? "/" : each.pointer, message_of(each)},
                          each.severity == Severity::error ? Tone::bad : Tone::plain});
  return table;
}

ConfigPreview::ConfigPreview(QWidget* parent) : QWidget(parent) {
  ask_file = [this] { return QFileDialog::getSaveFileName(this, tr("Save configuration"), content_.file); };
  text_ = new QPlainTextEdit;
  setFocusProxy(text_);
  text_->setReadOnly(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  text_->setFont(fixed_font());
  text_->setLineWrapMode(QPlainTextEdit::NoWrap);
  text_->setTabChangesFocus(true);
  text_->setAccessibleName(tr("Configuration"));
  colours_ = new JsonColours(text_->document());
  colours_->set_palette(palette());
  auto* parts = new QSplitter(Qt::Vertical);
  parts->setChildrenCollapsible(false);
  parts->addWidget(text_);
  parts->addWidget(make_remarks());
  parts->setStretchFactor(0, 3);
  parts->setStretchFactor(1, 2);
  said_ = text_label();
  said_->hide();
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(make_bar());
  layout->addWidget(said_);
  layout->addWidget(parts, 1);
  refresh();
}

QWidget* ConfigPreview::make_bar() {
  title_ = text_label();
  style_ = new QComboBox;
  for (const auto& [style, name] : EnumNames<ConfigStyle>::table)
    style_->addItem(QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size())));
  style_->setAccessibleName(tr("Style of the configuration"));
  style_->setToolTip(
      tr("Who runs it: every value written out, \"auto\" where the Hugging Face Trainer fills in, or as "
         "ms-swift takes it (--config-style)"));
  // Only for choices of the user; showing a plan sets the value, too.
  connect(style_, &QComboBox::textActivated, this, &ConfigPreview::style_wanted);
  auto* label = new QLabel(tr("St&yle:"));
  label->setBuddy(style_);
  copy_ = new QPushButton(tr("&Copy"));
  copy_->setToolTip(tr("Copy the configuration"));
  connect(copy_, &QPushButton::clicked, this, &ConfigPreview::copy);
  save_ = new QPushButton(tr("&Save…"));
  save_->setToolTip(tr("Save the configuration as a file (--emit)"));
  connect(save_, &QPushButton::clicked, this, &ConfigPreview::save);
  auto* bar = new QWidget;
  auto* layout = new QHBoxLayout(bar);
  layout->setContentsMargins({});
  layout->addWidget(title_, 1);
  for (QWidget* each : {static_cast<QWidget*>(label), static_cast<QWidget*>(style_),
                        static_cast<QWidget*>(copy_), static_cast<QWidget*>(save_)})
    layout->addWidget(each);
  return bar;
}

QWidget* ConfigPreview::make_remarks() {
  notes_ = text_label();
  commands_ = new QWidget;
  new QGridLayout(commands_);
  found_ = text_label();
  findings_view_ = new QTableView;
  findings_view_->setModel(&findings_);
  findings_view_->setAccessibleName(tr("Findings in the configuration"));
  findings_view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  findings_view_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  findings_view_->setTabKeyNavigation(false);
  findings_view_->verticalHeader()->hide();
  findings_view_->horizontalHeader()->setStretchLastSection(true);
  connect(findings_view_, &QTableView::activated, this,
          [this](const QModelIndex& index) { go_to(index.row()); });
  auto* inside = new QWidget;
  auto* layout = new QVBoxLayout(inside);
  layout->setContentsMargins({});
  layout->addWidget(notes_);
  layout->addWidget(commands_);
  layout->addWidget(found_);
  layout->addWidget(findings_view_, 1);
  layout->addStretch();
  auto* area = new QScrollArea;
  area->setWidget(inside);
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  area->setFocusPolicy(Qt::NoFocus);
  return area;
}

void ConfigPreview::show_plan(PlannedPtr planned) {
  planned_ = std::move(planned);
  stale_ = true;
  if (isVisible()) refresh();
}

void ConfigPreview::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (stale_) refresh();
}

void ConfigPreview::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  // The text's palette changes after that of this widget.
  if (event->type() == QEvent::PaletteChange && colours_ != nullptr) colours_->set_palette(palette());
}

void ConfigPreview::refresh() {
  stale_ = false;
  content_ = planned_ ? config_of(*planned_) : ConfigContent{};
  const bool any = !content_.text.isEmpty();
  title_->setText(!planned_ ? tr("No plan yet")
                  : !any    ? content_.none
                  : planned_->plan().fits
                      ? tr("%1 for %2").arg(content_.file, qt(planned_->plan().id()))
                      : tr("%1 for %2, which does not fit").arg(content_.file, qt(planned_->plan().id())));
  colours_->set_yaml(!content_.linted);
  // Keep the scroll position if the text does not change.
  if (text_->toPlainText() != content_.text) text_->setPlainText(content_.text);
  text_->setVisible(any);
  for (QPushButton* each : {copy_, save_}) each->setEnabled(any);
  style_->setEnabled(content_.linted);
  if (planned_) style_->setCurrentIndex(static_cast<int>(planned_->options.config_style));
  notes_->setText(content_.notes.join(u'\n'));
  notes_->setVisible(!content_.notes.isEmpty());
  said_->hide();
  show_commands();
  show_findings();
}

void ConfigPreview::show_commands() {
  delete commands_->layout();
  qDeleteAll(commands_->findChildren<QWidget*>(Qt::FindDirectChildrenOnly));
  auto* grid = new QGridLayout(commands_);
  grid->setContentsMargins({});
  int row = 0;
  for (const ConfigContent::Command& each : content_.commands) {
    auto* copy = new QPushButton(tr("Copy"));
    copy->setAccessibleName(tr("Copy the command for %1").arg(each.launcher));
    connect(copy, &QPushButton::clicked, this, [this, each] {
      QApplication::clipboard()->setText(each.line);
      Q_EMIT said(tr("The command for %1 is copied").arg(each.launcher));
    });
    grid->addWidget(new QLabel(each.launcher), row, 0);
    grid->addWidget(read_only_line(each.line, tr("Command for %1").arg(each.launcher)), row, 1);
    grid->addWidget(copy, row++, 2);
  }
  commands_->setVisible(row > 0);
}

void ConfigPreview::show_findings() {
  QStringList hints;
  for (const Finding& each : content_.findings)
    hints << qt(message_of(each) + " [" + each.rule + "]\n" + std::string(lint_rule(each.rule).source));
  findings_.show(findings_table(content_.findings), {}, hints);
  const int count = findings_.rowCount();
  found_->setText(content_.text.isEmpty() ? QString()
                  : !content_.linted      ? tr("Only configurations of DeepSpeed are checked.")
                  : count == 0            ? tr("Checked as zplan lint checks it: no findings.")
                                          : tr("%n finding(s) of zplan lint:", nullptr, count));
  found_->setVisible(!found_->text().isEmpty());
  findings_view_->setVisible(count > 0);
  findings_view_->resizeColumnsToContents();
}

void ConfigPreview::go_to(int finding) {
  const int line = content_.findings[static_cast<std::size_t>(finding)].place.line;
  const QTextBlock block = text_->document()->findBlockByNumber(line - 1);
  if (!block.isValid()) return;
  text_->setTextCursor(QTextCursor(block));
  text_->setFocus();
}

void ConfigPreview::copy() {
  QApplication::clipboard()->setText(content_.text);
  Q_EMIT said(tr("%1 is copied").arg(content_.file));
}

void ConfigPreview::save() {
  const QString path = content_.text.isEmpty() ? QString() : ask_file();
  if (path.isEmpty()) return;
  const QString wrong = write_whole_file(path, content_.text.toUtf8());
  said_->setText(wrong.isEmpty() ? tr("%1 is saved").arg(path) : wrong);
  said_->show();
  Q_EMIT said(said_->text());
}

}  // namespace zplan::gui

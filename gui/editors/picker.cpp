#include "gui/editors/picker.h"

#include <QAction>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QPainter>
#include <QScreen>
#include <QStyle>
#include <QStyleOption>
#include <algorithm>

#include "gui/editors/simple_editors.h"

namespace zplan::gui {

namespace {

constexpr int kMostShown = 14;  // rows of the table

class Popup : public QTreeView {
 public:
  using QTreeView::QTreeView;
  /// A completer makes its popup as many rows high as it has, and leaves out the heading.
  [[nodiscard]] int sizeHintForRow(int row) const override {
    const int rows = std::clamp(model()->rowCount(), 1, kMostShown);
    return QTreeView::sizeHintForRow(row) + (header()->sizeHint().height() + rows - 1) / rows;
  }
};

QTreeView* make_popup() {
  auto* popup = new Popup;
  popup->setRootIsDecorated(false);
  popup->setUniformRowHeights(true);
  popup->setAllColumnsShowFocus(true);
  popup->setSelectionBehavior(QAbstractItemView::SelectRows);
  popup->setEditTriggers(QAbstractItemView::NoEditTriggers);
  popup->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  return popup;
}

/// The style's arrow in the palette's colours.
QIcon arrow_icon(const QWidget* of) {
  QIcon icon;
  for (const auto group : {QPalette::Active, QPalette::Disabled}) {
    constexpr int kSize = 16;
    QPixmap picture(QSize(kSize, kSize) * of->devicePixelRatioF());
    picture.setDevicePixelRatio(of->devicePixelRatioF());
    picture.fill(Qt::transparent);
    QPainter painter(&picture);
    QStyleOption option;
    option.initFrom(of);
    option.palette.setCurrentColorGroup(group);
    option.rect = QRect(2, 2, kSize - 4, kSize - 4);
    of->style()->drawPrimitive(QStyle::PE_IndicatorArrowDown, &option, &painter);
    icon.addPixmap(picture, group == QPalette::Active ? QIcon::Normal : QIcon::Disabled);
  }
  return icon;
}

/// The longest name decides, and headings the other columns: asking all rows would build every model.
void set_widths(QTreeView* popup, const QAbstractItemModel* model) {
  const QFontMetrics font = popup->fontMetrics();
  popup->header()->setStretchLastSection(false);
  int width = 2 * popup->frameWidth() + popup->style()->pixelMetric(QStyle::PM_ScrollBarExtent);
  for (int column = 0; column < model->columnCount(); ++column) {
    int text = font.horizontalAdvance(model->headerData(column, Qt::Horizontal).toString());
    text = std::max(text, font.horizontalAdvance(QStringLiteral("0.000 TB/s")));
    for (int row = 0; column == 0 && row < model->rowCount(); ++row)
      text = std::max(text, font.horizontalAdvance(model->index(row, 0).data().toString()));
    popup->setColumnWidth(column, text + 20);
    width += text + 20;
  }
  popup->setMinimumWidth(width);
}

}  // namespace

Picker::Picker(NameTable* names, const QString& title, QWidget* parent)
    : ValueEditor(parent),
      edit_(new FieldEdit(this)),
      filter_(new NameFilter(names, this)),
      completer_(new QCompleter(this)),
      popup_(make_popup()),
      all_(edit_->addAction(arrow_icon(this), QLineEdit::TrailingPosition)) {
  completer_->setModel(filter_);
  completer_->setPopup(popup_);
  completer_->setCompletionMode(QCompleter::UnfilteredPopupCompletion);  // the filter did it
  completer_->setCaseSensitivity(Qt::CaseInsensitive);
  completer_->setMaxVisibleItems(kMostShown);
  popup_->setAccessibleName(names->headerData(0, Qt::Horizontal).toString());
  set_widths(popup_, filter_);
  popup_->installEventFilter(this);
  edit_->setCompleter(completer_);
  edit_->installEventFilter(this);
  all_->setText(tr("Show all"));
  all_->setToolTip(tr("Show all (Down)"));
  connect(all_, &QAction::triggered, this, &Picker::show_all);

  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(edit_, 1);
  if (!title.isEmpty())
    row->addWidget(
        make_browse_button(edit_, title, [this](const QString& file) { Q_EMIT edited(file, Step::own); }));
  connect(edit_, &QLineEdit::textEdited, filter_, &NameFilter::look_for);
  // Also what the table puts there while keys go through it: each name is answered as it is passed.
  connect(edit_, &QLineEdit::textChanged, this, [this] { Q_EMIT edited(edit_->value(), Step::continued); });
}

void Picker::show_all() {
  filter_->look_for({});
  edit_->setFocus();
  completer_->setCompletionPrefix(edit_->value());
  completer_->complete();
}

void Picker::changeEvent(QEvent* event) {
  ValueEditor::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange)
    all_->setIcon(arrow_icon(this));
}

bool Picker::eventFilter(QObject* watched, QEvent* event) {
  if (watched == edit_ && event->type() == QEvent::KeyPress && !popup_->isVisible() &&
      static_cast<QKeyEvent*>(event)->key() == Qt::Key_Down) {
    show_all();
    return true;
  }
  // The table is wider than the line: it stays on the screen.
  if (watched == popup_ && event->type() == QEvent::Show) {
    const QRect screen = popup_->screen()->availableGeometry();
    const int most_left = screen.right() + 1 - popup_->width();
    if (popup_->x() > most_left) popup_->move(std::max(screen.left(), most_left), popup_->y());
  }
  return ValueEditor::eventFilter(watched, event);
}

}  // namespace zplan::gui

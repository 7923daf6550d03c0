#include "gui/editors/section.h"

#include <algorithm>

namespace zplan::gui {

Section::Section(const QString& title, QWidget* parent)
    : QWidget(parent),
      title_(title),
      heading_(new QToolButton(this)),
      body_(new QWidget(this)),
      rows_(new QVBoxLayout(body_)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(heading_);
  column->addWidget(body_);
  rows_->setContentsMargins(8, 4, 0, 8);
  rows_->setSpacing(6);
  heading_->setCheckable(true);
  heading_->setChecked(true);
  heading_->setAutoRaise(true);
  heading_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  heading_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  QFont font = heading_->font();
  font.setBold(true);
  heading_->setFont(font);
  heading_->setFocusPolicy(Qt::StrongFocus);
  connect(heading_, &QToolButton::toggled, this, &Section::show_body);
  count_given();
  show_body();
}

void Section::add(OptionField* field) {
  rows_->addWidget(field);
  fields_.push_back(field);
}

void Section::show_fields(const std::function<bool(const OptionField&)>& shown, bool unfolded) {
  bool any = false;
  for (OptionField* field : fields_) {
    const bool is_shown = shown(*field);
    field->setVisible(is_shown);
    any = any || is_shown;
  }
  unfolded_ = unfolded;
  setVisible(any);
  show_body();
}

void Section::count_given() {
  const auto given = std::ranges::count_if(fields_, &OptionField::is_given);
  heading_->setText(given == 0 ? title_ : tr("%1 · %n set", nullptr, static_cast<int>(given)).arg(title_));
  heading_->setAccessibleName(heading_->text());
}

void Section::set_folded(bool folded) { heading_->setChecked(!folded); }

void Section::show_body() {
  const bool open = heading_->isChecked() || unfolded_;
  heading_->setArrowType(open ? Qt::DownArrow : Qt::RightArrow);
  heading_->setAccessibleDescription(open ? tr("unfolded") : tr("folded"));
  body_->setVisible(open);
}

}  // namespace zplan::gui

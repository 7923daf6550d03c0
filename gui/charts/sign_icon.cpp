#include "gui/charts/sign_icon.h"

#include <QGuiApplication>
#include <QIconEngine>
#include <QPalette>

namespace zplan::gui {

namespace {

QColor color_of(QIcon::Mode mode) {
  const QPalette palette = QGuiApplication::palette();
  if (mode == QIcon::Selected) return palette.color(QPalette::HighlightedText);
  return palette.color(mode == QIcon::Disabled ? QPalette::Disabled : QPalette::Active, QPalette::ButtonText);
}

class SignEngine : public QIconEngine {
 public:
  explicit SignEngine(SignPainter sign) : sign_(sign) {}
  void paint(QPainter* painter, const QRect& box, QIcon::Mode mode, QIcon::State) override {
    sign_(*painter, box, color_of(mode));
  }
  /// `size`: in pixels of the screen.
  QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
    QPixmap picture(size);
    picture.fill(Qt::transparent);
    QPainter painter(&picture);
    paint(&painter, QRect(QPoint(), size), mode, state);
    return picture;
  }
  [[nodiscard]] QIconEngine* clone() const override { return new SignEngine(*this); }

 private:
  SignPainter sign_;
};

}  // namespace

QIcon sign_icon(SignPainter sign) { return QIcon(new SignEngine(sign)); }

}  // namespace zplan::gui

#include "gui/charts/ink.h"

#include <QGuiApplication>
#include <QIconEngine>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>

namespace zplan::gui::ink {

namespace {

/// Returns the linear value of an sRGB channel. Source: WCAG 2.2.
double linear(float channel) {
  const double value = static_cast<double>(channel);
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

double luminance(const QColor& color) {
  return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
}

QColor background(const QPalette& palette) { return palette.color(QPalette::Base); }

/// Hue in degrees and saturation in percent.
struct Hue {
  int degrees, saturation;
};

/// Hues of Okabe and Ito 2008. With alternating lightness any colour vision distinguishes them.
constexpr std::array<Hue, 9> kHues{{{202, 100},  // blue
                                    {41, 100},   // orange
                                    {164, 100},  // bluish green
                                    {202, 75},   // sky blue
                                    {327, 45},   // reddish purple
                                    {56, 85},    // yellow
                                    {26, 100},   // vermilion
                                    {210, 8},    // grey
                                    {210, 8}}};

/// Contrasts of the two lightnesses. Shapes and lines need at least 3 (WCAG 1.4.11), text on them 4.5.
constexpr double kNear = 3.1, kFar = 6.4;

QColor hue(int index) {
  const Hue& of = kHues[static_cast<std::size_t>(index) % kHues.size()];
  return QColor::fromHsl(of.degrees, of.saturation * 255 / 100, 128);
}

/// Computes the part of the line x·a + y·b = c within `box`; returns false if it misses the box.
bool cut(const QRectF& box, double a, double b, double c, QLineF& line) {
  QVector<QPointF> ends;
  const auto add = [&](double x, double y) {
    const QPointF point(x, y);
    if (x < box.left() - 1e-6 || x > box.right() + 1e-6 || y < box.top() - 1e-6 || y > box.bottom() + 1e-6)
      return;
    if (ends.isEmpty() || (ends.front() - point).manhattanLength() > 1e-3) ends.push_back(point);
  };
  if (b != 0)
    for (const double x : {box.left(), box.right()}) add(x, (c - a * x) / b);
  if (a != 0)
    for (const double y : {box.top(), box.bottom()}) add((c - b * y) / a, y);
  if (ends.size() < 2) return false;
  line = QLineF(ends[0], ends[1]);
  return true;
}

void lines(QPainter& painter, const QRectF& box, double a, double b, double spacing) {
  const std::array<double, 4> corners{a * box.left() + b * box.top(), a * box.right() + b * box.top(),
                                      a * box.left() + b * box.bottom(), a * box.right() + b * box.bottom()};
  const auto [low, high] = std::minmax_element(corners.begin(), corners.end());
  const double step = spacing * std::hypot(a, b);
  QVector<QLineF> all;
  // Counted from the origin, so that neighbouring boxes continue one pattern.
  for (double c = std::ceil(*low / step) * step; c < *high; c += step)
    if (QLineF line; cut(box, a, b, c, line)) all.push_back(line);
  painter.drawLines(all);
}

QPainterPath polygon(const QPointF& at, double radius, int corners, double turned) {
  QPolygonF points;
  for (int i = 0; i < corners; ++i) {
    const double angle = (turned + 360.0 * i / corners) * std::numbers::pi / 180;
    points << at + QPointF(std::sin(angle), -std::cos(angle)) * radius;
  }
  QPainterPath path;
  path.addPolygon(points);
  path.closeSubpath();
  return path;
}

QPainterPath star(const QPointF& at, double radius) {
  QPolygonF points;
  for (int i = 0; i < 10; ++i) {
    const double angle = i * std::numbers::pi / 5;
    points << at + QPointF(std::sin(angle), -std::cos(angle)) * (i % 2 == 0 ? radius : radius * 0.5);
  }
  QPainterPath path;
  path.addPolygon(points);
  path.closeSubpath();
  return path;
}

QColor found_at_contrast(const QColor& hue, const QColor& background, double ratio) {
  const double from = luminance(background) + 0.05;
  // Away from the background, to where there is more room.
  const bool up = from < 0.05 + 0.179;
  const double wanted = std::clamp((up ? from * ratio : from / ratio) - 0.05, 0.0, 1.0);
  float low = 0, high = 1;
  for (int i = 0; i < 24; ++i) {
    const float middle = (low + high) / 2;
    const QColor tried = QColor::fromHslF(hue.hslHueF(), hue.hslSaturationF(), middle);
    (luminance(tried) < wanted ? low : high) = middle;
  }
  return QColor::fromHslF(hue.hslHueF(), hue.hslSaturationF(), up ? high : low);
}

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

double contrast(const QColor& a, const QColor& b) {
  const double first = luminance(a) + 0.05, second = luminance(b) + 0.05;
  return std::max(first, second) / std::min(first, second);
}

QColor mix(const QColor& a, const QColor& b, double share) {
  const auto between = [share](float from, float to) {
    return from + (to - from) * static_cast<float>(share);
  };
  return QColor::fromRgbF(between(a.redF(), b.redF()), between(a.greenF(), b.greenF()),
                          between(a.blueF(), b.blueF()));
}

QColor at_contrast(const QColor& hue, const QColor& background, double ratio) {
  // A picture uses the same dozen colours a hundred times, and each takes about seventy powers to compute.
  using Key = std::tuple<QRgb, QRgb, double>;
  static thread_local std::map<Key, QColor> known;
  constexpr std::size_t kMost = 500;  // palettes may keep changing
  if (known.size() > kMost) known.clear();
  const auto [at, is_new] = known.try_emplace({hue.rgb(), background.rgb(), ratio});
  if (is_new) at->second = found_at_contrast(hue, background, ratio);
  return at->second;
}

QColor part(int index, const QPalette& palette) {
  return at_contrast(hue(index), background(palette), index % 2 == 0 ? kFar : kNear);
}

QColor series(int index, const QPalette& palette) {
  // Curves that cross need different hues more than different lightness.
  constexpr std::array<int, 8> kOrder{0, 6, 2, 4, 3, 1, 5, 7};
  const int number = kOrder[static_cast<std::size_t>(index) % kOrder.size()];
  return at_contrast(hue(number), background(palette), index % 2 == 0 ? 5.5 : 3.6);
}

QColor on(const QColor& fill, const QPalette& palette) {
  QColor best = palette.color(QPalette::Text);
  for (const auto role : {QPalette::Base, QPalette::BrightText, QPalette::WindowText})
    if (contrast(palette.color(role), fill) > contrast(best, fill)) best = palette.color(role);
  return contrast(best, fill) >= 4.5 ? best : at_contrast(best, fill, 4.6);
}

QColor draft(const QColor& fill, const QPalette& palette) { return mix(fill, background(palette), 0.5); }

QColor text(const QPalette& palette) { return palette.color(QPalette::Text); }

QColor faint(const QPalette& palette) {
  const QColor mixed = mix(text(palette), background(palette), 0.3);
  return contrast(mixed, background(palette)) >= 4.5 ? mixed : text(palette);
}

QColor grid(const QPalette& palette) { return mix(background(palette), text(palette), 0.14); }

QColor alarm(const QPalette& palette) {
  return at_contrast(QColor::fromHsl(14, 230, 128), background(palette), 5.2);
}

QColor current(const QPalette& palette, bool focused) {
  const QColor color = palette.color(QPalette::Highlight);
  return focused ? color : mix(color, background(palette), 0.45);
}

QPen limit(bool strong, const QPalette& palette) {
  return {strong ? text(palette) : faint(palette), strong ? 1.8 : 1.1, strong ? Qt::SolidLine : Qt::DashLine};
}

Texture texture(int part) {
  // The first part of either lightness is solid; parts of equal lightness have different textures.
  constexpr std::array<Texture, 9> kTextures{Texture::none,    Texture::none,   Texture::rising,
                                             Texture::falling, Texture::level,  Texture::upright,
                                             Texture::falling, Texture::rising, Texture::crossed};
  return kTextures[static_cast<std::size_t>(part) % kTextures.size()];
}

void hatch(QPainter& painter, const QRectF& box, Texture texture, const QColor& color, double spacing) {
  if (texture == Texture::none || box.isEmpty() || spacing <= 0) return;
  painter.save();
  painter.setPen(QPen(color, std::max(0.6, spacing / 7), Qt::SolidLine, Qt::FlatCap));
  if (texture == Texture::rising || texture == Texture::crossed) lines(painter, box, 1, 1, spacing);
  if (texture == Texture::falling || texture == Texture::crossed) lines(painter, box, 1, -1, spacing);
  if (texture == Texture::level) lines(painter, box, 0, 1, spacing);
  if (texture == Texture::upright) lines(painter, box, 1, 0, spacing);
  painter.restore();
}

QVector<qreal> dashes(int index) {
  static const std::array<QVector<qreal>, 6> kPatterns{
      QVector<qreal>{},           QVector<qreal>{6, 3},  QVector<qreal>{1.5, 2},
      QVector<qreal>{8, 3, 2, 3}, QVector<qreal>{12, 4}, QVector<qreal>{6, 2.5, 1.5, 2.5, 1.5, 2.5}};
  return kPatterns[static_cast<std::size_t>(index) % kPatterns.size()];
}

QPainterPath shape(int index, const QPointF& at, double radius) {
  switch (index % kShapes) {
    case 1: return polygon(at, radius * 1.15, 4, 45);
    case 2: return polygon(at, radius * 1.25, 3, 0);
    case 3: return polygon(at, radius * 1.2, 4, 0);
    case 4: return polygon(at, radius * 1.25, 3, 180);
    case 5: return polygon(at, radius * 1.1, 5, 0);
    case 6: return star(at, radius * 1.4);
    case 7: return polygon(at, radius * 1.1, 6, 30);
    default: break;
  }
  QPainterPath circle;
  circle.addEllipse(at, radius, radius);
  return circle;
}

void warn(QPainter& painter, const QRectF& box, const QPalette& palette) {
  painter.save();
  const double width = std::max(1.0, box.height() / 9);
  const QColor color = alarm(palette);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(color, width, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.setBrush(Qt::NoBrush);
  const QRectF in = box.adjusted(width, width, -width, -width);
  painter.drawPolygon(QPolygonF{{in.center().x(), in.top()}, in.bottomRight(), in.bottomLeft()});
  const double x = in.center().x();
  painter.drawLine(QPointF(x, in.top() + in.height() * 0.38), QPointF(x, in.top() + in.height() * 0.62));
  painter.drawPoint(QPointF(x, in.top() + in.height() * 0.82));
  painter.restore();
}

void aim(QPainter& painter, const QRectF& box, const QColor& color) {
  painter.save();
  const double side = std::min(box.width(), box.height()), width = std::max(1.0, side / 12);
  const QPointF middle = box.center();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(color, width, Qt::SolidLine, Qt::FlatCap));
  painter.setBrush(Qt::NoBrush);
  painter.drawEllipse(middle, side * 0.3, side * 0.3);
  for (const QPointF& way : {QPointF(1, 0), QPointF(-1, 0), QPointF(0, 1), QPointF(0, -1)})
    painter.drawLine(middle + way * side * 0.12, middle + way * side * 0.48);
  painter.restore();
}

QIcon icon(SignPainter sign) { return QIcon(new SignEngine(sign)); }

}  // namespace zplan::gui::ink

#pragma once
// Colours, textures and marks of charts. All follow from a palette: hues have their lightness from how far
// they must be from the background to be seen, so that light, dark and unusual palettes are alike in
// contrast. No meaning is carried by hue alone: neighbours differ in lightness, and textures, dashes and
// shapes repeat it.

#include <QBrush>
#include <QColor>
#include <QPainter>
#include <QPainterPath>
#include <QPalette>
#include <QVector>

namespace zplan::gui::ink {

/// Between 1 and 21. Source: WCAG 2.2, contrast ratio.
[[nodiscard]] double contrast(const QColor& a, const QColor& b);
/// From `a` (0) to `b` (1).
[[nodiscard]] QColor mix(const QColor& a, const QColor& b, double share);
/// The hue as far from `background` as `ratio` says, or as far as it goes.
[[nodiscard]] QColor at_contrast(const QColor& hue, const QColor& background, double ratio);

/// Fill of the part `index` of a stack: hues after Okabe and Ito, every other one near to the background.
[[nodiscard]] QColor part(int index, const QPalette& palette);
/// Of the curve or group of points `index`.
[[nodiscard]] QColor series(int index, const QPalette& palette);
/// Text on a fill: the palette's text or its background, whichever is read better.
[[nodiscard]] QColor on(const QColor& fill, const QPalette& palette);
/// Of a first estimate: paler.
[[nodiscard]] QColor draft(const QColor& fill, const QPalette& palette);
[[nodiscard]] QColor text(const QPalette& palette);
/// Text of less weight: axes.
[[nodiscard]] QColor faint(const QPalette& palette);
[[nodiscard]] QColor grid(const QPalette& palette);
/// What does not fit.
[[nodiscard]] QColor alarm(const QPalette& palette);

enum class Texture { none, rising, falling, level, upright, crossed };
[[nodiscard]] Texture texture(int part);
/// Fills a box with lines of a texture, drawn one by one: also where a picture is not made of pixels.
void hatch(QPainter& painter, const QRectF& box, Texture texture, const QColor& color, double spacing);

/// Of the curve `index`, in widths of its pen; empty: a whole line.
[[nodiscard]] QVector<qreal> dashes(int index);
/// A closed shape around a point that stands for group `index`.
[[nodiscard]] QPainterPath shape(int index, const QPointF& at, double radius);
inline constexpr int kShapes = 8;

/// A triangle with an exclamation mark.
void warn(QPainter& painter, const QRectF& box, const QPalette& palette);
/// A circle with cross hairs: what differences are from. Few fonts have such a sign, so none is asked for it.
void aim(QPainter& painter, const QRectF& box, const QColor& color);

}  // namespace zplan::gui::ink

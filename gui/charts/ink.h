#pragma once
// Colours, textures and marks of charts, derived from a palette. The lightness of a hue follows from the
// contrast it needs, so light, dark and unusual palettes have equal contrast. Hue alone carries no meaning:
// neighbours differ in lightness, and textures, dashes and shapes repeat it.

#include <QBrush>
#include <QColor>
#include <QIcon>
#include <QPainter>
#include <QPainterPath>
#include <QPalette>
#include <QVector>

namespace zplan::gui::ink {

/// Returns the contrast ratio, 1 to 21. Source: WCAG 2.2.
[[nodiscard]] double contrast(const QColor& a, const QColor& b);
/// Returns `a` for a share of 0, `b` for 1, and mixtures between.
[[nodiscard]] QColor mix(const QColor& a, const QColor& b, double share);
/// Returns the hue with the lightness at which its contrast with `background` is `ratio`, or as close as
/// possible.
[[nodiscard]] QColor at_contrast(const QColor& hue, const QColor& background, double ratio);

/// Returns the fill of part `index` of a stack: hues of Okabe and Ito, with alternating lightness.
[[nodiscard]] QColor part(int index, const QPalette& palette);
/// Returns the colour of the curve or group of points `index`.
[[nodiscard]] QColor series(int index, const QPalette& palette);
/// Returns the colour of text on a fill: the palette's text or background, whichever has more contrast.
[[nodiscard]] QColor on(const QColor& fill, const QPalette& palette);
/// Returns a paler fill, for first estimates.
[[nodiscard]] QColor draft(const QColor& fill, const QPalette& palette);
[[nodiscard]] QColor text(const QPalette& palette);
/// Returns the colour of secondary text, such as that of axes.
[[nodiscard]] QColor faint(const QPalette& palette);
[[nodiscard]] QColor grid(const QPalette& palette);
/// Returns the colour of what does not fit.
[[nodiscard]] QColor alarm(const QPalette& palette);

/// Returns the colour of the current row: the highlight, paler without the keyboard focus.
[[nodiscard]] QColor current(const QPalette& palette, bool focused);
/// Returns the pen of a limit: solid for the one that decides, else dashed.
[[nodiscard]] QPen limit(bool strong, const QPalette& palette);

enum class Texture { none, rising, falling, level, upright, crossed };
[[nodiscard]] Texture texture(int part);
/// Fills a box with the lines of a texture, also in vector pictures.
void hatch(QPainter& painter, const QRectF& box, Texture texture, const QColor& color, double spacing);

/// Returns the dash pattern of curve `index` in widths of its pen; empty: solid.
[[nodiscard]] QVector<qreal> dashes(int index);
/// Returns the closed shape that marks a point of group `index`.
[[nodiscard]] QPainterPath shape(int index, const QPointF& at, double radius);
inline constexpr int kShapes = 8;

/// Draws a triangle with an exclamation mark.
void warn(QPainter& painter, const QRectF& box, const QPalette& palette);
/// Draws a circle with cross hairs, the sign of the baseline, which few fonts have.
void aim(QPainter& painter, const QRectF& box, const QColor& color);
/// Draws a sign into a box in one colour.
using SignPainter = void (*)(QPainter& painter, const QRectF& box, const QColor& color);
/// Returns the sign as an icon. It is drawn when it is needed, in the colour that text on a button then has,
/// at the resolution of the screen.
[[nodiscard]] QIcon icon(SignPainter sign);

}  // namespace zplan::gui::ink

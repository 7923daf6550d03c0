#pragma once
// Shared by the window's tests: an application on the offscreen platform with the window's own fonts. A test fails if
// Qt logs an unexpected message.

#include <QApplication>
#include <QDir>
#include <QPalette>
#include <QString>
#include <QTemporaryDir>
#include <functional>

namespace zplan::gui::test {

/// Delivers events until `holds` is true; returns false after ten seconds.
[[nodiscard]] bool wait_until(const std::function<bool()>& holds);

/// Palettes of a typical desktop, so that pictures do not depend on the machine.
[[nodiscard]] QPalette light_palette();
[[nodiscard]] QPalette dark_palette();
/// Sets the application's palette during its lifetime.
class WithPalette {
 public:
  explicit WithPalette(const QPalette& palette);
  ~WithPalette();
  WithPalette(const WithPalette&) = delete;
  WithPalette& operator=(const WithPalette&) = delete;

 private:
  QPalette before_;
};

/// Allows messages of Qt that contain `part` in this test.
void expect_message(const QString& part);

/// Writes a file; returns its path.
QString write(const QString& path, const QByteArray& content);

}  // namespace zplan::gui::test

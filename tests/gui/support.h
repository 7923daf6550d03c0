#pragma once
// What tests of the window share: an application on the offscreen platform with the fonts that the window
// carries, and a log that fails a test in which Qt had something to say.

#include <QApplication>
#include <QDir>
#include <QPalette>
#include <QString>
#include <QTemporaryDir>
#include <functional>

namespace zplan::gui::test {

/// Waits until `holds`, with events delivered; false after ten seconds.
[[nodiscard]] bool wait_until(const std::function<bool()>& holds);

/// Palettes as desktops have them, so that pictures do not depend on the machine's.
[[nodiscard]] QPalette light_palette();
[[nodiscard]] QPalette dark_palette();
/// The application's palette for as long as it lives.
class WithPalette {
 public:
  explicit WithPalette(const QPalette& palette);
  ~WithPalette();
  WithPalette(const WithPalette&) = delete;
  WithPalette& operator=(const WithPalette&) = delete;

 private:
  QPalette before_;
};

/// Messages that Qt is expected to write in this test, if any: they do not fail it.
void expect_message(const QString& part);

/// Writes a file; returns its path.
QString write(const QString& path, const QByteArray& content);

}  // namespace zplan::gui::test

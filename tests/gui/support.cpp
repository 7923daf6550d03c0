#include "support.h"

#include <gtest/gtest.h>

#include <QDeadlineTimer>
#include <QFile>
#include <QFontDatabase>
#include <QStandardPaths>
#include <QStringList>
#include <QStyleFactory>
#include <QTest>
#include <QTextStream>
#include <QThread>
#include <mutex>

#include "tests/cases_of_file.h"

namespace zplan::gui::test {

namespace {

/// Messages that Qt logged since the test began; planning threads may log, too.
std::mutex mutex;
QStringList logged, expected;

void log(QtMsgType type, const QMessageLogContext&, const QString& text) {
  if (type == QtDebugMsg || type == QtInfoMsg) return;
  // The offscreen platform has no window manager: nothing to raise, no keyboard to grab.
  if (text.startsWith(QLatin1String("This plugin does not support"))) return;
  const std::lock_guard lock(mutex);
  logged << text;
  if (type == QtFatalMsg) {
    QTextStream(stderr) << text << '\n';
    std::abort();
  }
}

class FailsOnMessages : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override {
    const std::lock_guard lock(mutex);
    logged.clear();
    expected.clear();
  }
  void OnTestEnd(const ::testing::TestInfo&) override {
    const std::lock_guard lock(mutex);
    for (const QString& text : logged) {
      bool is_expected = false;
      for (const QString& part : expected) is_expected = is_expected || text.contains(part);
      if (!is_expected) ADD_FAILURE() << "Qt logged: " << text.toStdString();
    }
  }
};

QPalette palette_of(const QColor& window, const QColor& base, const QColor& text, const QColor& highlight) {
  const auto between = [](const QColor& a, const QColor& b, qreal share) {
    return QColor::fromRgbF(static_cast<float>(a.redF() + (b.redF() - a.redF()) * share),
                            static_cast<float>(a.greenF() + (b.greenF() - a.greenF()) * share),
                            static_cast<float>(a.blueF() + (b.blueF() - a.blueF()) * share));
  };
  QPalette palette(text, window, window.lighter(120), window.darker(150), window.darker(120), text,
                   QColor(Qt::white), base, window);
  palette.setColor(QPalette::Button, between(window, base, 0.3));
  palette.setColor(QPalette::AlternateBase, between(base, text, 0.04));
  palette.setColor(QPalette::Highlight, highlight);
  palette.setColor(QPalette::HighlightedText, Qt::white);
  palette.setColor(QPalette::ToolTipBase, base);
  palette.setColor(QPalette::ToolTipText, text);
  palette.setColor(QPalette::PlaceholderText, between(text, base, 0.4));
  palette.setColor(QPalette::Link, highlight);
  palette.setColor(QPalette::Mid, between(window, text, 0.25));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    palette.setColor(QPalette::Disabled, role, between(text, window, 0.5));
  return palette;
}

}  // namespace

bool wait_until(const std::function<bool()>& holds) { return QTest::qWaitFor(holds, 10'000); }

QPalette light_palette() {
  return palette_of(QColor(0xf0, 0xf0, 0xf0), Qt::white, QColor(0x1e, 0x1e, 0x1e), QColor(0x1f, 0x6f, 0xc0));
}
QPalette dark_palette() {
  return palette_of(QColor(0x2b, 0x2b, 0x2d), QColor(0x1e, 0x1e, 0x20), QColor(0xe6, 0xe6, 0xe6),
                    QColor(0x2f, 0x7f, 0xd0));
}

WithPalette::WithPalette(const QPalette& palette) : before_(QApplication::palette()) {
  QApplication::setPalette(palette);
}
WithPalette::~WithPalette() { QApplication::setPalette(before_); }

void expect_message(const QString& part) {
  const std::lock_guard lock(mutex);
  expected << part;
}

QString write(const QString& path, const QByteArray& content) {
  QFile file(path);
  EXPECT_TRUE(file.open(QIODevice::WriteOnly)) << path.toStdString();
  EXPECT_EQ(file.write(content), content.size());
  return path;
}

}  // namespace zplan::gui::test

int main(int argc, char** argv) {
  using namespace zplan::gui::test;
  qputenv("QT_QPA_PLATFORM", "offscreen");
  qputenv("QT_LOGGING_RULES", "");
  // Nothing of the user's is read or changed.
  const QTemporaryDir home;  // made with the rights that Qt wants of a runtime folder
  for (const char* name :
       {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"})
    qputenv(name, home.path().toUtf8());
  for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LANGUAGE", "LC_MESSAGES"})
    qunsetenv(name);
  qputenv("LC_ALL", "C.UTF-8");
  ::testing::InitGoogleTest(&argc, argv);
  zplan::test::select_cases_of_file(argc, argv);
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  const QApplication application(argc, argv);
  const QDir fonts(QStringLiteral(":/fonts"));
  for (const QString& name : fonts.entryList({"*.ttf", "*.otf"}))
    if (QFontDatabase::addApplicationFont(fonts.filePath(name)) < 0) return 2;
  QFont font(QStringLiteral("zplan Sans"));
  font.setPixelSize(13);
  font.setFamilies({"zplan Sans", "zplan Sans SC"});
  QApplication::setFont(font);
  QApplication::setPalette(light_palette());
  qInstallMessageHandler(log);
  ::testing::UnitTest::GetInstance()->listeners().Append(new FailsOnMessages);
  return RUN_ALL_TESTS();
}

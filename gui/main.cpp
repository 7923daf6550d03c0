// The desktop comparison tool: an application, its language, its window.

#include <QApplication>
#include <QDir>
#include <QIcon>
#include <QLibraryInfo>
#include <QLocale>
#include <QSettings>
#include <QStandardPaths>
#include <QTranslator>
#include <iostream>

#include "cli/base/environment.h"
#include "cli/options/help.h"
#include "gui/window/fonts.h"
#include "gui/window/main_window.h"

namespace {

constexpr const char* kUsage =
    "usage: zplan-gui [FILE ... | OPTION ...]\n"
    "\n"
    "Compares plans of training. FILE: scenarios (.zplan), a report saved with --json, a model's "
    "config.json, a\n"
    "ds_config, measurements. OPTION: those of zplan, as in zplan-gui --model 8B --gpus 5 --mem 44. Without "
    "either the\n"
    "session of last time comes back; the first time, three questions begin one.\n";

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help" || word == "-h") return std::cout << kUsage, 0;
    if (word == "--version") return std::cout << zplan::version_text(), 0;
  }
  QCoreApplication::setOrganizationName(QStringLiteral("zplan"));
  QCoreApplication::setApplicationName(QStringLiteral("zplan"));
  QGuiApplication::setDesktopFileName(QStringLiteral("org.zplan.zplan"));
  const QApplication application(argc, argv);
  QApplication::setWindowIcon(QIcon(QStringLiteral(":/icons/org.zplan.zplan.svg")));
  zplan::gui::provide_fonts();

  const QString chosen = QSettings().value(QStringLiteral("language")).toString();
  const QLocale locale = chosen.isEmpty() ? QLocale::system() : QLocale(chosen);
  QTranslator of_qt, of_zplan;
  if (of_qt.load(locale, QStringLiteral("qtbase"), QStringLiteral("_"),
                 QLibraryInfo::path(QLibraryInfo::TranslationsPath)))
    QCoreApplication::installTranslator(&of_qt);
  if (of_zplan.load(locale, QStringLiteral("zplan"), QStringLiteral("_"), QStringLiteral(":/i18n")))
    QCoreApplication::installTranslator(&of_zplan);

  zplan::Environment environment = zplan::read_environment();
  environment.network = false;  // names are looked up while they are typed
  zplan::gui::MainWindow window(environment,
                                QDir(QStandardPaths::writableLocation(QStandardPaths::AppLocalDataLocation))
                                    .filePath(QStringLiteral("sessions")));
  window.start(QCoreApplication::arguments().mid(1), true);
  window.show();
  return QApplication::exec();
}

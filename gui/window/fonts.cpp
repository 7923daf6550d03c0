#include "gui/window/fonts.h"

#include <QApplication>
#include <QFont>
#include <QFontDatabase>
#include <QFontInfo>
#include <map>

namespace zplan::gui {

namespace {

/// Loads one of the program's fonts; returns its family.
QString added(const char* file) {
  const int id = QFontDatabase::addApplicationFont(QStringLiteral(":/fonts/%1").arg(QLatin1String(file)));
  return QFontDatabase::applicationFontFamilies(id).value(0);
}

}  // namespace

void provide_fonts() {
  // Before the program's own fonts are loaded, which would count.
  const bool writes_chinese = !QFontDatabase::families(QFontDatabase::SimplifiedChinese).isEmpty();
  QList<QFont> used{QApplication::font()};
  for (const auto kind : {QFontDatabase::GeneralFont, QFontDatabase::FixedFont, QFontDatabase::TitleFont,
                          QFontDatabase::SmallestReadableFont})
    used << QFontDatabase::systemFont(kind);
  std::map<QString, QString> found;  // "Sans Serif" is an alias of a family
  for (const QFont& each : used) found.emplace(each.family(), QFontInfo(each).family());

  added("zplan-sans-bold.ttf");
  QStringList carried{added("zplan-sans-regular.ttf")};
  if (!writes_chinese) carried << added("zplan-sans-sc.otf");
  for (const auto& [family, of_system] : found)
    QFont::insertSubstitutions(family, QStringList{of_system} + carried);
}

}  // namespace zplan::gui

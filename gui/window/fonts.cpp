#include "gui/window/fonts.h"

#include <QApplication>
#include <QFont>
#include <QFontDatabase>

namespace zplan::gui {

namespace {

/// The family of a font that the program carries.
QString added(const char* file) {
  const int id = QFontDatabase::addApplicationFont(QStringLiteral(":/fonts/%1").arg(QLatin1String(file)));
  return QFontDatabase::applicationFontFamilies(id).value(0);
}

}  // namespace

void provide_fonts() {
  // Asked first: what is added here would count. Of a system that writes Chinese no sign comes from
  // elsewhere.
  const bool writes_chinese = !QFontDatabase::families(QFontDatabase::SimplifiedChinese).isEmpty();
  added("zplan-sans-bold.ttf");
  QStringList carried{added("zplan-sans-regular.ttf")};
  if (!writes_chinese) carried << added("zplan-sans-sc.otf");
  QStringList used{QApplication::font().family()};
  for (const auto kind : {QFontDatabase::GeneralFont, QFontDatabase::FixedFont, QFontDatabase::TitleFont,
                          QFontDatabase::SmallestReadableFont})
    used << QFontDatabase::systemFont(kind).family();
  used.removeDuplicates();
  for (const QString& family : used) QFont::insertSubstitutions(family, carried);
}

}  // namespace zplan::gui

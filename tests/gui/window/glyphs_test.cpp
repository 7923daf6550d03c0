// Every text of the window can be written with the fonts that it carries, in both languages: what they lack
// would be an empty box to some, and to others a sign of another font, with lines of another height. What is
// no letter is drawn.

#include <QAbstractItemView>
#include <QComboBox>
#include <QDirIterator>
#include <QPaintEngine>
#include <QRawFont>
#include <QRegularExpression>
#include <QTabBar>
#include <QTranslator>
#include <QXmlStreamReader>
#include <map>
#include <set>

#include "gui/window/fonts.h"
#include "gui/window/help_window.h"
#include "window_support.h"

namespace zplan::gui {
namespace {

/// Takes texts; fails for those with signs that no font has, each sign once.
class Writer {
 public:
  void take(const QString& text, const QString& where) {
    ++texts_;
    for (const uint each : text.toUcs4())
      if (!has(each) && missing_.insert(each).second)
        ADD_FAILURE() << "no font has U+" << QString::number(each, 16).toStdString() << " "
                      << QString::fromUcs4(reinterpret_cast<const char32_t*>(&each), 1).toStdString()
                      << " of " << where.toStdString() << ": " << text.left(200).toStdString();
  }
  [[nodiscard]] int texts() const { return texts_; }

 private:
  /// In plain text and in bold.
  [[nodiscard]] bool has(uint sign) const {
    if (!QChar::isPrint(sign) || sign == QChar::ObjectReplacementCharacter) return true;
    const bool in_chinese = chinese_.supportsCharacter(sign);
    return in_chinese || (regular_.supportsCharacter(sign) && bold_.supportsCharacter(sign));
  }

  QRawFont regular_{QStringLiteral(":/fonts/zplan-sans-regular.ttf"), 13},
      bold_{QStringLiteral(":/fonts/zplan-sans-bold.ttf"), 13},
      chinese_{QStringLiteral(":/fonts/zplan-sans-sc.otf"), 13};
  std::set<uint> missing_;
  int texts_{};
};

/// Draws nothing, and keeps the texts that are drawn.
class TextEngine : public QPaintEngine {
 public:
  explicit TextEngine(Writer& writer) : QPaintEngine(AllFeatures), writer_(writer) {}
  bool begin(QPaintDevice*) override { return true; }
  bool end() override { return true; }
  void updateState(const QPaintEngineState&) override {}
  void drawPixmap(const QRectF&, const QPixmap&, const QRectF&) override {}
  void drawPath(const QPainterPath&) override {}
  void drawImage(const QRectF&, const QImage&, const QRectF&, Qt::ImageConversionFlags) override {}
  void drawPolygon(const QPointF*, int, PolygonDrawMode) override {}
  void drawTextItem(const QPointF&, const QTextItem& item) override {
    writer_.take(item.text(), QStringLiteral("what is drawn"));
  }
  [[nodiscard]] Type type() const override { return User; }

 private:
  Writer& writer_;
};

class TextDevice : public QPaintDevice {
 public:
  TextDevice(Writer& writer, const QSize& size) : engine_(writer), size_(size) {}
  [[nodiscard]] QPaintEngine* paintEngine() const override { return &engine_; }

 protected:
  [[nodiscard]] int metric(PaintDeviceMetric which) const override {
    switch (which) {
      case PdmWidth: return size_.width();
      case PdmHeight: return size_.height();
      case PdmDpiX:
      case PdmDpiY:
      case PdmPhysicalDpiX:
      case PdmPhysicalDpiY: return 96;
      case PdmDepth: return 32;
      case PdmDevicePixelRatio: return 1;
      case PdmDevicePixelRatioScaled: return static_cast<int>(devicePixelRatioFScale());
      default: return QPaintDevice::metric(which);
    }
  }

 private:
  mutable TextEngine engine_;
  QSize size_;
};

void take_model(Writer& writer, const QAbstractItemModel& model, const QModelIndex& parent,
                const QString& where) {
  static constexpr std::array kRoles{Qt::DisplayRole, Qt::ToolTipRole, Qt::WhatsThisRole,
                                     Qt::AccessibleTextRole};
  const int rows = model.rowCount(parent), columns = model.columnCount(parent);
  for (const auto role : kRoles) {
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column)
        writer.take(model.index(row, column, parent).data(role).toString(), where);
    for (int column = 0; column < columns; ++column)
      writer.take(model.headerData(column, Qt::Horizontal, role).toString(), where);
    for (int row = 0; row < rows; ++row)
      writer.take(model.headerData(row, Qt::Vertical, role).toString(), where);
  }
  for (int row = 0; row < rows; ++row)
    if (const QModelIndex index = model.index(row, 0, parent); model.hasChildren(index))
      take_model(writer, model, index, where);
}

/// All texts that an object has by itself: what it says, hints, names for screen readers.
void take_object(Writer& writer, const QObject& object) {
  const QMetaObject& kind = *object.metaObject();
  for (int i = 0; i < kind.propertyCount(); ++i)
    if (const QMetaProperty property = kind.property(i);
        property.metaType() == QMetaType::fromType<QString>())
      writer.take(property.read(&object).toString(), QLatin1String(property.name()));
  if (const auto* bar = qobject_cast<const QTabBar*>(&object))
    for (int tab = 0; tab < bar->count(); ++tab) {
      writer.take(bar->tabText(tab), QStringLiteral("a tab"));
      writer.take(bar->tabToolTip(tab), QStringLiteral("a tab's hint"));
    }
  const QAbstractItemModel* model = nullptr;
  if (const auto* view = qobject_cast<const QAbstractItemView*>(&object)) model = view->model();
  if (const auto* box = qobject_cast<const QComboBox*>(&object)) model = box->model();
  if (model != nullptr) take_model(writer, *model, {}, QLatin1String(kind.className()));
}

void take_widget(Writer& writer, QWidget& widget) {
  take_object(writer, widget);
  for (const QObject* each : widget.findChildren<QObject*>()) take_object(writer, *each);
  TextDevice device(writer, widget.size());
  widget.render(&device);
}

/// The first scenario, and others with more to say.
ScenarioFile scenarios() {
  ScenarioFile file{.scenarios = {first_scenario()}};
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--model", "8B", "--gpu", "rtx-4090", "--method", "qlora"},
           {"--model", "0.5B", "--gpus", "2", "--mem", "24", "--framework", "fsdp", "--method", "lora"},
           {"--model", "70B", "--gpus", "16", "--nodes", "2", "--gpu", "H100-SXM-80GB", "--offload", "all"},
           {"--model", "Mixtral-8x7B", "--gpus", "4", "--mem", "24", "--units", "GB"},
           {"--model", "8B", "--gpus", "five"}})
    file.scenarios.push_back({.name = name_of_question(arguments), .arguments = arguments});
  return file;
}

class Glyphs : public ::testing::TestWithParam<const char*> {
 protected:
  Glyphs() {
    if (*GetParam() == '\0') return;
    EXPECT_TRUE(translator_.load(QStringLiteral(":/i18n/zplan_%1.qm").arg(QLatin1String(GetParam()))));
    QCoreApplication::installTranslator(&translator_);
  }
  ~Glyphs() override { QCoreApplication::removeTranslator(&translator_); }

  QTranslator translator_;
  Writer writer_;
};

TEST_P(Glyphs, OfTheWindowAreInItsFonts) {
  MainWindow window{Environment{}};
  window.session().load(scenarios());
  window.resize(1280, 800);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  ASSERT_TRUE(test::wait_until([&] { return window.session().planning().is_idle(); }));
  for (int row = 0; row < window.session().size(); ++row) {
    window.session().set_current(row);
    window.view().set_mode(row == 0 ? ComparisonView::Mode::scenarios : ComparisonView::Mode::strategies);
    for (int tab = 0; tab < 5; ++tab) {
      window.view().charts().setCurrentIndex(tab);
      window.view().tables().setCurrentIndex(tab);
      window.view().refresh();
      QCoreApplication::processEvents();
      TextDevice device(writer_, window.size());
      window.render(&device);
      take_widget(writer_, *window.view().charts().currentWidget());
      take_widget(writer_, *window.view().tables().currentWidget());
    }
  }
  take_widget(writer_, window);
  EXPECT_GT(writer_.texts(), 5000);
}

TEST_P(Glyphs, OfThePageOfHelpAreInItsFonts) {
  HelpWindow help;
  take_widget(writer_, help);
  EXPECT_GT(writer_.texts(), 10);
}

INSTANTIATE_TEST_SUITE_P(Languages, Glyphs, testing::Values("", "zh_CN"), [](const auto& language) {
  return std::string(*language.param == '\0' ? "en" : language.param);
});

/// Texts that the window shows only in other cases than those above.
TEST(GlyphsOfTexts, ThatAreTranslatedAreInItsFonts) {
  Writer writer;
  QDirIterator files(QStringLiteral(ZPLAN_SOURCE "/gui/translations"), {"*.ts"});
  while (files.hasNext()) {
    QFile file(files.next());
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    QXmlStreamReader xml(&file);
    while (!xml.atEnd())
      if (xml.readNext() == QXmlStreamReader::Characters) writer.take(xml.text().toString(), file.fileName());
    EXPECT_FALSE(xml.hasError()) << file.fileName().toStdString();
  }
  EXPECT_GT(writer.texts(), 1000);
}

/// Reports, explanations, notes of models and GPUs: what planner and command line may say in any case.
TEST(GlyphsOfTexts, ThatAreWrittenInTheSourcesAreInItsFonts) {
  Writer writer;
  static const QRegularExpression kComment(QStringLiteral("(^|\\s)//.*$"));
  for (const char* folder : {"cli", "gui", "planner", "models", "hardware_profiles"}) {
    QDirIterator files(QStringLiteral(ZPLAN_SOURCE "/") + QLatin1String(folder), {"*.cpp", "*.h", "*.json"},
                       QDir::Files, QDirIterator::Subdirectories);
    while (files.hasNext()) {
      QFile file(files.next());
      ASSERT_TRUE(file.open(QIODevice::ReadOnly));
      int number = 0;
      for (const QString& line : QString::fromUtf8(file.readAll()).split(QLatin1Char('\n')))
        writer.take(QString(line).remove(kComment),
                    QStringLiteral("%1:%2").arg(file.fileName()).arg(++number));
    }
  }
  EXPECT_GT(writer.texts(), 20'000);
}

/// A picture in one colour on nothing: how much of it is covered.
double ink_of(const QPixmap& picture) {
  const QImage image = picture.toImage().convertToFormat(QImage::Format_ARGB32);
  double sum = 0;
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x) sum += qAlpha(image.pixel(x, y)) / 255.0;
  return sum / image.width() / image.height();
}

TEST_F(WindowTest, TheBaselineIsMarkedByASignThatIsDrawn) {
  const auto sign = [this](int column) {
    return comparison().headerData(column, Qt::Horizontal, Qt::DecorationRole).value<QIcon>();
  };
  show_table(0);
  EXPECT_EQ(comparison().headerData(0, Qt::Horizontal).toString(), "zero3");
  EXPECT_TRUE(
      comparison().headerData(0, Qt::Horizontal, Qt::AccessibleTextRole).toString().contains("baseline"));
  EXPECT_TRUE(sign(1).isNull());
  ASSERT_FALSE(sign(0).isNull());
  for (const QPalette& palette : {test::light_palette(), test::dark_palette()}) {
    const test::WithPalette with(palette);
    for (const double scale : {1.0, 2.0}) {
      const QPixmap drawn = sign(0).pixmap(QSize(16, 16), scale);
      EXPECT_EQ(drawn.size(), QSize(16, 16) * scale) << "not drawn for this screen";
      EXPECT_GT(ink_of(drawn), 0.1);
      EXPECT_LT(ink_of(drawn), 0.5);
      const QColor color = drawn.toImage().pixelColor(drawn.width() / 2, drawn.height() / 8);
      EXPECT_EQ(color.rgb(), palette.color(QPalette::ButtonText).rgb());
    }
  }
}

TEST(Fonts, ThatAreCarriedFollowTheDesktops) {
  provide_fonts();
  const QStringList behind = QFont::substitutes(QApplication::font().family());
  EXPECT_TRUE(behind.contains("zplan Sans", Qt::CaseInsensitive));  // Qt keeps them in lower case
  const QStringList chinese = QFontDatabase::families(QFontDatabase::SimplifiedChinese);
  EXPECT_EQ(behind.contains("zplan Sans SC", Qt::CaseInsensitive),
            chinese.isEmpty() || chinese == QStringList("zplan Sans SC"));
  EXPECT_TRUE(QFontDatabase::families().contains("zplan Sans"));
}

}  // namespace
}  // namespace zplan::gui

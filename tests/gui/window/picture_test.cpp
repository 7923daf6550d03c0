// The pictures of docs/images, and that they can be read.

#include <QComboBox>
#include <QDir>
#include <QImage>
#include <QLabel>
#include <QScrollBar>
#include <QToolButton>
#include <QTranslator>

#include "gui/charts/bar_chart.h"
#include "gui/charts/ink.h"
#include "window_support.h"

namespace zplan::gui {
namespace {

const QDir kImages(QStringLiteral(ZPLAN_SOURCE "/docs/images"));

/// Mean difference of two pictures' channels, of 255.
double difference(const QImage& a, const QImage& b) {
  double sum = 0;
  for (int y = 0; y < a.height(); ++y)
    for (int x = 0; x < a.width(); ++x) {
      const QRgb one = a.pixel(x, y), other = b.pixel(x, y);
      sum += std::abs(qRed(one) - qRed(other)) + std::abs(qGreen(one) - qGreen(other)) +
             std::abs(qBlue(one) - qBlue(other));
    }
  return sum / 3 / a.width() / a.height();
}

class PictureTest : public ::testing::Test {
 protected:
  /// A window of 1280 × 800 as the pictures show it.
  void open(const QPalette& palette, const ScenarioFile& file) {
    open(palette, [&file](MainWindow& window) { window.session().load(file); });
  }
  void open(const QPalette& palette, const std::function<void(MainWindow&)>& begin) {
    palette_.emplace(palette);
    window_ = std::make_unique<MainWindow>(Environment{});
    begin(*window_);
    window_->resize(1280, 800);
    window_->show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(window_.get()));
    ASSERT_TRUE(test::wait_until([this] { return window_->session().planning().is_idle(); }));
    window_->view().refresh();
    // A new height of a text passes through the layouts around it, one after the other.
    for (int round = 0; round < 8; ++round) QCoreApplication::processEvents();
  }
  QImage picture() { return window_->grab().toImage().convertToFormat(QImage::Format_RGB32); }

  /// The picture is the one in docs/images; ZPLAN_UPDATE_IMAGES=1 writes that.
  void check(const QString& name) {
    const QImage now = picture();
    ASSERT_EQ(now.size(), QSize(1280, 800));
    now.save(QStringLiteral(ZPLAN_PICTURES "/") + name);
    if (qEnvironmentVariableIsSet("ZPLAN_UPDATE_IMAGES")) {
      QDir().mkpath(kImages.path());
      ASSERT_TRUE(now.save(kImages.filePath(name)));
    }
    const QImage then = QImage(kImages.filePath(name)).convertToFormat(QImage::Format_RGB32);
    ASSERT_EQ(then.size(), now.size()) << name.toStdString();
    // Renderings of one text differ a little between releases of Qt and FreeType; another figure or a moved
    // bar differs by more.
    EXPECT_LT(difference(now, then), 1.5) << name.toStdString();
  }

  /// No label or button says more than it has room for.
  void expect_nothing_clipped() {
    for (const QLabel* label : window_->findChildren<QLabel*>()) {
      if (!label->isVisible() || label->text().isEmpty() || label->textFormat() == Qt::RichText) continue;
      if (label->wordWrap() && label->heightForWidth(label->width()) > 0) {
        EXPECT_GE(label->height() + 1, label->heightForWidth(label->width())) << label->text().toStdString();
      } else if (!label->wordWrap()) {
        EXPECT_GE(label->width() + 1, label->sizeHint().width()) << label->text().toStdString();
      }
    }
    for (const char* name : {"banner", "about"}) {
      const auto* label = window_->findChild<QLabel*>(name);
      EXPECT_TRUE(!label->isVisible() || label->visibleRegion().boundingRect() == label->rect())
          << label->text().toStdString();
    }
    for (const QToolButton* button : window_->findChildren<QToolButton*>()) {
      if (!button->isVisible() || button->text().isEmpty() || !button->icon().isNull()) continue;
      EXPECT_GE(button->width() + 1, button->sizeHint().width()) << button->text().toStdString();
    }
  }

  std::optional<test::WithPalette> palette_;
  std::unique_ptr<MainWindow> window_;
};

ScenarioFile readme() { return {.scenarios = {first_scenario()}}; }

ScenarioFile clusters() {
  const auto one = [](const char* name, std::vector<std::string> arguments) {
    return Scenario{.name = name, .arguments = std::move(arguments)};
  };
  return {
      .scenarios = {
          one("5 × 44 GiB", {"--model", "8B", "--gpus", "5", "--mem", "44"}),
          one("8 × A100 80 GB", {"--model", "8B", "--gpus", "8", "--gpu", "a100-sxm-80gb"}),
          one("8 × H100, 8k tokens", {"--model", "8B", "--gpus", "8", "--gpu", "h100-sxm", "--seq", "8192"}),
          one("QLoRA, one RTX 4090", {"--model", "8B", "--gpu", "rtx-4090", "--method", "qlora"})}};
}

TEST_F(PictureTest, LightIsAsInTheDocuments) {
  open(test::light_palette(), readme());
  expect_nothing_clipped();
  check("desktop-light.png");
}

TEST_F(PictureTest, DarkIsAsInTheDocuments) {
  open(test::dark_palette(), readme());
  expect_nothing_clipped();
  check("desktop-dark.png");
}

TEST_F(PictureTest, ScenariosAreAsInTheDocuments) {
  open(test::light_palette(), clusters());
  for (int row = 0; row < window_->session().size(); ++row)
    ASSERT_FALSE(window_->session().at(row).problem)
        << window_->session().at(row).problem->text.toStdString();
  expect_nothing_clipped();
  check("scenarios-light.png");
}

TEST_F(PictureTest, ChineseIsAsInTheDocuments) {
  QTranslator translator;
  ASSERT_TRUE(translator.load(QStringLiteral(":/i18n/zplan_zh_CN.qm")));
  QCoreApplication::installTranslator(&translator);
  open(test::light_palette(), readme());
  expect_nothing_clipped();
  check("desktop-zh.png");
  QCoreApplication::removeTranslator(&translator);
}

TEST_F(PictureTest, TheWholeWindowFollowsThePalette) {
  for (const QPalette& palette : {test::light_palette(), test::dark_palette()}) {
    open(palette, clusters());
    const bool dark = palette.color(QPalette::Window).lightness() < 128;
    for (int tab = 0; tab < 5; ++tab) {
      window_->view().charts().setCurrentIndex(tab);
      window_->view().tables().setCurrentIndex(tab);
      window_->view().refresh();
      QCoreApplication::processEvents();
      const QImage now = picture();
      now.save(QStringLiteral(ZPLAN_PICTURES "/%1-%2.png").arg(dark ? "dark" : "light").arg(tab));
      int dark_pixels = 0, all = 0;
      for (int y = 0; y < now.height(); y += 4)
        for (int x = 0; x < now.width(); x += 4, ++all) dark_pixels += qGray(now.pixel(x, y)) < 100;
      if (dark)
        EXPECT_GT(dark_pixels, all * 0.7) << tab;
      else
        EXPECT_LT(dark_pixels, all * 0.25) << tab;
      expect_nothing_clipped();
    }
  }
}

ScenarioFile too_large() {
  return {.scenarios = {{.name = "70B on two",
                         .arguments = {"--model", "70B", "--gpus", "2", "--gpu", "RTX-3090-24GB", "--method",
                                       "qlora", "--seq", "512"}}}};
}

TEST_F(PictureTest, NothingIsCutOffAtTheFirstStartNorWhereNothingFits) {
  for (const QPalette& palette : {test::light_palette(), test::dark_palette()}) {
    const QString light = palette.color(QPalette::Window).lightness() < 128 ? "dark" : "light";
    const auto keep = [&](const char* name) {
      expect_nothing_clipped();
      picture().save(QStringLiteral(ZPLAN_PICTURES "/%1-%2.png").arg(name, light));
    };
    open(palette, [](MainWindow& window) { window.start({}, true); });
    keep("start");
    open(palette, clusters());
    keep("four");
    open(palette, too_large());
    keep("not-fitting");
  }
}

TEST_F(PictureTest, ANarrowWindowWrapsTheVerdictAndShortensTheLineBelowTheChart) {
  open(test::light_palette(), readme());
  auto* verdict = window_->findChild<QLabel*>("banner");
  window_->resize(window_->minimumSizeHint().width(), 800);
  QCoreApplication::processEvents();
  EXPECT_GE(verdict->height(), verdict->heightForWidth(verdict->width()));
  const auto* line = window_->findChild<QToolButton*>("validated");
  EXPECT_GE(line->width() + 1, line->sizeHint().width());
  EXPECT_TRUE(line->accessibleName().endsWith("%")) << "the whole line";
}

TEST_F(PictureTest, TheVerdictTakesOneLineAndEveryBarIsWhole) {
  ScenarioFile offloading = readme();
  offloading.scenarios[0].strategy = "zero3+offload-optimizer";
  for (const ScenarioFile& file : {offloading, readme()}) {
    open(test::light_palette(), file);
    const auto* each = window_->findChild<QLabel*>("banner");
    EXPECT_LT(each->height(), 2 * each->fontMetrics().height()) << each->text().toStdString();
  }
  const auto* chart = window_->findChild<BarChart*>("memory");
  EXPECT_EQ(chart->verticalScrollBar()->maximum(), 0);
  const BarLayout layout = chart->layout_now();
  EXPECT_LE(layout.rows.back().area.bottom(), layout.plot.bottom() + 0.5);
  EXPECT_FALSE(layout.legend.empty());
}

TEST_F(PictureTest, AChangeOfPaletteIsFollowedAtOnce) {
  open(test::light_palette(), readme());
  const QImage light = picture();
  {
    const test::WithPalette dark(test::dark_palette());
    QCoreApplication::processEvents();
    EXPECT_GT(difference(light, picture()), 60);
  }
  QCoreApplication::processEvents();
  EXPECT_LT(difference(light, picture()), 1);
}

}  // namespace
}  // namespace zplan::gui

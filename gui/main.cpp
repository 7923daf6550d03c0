#include <QApplication>

#include "gui/main_window.h"

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  QApplication::setApplicationName("zplan");
  zplan::gui::MainWindow window;
  window.show();
  return QApplication::exec();
}

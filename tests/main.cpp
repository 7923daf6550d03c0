// The main function of every test that needs no application object.

#include <gtest/gtest.h>

#include "tests/cases_of_file.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  zplan::test::select_cases_of_file(argc, argv);
  return RUN_ALL_TESTS();
}

// The main function of every test that needs no application object.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cases_of_file.h"

int main(int argc, char** argv) {
  // No test leaves this machine, nor does a program that one starts.
  setenv("HF_HUB_OFFLINE", "1", 1);
  testing::InitGoogleTest(&argc, argv);
  zplan::test::select_cases_of_file(argc, argv);
  return RUN_ALL_TESTS();
}

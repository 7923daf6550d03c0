#include "tests/cases_of_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

namespace zplan::test {

namespace {

constexpr std::string_view kOption = "--cases-of=";

/// The names of all cases defined in `file`, as a filter of GoogleTest; empty if there are none.
std::string filter_of(const std::string& file) {
  std::string filter;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& info = *suite.GetTestInfo(j);
      if (std::string_view(info.file()).ends_with("/tests/" + file))
        filter += std::string(filter.empty() ? "" : ":") + info.test_suite_name() + "." + info.name();
    }
  }
  return filter;
}

}  // namespace

void select_cases_of_file(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with(kOption)) continue;
    const std::string file(word.substr(kOption.size()));
    const std::string chosen = filter_of(file);
    if (chosen.empty()) {
      std::cerr << "no case is defined in tests/" << file << '\n';
      std::exit(2);
    }
    const std::string given = GTEST_FLAG_GET(filter);
    GTEST_FLAG_SET(filter, given.starts_with('-') ? chosen + given : chosen);
  }
}

}  // namespace zplan::test

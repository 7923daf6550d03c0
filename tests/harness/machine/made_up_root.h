#pragma once
// A folder that stands for "/": a made-up /proc and /sys.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace zplan::bench {

class Root : public testing::Test {
 protected:
  Root() {
    std::string pattern = std::filesystem::temp_directory_path() / "zplan-root-XXXXXX";
    root = mkdtemp(pattern.data());
  }
  ~Root() override { std::filesystem::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::filesystem::path root;
};

}  // namespace zplan::bench

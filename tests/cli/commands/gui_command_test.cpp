// zplan gui hands over to the program beside it, where there is one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// The program, alone in a folder.
class GuiCommand : public testing::Test {
 protected:
  GuiCommand() { fs::copy_file(ZPLAN_PROGRAM, program_); }
  [[nodiscard]] Result run(const std::vector<std::string>& arguments) const {
    return as_process(arguments, {"PATH=/usr/bin:/bin"}, {}, program_);
  }
  Folder folder_;
  std::string program_{folder_.path("zplan")};
};

TEST_F(GuiCommand, SaysWhatIsNeededWhereThereIsNoWindow) {
  const Result result = run({"gui"});
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("needed: a build with Qt 6 (docs/building.md)"));
  EXPECT_THAT(result.err, HasSubstr("--html FILE"));
  EXPECT_THAT(result.err, HasSubstr(folder_.path("zplan-gui")));
}

TEST_F(GuiCommand, PassesEveryWordOn) {
  const std::string window =
      folder_.write("zplan-gui", "#!/bin/sh\nfor each in \"$@\"; do printf '[%s]' \"$each\"; done\nexit 7\n");
  fs::permissions(window, fs::perms::owner_all);
  const Result result = run({"gui", "two words", "--model", "8B", "--help", "gui", ""});
  EXPECT_EQ(result.out, "[two words][--model][8B][--help][gui][]");
  EXPECT_EQ(result.status, 7);
  EXPECT_EQ(result.err, "");
}

TEST_F(GuiCommand, SaysWhyTheWindowCannotBeStarted) {
  const std::string window = folder_.write("zplan-gui", "no program");
  fs::permissions(window, fs::perms::owner_read);
  const Result result = run({"gui"});
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_THAT(result.err, HasSubstr("ermission denied"));
}

}  // namespace
}  // namespace zplan::test

#include "harness/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;

TEST(Recorder, WritesTheWholeDocumentOnceAndSaysWhyItEndedEarly) {
  const fs::path folder = fs::path(testing::TempDir()) / ("recorder" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string path = folder / "r.json";
  Recorder recorder({{"schema", "zplan.bench/1"}}, path);
  recorder.add("collectives", {{"bytes", 8}});
  recorder.write("interrupted");
  recorder.add("collectives", {{"bytes", 16}});
  recorder.write("");
  const Json read = parse_json(read_file(path), path);
  EXPECT_EQ(read["collectives"].size(), 1U);
  EXPECT_EQ(read["complete"], false);
  EXPECT_EQ(read["stopped"], "interrupted");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  fs::remove_all(folder);
}

TEST(Recorder, NamesTheOptionWhereTheFileCannotBe) {
  EXPECT_THROW(check_writable("/nowhere/at/all/r.json"), InputError);
  EXPECT_THROW(check_writable(testing::TempDir()), InputError);
  EXPECT_NO_THROW(check_writable(testing::TempDir() + "/new.json"));
  EXPECT_FALSE(fs::exists(testing::TempDir() + "/new.json"));
}

}  // namespace
}  // namespace zplan::bench

// Files on the disk that tests run on.

#include "harness/machine/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/control.h"

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;

struct Folder {
  explicit Folder(const fs::path& in) {
    std::string pattern = in / "zplan-storage-test-XXXXXX";
    path = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::string complaint(const std::string& folder, Bytes size = kMiB) {
  try {
    (void)measure_storage(folder, size);
  } catch (const InputError& error) {
    return std::string("InputError: ") + error.what();
  } catch (const BenchError& error) {
    return std::string("BenchError: ") + error.what();
  }
  return "none";
}

void expect_sound(const std::vector<StorageResult>& results, Bytes size) {
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].direction, StorageDirection::write);
  EXPECT_EQ(results[1].direction, StorageDirection::read);
  for (const StorageResult& each : results) {
    EXPECT_EQ(each.bytes, size);
    EXPECT_GT(each.seconds, Seconds(0));
    EXPECT_DOUBLE_EQ(rate(each).value * each.seconds.value, static_cast<double>(each.bytes.value));
    EXPECT_TRUE(each.direct || !each.note.empty()) << "what goes through the cache says so";
  }
}

TEST(Storage, IsMeasuredInWholeBlocksAndLeavesNothing) {
  const Folder folder(fs::current_path());
  expect_sound(measure_storage(folder.path, Bytes(19 * kMiB.value + 1)), 20 * kMiB);
  expect_sound(measure_storage(folder.path, Bytes(1)), kMiB);
  EXPECT_TRUE(fs::is_empty(folder.path));
}

TEST(Storage, InMemorySaysSo) {
  const char* const in_memory = "this folder lies in memory, not on a disk";
  for (const std::int64_t each : std::initializer_list<std::int64_t>{TMPFS_MAGIC, RAMFS_MAGIC})
    for (const bool direct : {false, true}) EXPECT_EQ(storage_note(each, direct), in_memory);
  EXPECT_EQ(storage_note(EXT4_SUPER_MAGIC, true), "");
  EXPECT_EQ(storage_note(0, true), "");
  EXPECT_THAT(storage_note(EXT4_SUPER_MAGIC, false), testing::HasSubstr("no O_DIRECT"));

  // In memory on most hosts; in a bare chroot it is a folder like any other.
  const Folder folder("/dev/shm");
  struct statfs about {};
  ASSERT_EQ(statfs(folder.path.c_str(), &about), 0);
  const auto results = measure_storage(folder.path, kMiB);
  expect_sound(results, kMiB);
  EXPECT_EQ(results[0].note == in_memory, about.f_type == TMPFS_MAGIC) << results[0].note;
}

TEST(Storage, IsWritten) {
  const StorageResult result{.path = "/data",
                             .direction = StorageDirection::read,
                             .direct = true,
                             .bytes = kGiB,
                             .seconds = Seconds(0.5),
                             .note = ""};
  EXPECT_EQ(
      storage_json(result).dump(),
      R"({"path":"/data","direction":"read","direct":true,"block_bytes":1048576,"bytes":1073741824,"threads":8,)"
      R"("seconds":0.5,"bytes_per_second":2147483648.0})");
}

TEST(Storage, FoldersThatWillNotDoAreNamed) {
  const Folder folder(fs::current_path());
  std::ofstream(folder.path / "file") << "x";
  EXPECT_EQ(complaint("/no/such/folder"),
            "InputError: --storage: \"/no/such/folder\": No such file or directory; accepted: a folder that "
            "can be written to");
  EXPECT_THAT(complaint(folder.path / "file"), testing::HasSubstr("not a folder"));
  EXPECT_THAT(complaint("/proc"), testing::StartsWith("InputError: --storage: \"/proc\": "));
}

TEST(Storage, TooLittleRoomIsNamedBeforeAnythingIsWritten) {
  const Folder folder(fs::current_path());
  EXPECT_THAT(complaint(folder.path, Bytes(std::int64_t{1} << 59)),
              testing::MatchesRegex(
                  "InputError: --storage: \".*\": [0-9]+ bytes are free, 576460752303423488 are needed; "
                  "accepted: a folder with that much free space"));
  EXPECT_TRUE(fs::is_empty(folder.path));
}

/// The largest file that this process may write, put back at the end.
class FileLimit {
 public:
  explicit FileLimit(rlim_t most) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit less{.rlim_cur = most, .rlim_max = before_.rlim_max};
    (void)setrlimit(RLIMIT_FSIZE, &less);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() {
    (void)setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int){};
};

TEST(Storage, AWriteThatFailsIsNamedAndLeavesNothing) {
  const Folder folder(fs::current_path());
  std::string said;
  {
    const FileLimit limit(3 << 20);
    said = complaint(folder.path, 8 * kMiB);
  }
  EXPECT_EQ(said, "BenchError: writing to \"" + folder.path.string() + "\" failed: File too large");
  EXPECT_TRUE(fs::is_empty(folder.path));
}

}  // namespace
}  // namespace zplan::bench

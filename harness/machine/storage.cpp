#include "harness/machine/storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/control.h"
#include "models/base/format.h"

namespace zplan::bench {

namespace {

constexpr std::int64_t kAlignment =
    4096;  // what O_DIRECT asks of memory, place and length on every usual disk

struct FreeMemory {
  void operator()(std::byte* data) const { std::free(data); }
};
using Block = std::unique_ptr<std::byte, FreeMemory>;

Block new_block(Bytes size) {
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(size.value)));
  if (data == nullptr) throw OutOfMemory(fmt::format("no memory for a block of {}", format_bytes(size)));
  return Block(data);
}

/// Fills a block with bytes that disks cannot compress, different for each seed.
void fill(std::byte* data, Bytes size, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::int64_t at = 0; at < size.value; at += 8) {
    state ^= state << 13U, state ^= state >> 7U, state ^= state << 17U;
    std::memcpy(data + at, &state, 8);
  }
}

[[noreturn]] void fail_input(const std::string& folder, const std::string& found) {
  throw InputError("--storage", fmt::format("{}: {}", in_quotes(folder, 255), found),
                   "accepted: a folder that can be written to");
}

Bytes free_bytes(const std::string& folder) {
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0) fail_input(folder, std::strerror(errno));
  return Bytes(static_cast<std::int64_t>(space.f_bavail * space.f_frsize));
}

[[noreturn]] void fail_for_room(const std::string& folder, Bytes size) {
  throw InputError("--storage",
                   fmt::format("{}: {} bytes are free, {} are needed", in_quotes(folder, 255),
                               free_bytes(folder).value, size.value),
                   "accepted: a folder with that much free space");
}

void check(const std::string& folder, Bytes size) {
  struct stat about {};
  if (stat(folder.c_str(), &about) != 0) fail_input(folder, std::strerror(errno));
  if (!S_ISDIR(about.st_mode)) fail_input(folder, "not a folder");
  if (free_bytes(folder) < size) fail_for_room(folder, size);
}

/// An open file without a name, which disappears when it is closed.
class File {
 public:
  explicit File(const std::string& folder) {
    std::string path = folder + "/zplan-storage-XXXXXX";
    fd_ = mkostemp(path.data(), O_CLOEXEC);
    if (fd_ < 0) fail_input(folder, std::strerror(errno));
    (void)unlink(path.c_str());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }

  [[nodiscard]] bool set_direct(bool on) const {
    const int flags = fcntl(fd_, F_GETFL);
    return fcntl(fd_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
  }

 private:
  int fd_{-1};
};

/// Returns true if the file takes O_DIRECT. Some file systems accept the flag and then refuse to write.
bool goes_direct(const File& file) {
  if (!file.set_direct(true)) return false;
  const Block block = new_block(kStorageBlock);
  fill(block.get(), kStorageBlock, 0);
  if (pwrite(file.fd(), block.get(), static_cast<std::size_t>(kStorageBlock.value), 0) >= 0 ||
      errno != EINVAL)
    return true;
  (void)file.set_direct(false);
  return false;
}

/// Reads or writes one block. Returns 0 or errno.
int transfer(int fd, StorageDirection direction, std::byte* data, Bytes size, std::int64_t at) {
  for (std::int64_t done = 0; done < size.value;) {
    const auto left = static_cast<std::size_t>(size.value - done);
    const ssize_t moved = direction == StorageDirection::write ? pwrite(fd, data + done, left, at + done)
                                                               : pread(fd, data + done, left, at + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : EIO;
    done += moved;
  }
  return 0;
}

/// One pass over the file by several threads, each of which takes the next block.
class Pass {
 public:
  Pass(const File& file, const std::string& folder, Bytes size, StorageDirection direction,
       std::uint64_t seed)
      : file_(file), folder_(folder), size_(size), direction_(direction), seed_(seed) {}

  Seconds run() {
    std::vector<Block> own, expected;
    for (int i = 0; i < kStorageThreads; ++i) {
      own.push_back(new_block(kStorageBlock));
      expected.push_back(new_block(kStorageBlock));
      for (const Block* each : {&own.back(), &expected.back()}) fill(each->get(), kStorageBlock, seed_);
    }
    const auto before = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < own.size(); ++i)
        threads.emplace_back([this, data = own[i].get(), as = expected[i].get()] { work(data, as); });
    }
    if (direction_ == StorageDirection::write && error_ == 0 && fsync(file_.fd()) != 0) error_ = errno;
    const Seconds taken(std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
    complain();
    return taken;
  }

 private:
  void work(std::byte* data, std::byte* expected) {
    const std::int64_t blocks = size_.value / kStorageBlock.value;
    for (std::int64_t i = next_++; i < blocks && error_ == 0; i = next_++) {
      stamp(direction_ == StorageDirection::write ? data : expected, i);
      const int failed = transfer(file_.fd(), direction_, data, kStorageBlock, i * kStorageBlock.value);
      if (failed != 0) error_ = failed;
      if (direction_ == StorageDirection::read && failed == 0 && !same_ends(data, expected)) differs_ = true;
    }
  }

  void stamp(std::byte* data, std::int64_t block) const { std::memcpy(data, &block, sizeof block); }

  /// Compares the first and last page, which shows a block of another place or of the pass before.
  [[nodiscard]] bool same_ends(const std::byte* data, const std::byte* expected) const {
    const std::int64_t last = kStorageBlock.value - kAlignment;
    return std::memcmp(data, expected, kAlignment) == 0 &&
           std::memcmp(data + last, expected + last, kAlignment) == 0;
  }

  void complain() const {
    if (error_ == ENOSPC || error_ == EDQUOT) fail_for_room(folder_, size_);
    const std::string what =
        fmt::format("{} {}", direction_ == StorageDirection::write ? "writing to" : "reading from",
                    in_quotes(folder_, 255));
    if (error_ != 0) throw BenchError(fmt::format("{} failed: {}", what, std::strerror(error_)));
    if (differs_)
      throw BenchError(what + " gave other bytes than were written: the disk or its driver is broken");
  }

  const File& file_;
  const std::string& folder_;
  Bytes size_;
  StorageDirection direction_;
  std::uint64_t seed_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> error_{0};
  std::atomic<bool> differs_{false};
};

std::int64_t file_system_of(const File& file) {
  struct statfs about {};
  return fstatfs(file.fd(), &about) == 0 ? static_cast<std::int64_t>(about.f_type) : 0;
}

}  // namespace

std::string storage_note(std::int64_t file_system, bool direct) {
  if (file_system == TMPFS_MAGIC || file_system == RAMFS_MAGIC)
    return "this folder lies in memory, not on a disk";
  return direct ? ""
                : "the file system takes no O_DIRECT: through the system's cache, which may hide the disk";
}

BytesPerSecond rate(const StorageResult& result) {
  return BytesPerSecond(static_cast<double>(result.bytes.value) / std::max(result.seconds.value, 1e-9));
}

Json storage_json(const StorageResult& result) {
  Json json = {{"path", result.path},
               {"direction", to_name(result.direction)},
               {"direct", result.direct},
               {"block_bytes", kStorageBlock.value},
               {"bytes", result.bytes.value},
               {"threads", kStorageThreads},
               {"seconds", result.seconds.value},
               {"bytes_per_second", rate(result).value}};
  if (!result.note.empty()) json["note"] = result.note;
  return json;
}

std::vector<StorageResult> measure_storage(const std::string& folder, Bytes at_least) {
  const Bytes size = round_up(at_least, kStorageBlock.value);
  check(folder, size);
  const File file(folder);
  const bool direct = goes_direct(file);
  const std::string note = storage_note(file_system_of(file), direct);
  (void)Pass(file, folder, size, StorageDirection::write, 1).run();
  std::vector<StorageResult> results;
  for (const StorageDirection direction : {StorageDirection::write, StorageDirection::read}) {
    if (!direct && direction == StorageDirection::read)
      (void)posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
    results.push_back({.path = folder,
                       .direction = direction,
                       .direct = direct,
                       .bytes = size,
                       .seconds = Pass(file, folder, size, direction, 2).run(),
                       .note = note});
  }
  return results;
}

}  // namespace zplan::bench

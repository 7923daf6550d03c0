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

#include "harness/error.h"
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

/// Something that disks do not compress, another for each block and pass.
void fill(std::byte* data, Bytes size, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::int64_t at = 0; at < size.value; at += 8) {
    state ^= state << 13U, state ^= state >> 7U, state ^= state << 17U;
    std::memcpy(data + at, &state, 8);
  }
}

[[noreturn]] void fail_input(const StorageOptions& options, const std::string& found,
                             const std::string& accepted) {
  throw InputError(options.place, fmt::format("{}: {}", in_quotes(options.folder, 255), found), accepted);
}

Bytes free_bytes(const StorageOptions& options) {
  struct statvfs room {};
  if (statvfs(options.folder.c_str(), &room) != 0)
    fail_input(options, std::strerror(errno), "accepted: a folder");
  return Bytes(static_cast<std::int64_t>(room.f_bavail * room.f_frsize));
}

[[noreturn]] void fail_for_room(const StorageOptions& options) {
  fail_input(options,
             fmt::format("{} bytes are free, {} are needed", free_bytes(options).value, options.size.value),
             "accepted: a folder with that much room, or a smaller size");
}

StorageOptions checked(StorageOptions options) {
  struct stat about {};
  const std::string accepted = "accepted: a folder that can be written to";
  if (stat(options.folder.c_str(), &about) != 0) fail_input(options, std::strerror(errno), accepted);
  if (!S_ISDIR(about.st_mode)) fail_input(options, "not a folder", accepted);
  if (options.block.value < kAlignment || options.block.value % kAlignment != 0 || options.block > kGiB)
    fail_input(options, fmt::format("a block of {} bytes", options.block.value),
               "accepted: a multiple of 4096 up to 1 GiB");
  if (options.threads < 1 || options.threads > 1024)
    fail_input(options, fmt::format("{} threads", options.threads), "accepted: 1 to 1024");
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  if (options.size.value < 1 || options.size.value > kMost)
    fail_input(options, fmt::format("a size of {} bytes", options.size.value), "accepted: 1 byte to 1 EiB");
  options.size = round_up(options.size, options.block.value);
  if (free_bytes(options) < options.size) fail_for_room(options);
  return options;
}

/// An open file without a name.
class File {
 public:
  explicit File(const StorageOptions& options) {
    std::string path = options.folder + "/zplan-storage-XXXXXX";
    fd_ = mkostemp(path.data(), O_CLOEXEC);
    if (fd_ < 0) fail_input(options, std::strerror(errno), "accepted: a folder that can be written to");
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

/// Some file systems take the flag and then refuse what is written.
bool goes_direct(const File& file, const StorageOptions& options) {
  if (!options.direct || !file.set_direct(true)) return false;
  const Block block = new_block(options.block);
  fill(block.get(), options.block, 0);
  const auto size = static_cast<std::size_t>(options.block.value);
  if (pwrite(file.fd(), block.get(), size, 0) >= 0 || errno != EINVAL) return true;
  (void)file.set_direct(false);
  return false;
}

/// All of one block, or errno.
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

/// One pass, all threads: each takes the next block.
class Pass {
 public:
  Pass(const File& file, const StorageOptions& options, StorageDirection direction, std::uint64_t seed)
      : file_(file), options_(options), direction_(direction), seed_(seed) {}

  Seconds run() {
    std::vector<Block> own, expected;
    for (int i = 0; i < options_.threads; ++i) {
      own.push_back(new_block(options_.block));
      expected.push_back(new_block(options_.block));
      for (const Block* each : {&own.back(), &expected.back()}) fill(each->get(), options_.block, seed_);
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
    const std::int64_t blocks = options_.size.value / options_.block.value;
    for (std::int64_t i = next_++; i < blocks && error_ == 0; i = next_++) {
      stamp(direction_ == StorageDirection::write ? data : expected, i);
      const int failed = transfer(file_.fd(), direction_, data, options_.block, i * options_.block.value);
      if (failed != 0) error_ = failed;
      if (direction_ == StorageDirection::read && failed == 0 && !same_ends(data, expected)) differs_ = true;
    }
  }

  void stamp(std::byte* data, std::int64_t block) const { std::memcpy(data, &block, sizeof block); }

  /// The first and last page: enough for a block of somewhere else, or of the pass before.
  [[nodiscard]] bool same_ends(const std::byte* data, const std::byte* expected) const {
    const std::int64_t last = options_.block.value - kAlignment;
    return std::memcmp(data, expected, kAlignment) == 0 &&
           std::memcmp(data + last, expected + last, kAlignment) == 0;
  }

  void complain() const {
    if (error_ == ENOSPC || error_ == EDQUOT) fail_for_room(options_);
    const std::string what =
        fmt::format("{} {}", direction_ == StorageDirection::write ? "writing to" : "reading from",
                    in_quotes(options_.folder, 255));
    if (error_ != 0) throw BenchError(fmt::format("{} failed: {}", what, std::strerror(error_)));
    if (differs_)
      throw BenchError(what + " gave other bytes than were written: the disk or its driver is broken");
  }

  const File& file_;
  const StorageOptions& options_;
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

std::string storage_note(std::int64_t file_system, bool asked, bool direct) {
  if (file_system == TMPFS_MAGIC || file_system == RAMFS_MAGIC)
    return "this folder lies in memory, not on a disk";
  if (direct) return {};
  return asked ? "the file system takes no O_DIRECT: through the system's cache, which may hide the disk"
               : "through the system's cache, which may hide the disk";
}

BytesPerSecond rate(const StorageResult& result) {
  return BytesPerSecond(static_cast<double>(result.bytes.value) / std::max(result.seconds.value, 1e-9));
}

Json storage_json(const StorageResult& result) {
  Json json = {{"path", result.path},
               {"direction", to_name(result.direction)},
               {"direct", result.direct},
               {"block_bytes", result.block.value},
               {"bytes", result.bytes.value},
               {"threads", result.threads},
               {"seconds", result.seconds.value},
               {"bytes_per_second", rate(result).value}};
  if (!result.note.empty()) json["note"] = result.note;
  return json;
}

std::vector<StorageResult> measure_storage(const StorageOptions& given) {
  const StorageOptions options = checked(given);
  const File file(options);
  const bool direct = goes_direct(file, options);
  const std::string note = storage_note(file_system_of(file), options.direct, direct);
  (void)Pass(file, options, StorageDirection::write, 1).run();
  std::vector<StorageResult> results;
  for (const StorageDirection direction : {StorageDirection::write, StorageDirection::read}) {
    if (!direct && direction == StorageDirection::read)
      (void)posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
    results.push_back({.path = options.folder,
                       .direction = direction,
                       .direct = direct,
                       .block = options.block,
                       .bytes = options.size,
                       .threads = options.threads,
                       .seconds = Pass(file, options, direction, 2).run(),
                       .note = note});
  }
  return results;
}

}  // namespace zplan::bench

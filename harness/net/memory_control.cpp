#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "harness/net/controls.h"
#include "harness/timing.h"

namespace zplan::bench {

// Not in an anonymous namespace: SharedMemory, which others see, has members of these types.
enum class SharedState : int { running, ended, reported };

/// Holds a part of a rank's text. Each rank fills its two chunks in turn, since other ranks may still read
/// the one of the round before.
struct SharedChunk {
  static constexpr std::size_t kMost = std::size_t{64} << 10;
  std::uint64_t whole{};  ///< bytes of the whole text
  std::uint64_t size{};   ///< bytes of this part
  std::array<char, kMost> bytes;
};

namespace {

[[noreturn]] void fail_to_share(const char* call) {
  throw BenchError(fmt::format("no memory that ranks could share: {}: {}", call, std::strerror(errno)));
}

}  // namespace

struct alignas(64) SharedMemory::Header {
  std::atomic<int> reported{};  ///< 1: a rank has reported why the run ends
};

struct alignas(64) SharedMemory::Slot {
  std::atomic<std::uint64_t> round{};  ///< the last one whose chunk is complete
  std::atomic<SharedState> state{};
  std::atomic<long> pid{};
  std::array<SharedChunk, 2> chunks;
};

SharedMemory::SharedMemory(int ranks) : descriptor_(memfd_create("zplan-bench", 0)), ranks_(ranks) {
  if (descriptor_ < 0) fail_to_share("memfd_create");
  if (ftruncate(descriptor_, static_cast<off_t>(bytes())) != 0) fail_to_share("ftruncate");
  map();
}

SharedMemory::SharedMemory(int descriptor, int ranks) : descriptor_(descriptor), ranks_(ranks) {
  (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  map();
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) (void)munmap(data_, bytes());
  (void)close(descriptor_);
}

std::size_t SharedMemory::bytes() const {
  return sizeof(Header) + sizeof(Slot) * static_cast<std::size_t>(ranks_);
}

/// Maps the file. It begins as zeros, which are valid values of Header and Slot.
void SharedMemory::map() {
  void* const data = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED) fail_to_share("mmap");
  data_ = static_cast<std::byte*>(data);
}

SharedMemory::Header& SharedMemory::header() const { return *std::launder(reinterpret_cast<Header*>(data_)); }

SharedMemory::Slot& SharedMemory::slot(int rank) const {
  return std::launder(reinterpret_cast<Slot*>(data_ + sizeof(Header)))[rank];
}

void SharedMemory::start(int rank, long pid) { slot(rank).pid = pid; }

void SharedMemory::end(long pid, bool reported) {
  for (int rank = 0; rank < ranks_; ++rank)
    if (slot(rank).pid == pid) slot(rank).state = reported ? SharedState::reported : SharedState::ended;
}

MemoryControl::MemoryControl(std::shared_ptr<SharedMemory> memory, int rank, Seconds timeout)
    : memory_(std::move(memory)), rank_(rank), timeout_(timeout) {}

/// Passes texts longer than a chunk in several rounds.
std::vector<std::string> MemoryControl::all_gather(const std::string& mine) {
  if (memory_->header().reported != 0) throw ReportedByAnother("another rank reported why the run ends");
  std::vector<std::string> texts(static_cast<std::size_t>(size()));
  for (bool is_whole = false; !is_whole;) {
    const std::size_t turn = ++round_ % 2, done = texts[static_cast<std::size_t>(rank_)].size();
    SharedMemory::Slot& own = memory_->slot(rank_);
    SharedChunk& sent = own.chunks[turn];
    sent.whole = mine.size();
    sent.size = std::min(SharedChunk::kMost, mine.size() - done);
    std::copy_n(mine.data() + done, sent.size, sent.bytes.data());
    own.round = round_;
    wait_for_all();
    is_whole = true;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      const SharedChunk& chunk = memory_->slot(static_cast<int>(rank)).chunks[turn];
      texts[rank].append(chunk.bytes.data(), chunk.size);
      is_whole = is_whole && texts[rank].size() == chunk.whole;
    }
  }
  return texts;
}

void MemoryControl::wait_for_all() {
  std::vector<int> missing;
  const auto arrived = [&] {
    missing.clear();
    for (int rank = 0; rank < size(); ++rank)
      if (memory_->slot(rank).round < round_) missing.push_back(rank);
    for (const int rank : missing) check_alive(rank);
    return missing.empty();
  };
  if (wait_until(timeout_, arrived)) return;
  std::vector<std::string> names;
  for (const int rank : missing) names.push_back(name_of(rank));
  fail(fmt::format("{} did not answer for {:g} s", list_of(names), timeout_.value));
}

/// Throws if the rank's process, or the run, has ended.
void MemoryControl::check_alive(int rank) {
  const SharedMemory::Slot& slot = memory_->slot(rank);
  const SharedState state = slot.state;
  if (slot.round >= round_) return;  // it came before it ended
  if (memory_->header().reported != 0 || state == SharedState::reported)
    throw ReportedByAnother("another rank reported why the run ends");
  if (state == SharedState::ended) fail(name_of(rank) + " ended");
}

/// Throws BenchError on the first rank that fails, ReportedByAnother on the others.
void MemoryControl::fail(const std::string& reason) {
  if (memory_->header().reported.exchange(1) != 0) throw ReportedByAnother(reason);
  throw BenchError(reason);
}

std::string MemoryControl::name_of(int rank) const {
  return fmt::format("rank {} (pid {})", rank, memory_->slot(rank).pid.load());
}

std::string list_of(const std::vector<std::string>& all) {
  constexpr std::size_t kMost = 8;
  const std::size_t shown = std::min(all.size(), kMost);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(shown);
  return fmt::format("{}{}", fmt::join(all.begin(), end, ", "),
                     shown < all.size() ? fmt::format(" and {} more", all.size() - shown) : "");
}

}  // namespace zplan::bench

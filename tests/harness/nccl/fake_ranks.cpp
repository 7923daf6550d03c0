#include "fake_ranks.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "harness/error.h"

namespace zplan::bench {

namespace {

const std::string kFakeLibraries = ZPLAN_FAKE_LIBRARIES;

/// A function of the stand-in for libcudart, which keeps what all of them record.
template <class Function>
Function* fake_function(const char* name) {
  void* library = dlopen((kFakeLibraries + "/cuda/libcudart.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Where threads meet and leave texts for each other.
class Table {
 public:
  explicit Table(int size) : texts_(static_cast<std::size_t>(size)) {}

  std::vector<std::string> exchange(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    texts_[static_cast<std::size_t>(rank)] = mine;
    if (++arrived_ == static_cast<int>(texts_.size())) {
      result_ = texts_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round; }))
      throw BenchError("a thread did not come");
    return result_;  // the next round cannot end before this one's threads are all back
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, result_;
  int arrived_{}, round_{};
};

class ThreadControl final : public Control {
 public:
  ThreadControl(std::shared_ptr<Table> table, int rank, int size)
      : table_(std::move(table)), rank_(rank), size_(size) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override {
    return table_->exchange(rank_, mine);
  }
  [[nodiscard]] std::string broadcast(const std::string& of_rank_0) override {
    return table_->exchange(rank_, of_rank_0).front();
  }
  void barrier() override { static_cast<void>(table_->exchange(rank_, "")); }

 private:
  std::shared_ptr<Table> table_;
  int rank_, size_;
};

std::string run_rank(std::unique_ptr<Control> control, const RankMain& rank_main,
                     const RankOptions& options) try {
  const int rank = control->rank();
  const auto backend = make_nccl_backend(std::move(control), {.device = options.one_device ? 0 : rank,
                                                              .share_gpu = options.share_gpu,
                                                              .timeout = options.timeout,
                                                              .places = fake_places(options.nccl)});
  rank_main(*backend, rank);
  return "";
} catch (const std::exception& error) {
  return error.what();
}

template <class T>
std::vector<std::byte> encode_as(const std::vector<int>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t each = 0; each < numbers.size(); ++each) {
    const T value = static_cast<T>(static_cast<float>(numbers[each]));
    std::memcpy(bytes.data() + each * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

template <class T>
std::vector<int> decode_as(const std::vector<std::byte>& bytes) {
  std::vector<int> numbers(bytes.size() / sizeof(T));
  for (std::size_t each = 0; each < numbers.size(); ++each) {
    T value;
    std::memcpy(&value, bytes.data() + each * sizeof(T), sizeof value);
    numbers[each] = static_cast<int>(static_cast<float>(value));
  }
  return numbers;
}

template <class Use>
auto with_type(DataType type, const Use& use) {
  switch (type) {
    case DataType::float32: return use(float{});
    case DataType::float64: return use(double{});
    case DataType::float16: return use(__half{});
    case DataType::bfloat16: return use(__nv_bfloat16{});
    case DataType::int8: return use(std::int8_t{});
    case DataType::uint8: return use(std::uint8_t{});
    case DataType::int32: return use(std::int32_t{});
    case DataType::int64: break;
  }
  return use(std::int64_t{});
}

}  // namespace

LibraryPlaces fake_places(const std::string& nccl) {
  return {.first = {kFakeLibraries + "/cuda", kFakeLibraries + "/" + nccl}, .system = false, .then = {}};
}

Environment::Environment(const std::string& name, const std::string& value) : name_(name) {
  setenv(name.c_str(), value.c_str(), 1);
}

Environment::~Environment() { unsetenv(name_.c_str()); }

std::vector<std::string> fake_calls() { return lines_of(fake_function<const char*()>("fake_calls")()); }
std::string fake_complaints() { return fake_function<const char*()>("fake_complaints")(); }
int fake_left_behind() { return fake_function<int()>("fake_left_behind")(); }
void forget_fake_calls() { fake_function<void()>("fake_reset")(); }

std::vector<std::string> fake_calls_of(const std::string& text) {
  std::vector<std::string> calls = fake_calls();
  std::erase_if(calls, [&](const std::string& each) { return !each.starts_with(text); });
  return calls;
}

std::vector<std::unique_ptr<Control>> thread_controls(int ranks) {
  const auto table = std::make_shared<Table>(ranks);
  std::vector<std::unique_ptr<Control>> controls;
  for (int rank = 0; rank < ranks; ++rank)
    controls.push_back(std::make_unique<ThreadControl>(table, rank, ranks));
  return controls;
}

std::vector<std::string> run_ranks(int ranks, const RankMain& rank_main, const RankOptions& options) {
  forget_fake_calls();
  std::vector<std::unique_ptr<Control>> controls = thread_controls(ranks);
  std::vector<std::string> errors(controls.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < controls.size(); ++rank)
    threads.emplace_back(
        [&, rank] { errors[rank] = run_rank(std::move(controls[rank]), rank_main, options); });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void run_good_ranks(int ranks, const RankMain& rank_main, const RankOptions& options) {
  EXPECT_EQ(run_ranks(ranks, rank_main, options), std::vector<std::string>(static_cast<std::size_t>(ranks)));
  EXPECT_EQ(fake_complaints(), "");
  EXPECT_EQ(fake_left_behind(), 0);
}

std::vector<std::byte> encode(DataType type, const std::vector<int>& numbers) {
  return with_type(type, [&](auto example) { return encode_as<decltype(example)>(numbers); });
}

std::vector<int> decode(DataType type, const std::vector<std::byte>& bytes) {
  return with_type(type, [&](auto example) { return decode_as<decltype(example)>(bytes); });
}

Memory upload(Backend& backend, DataType type, const std::vector<int>& numbers) {
  const std::vector<std::byte> bytes = encode(type, numbers);
  const Bytes size(static_cast<std::int64_t>(bytes.size()));
  Memory memory = backend.allocate(size);
  backend.upload(memory.data(), bytes.data(), size);
  return memory;
}

std::vector<int> download(Backend& backend, DataType type, const Memory& memory) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(memory.size().value));
  backend.download(bytes.data(), memory.data(), memory.size());
  return decode(type, bytes);
}

}  // namespace zplan::bench

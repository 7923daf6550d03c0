#include "fake_ranks.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/harness/thread_control.h"

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

std::string run_rank(std::unique_ptr<Control> control, const RankMain& rank_main,
                     const RankOptions& options) try {
  const int rank = control->rank();
  const auto backend = make_nccl_backend(
      std::move(control),
      {.share_gpu = options.share_gpu, .timeout = options.timeout, .places = fake_places()});
  rank_main(*backend, rank);
  return "";
} catch (const std::exception& error) {
  return error.what();
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
  const auto meeting = std::make_shared<MeetingPlace>(ranks);
  std::vector<std::unique_ptr<Control>> controls;
  for (int rank = 0; rank < ranks; ++rank)
    controls.push_back(std::make_unique<ThreadControl>(rank, ranks, meeting));
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

}  // namespace zplan::bench

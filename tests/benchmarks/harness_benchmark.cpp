// Measures what the harness adds to a timed call, compared with the clock alone.

#include <benchmark/benchmark.h>

#include <functional>

#include "harness/backend.h"
#include "harness/timing.h"
#include "harness/watchdog.h"

namespace zplan::bench {
namespace {

class Nothing : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void issue(const Work& work, const std::byte*, std::byte*) override { benchmark::DoNotOptimize(&work); }
};

/// Per call: what measure() hands to Backend::time(), which MPI's runs through time_each().
void overhead_of_a_timed_call(benchmark::State& state) {
  Nothing group;
  Communicator& communicator = group;
  Watchdog watchdog(Seconds(3600), Seconds(0), [](const std::string&) {});
  const Work work{.elements = 2};
  const std::function<void()> issue = [&] {
    communicator.issue(work, nullptr, nullptr);
    watchdog.tick();
  };
  constexpr std::int64_t kCalls = 1000;
  for (auto _ : state) benchmark::DoNotOptimize(time_each(kCalls, issue, [] {}));
  state.SetItemsProcessed(state.iterations() * kCalls);
}
BENCHMARK(overhead_of_a_timed_call);

/// Beside it: the two readings of the clock without which nothing is timed.
void two_readings_of_the_clock(benchmark::State& state) {
  constexpr std::int64_t kCalls = 1000;
  for (auto _ : state)
    benchmark::DoNotOptimize(time_each(
        kCalls, [] {}, [] {}));
  state.SetItemsProcessed(state.iterations() * kCalls);
}
BENCHMARK(two_readings_of_the_clock);

}  // namespace
}  // namespace zplan::bench
BENCHMARK_MAIN();

// Measures one simulated allocation: recorded runs (tests/reference/caching_allocator) from a fresh allocator on, and
// the same loop without allocator.

#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/simulation/caching_allocator.h"

namespace zplan {
namespace {

struct Call {
  enum class Kind { allocate, release, empty_cache };
  Kind kind{};
  Bytes size{};
  int stream{};
  std::size_t number{};  ///< of the allocation, in order
};

struct Trace {
  std::vector<Call> calls;
  std::size_t allocations{};
};

Call read_call(const Json& json, Trace& trace) {
  if (json.is_string()) return {.kind = Call::Kind::empty_cache};
  const Json& number = json.is_array() ? json[0] : json;
  const auto value = number.get<std::int64_t>();
  if (value < 0) return {.kind = Call::Kind::release, .number = static_cast<std::size_t>(-value - 1)};
  return {.kind = Call::Kind::allocate,
          .size = Bytes(value),
          .stream = json.is_array() ? json[1].get<int>() : 0,
          .number = trace.allocations++};
}

Trace read_trace(const std::string& name) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/caching_allocator/" + name + ".json";
  const Json json = parse_json(read_file(path), path);
  Trace trace;
  for (const Json& step : json["steps"])
    for (const Json& call : step["calls"]) trace.calls.push_back(read_call(call, trace));
  return trace;
}

/// Hands out numbers and adds up bytes.
class NextToNothing {
 public:
  std::optional<CachingAllocator::Handle> allocate(Bytes size, int stream) {
    total_ += size;
    return stream;
  }
  void release(CachingAllocator::Handle handle) { total_ -= Bytes(handle); }
  void empty_cache() {}
  [[nodiscard]] Bytes result() const { return total_; }

 private:
  Bytes total_{};
};

Bytes result(const NextToNothing& allocator) { return allocator.result(); }
Bytes result(const CachingAllocator& allocator) { return allocator.peak().reserved; }

template <class Allocator>
void play(Allocator& allocator, const Trace& trace, std::vector<CachingAllocator::Handle>& handles) {
  for (const Call& call : trace.calls) {
    switch (call.kind) {
      case Call::Kind::allocate:
        handles[call.number] =
            allocator.allocate(call.size, call.stream).value_or(CachingAllocator::kNoMemory);
        break;
      case Call::Kind::release: allocator.release(handles[call.number]); break;
      case Call::Kind::empty_cache: allocator.empty_cache(); break;
    }
  }
}

/// `call_pair`: seconds for an allocation and its release.
template <class Allocator, class... Options>
void recorded_run(benchmark::State& state, const std::string& name, Options... options) {
  const Trace trace = read_trace(name);
  std::vector<CachingAllocator::Handle> handles(trace.allocations);
  for (auto _ : state) {
    Allocator allocator(options...);
    play(allocator, trace, handles);
    benchmark::DoNotOptimize(result(allocator));
  }
  state.counters["calls"] = static_cast<double>(trace.calls.size());
  state.counters["call_pair"] =
      benchmark::Counter(static_cast<double>(trace.calls.size()) / 2,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void simulated(benchmark::State& state, const char* name) { recorded_run<CachingAllocator>(state, name); }
BENCHMARK_CAPTURE(simulated, zero3_8B, "zero3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulated, zero1_8B_8_layers, "zero1")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulated, llama_4_layers, "llama")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(simulated, random_calls, "random")->Unit(benchmark::kMicrosecond);

void simulated_expandable(benchmark::State& state, const char* name) {
  recorded_run<CachingAllocator>(state, name, AllocatorOptions{.expandable_segments = true});
}
BENCHMARK_CAPTURE(simulated_expandable, zero3_8B, "zero3")->Unit(benchmark::kMicrosecond);

/// 2,000 blocks of one size, released in any order: the slowest thing to ask for.
void one_size_in_any_order(benchmark::State& state) {
  constexpr std::size_t kBlocks = 2000;
  std::vector<CachingAllocator::Handle> handles(kBlocks);
  for (auto _ : state) {
    CachingAllocator allocator;
    for (auto& handle : handles) handle = allocator.allocate(kMiB * 16).value_or(CachingAllocator::kNoMemory);
    for (std::size_t i = 0; i < kBlocks; ++i) allocator.release(handles[i * 769 % kBlocks]);
    benchmark::DoNotOptimize(allocator.current());
  }
}
BENCHMARK(one_size_in_any_order)->Unit(benchmark::kMicrosecond);

void trivial_loop(benchmark::State& state, const char* name) { recorded_run<NextToNothing>(state, name); }
BENCHMARK_CAPTURE(trivial_loop, zero3_8B, "zero3")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace zplan

BENCHMARK_MAIN();

// Durations, on the stand-ins' clock: a collective takes 1 µs and its largest buffer at 100 GB/s, a matrix
// product 1 µs and its operations at 800 TFLOP/s.

#include <gtest/gtest.h>

#include "fake_ranks.h"

namespace zplan::bench {
namespace {

constexpr double kLaunchSeconds = 1e-6;
constexpr double tolerance = 1e-8;  // events tell milliseconds in float32

struct TimedBuffers {
  Work work;
  Memory send, receive;
};

TimedBuffers buffers_of(Backend& backend, Bytes size) {
  const Work work = work_of_size(Operation::all_reduce, DataType::float32, size, 2);
  return {.work = work, .send = backend.allocate(size), .receive = backend.allocate(size)};
}

TEST(Time, IsThatOfEachCallByItself) {
  run_good_ranks(2, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const TimedBuffers small = buffers_of(backend, Bytes(100'000)),
                       large = buffers_of(backend, Bytes(1'000'000));
    world->issue(small.work, small.send.data(), small.receive.data());  // from here on both clocks go alike
    backend.finish();
    int calls = 0;
    const std::vector<double> seconds = backend.time(5, [&] {
      const TimedBuffers& buffers = calls++ % 2 == 0 ? small : large;
      world->issue(buffers.work, buffers.send.data(), buffers.receive.data());
    });
    ASSERT_EQ(seconds.size(), 5U);
    EXPECT_EQ(calls, 5);
    for (std::size_t each = 0; each < 5; ++each)
      EXPECT_NEAR(seconds[each], kLaunchSeconds + (each % 2 == 0 ? 1e-6 : 10e-6), tolerance) << each;
  });
}

TEST(Time, CanBeTakenAgainWithMoreCalls) {
  run_good_ranks(1, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const TimedBuffers buffers = buffers_of(backend, Bytes(200'000));
    const auto issue = [&] { world->issue(buffers.work, buffers.send.data(), buffers.receive.data()); };
    for (const std::int64_t times : {3, 10, 1}) {
      const std::vector<double> seconds = backend.time(times, issue);
      ASSERT_EQ(static_cast<std::int64_t>(seconds.size()), times);
      for (const double each : seconds) EXPECT_NEAR(each, kLaunchSeconds + 2e-6, tolerance);
    }
    EXPECT_TRUE(backend.time(0, issue).empty());
  });
}

/// Time from the beginning to the end of the queue of collectives, with what `issue` puts there.
double whole(Backend& backend, const std::function<void()>& issue) { return backend.time(1, issue).front(); }

// The queue of collectives waits for compute(), so that its length shows on that queue.
TEST(Compute, TakesAboutTheWantedTime) {
  run_good_ranks(1, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const TimedBuffers buffers = buffers_of(backend, Bytes(100));
    const auto issue = [&] { world->issue(buffers.work, buffers.send.data(), buffers.receive.data()); };
    backend.compute(Seconds(1e-6));  // times its products, which is no part of what follows
    for (const double wanted : {20e-6, 1e-3, 0.1}) {
      backend.let_calls_wait();
      backend.let_compute_wait();  // both queues stand at one time
      backend.finish();
      const double taken = whole(backend, [&] {
        backend.let_compute_wait();
        backend.compute(Seconds(wanted));
        backend.let_calls_wait();
        issue();
      });
      EXPECT_NEAR(taken - 2 * kLaunchSeconds, wanted, 2e-6) << wanted;
    }
  });
}

TEST(Compute, RunsBesideCallsUnlessTheyWait) {
  run_good_ranks(2, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const TimedBuffers buffers = buffers_of(backend, Bytes(1'000'000));  // 10 µs
    const auto issue = [&] { world->issue(buffers.work, buffers.send.data(), buffers.receive.data()); };
    backend.compute(Seconds(1e-6));
    const auto level = [&] {
      backend.let_calls_wait();
      issue();
      backend.let_compute_wait();
      backend.finish();
    };
    level();
    const double beside = whole(backend, [&] {
      backend.compute(Seconds(1e-3));
      issue();
    });
    EXPECT_NEAR(beside, kLaunchSeconds + 10e-6, tolerance);
    level();
    const double after = whole(backend, [&] {
      backend.let_compute_wait();
      backend.compute(Seconds(1e-3));
      backend.let_calls_wait();
      issue();
    });
    EXPECT_NEAR(after, 1e-3 + kLaunchSeconds + 10e-6, 3e-6);
    // The other way round: computing begins once the call is through.
    level();
    const double both = whole(backend, [&] {
      issue();
      backend.let_compute_wait();
      backend.compute(Seconds(1e-3));
      backend.let_calls_wait();
    });
    EXPECT_NEAR(both, 10e-6 + kLaunchSeconds + 1e-3, 3e-6);
  });
}

// A plan without compute needs no cuBLAS, and its first compute() still waits for the calls before it.
TEST(Compute, BeginsWhereItIsFirstAskedFor) {
  run_good_ranks(1, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const TimedBuffers buffers = buffers_of(backend, Bytes(100'000'000));  // 1 ms
    const auto issue = [&] { world->issue(buffers.work, buffers.send.data(), buffers.receive.data()); };
    const double taken = whole(backend, [&] {
      backend.compute(Seconds(0));
      backend.let_calls_wait();
      for (int each = 0; each < 20; ++each) issue();
      backend.let_compute_wait();
      EXPECT_TRUE(fake_calls_of("cublasCreate").empty());
      backend.compute(Seconds(2e-3));
      EXPECT_EQ(fake_calls_of("cublasCreate").size(), 1U);
      backend.let_calls_wait();
    });
    EXPECT_GT(taken, 22e-3);
  });
}

TEST(Compute, MakesDoWithLessMemory) {
  const Environment limit("FAKE_CUDA_MEMORY", "10000000");  // no memory for three matrices of 4096 x 4096
  run_good_ranks(1, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const TimedBuffers buffers = buffers_of(backend, Bytes(100));
    backend.compute(Seconds(1e-6));
    backend.let_calls_wait();
    backend.finish();
    const double taken = whole(backend, [&] {
      backend.let_compute_wait();
      backend.compute(Seconds(1e-3));
      backend.let_calls_wait();
      world->issue(buffers.work, buffers.send.data(), buffers.receive.data());
    });
    EXPECT_NEAR(taken, 1e-3, 5e-6);
  });
}

}  // namespace
}  // namespace zplan::bench

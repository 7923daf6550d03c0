// Every fault ends the run in time, with a line that names rank and cause.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "fake_ranks.h"
#include "harness/control.h"

namespace zplan::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Work kWork{.operation = Operation::all_reduce, .dtype = DataType::float32, .elements = 4};
const RankOptions impatient{.timeout = Seconds(0.4)};

struct Buffers {
  explicit Buffers(Backend& backend)
      : send(backend.allocate(Bytes(64))), receive(backend.allocate(Bytes(64))) {}
  Memory send, receive;
};

void issue(Communicator& group, const Buffers& buffers) {
  group.issue(kWork, buffers.send.data(), buffers.receive.data());
}

/// Returns the text of the BenchError that `action` throws.
std::string trouble_of(const std::function<void()>& action) try {
  action();
  return "nothing was thrown";
} catch (const BenchError& error) {
  return error.what();
}

TEST(OutOfMemory, IsSaidAndDoesNotSpoilTheNextCall) {
  const Environment limit("FAKE_CUDA_MEMORY", "1000");
  run_good_ranks(2, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const Buffers buffers(backend);
    EXPECT_THROW(static_cast<void>(backend.allocate(Bytes(2000))), OutOfMemory);
    EXPECT_EQ(trouble_of([&] { static_cast<void>(backend.allocate(Bytes(2000))); }),
              "rank " + std::to_string(rank) + ": cudaMalloc of 2000 bytes: out of memory");
    issue(*world, buffers);
    backend.finish();
    EXPECT_EQ(backend.allocate(Bytes(500)).size(), Bytes(500));
  });
}

TEST(AsyncError, IsThatOfTheLastCall) {
  const Environment fault("FAKE_NCCL_ASYNC_ERROR", "all_reduce");
  const std::vector<std::string> errors = run_ranks(2, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const Buffers buffers(backend);
    issue(*world, buffers);
    backend.finish();
  });
  EXPECT_EQ(
      errors[1],
      "rank 1: all_reduce of 16 bytes (rank 1 of a group of 2) fails: remote process exited or there was a "
      "network error (6): the stand-in's last words; NCCL_DEBUG=INFO says more");
  EXPECT_THAT(errors[0], StartsWith("rank 0: all_reduce of 16 bytes (rank 0 of a group of 2) fails"));
  EXPECT_EQ(fake_left_behind(), 0);
  EXPECT_EQ(fake_complaints(), "");
}

TEST(Hang, OfAnOperationEndsWithTheTimeout) {
  const Environment fault("FAKE_NCCL_HANG", "all_reduce");
  const std::vector<std::string> errors = run_ranks(
      2,
      [](Backend& backend, int rank) {
        const auto world = backend.split(0, rank);
        const Buffers buffers(backend);
        static_cast<void>(backend.time(3, [&] { issue(*world, buffers); }));
      },
      impatient);
  EXPECT_EQ(errors[0],
            "rank 0: all_reduce of 16 bytes (rank 0 of a group of 2) did not end within 0.4 s: another rank "
            "is gone or "
            "hangs; NCCL_DEBUG=INFO on all ranks says more");
  EXPECT_THAT(errors[1], StartsWith("rank 1: all_reduce of 16 bytes (rank 1 of a group of 2) did not end"));
  EXPECT_EQ(fake_left_behind(), 0);
}

TEST(Hang, ForARankThatIsGoneEndsWithTheTimeout) {
  const std::vector<std::string> errors = run_ranks(
      3,
      [](Backend& backend, int rank) {
        const auto group = backend.split(rank == 0 ? 0 : 1, rank);
        const Buffers buffers(backend);
        if (rank == 2) throw BenchError("gone");
        issue(*group, buffers);
        backend.finish();
      },
      impatient);
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1],
              StartsWith("rank 1: all_reduce of 16 bytes (rank 0 of a group of 2) did not end within 0.4 s"));
  EXPECT_EQ(errors[2], "gone");
  EXPECT_EQ(fake_left_behind(), 0);
}

TEST(Hang, OfTheDeviceEndsWithTheTimeout) {
  const auto errors = run_ranks(
      1,
      [](Backend& backend, int rank) {
        const auto world = backend.split(0, rank);
        const Buffers buffers(backend);
        issue(*world, buffers);
        backend.finish();
        const Environment fault("FAKE_CUDA_HANG", "1");
        EXPECT_THAT(
            trouble_of([&] { static_cast<void>(backend.time(2, [&] { issue(*world, buffers); })); }),
            StartsWith("rank 0: all_reduce of 16 bytes (rank 0 of a group of 1) did not end within 0.4 s"));
        EXPECT_THAT(trouble_of([&] { issue(*world, buffers); }), HasSubstr("was aborted"));
      },
      impatient);
  EXPECT_EQ(errors, std::vector<std::string>{""});
  EXPECT_EQ(fake_left_behind(), 0);
}

// The first call of a communicator that blocks can hang inside NCCL, where only another thread can end it:
// the run's Watchdog does, by abort().
TEST(Abort, FromAnotherThreadEndsACallThatHangsInsideNccl) {
  const Environment fault("FAKE_NCCL_CONNECT", "1");
  const std::vector<std::string> errors = run_ranks(2, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const Buffers buffers(backend);
    if (rank == 0) {
      std::thread other([&backend] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        backend.abort();
      });
      EXPECT_EQ(trouble_of([&] { issue(*world, buffers); }),
                "rank 0: all_reduce of 16 bytes (rank 0 of a group of 2) was aborted");
      other.join();
    }
    backend.control().barrier();
    backend.abort();
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(fake_left_behind(), 0);
}

TEST(Hang, OfSplittingEndsWithTheTimeout) {
  const std::vector<std::string> errors = run_ranks(
      2,
      [](Backend& backend, int rank) {
        if (rank == 0) {
          EXPECT_THAT(trouble_of([&] { static_cast<void>(backend.split(0, rank)); }),
                      StartsWith("rank 0: ncclCommSplit did not end within 0.4 s"));
        }
        backend.control().barrier();
      },
      impatient);
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(Hang, OfInitialisingEndsWithTheTimeout) {
  forget_fake_calls();
  std::vector<std::unique_ptr<Control>> controls = thread_controls(2);
  std::thread absent([&] {  // answers, and then never calls NCCL
    for (const char* text : {"host", "host GPU"}) static_cast<void>(controls[1]->all_gather(text));
    static_cast<void>(controls[1]->broadcast(""));
  });
  EXPECT_THAT(trouble_of([&] {
                static_cast<void>(make_nccl_backend(std::move(controls[0]),
                                                    {.timeout = Seconds(0.3), .places = fake_places()}));
              }),
              StartsWith("rank 0: ncclCommInitRankConfig of 2 ranks did not end within 0.3 s"));
  absent.join();
  EXPECT_EQ(fake_left_behind(), 0);
}

TEST(Abort, FromAnotherThreadEndsWhatHangs) {
  const Environment fault("FAKE_NCCL_HANG", "all_reduce");
  const std::vector<std::string> errors = run_ranks(2, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const Buffers buffers(backend);
    issue(*world, buffers);
    std::thread other([&] { backend.abort(); });
    EXPECT_THAT(trouble_of([&] { backend.finish(); }),
                AllOf(StartsWith("rank " + std::to_string(rank)), HasSubstr("was aborted")));
    other.join();
    backend.abort();
    EXPECT_THAT(trouble_of([&] { static_cast<void>(backend.split(0, rank)); }), HasSubstr("was aborted"));
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(fake_left_behind(), 0);
  EXPECT_EQ(fake_calls_of("abort").size(), 4U);
  EXPECT_TRUE(fake_calls_of("destroy").empty());
}

TEST(Rank, ThatFailsDoesNotWaitForTheOthers) {
  const std::vector<std::string> errors = run_ranks(2, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    throw BenchError("rank " + std::to_string(rank) + " had enough");
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"rank 0 had enough", "rank 1 had enough"}));
  EXPECT_TRUE(fake_calls_of("destroy").empty());
  EXPECT_EQ(fake_left_behind(), 0);
}

TEST(SharedGpu, IsRefusedUnlessAskedFor) {
  const Environment one("FAKE_CUDA_DEVICES", "1");
  EXPECT_THAT(run_ranks(2, [](Backend&, int) {}),
              Each("--backend nccl: ranks 0 and 1 share one GPU, which NCCL refuses; start at "
                   "most as many "
                   "ranks as a host has GPUs, or add --share-gpu for a test"));
}

TEST(SharedGpu, HasItsRanksOnHostsOfTheirOwn) {
  const Environment host("NCCL_HOSTID", "zplan-rank-0");  // set before threads read the environment
  run_good_ranks(1,
                 [](Backend& backend, int rank) {
                   EXPECT_STREQ(std::getenv("NCCL_HOSTID"), "zplan-rank-0");
                   const auto world = backend.split(0, rank);
                   EXPECT_EQ(world->size(), 1);
                 },
                 {.share_gpu = true});
}

TEST(Gpu, IsThatOfTheRankOnItsHost) {
  const Environment two("FAKE_CUDA_DEVICES", "2");
  std::vector<std::unique_ptr<Control>> controls = thread_controls(2);
  std::vector<std::thread> threads;
  for (auto& control : controls)
    threads.emplace_back([&control] {
      EXPECT_NE(make_nccl_backend(std::move(control), {.timeout = Seconds(20), .places = fake_places()}),
                nullptr);
    });
  for (std::thread& thread : threads) thread.join();
}

// Without this the tests of results would not show that ranks call alike.
TEST(StandIn, SaysWhereRanksDoNotAgree) {
  const std::vector<std::string> errors = run_ranks(
      2,
      [](Backend& backend, int rank) {
        const auto world = backend.split(0, rank);
        const Buffers buffers(backend);
        world->issue({.elements = 4 + rank}, buffers.send.data(), buffers.receive.data());
        backend.finish();
      },
      impatient);
  EXPECT_THAT(errors, Each(HasSubstr("did not end")));
  EXPECT_EQ(fake_complaints(), "ranks do not agree: all_reduce, all_reduce\n");
}

TEST(StandIn, SaysWhereABufferIsTooSmallOrOverlaps) {
  const auto errors = run_ranks(1, [](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    const Buffers buffers(backend);
    world->issue({.elements = 8}, buffers.send.data(), buffers.send.data() + 4);
    world->issue({.elements = 17}, buffers.send.data(), buffers.receive.data());
  });
  EXPECT_THAT(errors.front(), HasSubstr("all_reduce of 68 bytes"));
  EXPECT_EQ(fake_complaints(),
            "all_reduce: buffers overlap, but not as in place\nall_reduce: a buffer does not lie in device "
            "memory\n");
}

}  // namespace
}  // namespace zplan::bench

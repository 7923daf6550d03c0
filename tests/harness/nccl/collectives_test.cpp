// Every operation, type and form between 1 to 4 ranks, compared with what Pattern expects.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_ranks.h"
#include "harness/measure.h"
#include "harness/pattern.h"

namespace zplan::bench {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::Not;

/// The call once on fresh data.
void check_call(Backend& backend, Communicator& group, const Work& work) {
  const Pattern pattern(work, group.size(), group.rank());
  const auto [send, receive] = layout(work, group.size(), group.rank());
  const auto bytes = [&work](std::int64_t elements) { return Bytes(elements * size_of(work.dtype)); };
  const Arena arena{backend.allocate(bytes(work.in_place ? std::max(send, receive) : send)),
                    backend.allocate(bytes(receive))};
  const Placed at = place(work, group, arena);
  const std::vector<std::byte> input = pattern.input();
  backend.upload(at.send, input.data(), bytes(send));
  group.issue(work, at.send, at.receive);
  backend.finish();
  std::vector<std::byte> output(static_cast<std::size_t>(bytes(receive).value)), input_after(input.size());
  backend.download(output.data(), at.receive, bytes(receive));
  EXPECT_FALSE(pattern.check(output.data()));
  if (work.in_place) return;
  backend.download(input_after.data(), at.send, bytes(send));
  EXPECT_EQ(input_after, input) << "the input was changed";
}

void check_work(Backend& backend, Communicator& group, Work work) {
  SCOPED_TRACE(std::string(to_name(work.operation)) + ", " + std::string(to_name(work.dtype)));
  check_call(backend, group, work);
  work.in_place = has_in_place_form(work.operation);
  if (work.in_place) check_call(backend, group, work);
}

Work work_for(Operation operation, DataType dtype, int ranks) {
  const bool has_root = operation == Operation::broadcast || operation == Operation::reduce;
  return {.operation = operation, .dtype = dtype, .elements = 10 * ranks, .root = has_root ? ranks - 1 : 0};
}

/// Rank r gets r rows of five from each, or sends as many to each: the first gets none.
Work uneven_work(int ranks, bool returns) {
  Work work{.operation = Operation::all_to_all, .dtype = DataType::bfloat16, .returns = returns};
  for (int rank = 0; rank < ranks; ++rank) work.counts.push_back(5 * rank);
  return work;
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AreRightInEveryTypeAndForm) {
  run_good_ranks(GetParam(), [size = GetParam()](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    EXPECT_EQ(world->rank(), rank);
    EXPECT_EQ(world->size(), size);
    for (const auto& [operation, operation_name] : EnumNames<Operation>::table)
      for (const auto& [dtype, type_name] : EnumNames<DataType>::table)
        check_work(backend, *world, work_for(operation, dtype, size));
    for (const bool returns : {false, true}) check_work(backend, *world, uneven_work(size, returns));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4));

TEST(Groups, AreOfOneColorInTheOrderOfTheKey) {
  run_good_ranks(4, [](Backend& backend, int rank) {
    const auto tensor = backend.split(rank / 2, rank);  // 0 1, 2 3
    const auto data = backend.split(rank % 2, -rank);   // 2 0, 3 1
    EXPECT_EQ(tensor->rank(), rank % 2);
    EXPECT_EQ(data->rank(), 1 - rank / 2);
    EXPECT_EQ(std::pair(tensor->size(), data->size()), std::pair(2, 2));
    for (const auto& [operation, name] : EnumNames<Operation>::table) {
      check_work(backend, *tensor, work_for(operation, DataType::float32, 2));
      check_work(backend, *data, work_for(operation, DataType::bfloat16, 2));
    }
  });
}

/// The calls that NCCL saw of one `work` between two ranks.
std::vector<std::string> calls_of(const Work& work) {
  std::vector<std::string> calls;
  run_good_ranks(2, [&](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    check_call(backend, *world, work);
    backend.control().barrier();
    if (rank == 0)
      for (const std::string& call : fake_calls())
        if (call.find("rank 1/2") != std::string::npos && !call.starts_with("init")) calls.push_back(call);
    backend.control().barrier();
  });
  return calls;
}

// nccl.h: sendcount of ncclAllGather and recvcount of ncclReduceScatter are of one rank; its types by number.
TEST(CallsOfNccl, CountElementsAsItsHeaderSays) {
  const auto of = [](Operation operation, DataType dtype, int root = 0) {
    return calls_of(
        {.operation = operation, .dtype = dtype, .elements = 12, .in_place = false, .root = root});
  };
  using Calls = std::vector<std::string>;
  EXPECT_EQ(of(Operation::all_reduce, DataType::float32),
            Calls{"all_reduce rank 1/2 count 12 type 7 op 0 root -1"});
  EXPECT_EQ(of(Operation::all_gather, DataType::bfloat16),
            Calls{"all_gather rank 1/2 count 6 type 9 op -1 root -1"});
  EXPECT_EQ(of(Operation::reduce_scatter, DataType::float16),
            Calls{"reduce_scatter rank 1/2 count 6 type 6 op 0 root -1"});
  EXPECT_EQ(of(Operation::broadcast, DataType::int8, 1),
            Calls{"broadcast rank 1/2 count 12 type 0 op -1 root 1"});
  EXPECT_EQ(of(Operation::reduce, DataType::float64, 1),
            Calls{"reduce rank 1/2 count 12 type 8 op 0 root 1"});
  EXPECT_EQ(of(Operation::all_to_all, DataType::int64),
            (Calls{"send rank 1/2 peer 0 bytes 48 grouped", "receive rank 1/2 peer 0 bytes 48 grouped",
                   "send rank 1/2 peer 1 bytes 48 grouped", "receive rank 1/2 peer 1 bytes 48 grouped"}));
  EXPECT_EQ(of(Operation::send_recv, DataType::uint8),
            (Calls{"send rank 1/2 peer 0 bytes 12 grouped", "receive rank 1/2 peer 0 bytes 12 grouped"}));
}

// Calls of a communicator that does not block would be timed with the thread that each of them starts.
TEST(Communicators, BlockOnlyOnceTheWorldIsThere) {
  run_good_ranks(2, [](Backend& backend, int rank) { static_cast<void>(backend.split(0, rank)); });
  EXPECT_THAT(fake_calls_of("init"), Each(EndsWith("blocking 0")));
  EXPECT_EQ(fake_calls_of("init").size(), 2U);
  EXPECT_THAT(fake_calls_of("split"), Each(EndsWith("blocking 1")));
  EXPECT_EQ(fake_calls_of("split").size(), 2U);
  EXPECT_EQ(fake_calls_of("destroy").size(), 4U);
  EXPECT_THAT(fake_calls(), Not(Contains("abort")));
}

TEST(Identity, NamesLibraryDriverAndRuntime) {
  run_good_ranks(1, [](Backend& backend, int) {
    const Identity identity = backend.identity();
    EXPECT_EQ(identity.backend, "nccl");
    EXPECT_EQ(identity.library, "NCCL 2.28.9");
    EXPECT_EQ(identity.driver, "999.01.02");
    EXPECT_EQ(identity.cuda, "13.0");
  });
}

}  // namespace
}  // namespace zplan::bench

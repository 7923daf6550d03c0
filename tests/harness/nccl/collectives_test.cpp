// Every operation, type and form between 2 to 4 ranks, against results that are worked out here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fake_ranks.h"

namespace zplan::bench {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::Not;

/// Element `index` of what `rank` sends: small enough that sums over four ranks are exact in every type.
int sent(int rank, std::int64_t index) { return static_cast<int>(index % 7) + 3 * rank + 1; }

std::vector<int> input_of(int rank, std::int64_t elements, std::int64_t offset = 0) {
  std::vector<int> numbers;
  for (std::int64_t index = 0; index < elements; ++index) numbers.push_back(sent(rank, offset + index));
  return numbers;
}

int sum_over(int ranks, std::int64_t index) {
  int sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += sent(rank, index);
  return sum;
}

/// What element `index` of `rank`'s output must be; -1: anything.
int expected(const Work& work, int ranks, int rank, std::int64_t index) {
  const std::int64_t share = work.elements / ranks;
  switch (work.operation) {
    case Operation::all_reduce: return sum_over(ranks, index);
    case Operation::all_gather: return sent(static_cast<int>(index / share), index % share);
    case Operation::reduce_scatter: return sum_over(ranks, share * rank + index);
    case Operation::broadcast: return sent(work.root, index);
    case Operation::reduce: return rank == work.root ? sum_over(ranks, index) : -1;
    case Operation::all_to_all: return sent(static_cast<int>(index / share), share * rank + index % share);
    case Operation::send_recv: return sent((rank + ranks - 1) % ranks, index);
  }
  return -1;
}

std::vector<int> wrong_elements(const Work& work, const Communicator& group, const std::vector<int>& output,
                                std::int64_t offset) {
  std::vector<int> wrong;
  for (std::int64_t index = 0; index < layout(work, group.size()).receive; ++index) {
    const int wanted = expected(work, group.size(), group.rank(), index);
    if (wanted != -1 && output[static_cast<std::size_t>(offset + index)] != wanted)
      wrong.push_back(static_cast<int>(index));
  }
  return wrong;
}

std::vector<int> run_out_of_place(Backend& backend, Communicator& group, const Work& work) {
  const auto [send, receive] = layout(work, group.size());
  const Memory in = upload(backend, work.dtype, input_of(group.rank(), send));
  const Memory out = upload(backend, work.dtype, std::vector<int>(static_cast<std::size_t>(receive), 99));
  group.issue(work, in.data(), out.data());
  backend.finish();
  EXPECT_EQ(download(backend, work.dtype, in), input_of(group.rank(), send)) << "the input was changed";
  return wrong_elements(work, group, download(backend, work.dtype, out), 0);
}

std::vector<int> run_in_place(Backend& backend, Communicator& group, const Work& work) {
  const auto [send, receive] = layout(work, group.size());
  const std::int64_t from = in_place_send_offset(work, group.size(), group.rank());
  const std::int64_t to = in_place_receive_offset(work, group.size(), group.rank());
  std::vector<int> numbers(static_cast<std::size_t>(std::max(send, receive)), 99);
  const std::vector<int> input = input_of(group.rank(), send);
  std::copy(input.begin(), input.end(), numbers.begin() + from);
  const Memory buffer = upload(backend, work.dtype, numbers);
  group.issue(work, buffer.data() + from * size_of(work.dtype), buffer.data() + to * size_of(work.dtype));
  backend.finish();
  return wrong_elements(work, group, download(backend, work.dtype, buffer), to);
}

void check_work(Backend& backend, Communicator& group, Work work) {
  SCOPED_TRACE(std::string(to_name(work.operation)) + ", " + std::string(to_name(work.dtype)));
  EXPECT_EQ(run_out_of_place(backend, group, work), std::vector<int>{});
  work.in_place = true;
  if (!has_in_place_form(work.operation)) return;
  EXPECT_EQ(run_in_place(backend, group, work), std::vector<int>{});
}

Work work_for(Operation operation, DataType dtype, int ranks) {
  const bool has_root = operation == Operation::broadcast || operation == Operation::reduce;
  return {.operation = operation, .dtype = dtype, .elements = 10 * ranks, .root = has_root ? ranks - 1 : 0};
}

class Collectives : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(Collectives, AreRightInEveryTypeAndForm) {
  const auto& [ranks, nccl] = GetParam();
  run_good_ranks(ranks,
                 [size = ranks](Backend& backend, int rank) {
                   const auto world = backend.split(0, rank);
                   EXPECT_EQ(world->rank(), rank);
                   EXPECT_EQ(world->size(), size);
                   for (const auto& [operation, operation_name] : EnumNames<Operation>::table)
                     for (const auto& [dtype, type_name] : EnumNames<DataType>::table)
                       check_work(backend, *world, work_for(operation, dtype, size));
                 },
                 {.nccl = nccl});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values("nccl", "nccl_without_split")));

class Groups : public testing::TestWithParam<std::string> {};

TEST_P(Groups, AreOfOneColorInTheOrderOfTheKey) {
  run_good_ranks(4,
                 [](Backend& backend, int rank) {
                   const auto tensor = backend.split(rank / 2, rank);  // 0 1, 2 3
                   const auto data = backend.split(rank % 2, -rank);   // 2 0, 3 1
                   EXPECT_EQ(tensor->rank(), rank % 2);
                   EXPECT_EQ(data->rank(), 1 - rank / 2);
                   EXPECT_EQ(std::pair(tensor->size(), data->size()), std::pair(2, 2));
                   for (const auto& [operation, name] : EnumNames<Operation>::table) {
                     check_work(backend, *tensor, work_for(operation, DataType::float32, 2));
                     check_work(backend, *data, work_for(operation, DataType::bfloat16, 2));
                   }
                 },
                 {.nccl = GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Splitting, Groups, testing::Values("nccl", "nccl_without_split"));

/// The calls that NCCL saw of one `work` between two ranks.
std::vector<std::string> calls_of(const Work& work) {
  std::vector<std::string> calls;
  run_good_ranks(2, [&](Backend& backend, int rank) {
    const auto world = backend.split(0, rank);
    EXPECT_EQ(run_out_of_place(backend, *world, work), std::vector<int>{});
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

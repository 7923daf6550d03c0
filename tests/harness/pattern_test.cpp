// Every operation by its definition, worked out here from all ranks' inputs, against what the pattern
// expects.

#include "harness/pattern.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cstring>
#include <numeric>

namespace zplan::bench {
namespace {

double element(DataType type, const std::byte* at) {
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (type) {
    case DataType::float64: return read(double{});
    case DataType::float32: return read(float{});
    case DataType::float16: return read(Eigen::half{});
    case DataType::bfloat16: return read(Eigen::bfloat16{});
    case DataType::int8: return read(std::int8_t{});
    case DataType::uint8: return read(std::uint8_t{});
    case DataType::int32: return read(std::int32_t{});
    case DataType::int64: return read(std::int64_t{});
  }
  return 0;
}

void put(DataType type, double value, std::byte* at) {
  const auto write = [at](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (type) {
    case DataType::float64: return write(value);
    case DataType::float32: return write(static_cast<float>(value));
    case DataType::float16: return write(Eigen::half(static_cast<float>(value)));
    case DataType::bfloat16: return write(Eigen::bfloat16(static_cast<float>(value)));
    case DataType::int8: return write(static_cast<std::int8_t>(static_cast<int>(value)));
    case DataType::uint8: return write(static_cast<std::uint8_t>(static_cast<int>(value)));
    case DataType::int32: return write(static_cast<std::int32_t>(value));
    case DataType::int64: return write(static_cast<std::int64_t>(value));
  }
}

/// The output of `rank`, made from the inputs by the operation's definition.
std::vector<std::byte> done_by_hand(const Work& work, int ranks, int rank) {
  const std::int64_t width = size_of(work.dtype), share = work.elements / ranks;
  std::vector<std::vector<std::byte>> inputs;
  for (int each = 0; each < ranks; ++each) inputs.push_back(Pattern(work, ranks, each).input());
  const auto in = [&](int of, std::int64_t i) {
    return element(work.dtype, inputs[static_cast<std::size_t>(of)].data() + i * width);
  };
  const auto sum = [&](std::int64_t i) {
    double all = 0;
    for (int each = 0; each < ranks; ++each) all += in(each, i);
    return all;
  };
  const auto value = [&](std::int64_t i) {
    switch (work.operation) {
      case Operation::all_reduce:
      case Operation::reduce: return sum(i);
      case Operation::reduce_scatter: return sum(rank * share + i);
      case Operation::all_gather: return in(static_cast<int>(i / share), i % share);
      case Operation::broadcast: return in(work.root, i);
      case Operation::all_to_all: return in(static_cast<int>(i / share), rank * share + i % share);
      case Operation::send_recv: return in((rank + ranks - 1) % ranks, i);
    }
    return 0.0;
  };
  const std::int64_t count = layout(work, ranks, rank).receive;
  std::vector<std::byte> output(static_cast<std::size_t>(count * width));
  for (std::int64_t i = 0; i < count; ++i) put(work.dtype, value(i), output.data() + i * width);
  return output;
}

TEST(Pattern, IsWhatTheOperationsSay) {
  for (const auto& [operation, operation_name] : EnumNames<Operation>::table)
    for (const auto& [dtype, dtype_name] : EnumNames<DataType>::table)
      for (const int ranks : {1, 2, 3, 4, 7, 130}) {
        const Work work = work_of_size(operation, dtype, Bytes(6000), ranks);
        for (const int rank : {0, ranks / 2, ranks - 1}) {
          const Pattern pattern(work, ranks, rank);
          const std::vector<std::byte> output = done_by_hand(work, ranks, rank);
          EXPECT_FALSE(pattern.check(output.data())) << operation_name << " " << dtype_name << " " << ranks;
          if (pattern.has_result()) {
            EXPECT_EQ(output, pattern.right_output());
          }
        }
      }
}

/// Rank r of three gets counts[r] rows from each, or, where it returns, sends as many to each.
TEST(Pattern, OfAnUnevenAllToAllIsWhatEachSendsToEach) {
  const std::vector<std::int64_t> counts{300, 0, 41};
  const auto before = [&counts](int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{});
  };
  for (const bool returns : {false, true})
    for (int rank = 0; rank < 3; ++rank) {
      const std::int64_t sent = returns ? 3 * counts[static_cast<std::size_t>(rank)] : 341;
      const std::int64_t received = returns ? 341 : 3 * counts[static_cast<std::size_t>(rank)];
      const Work exchange{.operation = Operation::all_to_all,
                          .dtype = DataType::int32,
                          .elements = sent,
                          .counts = counts,
                          .returns = returns};
      EXPECT_EQ(layout(exchange, 3, rank), (Layout{sent, received}));
      EXPECT_EQ(largest_buffer(exchange, 3), Bytes(4 * 900));
      std::vector<double> output;
      for (int from = 0; from < 3; ++from) {
        const std::vector<std::byte> input = Pattern(exchange, 3, from).input();
        const std::int64_t part = counts[static_cast<std::size_t>(returns ? from : rank)];
        const std::int64_t begin = returns ? rank * part : before(rank);
        for (std::int64_t i = 0; i < part; ++i)
          output.push_back(element(DataType::int32, input.data() + 4 * (begin + i)));
      }
      const std::vector<std::byte> right = Pattern(exchange, 3, rank).right_output();
      ASSERT_EQ(right.size(), 4 * output.size());
      for (std::size_t i = 0; i < output.size(); ++i)
        ASSERT_EQ(element(DataType::int32, right.data() + 4 * i), output[i]) << rank << " " << i;
    }
}

TEST(Pattern, NamesTheFirstWrongElementAndCountsThem) {
  const Work work{.operation = Operation::all_reduce, .dtype = DataType::float32, .elements = 1000};
  const Pattern pattern(work, 4, 1);
  std::vector<std::byte> output = pattern.right_output();
  put(DataType::float32, 77, output.data() + 4 * 500);
  put(DataType::float32, 78, output.data() + 4 * 900);
  const auto wrong = pattern.check(output.data());
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->count, 2);
  EXPECT_EQ(wrong->first, 500);
  EXPECT_EQ(wrong->is, 77);
  EXPECT_EQ(wrong->should_be, element(DataType::float32, pattern.right_output().data() + 4 * 500));
}

/// Faults of practice: a chunk that is not moved, one of another rank, one that comes twice.
TEST(Pattern, SeesChunksInTheWrongPlace) {
  const Work work{.operation = Operation::all_gather, .dtype = DataType::bfloat16, .elements = 4096};
  const Pattern pattern(work, 4, 0);
  const std::vector<std::byte> right = pattern.right_output();
  for (const std::int64_t chunk : {64, 128, 1024}) {
    std::vector<std::byte> shifted = right;
    std::rotate(shifted.begin(), shifted.begin() + 2 * chunk, shifted.end());
    ASSERT_TRUE(pattern.check(shifted.data())) << chunk;
    EXPECT_GT(pattern.check(shifted.data())->count, 4000) << chunk;
  }
  std::vector<std::byte> twice = right;
  std::copy(right.begin(), right.begin() + 2048, twice.begin() + 2048);
  EXPECT_TRUE(pattern.check(twice.data()));
}

TEST(Pattern, OfReduceOnlyTheRootHasAResult) {
  const Work work{.operation = Operation::reduce, .elements = 8, .root = 2};
  EXPECT_TRUE(Pattern(work, 4, 2).has_result());
  EXPECT_FALSE(Pattern(work, 4, 1).has_result());
}

TEST(Work, HasTheNearestSizeBelow) {
  EXPECT_EQ(work_of_size(Operation::all_reduce, DataType::float32, Bytes(1001), 3).elements, 250);
  EXPECT_EQ(work_of_size(Operation::all_gather, DataType::float32, Bytes(1001), 3).elements, 249);
  EXPECT_EQ(work_of_size(Operation::all_to_all, DataType::float64, Bytes(8), 4).elements, 4);
}

}  // namespace
}  // namespace zplan::bench

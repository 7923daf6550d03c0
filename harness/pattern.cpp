#include "harness/pattern.h"

#include <Eigen/Core>
#include <cstring>

namespace zplan::bench {

namespace {

constexpr std::int64_t kPeriod = 251;
/// The most ranks that add to an element: 64 times 3 is exact in bfloat16.
constexpr std::int64_t kMostAddends = 64;

bool sums_up(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter;
}

/// Calls `use` with a value of the C++ type of `type`.
template <class Use>
auto with_type(DataType type, Use use) {
  switch (type) {
    case DataType::float64: return use(double{});
    case DataType::float16: return use(Eigen::half{});
    case DataType::bfloat16: return use(Eigen::bfloat16{});
    case DataType::int8: return use(std::int8_t{});
    case DataType::uint8: return use(std::uint8_t{});
    case DataType::int32: return use(std::int32_t{});
    case DataType::int64: return use(std::int64_t{});
    case DataType::float32: break;
  }
  return use(float{});
}

/// Returns the value in `Type`, where sums of one-byte integers wrap around.
template <class Type>
Type as(int value) {
  if constexpr (std::is_integral_v<Type>)
    return static_cast<Type>(value);
  else
    return Type(static_cast<float>(value));
}

}  // namespace

Pattern::Pattern(const Work& work, std::int64_t ranks, std::int64_t rank)
    : work_(work), ranks_(ranks), rank_(rank) {
  if (sums_up(work.operation)) sums_ = one_period_of_sums();
}

/// Returns 0 to 3 in sums, else 0 to 250, of which a one-byte integer keeps the low bits.
int Pattern::value(std::int64_t of_rank, std::int64_t position) const {
  const std::int64_t mixed = (position % kPeriod * 7 + of_rank * 31 + 11) % kPeriod;
  if (!sums_up(work_.operation)) return static_cast<int>(mixed);
  const std::int64_t share = (ranks_ + kMostAddends - 1) / kMostAddends;
  return (position + of_rank) % kPeriod % share == 0 ? static_cast<int>(mixed % 4) : 0;
}

std::vector<int> Pattern::one_period_of_sums() const {
  std::vector<int> sums(static_cast<std::size_t>(kPeriod));
  for (std::int64_t position = 0; position < kPeriod; ++position)
    for (std::int64_t rank = 0; rank < ranks_; ++rank)
      sums[static_cast<std::size_t>(position)] += value(rank, position);
  return sums;
}

std::vector<std::byte> Pattern::elements(std::int64_t count,
                                         int (Pattern::*value_at)(std::int64_t) const) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * size_of(work_.dtype)));
  with_type(work_.dtype, [&]<class Type>(Type) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Type element = as<Type>((this->*value_at)(i));
      std::memcpy(bytes.data() + i * static_cast<std::int64_t>(sizeof element), &element, sizeof element);
    }
  });
  return bytes;
}

std::vector<std::byte> Pattern::input() const {
  return elements(layout(work_, ranks_, rank_).send, &Pattern::own);
}

std::vector<std::byte> Pattern::right_output() const {
  return elements(layout(work_, ranks_, rank_).receive, &Pattern::expected);
}

bool Pattern::has_result() const { return work_.operation != Operation::reduce || rank_ == work_.root; }

int Pattern::expected(std::int64_t position) const {
  const Layout each = layout(work_, ranks_, rank_);
  const auto sum = [this](std::int64_t at) { return sums_[static_cast<std::size_t>(at % kPeriod)]; };
  switch (work_.operation) {
    case Operation::all_reduce:
    case Operation::reduce: return sum(position);
    case Operation::reduce_scatter: return sum(rank_ * each.receive + position);
    case Operation::all_gather: return value(position / each.send, position % each.send);
    case Operation::broadcast: return value(work_.root, position);
    case Operation::all_to_all: {
      const std::int64_t from = sender(position);
      const std::int64_t within = position - received_from(work_, ranks_, rank_, from).offset;
      return value(from, sent_to(work_, ranks_, from, rank_).offset + within);
    }
    case Operation::send_recv: return value((rank_ + ranks_ - 1) % ranks_, position);
  }
  return 0;
}

std::int64_t Pattern::sender(std::int64_t position) const {
  if (work_.counts.empty()) return position / (work_.elements / ranks_);
  std::int64_t from = 0;
  for (Share part = received_from(work_, ranks_, rank_, from); position >= part.offset + part.elements;
       part = received_from(work_, ranks_, rank_, from))
    ++from;
  return from;
}

std::optional<WrongElements> Pattern::check(const std::byte* output) const {
  if (!has_result()) return std::nullopt;
  const std::int64_t count = layout(work_, ranks_, rank_).receive;
  WrongElements wrong;
  with_type(work_.dtype, [&]<class Type>(Type) {
    for (std::int64_t i = 0; i < count; ++i) {
      Type is;
      std::memcpy(&is, output + i * static_cast<std::int64_t>(sizeof is), sizeof is);
      const Type should_be = as<Type>(expected(i));
      if (std::memcmp(&is, &should_be, sizeof is) == 0) continue;
      if (wrong.count++ == 0)
        wrong.first = i, wrong.is = static_cast<double>(is), wrong.should_be = static_cast<double>(should_be);
    }
  });
  return wrong.count == 0 ? std::nullopt : std::optional(wrong);
}

}  // namespace zplan::bench

#include "fake_collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "fake_cuda.h"

namespace fake {

namespace {

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T, class Sum>
void add(char* to, const char* from, const Sum& sum) {
  const T value = sum(load<T>(to), load<T>(from));
  std::memcpy(to, &value, sizeof value);
}

template <class T>
void add_plain(char* to, const char* from) {
  add<T>(to, from, [](T one, T other) { return static_cast<T>(one + other); });
}

void add_element(char* to, const char* from, ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return add_plain<std::int8_t>(to, from);
    case ncclUint8: return add_plain<std::uint8_t>(to, from);
    case ncclInt32: return add_plain<std::int32_t>(to, from);
    case ncclInt64: return add_plain<std::int64_t>(to, from);
    case ncclFloat32: return add_plain<float>(to, from);
    case ncclFloat64: return add_plain<double>(to, from);
    case ncclFloat16:
      return add<__half>(to, from, [](__half one, __half other) {
        return __float2half(__half2float(one) + __half2float(other));
      });
    case ncclBfloat16:
      return add<__nv_bfloat16>(to, from, [](__nv_bfloat16 one, __nv_bfloat16 other) {
        return __float2bfloat16(__bfloat162float(one) + __bfloat162float(other));
      });
    default: return complain("a type that the stand-in does not add");
  }
}

/// The sum of `count` elements from `offset` on, over all ranks.
std::vector<char> sum(const Calls& calls, std::size_t offset, std::size_t count) {
  const Call& first = calls.begin()->second;
  const std::size_t each = size_of(first.type), bytes = count * each;
  std::vector<char> total(first.send + offset * each, first.send + offset * each + bytes);
  for (const auto& [rank, call] : calls)
    for (std::size_t at = 0; rank != calls.begin()->first && at < bytes; at += each)
      add_element(total.data() + at, call.send + offset * each + at, call.type);
  return total;
}

void do_all_gather(const Calls& calls) {
  std::vector<char> all;
  for (const auto& [rank, call] : calls)
    all.insert(all.end(), call.send, call.send + call.count * size_of(call.type));
  for (const auto& [rank, call] : calls) put(all, call.receive);
}

void do_reduce_scatter(const Calls& calls) {
  std::vector<std::vector<char>> parts;
  for (const auto& [rank, call] : calls)
    parts.push_back(sum(calls, static_cast<std::size_t>(rank) * call.count, call.count));
  for (const auto& [rank, call] : calls) put(parts[static_cast<std::size_t>(rank)], call.receive);
}

void do_broadcast(const Calls& calls) {
  const Call& root = calls.at(calls.begin()->second.root);
  const std::vector<char> data(root.send, root.send + root.count * size_of(root.type));
  for (const auto& [rank, call] : calls) put(data, call.receive);
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

std::pair<std::size_t, std::size_t> buffers(const Call& call, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  if (call.name == "all_gather") return {call.count, call.count * ranks};
  if (call.name == "reduce_scatter") return {call.count * ranks, call.count};
  return {call.count, call.count};
}

bool lies_apart_or_in_place(const Call& call, int rank, int size) {
  const auto [sent, received] = buffers(call, size);
  const std::size_t each = size_of(call.type);
  if (call.send + sent * each <= call.receive || call.receive + received * each <= call.send) return true;
  const std::size_t own = static_cast<std::size_t>(rank) * call.count * each;
  if (call.name == "all_gather") return call.send == call.receive + own;
  if (call.name == "reduce_scatter") return call.receive == call.send + own;
  return call.send == call.receive;
}

// Without memmove, which takes no null even where nothing is moved.
void put(const std::vector<char>& data, char* to) { std::copy(data.begin(), data.end(), to); }

void do_collective(const Calls& calls) {
  const Call& call = calls.begin()->second;
  if (call.name == "all_gather") return do_all_gather(calls);
  if (call.name == "reduce_scatter") return do_reduce_scatter(calls);
  if (call.name == "broadcast") return do_broadcast(calls);
  const std::vector<char> total = sum(calls, 0, call.count);
  for (const auto& [rank, each] : calls)
    if (call.name == "all_reduce" || rank == call.root) put(total, each.receive);
}

}  // namespace fake

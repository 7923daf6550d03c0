#include "harness/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hardware_profiles/link_speed.h"
#include "models/base/error.h"

namespace zplan::bench {

std::vector<int> members(const Groups& groups, std::int64_t ranks, std::int64_t rank,
                         std::string_view place) {
  const std::int64_t tensor = groups.kind == GroupKind::world ? 1 : groups.tensor;
  if (tensor < 1 || ranks % tensor != 0)
    throw InputError(std::string(place), fmt::format("tensor groups of {} among {} ranks", tensor, ranks),
                     "accepted: a divisor of the number of ranks");
  const std::int64_t data = ranks / tensor, block = groups.size * groups.stride;
  const std::int64_t whole = groups.kind == GroupKind::tensor ? tensor : data;
  if (groups.size < 1 || groups.stride < 1 || whole % block != 0 ||
      (groups.kind == GroupKind::tensor && groups.size != tensor) ||
      (groups.kind == GroupKind::world && groups.size != ranks))
    throw InputError(std::string(place), fmt::format("{} among {} ranks", name_of(groups), ranks),
                     fmt::format("accepted: groups that share out all {} of them", whole));
  std::vector<int> found;
  if (groups.kind == GroupKind::tensor) {
    for (std::int64_t i = 0; i < tensor; ++i) found.push_back(static_cast<int>(rank / tensor * tensor + i));
    return found;
  }
  const std::int64_t at = rank / tensor;
  const std::int64_t first = at / block * block + at % groups.stride;
  for (std::int64_t i = 0; i < groups.size; ++i)
    found.push_back(static_cast<int>((first + i * groups.stride) * tensor + rank % tensor));
  return found;
}

std::int64_t at_once(const Groups& groups, std::int64_t ranks) { return ranks / groups.size; }

std::string name_of(const Groups& groups) {
  if (groups.kind == GroupKind::world) return fmt::format("world of {}", groups.size);
  const std::string name = fmt::format("{} groups of {}", to_name(groups.kind), groups.size);
  return groups.stride == 1 ? name : fmt::format("{}, stride {}", name, groups.stride);
}

namespace {

std::size_t at(std::int64_t rank) { return static_cast<std::size_t>(rank); }

/// Returns one of several parts of different sizes that follow each other.
Share one_of(const std::vector<std::int64_t>& counts, std::int64_t peer) {
  return {std::accumulate(counts.begin(), counts.begin() + peer, std::int64_t{}), counts[at(peer)]};
}
/// Returns one of several parts of `size`.
Share one_of(std::int64_t size, std::int64_t peer) { return {size * peer, size}; }

}  // namespace

Share sent_to(const Work& work, std::int64_t ranks, std::int64_t rank, std::int64_t peer) {
  if (work.counts.empty()) return one_of(work.elements / ranks, peer);
  return work.returns ? one_of(work.counts[at(rank)], peer) : one_of(work.counts, peer);
}

Share received_from(const Work& work, std::int64_t ranks, std::int64_t rank, std::int64_t peer) {
  if (work.counts.empty()) return one_of(work.elements / ranks, peer);
  return work.returns ? one_of(work.counts, peer) : one_of(work.counts[at(rank)], peer);
}

Layout layout(const Work& work, std::int64_t ranks, std::int64_t rank) {
  if (!work.counts.empty()) {
    const Share sent = sent_to(work, ranks, rank, ranks - 1);
    const Share received = received_from(work, ranks, rank, ranks - 1);
    return {sent.offset + sent.elements, received.offset + received.elements};
  }
  if (work.operation == Operation::all_gather) return {work.elements / ranks, work.elements};
  if (work.operation == Operation::reduce_scatter) return {work.elements, work.elements / ranks};
  return {work.elements, work.elements};
}

Bytes largest_buffer(const Work& work, std::int64_t ranks) {
  std::int64_t most = work.elements;
  for (std::int64_t rank = 0; rank < ranks && !work.counts.empty(); ++rank) {
    const Layout each = layout(work, ranks, rank);
    most = std::max({most, each.send, each.receive});
  }
  return Bytes(most * size_of(work.dtype));
}

std::int64_t in_place_send_offset(const Work& work, std::int64_t ranks, std::int64_t rank) {
  return work.operation == Operation::all_gather ? work.elements / ranks * rank : 0;
}

std::int64_t in_place_receive_offset(const Work& work, std::int64_t ranks, std::int64_t rank) {
  return work.operation == Operation::reduce_scatter ? work.elements / ranks * rank : 0;
}

bool is_shared_out(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter ||
         operation == Operation::all_to_all;
}

bool has_in_place_form(Operation operation) {
  return operation != Operation::all_to_all && operation != Operation::send_recv;
}

Work work_of_size(Operation operation, DataType dtype, Bytes bytes, std::int64_t ranks) {
  const std::int64_t unit = is_shared_out(operation) ? ranks : 1;
  const std::int64_t elements = bytes.value / size_of(dtype) / unit * unit;
  return {.operation = operation, .dtype = dtype, .elements = std::max(elements, unit)};
}

}  // namespace zplan::bench

namespace zplan {

BytesPerSecond algorithm_bandwidth(Bytes bytes, Seconds time) {
  return BytesPerSecond(static_cast<double>(bytes.value) / time.value);
}

BytesPerSecond bus_bandwidth(Operation operation, Bytes bytes, Seconds time, std::int64_t ranks) {
  return algorithm_bandwidth(ring_wire_bytes(operation, bytes, ranks), time);
}

}  // namespace zplan

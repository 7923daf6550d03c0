#include "harness/work.h"

#include <algorithm>
#include <numeric>

namespace zplan::bench {

namespace {

std::size_t at(std::int64_t rank) { return static_cast<std::size_t>(rank); }

/// Parts of unlike size, one behind the other.
Share one_of(const std::vector<std::int64_t>& counts, std::int64_t peer) {
  return {std::accumulate(counts.begin(), counts.begin() + peer, std::int64_t{}), counts[at(peer)]};
}
/// Parts that are all of `size`.
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

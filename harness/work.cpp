#include "harness/work.h"

#include <algorithm>

namespace zplan::bench {

namespace {

bool is_shared_out(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter ||
         operation == Operation::all_to_all;
}

}  // namespace

Layout layout(const Work& work, std::int64_t ranks) {
  if (work.operation == Operation::all_gather) return {work.elements / ranks, work.elements};
  if (work.operation == Operation::reduce_scatter) return {work.elements, work.elements / ranks};
  return {work.elements, work.elements};
}

std::int64_t in_place_send_offset(const Work& work, std::int64_t ranks, std::int64_t rank) {
  return work.operation == Operation::all_gather ? work.elements / ranks * rank : 0;
}

std::int64_t in_place_receive_offset(const Work& work, std::int64_t ranks, std::int64_t rank) {
  return work.operation == Operation::reduce_scatter ? work.elements / ranks * rank : 0;
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

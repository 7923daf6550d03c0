#include "hardware_profiles/wire.h"

namespace zplan {

Bytes ring_wire_bytes(Operation operation, Bytes bytes, std::int64_t ranks) {
  if (ranks <= 1) return {};
  // bytes·(n−1)/n without overflow: whole quotient and remainder apart.
  const std::int64_t n = ranks;
  const Bytes once(bytes.value / n * (n - 1) + bytes.value % n * (n - 1) / n);
  switch (operation) {
    case Operation::all_reduce: return once * 2;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return once;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send_recv: return bytes;
  }
  return bytes;
}

}  // namespace zplan

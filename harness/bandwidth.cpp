#include "harness/bandwidth.h"

#include "hardware_profiles/link_speed.h"

namespace zplan {

BytesPerSecond algorithm_bandwidth(Bytes bytes, Seconds time) {
  return BytesPerSecond(static_cast<double>(bytes.value) / time.value);
}

BytesPerSecond bus_bandwidth(Operation operation, Bytes bytes, Seconds time, std::int64_t ranks) {
  return algorithm_bandwidth(ring_wire_bytes(operation, bytes, ranks), time);
}

}  // namespace zplan

#include <gtest/gtest.h>

#include "hardware_profiles/link_speed.h"

namespace zplan {
namespace {

TEST(RingWireBytes, AsNcclTestsDerivesThem) {
  const Bytes size(1'000'000);
  EXPECT_EQ(ring_wire_bytes(Operation::all_reduce, size, 4), Bytes(1'500'000));
  EXPECT_EQ(ring_wire_bytes(Operation::all_gather, size, 4), Bytes(750'000));
  EXPECT_EQ(ring_wire_bytes(Operation::reduce_scatter, size, 5), Bytes(800'000));
  EXPECT_EQ(ring_wire_bytes(Operation::broadcast, size, 4), size);
  EXPECT_EQ(ring_wire_bytes(Operation::all_reduce, size, 1), Bytes(0));
}

}  // namespace
}  // namespace zplan

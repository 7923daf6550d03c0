// Placement of groups of ranks on nodes, which torch.distributed numbers node by node.

#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"

namespace zplan {
namespace {

Cluster nodes_of_eight(std::int64_t nodes) {
  return assemble_cluster({.gpu = "h100", .gpus = 8 * nodes, .nodes = nodes}, built_in_profiles());
}

TEST(GroupPlaces, TensorParallelGroupsAreNeighbours) {
  EXPECT_EQ(place_group(nodes_of_eight(2), 4), (GroupPlace{4, 1, 2}));
  EXPECT_EQ(place_group(nodes_of_eight(2), 8), (GroupPlace{8, 1, 1}));
  EXPECT_EQ(place_group(nodes_of_eight(4), 16), (GroupPlace{16, 2, 1}));
}

TEST(GroupPlaces, DataParallelGroupsSpanAllNodes) {
  EXPECT_EQ(place_group(nodes_of_eight(1), 4, 2), (GroupPlace{4, 1, 2}));
  EXPECT_EQ(place_group(nodes_of_eight(2), 16), (GroupPlace{16, 2, 1}));
  EXPECT_EQ(place_group(nodes_of_eight(2), 4, 4), (GroupPlace{4, 2, 4}));
  EXPECT_EQ(place_group(nodes_of_eight(8), 8, 8), (GroupPlace{8, 8, 8}));
  // Tensor-parallel groups that are larger than a node: one rank of a data-parallel group on every other
  // node.
  EXPECT_EQ(place_group(nodes_of_eight(8), 4, 16), (GroupPlace{4, 4, 8}));
}

TEST(GroupPlaces, SubGroupsStayInsideANodeAsLongAsTheyFit) {
  EXPECT_EQ(place_group(nodes_of_eight(4), 8), (GroupPlace{8, 1, 1}));     // hpZ of a whole node
  EXPECT_EQ(place_group(nodes_of_eight(4), 2, 4), (GroupPlace{2, 1, 4}));  // hpZ under tensor parallelism
  EXPECT_EQ(place_group(nodes_of_eight(4), 4, 8), (GroupPlace{4, 4, 8}));  // HSDP's replicas of such nodes
}

TEST(GroupPlaces, TheGroupThatIsSplitIsPlaced) {
  const GroupPlace six = place_group(nodes_of_eight(3), 6);
  EXPECT_EQ(six.nodes, 2);
  EXPECT_EQ(six.ranks_per_node(), 3);
}

TEST(GroupPlaces, OneOrAll) {
  EXPECT_EQ(place_group(nodes_of_eight(2), 1).nodes, 1);
  EXPECT_EQ(place_of_all(nodes_of_eight(2)), (GroupPlace{16, 2, 1}));
}

}  // namespace
}  // namespace zplan

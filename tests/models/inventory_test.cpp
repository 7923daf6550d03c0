// Arithmetic of the inventory: sums over kinds and ranks.
#include "models/inventory.h"

#include <gtest/gtest.h>

#include "tests/models/support.h"

namespace zplan::test {
namespace {

/// The sum taken the long way, layer by layer.
std::int64_t walked(const Inventory& inventory) {
  std::int64_t sum = 0;
  for_each_tensor(inventory, [&](const Tensor& tensor, int) { sum += tensor.elements().value; });
  return sum;
}

std::int64_t over_ranks(const Tensor& tensor, std::int64_t ranks) {
  std::int64_t sum = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) sum += elements_on_rank(tensor, ranks, rank).value;
  return sum;
}

std::int64_t extent_product(const Tensor& tensor) {
  std::int64_t product = 1;
  for (const std::int64_t extent : tensor.shape) product *= extent;
  return product;
}

// shard sizes of DeepSpeed 0.19.8 tp_shard.py get_shard_size_list(10, 4) and (2, 4)
TEST(Inventory, FirstRanksTakeTheRemainder) {
  EXPECT_EQ(units_on_rank(10, 4, 0), 3);
  EXPECT_EQ(units_on_rank(10, 4, 1), 3);
  EXPECT_EQ(units_on_rank(10, 4, 2), 2);
  EXPECT_EQ(units_on_rank(10, 4, 3), 2);
  EXPECT_EQ(units_on_rank(2, 4, 1), 1);
  EXPECT_EQ(units_on_rank(2, 4, 2), 0);
}

TEST(Inventory, SumByKindsIsSumByLayers) {
  for (const Counted& counted : counted_models()) {
    const Model model = model_of(counted);
    EXPECT_EQ(elements(model.inventory).value, walked(model.inventory)) << counted.name;
  }
}

TEST(Inventory, RolesPartitionTheModel) {
  for (const Counted& counted : counted_models()) {
    const Model model = model_of(counted);
    Elements sum;
    for (const auto& [role, name] : EnumNames<TensorRole>::table) sum += elements(model.inventory, role);
    EXPECT_EQ(sum, elements(model.inventory)) << counted.name;
    EXPECT_DOUBLE_EQ(approximate_elements(model.inventory), static_cast<double>(sum.value)) << counted.name;
  }
}

TEST(Inventory, RanksTogetherHoldSplitTensorsOnce) {
  for (const Counted& counted : counted_models())
    for (const std::int64_t ranks : {2, 3, 8}) {
      const Model model = model_of(counted);
      for_each_tensor(model.inventory, [&, ranks](const Tensor& tensor, int layer) {
        if (layer > 0) return;
        const bool split = tensor.split != TensorParallelSplit::replicated;
        ASSERT_EQ(over_ranks(tensor, ranks), extent_product(tensor) * (split ? 1 : ranks))
            << counted.name << " " << tensor.name;
      });
    }
}

TEST(Inventory, LowerRanksHoldAtLeastAsMuch) {
  for (const Counted& counted : counted_models()) {
    const Model model = model_of(counted);
    for (const Tensor& tensor : model.inventory.kinds.front().tensors)
      for (std::int64_t rank = 1; rank < 8; ++rank)
        ASSERT_GE(elements_on_rank(tensor, 8, rank - 1), elements_on_rank(tensor, 8, rank))
            << counted.name << " " << tensor.name;
  }
}

// A matrix product per weight: its sizes are the tensor's.
TEST(Inventory, LinearLayersMatchTheirWeights) {
  for (const Counted& counted : counted_models()) {
    const Model model = model_of(counted);
    for_each_tensor(model.inventory, [&](const Tensor& tensor, int) {
      EXPECT_EQ(tensor.linear.has_value(), tensor.shape.size() > 1 && !tensor.name.ends_with("bias") &&
                                               tensor.role != TensorRole::token_embedding &&
                                               tensor.role != TensorRole::position_embedding)
          << counted.name << " " << tensor.name;
      if (tensor.linear) {
        EXPECT_EQ(tensor.linear->in_features * tensor.linear->out_features * tensor.linear->copies,
                  extent_product(tensor))
            << tensor.name;
      }
    });
  }
}

}  // namespace
}  // namespace zplan::test

// Tensors of each rank of a tensor-parallel group, compared with runs of DeepSpeed 0.19.8.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/models/support.h"

namespace zplan::test {
namespace {

std::int64_t elements_of_shape(const Json& shape) {
  std::int64_t product = 1;
  for (const Json& extent : shape) product *= extent.get<std::int64_t>();
  return product;
}

std::string with_layer(std::string name, int layer) {
  if (const std::size_t hole = name.find("{}"); hole != std::string::npos)
    name.replace(hole, 2, std::to_string(layer));
  return name;
}

std::int64_t elements_of_rank(const Inventory& inventory, std::int64_t ranks, std::int64_t rank) {
  Elements sum;
  for_each_tensor(inventory,
                  [&](const Tensor& tensor, int) { sum += elements_on_rank(tensor, ranks, rank); });
  return sum.value;
}

class AutoTp : public testing::TestWithParam<Json> {
 protected:
  const Json& run = GetParam();
  const Model model = model_of(run["config"]);
  const std::int64_t ranks = run["tensor_parallel"].get<std::int64_t>();
};

TEST_P(AutoTp, EveryTensorOfRankZero) {
  std::size_t seen = 0;
  for_each_tensor(model.inventory, [&](const Tensor& tensor, int layer) {
    const std::string name = with_layer(tensor.name, layer);
    ASSERT_TRUE(run["rank_0"].contains(name)) << name;
    EXPECT_EQ(elements_on_rank(tensor, ranks, 0).value, elements_of_shape(run["rank_0"][name])) << name;
    ++seen;
  });
  EXPECT_EQ(seen, run["rank_0"].size());
}

TEST_P(AutoTp, SumOnEveryRank) {
  ASSERT_EQ(run["elements_per_rank"].size(), static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(elements_of_rank(model.inventory, ranks, rank),
              run["elements_per_rank"][static_cast<std::size_t>(rank)].get<std::int64_t>())
        << "rank " << rank;
}

std::vector<Json> runs() {
  const Json file = test_data("reference/autotp/autotp.json");
  return {file["runs"].begin(), file["runs"].end()};
}

INSTANTIATE_TEST_SUITE_P(Runs, AutoTp, testing::ValuesIn(runs()), [](const auto& each) {
  return test_name(each.param["run"].template get<std::string>());
});

/// Models of many architectures: every tensor on every rank.
class AutoTpFamilies : public testing::TestWithParam<Json> {
 protected:
  const Json& run = GetParam();
  const Model model = model_of(run["config"]);
};

TEST_P(AutoTpFamilies, EveryTensorOnEveryRank) {
  const auto ranks = run["tensor_parallel"].get<std::int64_t>();
  std::size_t seen = 0;
  for_each_tensor(model.inventory, [&](const Tensor& tensor, int layer) {
    const std::string name = with_layer(tensor.name, layer);
    ASSERT_TRUE(run["elements"].contains(name)) << name;
    std::vector<std::int64_t> held;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      held.push_back(elements_on_rank(tensor, ranks, rank).value);
    EXPECT_EQ(Json(held), run["elements"][name]) << name;
    ++seen;
  });
  EXPECT_EQ(seen, run["elements"].size());
}

std::vector<Json> family_runs() {
  const Json file = test_data("reference/autotp/families.json");
  return {file["runs"].begin(), file["runs"].end()};
}

INSTANTIATE_TEST_SUITE_P(Runs, AutoTpFamilies, testing::ValuesIn(family_runs()), [](const auto& each) {
  return std::to_string(each.index) + "_" + each.param["config"]["model_type"].template get<std::string>() +
         "_" + std::to_string(each.param["tensor_parallel"].template get<int>());
});

}  // namespace
}  // namespace zplan::test

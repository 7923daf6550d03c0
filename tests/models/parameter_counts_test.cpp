// 78 models against counts taken from transformers and peft themselves: every figure equal, none close.
#include <gtest/gtest.h>

#include <ostream>

#include "models/lora.h"
#include "tests/models/support.h"

namespace zplan::test {

void PrintTo(const Counted& counted, std::ostream* out) { *out << counted.name; }

namespace {

/// Elements of the biases that are not a normalisation's.
std::int64_t bias_elements(const Inventory& inventory) {
  std::int64_t sum = 0;
  for_each_tensor(inventory, [&](const Tensor& tensor, int) {
    if (tensor.name.ends_with("bias") && tensor.role != TensorRole::norm) sum += tensor.elements().value;
  });
  return sum;
}

/// The reference counts gpt-oss's attention sinks, vectors too, with the norms.
std::int64_t sink_elements(const Inventory& inventory) {
  std::int64_t sum = 0;
  for_each_tensor(inventory, [&](const Tensor& tensor, int) {
    if (tensor.name.ends_with(".sinks")) sum += tensor.elements().value;
  });
  return sum;
}

std::int64_t of_role(const Model& model, TensorRole role) { return elements(model.inventory, role).value; }

/// "layers 3-60 (58)" → 3
std::size_t first_layer(const std::string& range) { return std::stoul(range.substr(range.find(' ') + 1)); }

std::int64_t layer_elements(const Model& model, std::size_t layer) {
  return elements(model.inventory.kinds[model.inventory.layers[layer]]).value;
}

class ParameterCounts : public testing::TestWithParam<Counted> {
 protected:
  const Json& row = GetParam().row;
  const Model model = model_of(GetParam());
};

TEST_P(ParameterCounts, Total) { EXPECT_EQ(parameters(model).value, row["total"].get<std::int64_t>()); }

TEST_P(ParameterCounts, Embeddings) {
  EXPECT_EQ(of_role(model, TensorRole::token_embedding), row["embedding"].get<std::int64_t>());
  EXPECT_EQ(of_role(model, TensorRole::position_embedding), row["position_embedding"].get<std::int64_t>());
  EXPECT_EQ(model.shape.tied_embeddings, row["lm_head_tied"].get<bool>());
  EXPECT_EQ(tensor_named(model.inventory, model.inventory.before.front().name).elements().value,
            row["embedding"].get<std::int64_t>());
}

TEST_P(ParameterCounts, Head) {
  std::int64_t weights = 0;
  for (const Tensor& tensor : model.inventory.after)
    if (tensor.role == TensorRole::head && tensor.linear) weights += tensor.elements().value;
  EXPECT_EQ(weights, row["lm_head"].get<std::int64_t>());
}

TEST_P(ParameterCounts, Layers) {
  ASSERT_EQ(model.inventory.layers.size(), row["layers"].get<std::size_t>());
  EXPECT_EQ(model.shape.layers, row["layers"].get<std::int64_t>());
  if (row["per_layer"].is_object()) {
    ASSERT_EQ(model.inventory.kinds.size(), row["per_layer"].size());
    for (const auto& [range, count] : row["per_layer"].items())
      EXPECT_EQ(layer_elements(model, first_layer(range)), count.get<std::int64_t>()) << range;
  } else {
    ASSERT_EQ(model.inventory.kinds.size(), 1U);
    EXPECT_EQ(layer_elements(model, 0), row["per_layer"].get<std::int64_t>());
  }
}

TEST_P(ParameterCounts, NormsAndBiases) {
  EXPECT_EQ(of_role(model, TensorRole::norm) + sink_elements(model.inventory),
            row["norm_params"].get<std::int64_t>());
  EXPECT_EQ(bias_elements(model.inventory), row["bias_params"].get<std::int64_t>());
}

TEST_P(ParameterCounts, Experts) {
  if (!row.contains("experts")) {
    EXPECT_FALSE(model.shape.experts.has_value());
    EXPECT_EQ(active_parameters(model).value, row["total"].get<std::int64_t>());
    return;
  }
  ASSERT_TRUE(model.shape.experts.has_value());
  EXPECT_EQ(model.shape.experts->experts, row["experts"].get<std::int64_t>());
  EXPECT_EQ(model.shape.experts->experts_per_token, row["experts_per_token"].get<std::int64_t>());
  EXPECT_EQ(of_role(model, TensorRole::expert), row["expert_params"].get<std::int64_t>());
  EXPECT_EQ(active_parameters(model).value, row["active"].get<std::int64_t>());
}

TEST_P(ParameterCounts, LoraAdapters) {
  for (const std::string targets : {"q_v", "all-linear"})
    for (const std::int64_t rank : {8, 16, 64}) {
      const Inventory adapters = lora_adapters(model, rank, {{targets}});
      const std::string key = "r" + std::to_string(rank);
      EXPECT_EQ(elements(adapters).value, row["lora_trainable"][targets][key].get<std::int64_t>())
          << targets << " " << key;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, ParameterCounts, testing::ValuesIn(counted_models()),
                         [](const auto& each) { return test_name(each.param.name); });

TEST(ParameterCountsFile, HasAllModels) { EXPECT_EQ(counted_models().size(), 78U); }

/// Configs as published beside measurements of memory; `parameters` is exact for the config as given.
class PublishedModels : public testing::TestWithParam<Json> {};

TEST_P(PublishedModels, Total) {
  EXPECT_EQ(parameters(model_of(GetParam()["config"])).value, GetParam()["parameters"].get<std::int64_t>())
      << GetParam()["model"];
}

std::vector<Json> published_models() {
  const Json file = test_data("reference/parameter_counts/published.json");
  return {file.begin(), file.end()};
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedModels, testing::ValuesIn(published_models()),
                         [](const auto& each) {
                           return std::to_string(each.index) + "_" +
                                  test_name(each.param["model"].template get<std::string>());
                         });

}  // namespace

}  // namespace zplan::test

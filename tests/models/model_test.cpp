// Sums over a model that papers and model GPUs state.
#include "models/model.h"

#include <gtest/gtest.h>

#include "tests/models/support.h"

namespace zplan::test {
namespace {

Model counted_model(const std::string& name) {
  for (const Counted& counted : counted_models())
    if (counted.name == name) return model_of(counted);
  throw std::out_of_range(name);
}

double active_billions(const std::string& name) {
  return static_cast<double>(active_parameters(counted_model(name)).value) / 1e9;
}

// The papers round, and count embedding and head or not; ours counts both (one token passes one row of the
// embedding, but the table is there for it).
TEST(ActiveParameters, AsPublished) {
  // Jiang et al. 2024, "Mixtral of Experts", arXiv 2401.04088, table 2: 13B active; Mistral AI's
  // announcement: 12.9B.
  EXPECT_NEAR(active_billions("Mixtral-8x7B"), 12.9, 0.05);
  // DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", arXiv 2412.19437, abstract: 37B activated. Its head and
  // main model alone, without the embedding's 0.93B, are 36.6B.
  EXPECT_NEAR(active_billions("DeepSeek-V3"), 37.0, 0.02 * 37.0);
  EXPECT_NEAR(active_billions("DeepSeek-V3") - 0.927, 37.0, 0.011 * 37.0);
  // DeepSeek-AI 2024, "DeepSeek-V2", arXiv 2405.04434, abstract: 21B activated.
  EXPECT_NEAR(active_billions("DeepSeek-V2"), 21.0, 0.02 * 21.0);
  // Qwen Team 2025, "Qwen3 Technical Report", arXiv 2505.09388, and the model GPU: 3.3B activated of 30.5B.
  EXPECT_NEAR(active_billions("Qwen3-30B-A3B"), 3.3, 0.06);
  // OpenAI 2025, "gpt-oss model GPU", arXiv 2508.10925, table 1: 5.13B active, the embedding's 0.58B left
  // out.
  EXPECT_NEAR(active_billions("gpt-oss-120b") - 0.579, 5.13, 0.01);
}

TEST(ActiveParameters, DenseModelsUseAll) {
  EXPECT_EQ(active_parameters(counted_model("Llama-3-8B")).value, 8'030'261'248);
}

// per_layer in parameter_counts.json: the routed layers of DeepSeek-V3, not its first three.
TEST(LargestLayer, OfTwoKinds) {
  EXPECT_EQ(largest_layer(counted_model("DeepSeek-V3")).value, 11'507'286'016);
}

TEST(Kinds, DistinctAndInUse) {
  const Model model = counted_model("DeepSeek-V3");
  ASSERT_EQ(model.inventory.kinds.size(), 2U);
  EXPECT_EQ(model.inventory.kinds[0].name, "dense");
  EXPECT_EQ(model.inventory.kinds[1].name, "mixture_of_experts");
  EXPECT_EQ(model.shape.experts->layers, 58);
  // Qwen3-30B-A3B has no dense layer, so no dense kind.
  EXPECT_EQ(counted_model("Qwen3-30B-A3B").inventory.kinds.size(), 1U);
}

}  // namespace
}  // namespace zplan::test

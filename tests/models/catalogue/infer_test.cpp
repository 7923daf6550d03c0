#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/catalogue/catalogue.h"

namespace zplan {
namespace {

/// Sizes from 1M to 100T at even distances in the logarithm, with odd last digits.
std::vector<Elements> sizes(int steps) {
  std::vector<Elements> out;
  for (int i = 0; i <= steps; ++i) {
    const double size = std::pow(10.0, 6.0 + 8.0 * i / steps);
    out.emplace_back(std::min<std::int64_t>(std::llround(size) + i % 7, 100'000'000'000'000));
  }
  return out;
}

std::int64_t unassigned(const Model& model) {
  if (model.inventory.after.empty() || model.inventory.after.back().name != "unassigned") return 0;
  return model.inventory.after.back().elements().value;
}

/// True if a model of the catalogue has these sizes, apart from the MLP's.
bool catalogue_has(const ModelShape& shape) {
  return std::any_of(catalogue().begin(), catalogue().end(), [&](const CatalogueEntry& entry) {
    const Json config = Json::parse(entry.config);
    return config.value("hidden_size", 0) == shape.hidden_size &&
           config.value("num_hidden_layers", 0) == shape.layers &&
           config.value("vocab_size", 0) == shape.vocabulary_size;
  });
}

TEST(InferModel, HasExactlyTheParametersThatWereAskedFor) {
  for (const Elements size : sizes(400)) EXPECT_EQ(parameters(infer_model(size)), size);
  for (const std::int64_t odd : {1'000'000LL, 1'234'567LL, 123'456'789LL, 8'030'261'248LL, 8'030'261'249LL,
                                 7'999'999'999LL, 70'553'706'495LL, 100'000'000'000'000LL})
    EXPECT_EQ(parameters(infer_model(Elements(odd))).value, odd);
}

TEST(InferModel, SizesOfTheShapeGoTogether) {
  for (const Elements size : sizes(400)) {
    const ModelShape shape = infer_model(size).shape;
    EXPECT_EQ(shape.architecture, "llama");
    EXPECT_EQ(shape.attention_heads * shape.head_size, shape.hidden_size) << size.value;
    EXPECT_EQ(shape.attention_heads % shape.key_value_heads, 0) << size.value;
    EXPECT_GE(shape.layers, 1) << size.value;
    EXPECT_GE(shape.intermediate_size, 1) << size.value;
    EXPECT_GE(shape.vocabulary_size, 128) << size.value;
    EXPECT_FALSE(shape.experts) << size.value;
  }
}

TEST(InferModel, ProportionsAreThoseOfALlamaFrom100MUp) {
  for (const Elements size : sizes(800)) {
    if (size.value < 100'000'000) continue;
    const ModelShape shape = infer_model(size).shape;
    const double mlp = static_cast<double>(shape.intermediate_size) / static_cast<double>(shape.hidden_size);
    EXPECT_GE(mlp, 2.0) << size.value;
    EXPECT_LE(mlp, 5.0) << size.value;
    // Width over depth: 19 for SmolLM2-135M, 85 to 130 for Llama.
    const double aspect = static_cast<double>(shape.hidden_size) / static_cast<double>(shape.layers);
    EXPECT_GE(aspect, 15.0) << size.value;
    EXPECT_LE(aspect, 180.0) << size.value;
  }
}

TEST(InferModel, LargeModelsHaveHeadsThatTensorParallelismCanDealOut) {
  for (const Elements size : sizes(400)) {
    if (size.value < 2'000'000'000) continue;
    const ModelShape shape = infer_model(size).shape;
    const std::int64_t ranks = size.value < 20'000'000'000 ? 2 : 4;
    EXPECT_EQ(shape.attention_heads % ranks, 0) << size.value;
    EXPECT_EQ(shape.key_value_heads % ranks, 0) << size.value;
  }
}

TEST(InferModel, LeavesLittleUnassigned) {
  for (const Elements size : sizes(800)) {
    const Model model = infer_model(size);
    // Less than a row of the vocabulary; where a known shape keeps its vocabulary, less than a 5000th or than
    // one more feature in each MLP.
    const std::int64_t row = model.shape.hidden_size * (model.shape.tied_embeddings ? 1 : 2);
    const bool kept = catalogue_has(model.shape);
    const std::int64_t feature = 3 * model.shape.hidden_size * model.shape.layers;
    EXPECT_LT(unassigned(model), kept ? std::max(feature, size.value / 5000 + 1) : row) << size.value;
  }
}

TEST(InferModel, WidthGrowsWithSize) {
  std::int64_t widest = 0;
  for (const Elements size : sizes(800)) {
    const std::int64_t hidden = infer_model(size).shape.hidden_size;
    // Between two size classes the next shape may be narrower and deeper.
    EXPECT_GE(static_cast<double>(hidden), 0.8 * static_cast<double>(widest)) << size.value;
    widest = std::max(widest, hidden);
  }
  EXPECT_GT(widest, 65'536);
}

TEST(InferModel, EightBillionIsRecognisablyLlama3) {
  const Model model = infer_model(Elements(8'000'000'000));
  EXPECT_EQ(model.shape.layers, 32);
  EXPECT_EQ(model.shape.hidden_size, 4096);
  EXPECT_EQ(model.shape.attention_heads, 32);
  EXPECT_EQ(model.shape.key_value_heads, 8);
  EXPECT_EQ(model.shape.vocabulary_size, 128256);
  EXPECT_NEAR(static_cast<double>(model.shape.intermediate_size), 14336, 100);
  EXPECT_EQ(model.shape.intermediate_size % 16, 0);
  EXPECT_FALSE(model.shape.tied_embeddings);
  EXPECT_EQ(model.name, "8B");
  EXPECT_EQ(model.source, ModelSource::size);
}

TEST(InferModel, TheSizeOfAKnownModelIsThatModel) {
  for (const char* name :
       {"Llama-2-7B", "Llama-3.1-8B", "Llama-2-13B", "Llama-3.1-70B", "Llama-3.1-405B", "Llama-3.2-1B"}) {
    const Model known = resolve_model(name, {});
    EXPECT_EQ(infer_model(parameters(known)).shape, known.shape) << name;
    EXPECT_EQ(infer_model(parameters(known)).inventory, known.inventory) << name;
  }
}

TEST(InferModel, SevenAndThirteenBillionKeepTheLayoutOfLlama2) {
  const ModelShape seven = infer_model(Elements(7'000'000'000)).shape;
  EXPECT_EQ(seven.layers, 32);
  EXPECT_EQ(seven.hidden_size, 4096);
  EXPECT_NEAR(static_cast<double>(seven.vocabulary_size), 32000, 320);
  const ModelShape thirteen = infer_model(Elements(13'000'000'000)).shape;
  EXPECT_EQ(thirteen.layers, 40);
  EXPECT_EQ(thirteen.hidden_size, 5120);
  EXPECT_EQ(thirteen.vocabulary_size, 32000);
}

TEST(InferModel, ASmallModelIsNotAllVocabulary) {
  for (const std::int64_t size : {1'000'000LL, 5'000'000LL, 50'000'000LL}) {
    const ModelShape shape = infer_model(Elements(size)).shape;
    EXPECT_LE(shape.vocabulary_size * shape.hidden_size, size * 2 / 5) << size;
    EXPECT_GE(shape.layers, 2) << size;
  }
}

TEST(InferModel, SaysHowItCameAbout) {
  const Model model = infer_model(Elements(8'000'000'000));
  EXPECT_THAT(model.origin,
              testing::AllOf(testing::HasSubstr("meta-llama/Llama-3.1-8B"), testing::HasSubstr("32 layers"),
                             testing::HasSubstr("hidden size 4096"), testing::HasSubstr("128256")));
  EXPECT_THAT(model.origin, testing::Not(testing::HasSubstr("\n")));
}

TEST(InferModel, NamesItselfByItsSize) {
  EXPECT_EQ(infer_model(Elements(1'100'000'000'000)).name, "1.1T");
  EXPECT_EQ(infer_model(Elements(500'000'000)).name, "500M");
  EXPECT_EQ(infer_model(Elements(8'030'261'248)).name, "8,030,261,248");
}

TEST(InferModel, RefusesSizesOutOfRangeAndSaysTheRange) {
  for (const std::int64_t size :
       {std::int64_t{0}, std::int64_t{999'999}, std::int64_t{100'000'000'000'001}, INT64_MAX}) {
    try {
      static_cast<void>(infer_model(Elements(size)));
      ADD_FAILURE() << size << " was taken";
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), "--model");
      EXPECT_EQ(error.accepted(), "accepted: sizes from 1M to 100T");
    }
  }
}

}  // namespace
}  // namespace zplan

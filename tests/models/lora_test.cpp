// Choosing what LoRA adapts; the counts themselves are compared with peft in the tests of reference files.
#include "models/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/models/support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160})";
constexpr const char* kTied = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160,
  "tie_word_embeddings": true})";
constexpr const char* kMixtral = R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4,
  "vocab_size": 160})";
constexpr const char* kQwen3Moe = R"({"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 4, "vocab_size": 160,
  "num_experts_per_tok": 2, "moe_intermediate_size": 20, "mlp_only_layers": [0]})";

std::string message_for(const char* config, const AdapterSpec& spec) {
  try {
    static_cast<void>(added_tensors(model_of(config), spec));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::string message_for(const char* config, std::int64_t rank, const LoraTargets& targets) {
  return message_for(config, {.rank = rank, .targets = targets});
}

std::vector<std::string> names(const std::vector<Tensor>& tensors) {
  std::vector<std::string> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.name);
  return all;
}

TEST(Lora, AdaptableModules) {
  EXPECT_THAT(
      adaptable_modules(model_of(kLlama)),
      ElementsAre("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"));
  EXPECT_THAT(adaptable_modules(model_of(kMixtral)),
              ElementsAre("q_proj", "k_proj", "v_proj", "o_proj", "gate", "w1", "w3", "w2", "lm_head"));
}

TEST(Lora, ListOfModules) {
  const Inventory adapters = lora_adapters(model_of(kLlama), 4, {{"v_proj", "mlp.down_proj"}});
  EXPECT_THAT(names(adapters.kinds[0].tensors),
              ElementsAre("base_model.model.model.layers.{}.self_attn.v_proj.lora_A.default.weight",
                          "base_model.model.model.layers.{}.self_attn.v_proj.lora_B.default.weight",
                          "base_model.model.model.layers.{}.mlp.down_proj.lora_A.default.weight",
                          "base_model.model.model.layers.{}.mlp.down_proj.lora_B.default.weight"));
  EXPECT_TRUE(adapters.before.empty());
  EXPECT_TRUE(adapters.after.empty());
  EXPECT_EQ(elements(adapters).value, 2 * 4 * ((64 + 32) + (96 + 64)));
}

TEST(Lora, HeadOnlyWhereNamed) {
  EXPECT_TRUE(lora_adapters(model_of(kLlama), 4, {{"all-linear"}}).after.empty());
  EXPECT_EQ(elements(lora_adapters(model_of(kLlama), 4, {{"lm_head"}})).value, 4 * (64 + 160));
}

// peft 0.21.2 on a model of these sizes: target_modules=["w2"] wraps the experts once, so there is no
// base_layer.
TEST(Lora, OneStackOfExperts) {
  const Inventory adapters = lora_adapters(model_of(kMixtral), 4, {{"w2"}});
  EXPECT_THAT(names(adapters.kinds[0].tensors),
              ElementsAre("base_model.model.model.layers.{}.mlp.experts.lora_A.default.weight",
                          "base_model.model.model.layers.{}.mlp.experts.lora_B.default.weight"));
  EXPECT_THAT(adapters.kinds[0].tensors[0].shape, ElementsAre(16, 96));
}

// Once gate_proj means the experts, peft leaves the dense layers' gate_proj alone.
TEST(Lora, NamesOfExpertsDoNotMeanDenseLayers) {
  const Inventory adapters = lora_adapters(model_of(kQwen3Moe), 4, {{"gate_proj", "up_proj", "down_proj"}});
  EXPECT_TRUE(adapters.kinds[0].tensors.empty());
  EXPECT_EQ(adapters.kinds[1].tensors.size(), 4U);
}

TEST(Lora, AdaptersAreSplitWhereTheirWeightIs) {
  const Inventory adapters = lora_adapters(model_of(kLlama), 4, {{"q_proj", "o_proj"}});
  const std::vector<Tensor>& tensors = adapters.kinds[0].tensors;
  EXPECT_EQ(elements_on_rank(tensors[0], 2, 0).value, 4 * 64);      // q_proj.lora_A reads the whole input
  EXPECT_EQ(elements_on_rank(tensors[1], 2, 0).value, 64 / 2 * 4);  // its lora_B writes half the queries
  EXPECT_EQ(elements_on_rank(tensors[2], 2, 0).value, 4 * 64 / 2);  // o_proj.lora_A reads half the heads
  EXPECT_EQ(elements_on_rank(tensors[3], 2, 0).value, 64 * 4);
}

// peft 0.21.2: the copy of a saved module stands in its place; of tied embeddings there are two, unless they
// are kept tied.
TEST(Lora, SavedModulesAreCopied) {
  AdapterSpec spec{.rank = 4, .targets = {{"q_proj"}}, .saved_modules = {"embed_tokens", "lm_head"}};
  const Inventory untied = added_tensors(model_of(kLlama), spec);
  EXPECT_THAT(names(untied.before),
              ElementsAre("base_model.model.model.embed_tokens.modules_to_save.default.weight"));
  EXPECT_THAT(names(untied.after), ElementsAre("base_model.model.lm_head.modules_to_save.default.weight"));
  EXPECT_TRUE(is_saved_copy(untied.before.front()));
  EXPECT_FALSE(is_saved_copy(untied.kinds[0].tensors.front()));
  const Model tied = model_of(kTied);
  const std::int64_t table = 64 * 160;
  const std::int64_t adapters = elements(lora_adapters(tied, 4, spec.targets)).value;
  EXPECT_EQ(elements(added_tensors(tied, spec)).value, adapters + 2 * table);
  spec.ties_saved = true;
  EXPECT_EQ(elements(added_tensors(tied, spec)).value, adapters + table);
}

TEST(Lora, SavedModulesAreEmbeddingAndHead) {
  const AdapterSpec spec{.rank = 4, .saved_modules = {"q_proj"}};
  EXPECT_THAT(message_for(kLlama, spec), AllOf(StartsWith("--modules-to-save: "), HasSubstr("q_proj"),
                                               HasSubstr("embed_tokens"), HasSubstr("lm_head")));
}

// One number for each output of an adapted layer; experts have none.
TEST(Lora, MagnitudesOfDora) {
  const AdapterSpec spec{.rank = 4, .targets = {{"k_proj"}}, .magnitudes = true};
  const Inventory added = added_tensors(model_of(kLlama), spec);
  ASSERT_EQ(added.kinds[0].tensors.size(), 3U);
  EXPECT_EQ(added.kinds[0].tensors[2].name,
            "base_model.model.model.layers.{}.self_attn.k_proj.lora_magnitude_vector.default.weight");
  EXPECT_THAT(added.kinds[0].tensors[2].shape, ElementsAre(32));
  const AdapterSpec experts{.rank = 4, .targets = {{"w2"}}, .magnitudes = true};
  EXPECT_THAT(message_for(kMixtral, experts), StartsWith("--dora: "));
}

TEST(Lora, UnknownModule) {
  EXPECT_THAT(message_for(kLlama, 8, {{"q_proj", "qproj"}}),
              AllOf(StartsWith("--lora-targets: the model has no module \"qproj\"; "), HasSubstr("q_proj"),
                    HasSubstr("all-linear")));
  EXPECT_THAT(message_for(kLlama, 8, {{"layernorm"}}), StartsWith("--lora-targets: "));
  EXPECT_THAT(message_for(kLlama, 8, {{""}}), StartsWith("--lora-targets: "));
  EXPECT_THAT(message_for(kLlama, 8, {{}}), StartsWith("--lora-targets: "));
}

// peft raises ValueError: "Cannot convert PEFT target(s) w1 without also targeting w3 …".
TEST(Lora, HalfOfAFusedStack) {
  EXPECT_THAT(message_for(kMixtral, 8, {{"w1"}}), StartsWith("--lora-targets: only one of w1 and w3"));
}

TEST(Lora, Rank) {
  for (const std::int64_t rank :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{65'537}, INT64_MAX, INT64_MIN})
    EXPECT_THAT(message_for(kLlama, rank, {}), StartsWith("--lora-rank: "));
  EXPECT_EQ(message_for(kLlama, 65'536, {}), "");
}

}  // namespace
}  // namespace zplan::test

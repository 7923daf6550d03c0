// The part of a model that a rank of Megatron-Core holds. Expected figures: recorded ranks
// (tests/reference/megatron) and Megatron's own rules.

#include "planner/sharding/megatron_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/config.h"

namespace zplan {
namespace {

/// Layers of each chunk in the order of the model; of each stage where those have one.
std::vector<std::int64_t> layers_of_chunks(std::int64_t layers, const ParallelLayout& layout,
                                           const MegatronOptions& options) {
  std::vector<std::int64_t> counts;
  std::int64_t next = 0;
  for (std::int64_t chunk = 0; chunk < layout.virtual_stages; ++chunk)
    for (std::int64_t stage = 0; stage < layout.pipeline; ++stage) {
      const LayerRange own = megatron_layers(layers, layout, stage, chunk, options);
      EXPECT_EQ(own.first, next);
      next = own.end;
      counts.push_back(own.end - own.first);
    }
  EXPECT_EQ(next, layers);
  return counts;
}
std::vector<std::int64_t> layers_of_stages(std::int64_t layers, std::int64_t stages,
                                           const MegatronOptions& options) {
  return layers_of_chunks(layers, {.pipeline = stages}, options);
}

TEST(MegatronStages, HaveEquallyManyLayers) {
  EXPECT_EQ(layers_of_stages(8, 4, {}), (std::vector<std::int64_t>{2, 2, 2, 2}));
}

TEST(MegatronStages, CountEmbeddingAndLossAsLayers) {
  MegatronOptions options;
  options.counts_embedding = options.counts_loss = true;
  EXPECT_EQ(layers_of_stages(6, 4, options), (std::vector<std::int64_t>{1, 2, 2, 1}));
  // Llama 3 405B: 126 layers, 16 stages.
  const std::vector<std::int64_t> large = layers_of_stages(126, 16, options);
  EXPECT_EQ(large.front(), 7);
  EXPECT_EQ(large.back(), 7);
  EXPECT_EQ(large[1], 8);
}

TEST(MegatronStages, MayBeUneven) {
  MegatronOptions options;
  options.first_stage_layers = 2, options.last_stage_layers = 1;
  EXPECT_EQ(layers_of_stages(9, 4, options), (std::vector<std::int64_t>{2, 3, 3, 1}));
}

TEST(MegatronStages, MayHoldSeveralChunks) {
  using Counts = std::vector<std::int64_t>;
  const ParallelLayout layout{.pipeline = 4, .virtual_stages = 2};
  EXPECT_EQ(layers_of_chunks(16, layout, {}), (Counts{2, 2, 2, 2, 2, 2, 2, 2}));
  MegatronOptions options;
  options.counts_embedding = options.counts_loss = true;
  EXPECT_EQ(layers_of_chunks(14, layout, options), (Counts{1, 2, 2, 2, 2, 2, 2, 1}));
  options = {};
  options.first_stage_layers = 2, options.last_stage_layers = 4;
  EXPECT_EQ(layers_of_chunks(14, layout, options), (Counts{1, 2, 2, 2, 1, 2, 2, 2}));
  options = {};
  options.layers_of_chunks = {1, 3, 2, 2, 2, 2, 1, 1};
  EXPECT_EQ(layers_of_chunks(14, layout, options), options.layers_of_chunks);
}

TEST(MegatronLayouts, AreReadAsMegatronReadsThem) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(chunk_layers_of("Et*3|t*2|t*2|tL"), (Counts{3, 2, 2, 1}));
  EXPECT_EQ(chunk_layers_of("E,t*3|(tt|)*2,tL"), (Counts{3, 2, 2, 1}));
  EXPECT_EQ(chunk_layers_of("E|(t|)*2L"), (Counts{0, 1, 1, 0}));
  EXPECT_EQ(chunk_layout_of({3, 2, 2, 1}), "Ettt|tt|tt|tL");
  for (const char* other : {"", "E", "tt|tt", "Et|m|L", "Et|t|tLt"})
    EXPECT_FALSE(chunk_layers_of(other)) << other;
}

TEST(MegatronVocabulary, IsPaddedForEachRank) {
  EXPECT_EQ(padded_vocabulary(128'256, 1), 128'256);
  EXPECT_EQ(padded_vocabulary(128'256, 8), 129'024);
  EXPECT_EQ(padded_vocabulary(50'257, 1), 50'304);
  EXPECT_EQ(padded_vocabulary(1001, 3), 1152);
}

/// Names and shapes of the tensors of a layer of `config` on a rank of `layout`.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> layer_tensors(const Json& config,
                                                                             const ParallelLayout& layout) {
  const Model model = megatron_model(read_config(JsonReader(config, "test")), layout);
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> all;
  for (const Tensor& each : model.inventory.kinds[model.inventory.layers.back()].tensors)
    all.emplace_back(each.name.substr(std::string("decoder.layers.{}.").size()), each.shape);
  return all;
}

TEST(MegatronModel, HoldsARanksOwnExperts) {
  const Json config{{"model_type", "mixtral"},     {"hidden_size", 64},        {"intermediate_size", 128},
                    {"num_attention_heads", 4},    {"num_key_value_heads", 2}, {"num_hidden_layers", 1},
                    {"num_local_experts", 8},      {"num_experts_per_tok", 2}, {"vocab_size", 256},
                    {"tie_word_embeddings", false}};
  const auto tensors = layer_tensors(config, {.tensor = 2, .shard = 4, .expert = 4, .expert_tensor = 2});
  ASSERT_EQ(tensors.size(), 7U);
  EXPECT_EQ(tensors[3].first, "pre_mlp_layernorm.weight");
  EXPECT_EQ(tensors[4].first, "mlp.router.weight");
  EXPECT_EQ(tensors[5].second, (std::vector<std::int64_t>{2, 128, 64}));  // gate and up, half of each
  EXPECT_EQ(tensors[6].second, (std::vector<std::int64_t>{2, 64, 64}));
}

TEST(MegatronGroups, OfExpertsReachOverTensorParallelRanks) {
  const ParallelLayout layout{.tensor = 2, .shard = 8, .pipeline = 2, .expert = 4, .expert_tensor = 2};
  EXPECT_EQ(process_group(layout, Group::expert_tensor), (ProcessGroup{2, 1}));
  EXPECT_EQ(process_group(layout, Group::expert), (ProcessGroup{4, 2}));
  EXPECT_EQ(process_group(layout, Group::expert_model), (ProcessGroup{8, 1}));
  EXPECT_EQ(process_group(layout, Group::expert_data), (ProcessGroup{2, 8}));
}

TEST(MegatronArguments, AreReadBack) {
  const std::vector<std::string> words{"no-rope-fusion",
                                       "variable-seq-lengths",
                                       "attention-backend=flash",
                                       "cp-comm-type=p2p a2a",
                                       "hierarchical-context-parallel-sizes=2 4",
                                       "ddp-num-buckets=4",
                                       "use-precision-aware-optimizer",
                                       "exp-avg-dtype=fp8",
                                       "optimizer-offload-fraction=0.5",
                                       "recompute-method=block",
                                       "recompute-num-layers=2",
                                       "recompute-modules=mlp layernorm"};
  MegatronOptions options;
  for (const std::string& each : words) set_megatron_argument(options, "--megatron", each);
  EXPECT_EQ(megatron_words(options), words);
}

TEST(MegatronArguments, WithoutTheirValuesAreRefused) {
  MegatronOptions options;
  for (const std::string word : {"exp-avg-dtype=int8", "main-params-dtype=bf16", "ddp-num-buckets=0",
                                 "ddp-num-buckets", "cp-comm-type=ring", "sequence-parallel=1", "no-such"})
    EXPECT_THROW(set_megatron_argument(options, "--megatron", word), InputError) << word;
}

TEST(MegatronModel, DividesFewKeyHeadsAmongMoreRanks) {
  const Model model = resolve_model("8B", {});  // 8 key-value heads
  const Model parts = megatron_model(model, {.tensor = 16});
  for (const Tensor& each : parts.inventory.kinds.front().tensors)
    if (each.name.ends_with("linear_qkv.weight")) {
      EXPECT_EQ(elements_on_rank(each, 16, 0), Elements(each.elements().value / 16));
      EXPECT_EQ(elements_on_rank(each, 16, 15), Elements(each.elements().value / 16));
    }
}

TEST(MegatronArguments, AreNamedAsMegatronSpellsThem) {
  EXPECT_EQ(megatron_words({}), std::vector<std::string>{});
  EXPECT_EQ(megatron_words(recommended_megatron_options()),
            (std::vector<std::string>{"sequence-parallel", "overlap-grad-reduce", "overlap-param-gather",
                                      "no-create-attention-mask-in-dataloader",
                                      "moe-token-dispatcher-type=alltoall", "moe-grouped-gemm",
                                      "moe-aux-loss-coeff=0.01"}));
}

}  // namespace
}  // namespace zplan

// Tapes of image-text models: blocks that layers leave to the tower are freed once, whatever type is computed
// in.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/config.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/model_trace/play.h"

namespace zplan {
namespace {

/// Blocks that are held; each comes and goes once.
struct Held {
  std::set<std::int32_t> blocks;
  void section(int, bool) {}
  void allocate(std::int32_t block, Term, Bytes) { EXPECT_TRUE(blocks.insert(block).second) << block; }
  void release(std::int32_t block) { EXPECT_EQ(blocks.erase(block), 1U) << block; }
  void gradient(int, std::int32_t, std::int32_t block) { release(block); }
  void part_of_gradient(int, std::int32_t, std::int32_t block) { release(block); }
  void workspace(std::int32_t) {}
  void phase(Phase) {}
  void module(const Event&, int) {}
};

constexpr const char* kWithDeepstack = R"({"model_type": "qwen3_vl", "text_config": {"hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "vocab_size": 160}, "vision_config": {"depth": 4, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2,
    "deepstack_visual_indexes": [0, 1, 2], "out_hidden_size": 64}})";

Model with_deepstack() {
  const Json config = parse_json(kWithDeepstack, "test");
  return *read_config(JsonReader(config, "test")).with_images;
}

TEST(VisionTape, FeaturesBehindLayersAreFreedOnce) {
  const Model model = with_deepstack();
  const ImageRequest one{.per_sample = 1, .width = 256, .height = 256};
  for (const bool autocast : {false, true})
    for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full}) {
      Training training;
      training.framework = autocast ? Framework::torch : Framework::deepspeed;
      training.master_weights = autocast;
      training.sequence_length = 128;
      training.images = image_batch(model.vision->rule, model.vision->tower, one);
      Strategy strategy;
      strategy.checkpointing = checkpointing;
      const Tape tape = record_tape(model, training, strategy);
      for (std::size_t i = 0; i < 3; ++i)  // layers with features behind them are repeated by none
        EXPECT_EQ(std::count(tape.layers.begin(), tape.layers.end(), i), 1);
      Held held;
      play(tape, TapeLayout(tape), held);
      EXPECT_TRUE(held.blocks.empty()) << held.blocks.size();
    }
}

/// Text without images: the language model's own layers, whose adapters may have dropout in front of them.
TEST(VisionTape, TextAloneRunsTheLanguageModel) {
  const Json whole = parse_json(kWithDeepstack, "test");
  Json text = whole["text_config"];
  text["model_type"] = "qwen3";
  const Model model = read_config(JsonReader(whole, "test")), alone = read_config(JsonReader(text, "test"));
  for (const double dropout : {0.0, 0.05}) {
    Training training;
    training.method = Method::lora;
    training.lora_dropout = dropout;
    training.sequence_length = 128;
    const Strategy strategy;
    const Tape tape = record_tape(model, training, strategy), own = record_tape(alone, training, strategy);
    EXPECT_EQ(tape.layers, own.layers);
    ASSERT_EQ(tape.classes.size(), own.classes.size());
    for (std::size_t i = 0; i < own.classes.size(); ++i) {
      EXPECT_EQ(tape.classes[i].forward, own.classes[i].forward);
      EXPECT_EQ(tape.classes[i].backward, own.classes[i].backward);
    }
  }
}

}  // namespace
}  // namespace zplan

// What one decoder layer keeps for its backward, measured on PyTorch's allocator, against the closed forms.

#include "planner/activations/activations.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

/// The measured models by their short names: those whose forms were measured.
Model measured_model(const std::string& name) {
  static const Json configs = test_json("reference/parameter_counts/parameter_counts.json")["models"];
  Json config = configs.at(name)["config"];
  config["model_type"] = configs.at(name)["model_type"];
  return read_config(JsonReader(config, name));
}

Training measured_training(const Json& row) {
  Training training;
  training.sequence_length = row["sequence"].get<std::int64_t>();
  training.attention = row["attention"] == "eager" ? Attention::eager : Attention::sdpa;
  if (row["adapters"] != "none") {
    training.method = Method::lora;
    training.lora_targets.modules = {row["adapters"].get<std::string>()};
  }
  return training;
}

Strategy measured_strategy(const Json& row) {
  Strategy strategy;
  strategy.micro_batch_size = row["batch"].get<std::int64_t>();
  strategy.checkpointing = row["checkpointing"].get<bool>() ? Checkpointing::full : Checkpointing::none;
  strategy.zero_stage = row["bf16_adapters"].get<bool>() ? 2 : 3;  // stage 3 leaves adapters in fp32
  return strategy;
}

double error(const Json& row) {
  const Model model = measured_model(row["model"].get<std::string>());
  const Activations predicted = activations(model, measured_training(row), measured_strategy(row));
  const auto measured = row["saved"].get<double>();
  return (static_cast<double>(predicted.kinds.back().saved.value) - measured) / measured;
}

std::string label(const Json& row) {
  return row["model"].get<std::string>() + " " + row["attention"].get<std::string>() + " adapters " +
         row["adapters"].get<std::string>() + (row["bf16_adapters"].get<bool>() ? " bf16" : "") +
         (row["checkpointing"].get<bool>() ? " checkpointed" : "") + " b" + row["batch"].dump() + " s" +
         row["sequence"].dump();
}

// 0.1 %; where only some layers have a window (Gemma 3 beyond 512 tokens) a layer's mask is an average over
// the layers measured, which are not the whole model's: 0.3 %.
TEST(SavedActivations, OfOneLayer) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/activations/saved_per_layer.json")) {
    const bool averaged_mask =
        row["model"] == "Gemma-3-1B" && row["attention"] == "sdpa" && row["sequence"] > 512;
    EXPECT_LE(std::abs(error(row)), averaged_mask ? 0.003 : 0.001) << label(row);
    ++rows;
  }
  EXPECT_EQ(rows, 530U);
}

}  // namespace
}  // namespace zplan::testing

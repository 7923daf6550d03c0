// A model that was recorded while PyTorch ran it, against the planner's own program of the same model: two
// derivations of one micro-step that share nothing but the run around it.

#include "planner/model_trace/recorded_tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "models/base/error.h"
#include "models/config.h"
#include "models/recorded/read.h"
#include "planner/plan/rank_run.h"

namespace zplan {
namespace {

struct Pair {
  Model described, recorded;
};

const Pair& llama() {
  static const Pair pair = [] {
    const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/recorded/llama-4L.json";
    const Json document = parse_json(read_file(path), path);
    const JsonReader reader(document, path);
    return Pair{read_config(reader.at("config")), read_recorded_model(reader)};
  }();
  return pair;
}

struct Way {
  Framework framework;
  Method method;
  int stage;
  Checkpointing checkpointing;
  std::int64_t micro_batch, sequence;
};

Training training_of(const Way& way) {
  Training training;
  training.method = way.method;
  training.sequence_length = way.sequence;
  training.attention = Attention::sdpa;
  return with_framework(training, way.framework);
}

Strategy strategy_of(const Way& way) {
  Strategy strategy;
  strategy.zero_stage = way.stage;
  strategy.layout.shard = 4;
  strategy.checkpointing = way.checkpointing;
  strategy.micro_batch_size = way.micro_batch;
  return strategy;
}

double peak(const Model& model, const Way& way) {
  return static_cast<double>(
      RankRun(model, training_of(way), strategy_of(way), {}).live().peak_allocated.value);
}

TEST(RecordedTape, TensorsAreTheDescriptors) {
  EXPECT_EQ(parameters(llama().recorded), parameters(llama().described));
  EXPECT_EQ(llama().recorded.inventory.layers.size(), llama().described.inventory.layers.size());
}

TEST(RecordedTape, PeaksAreThoseOfTheDescriptorsProgram) {
  constexpr double kTolerance = 0.003;
  for (const Method method : {Method::full, Method::lora})
    for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full})
      for (const auto& [b, s] : {std::pair{1, 1024}, {1, 2048}, {2, 3072}, {3, 4096}})
        for (const auto& [framework, stage] : {std::pair{Framework::deepspeed, 0},
                                               {Framework::deepspeed, 2},
                                               {Framework::deepspeed, 3},
                                               {Framework::fsdp, 3}}) {
          const Way way{framework, method, stage, checkpointing, b, s};
          ASSERT_FALSE(why_not_recorded(llama().recorded, training_of(way), strategy_of(way)));
          const double recorded = peak(llama().recorded, way), described = peak(llama().described, way);
          EXPECT_LE(std::abs(recorded / described - 1), kTolerance)
              << to_name(framework) << " stage " << stage << " " << to_name(method) << " "
              << to_name(checkpointing) << " b" << b << " s" << s;
        }
}

TEST(RecordedTape, WhatWasNotRecordedIsRefused) {
  const Way way{Framework::deepspeed, Method::full, 3, Checkpointing::full, 1, 2048};
  Training training = training_of(way);
  Strategy strategy = strategy_of(way);
  strategy.checkpointing = Checkpointing::selective;
  EXPECT_TRUE(why_not_recorded(llama().recorded, training, strategy));
  EXPECT_FALSE(why_not_recorded(llama().described, training, strategy));
  strategy = strategy_of(way), strategy.layout.tensor = 2;
  EXPECT_TRUE(why_not_recorded(llama().recorded, training, strategy));
  training.precision = Precision::fp32;
  EXPECT_TRUE(why_not_recorded(llama().recorded, training, strategy_of(way)));
}

/// A number of the file becomes another one: it is planned, with no peak below what is held, or refused with
/// its place.
TEST(RecordedTape, ChangedNumbersArePlannedOrRefused) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/recorded/llama-4L.json";
  const Json whole = parse_json(read_file(path), path);
  std::vector<Json::json_pointer> numbers;
  const Json flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items())
    if (value.is_number_integer()) numbers.emplace_back(pointer);
  const std::vector<std::int64_t> others{-1,
                                         0,
                                         1,
                                         2,
                                         3,
                                         7,
                                         255,
                                         4096,
                                         1 << 22,
                                         std::int64_t{1} << 31,
                                         std::int64_t{1} << 40,
                                         std::int64_t{1} << 52};
  std::mt19937 random(11);
  int refused = 0, planned = 0;
  for (int i = 0; i < 150; ++i) {
    Json document = whole;
    for (std::size_t times = 1 + random() % 2; times > 0; --times)
      document[numbers[random() % numbers.size()]] = others[random() % others.size()];
    const Way way{random() % 2 == 0 ? Framework::deepspeed : Framework::fsdp,
                  random() % 2 == 0 ? Method::full : Method::lora,
                  3,
                  random() % 2 == 0 ? Checkpointing::none : Checkpointing::full,
                  1 + static_cast<int>(random() % 2),
                  2048};
    try {
      const Model model = read_recorded_model(JsonReader(document, "m.json"));
      if (why_not_recorded(model, training_of(way), strategy_of(way))) continue;
      EXPECT_GT(peak(model, way), 0);
      ++planned;
    } catch (const InputError& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, 15);
  EXPECT_GT(planned, 15);
}

}  // namespace
}  // namespace zplan

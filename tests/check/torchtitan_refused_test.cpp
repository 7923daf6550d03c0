// Combinations that torchtitan was given: what it refuses zplan refuses, and what runs zplan plans.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "planner/check/readers/read.h"
#include "planner/plan/legality.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

/// Cases about what zplan does not ask: settings and models that are not planned, batch sizes, from which a
/// question derives micro-batches, and a model's longest sample, which rows do not have.
const std::set<std::string>& beside_options() {
  static const std::set<std::string> kCases{
      "local batch not divisible by the micro-batch",
      "layers_per_stage gives stages not a multiple of pp",
      "1F1B with two stages a rank",
      "Interleaved with one stage a rank",
      "unknown schedule",
      "abstract schedule",
      "world not a product",
      "sdpa attention",
      "global batch not a multiple",
      "float16 parameters",
      "async TP without compile",
      "sequence longer than the rope limit",
      "FSDP symmetric memory on sm_80",
      "deepep dispatcher",
      "hybridep dispatcher",
      "minimal_async_ep dispatcher",
      "full_dtensor + pp",
      "partial_dtensor + pp + tp",
      "full_dtensor + ep",
      "partial_dtensor + ep",
  };
  return kCases;
}

/// Sizes of the models of refused.json that zplan plans.
Json config_of(const Json& options) {
  const std::string model = options.at("model");
  Json config =
      model == "llama3/odd"   ? Json{{"dim", 72},      {"ffn", 200},    {"n_heads", 3}, {"n_kv_heads", 1},
                                   {"head_dim", 24}, {"vocab", 1013}, {"layers", 3},  {"tied", false}}
      : model == "qwen3/1.7B" ? Json{{"dim", 2048},     {"ffn", 6144},     {"n_heads", 16}, {"n_kv_heads", 8},
                                     {"head_dim", 128}, {"vocab", 151936}, {"layers", 28},  {"tied", true}}
      : model == "qwen3/30B-A3B"
          ? Json{{"dim", 2048},     {"moe_ffn", 768},  {"n_heads", 32}, {"n_kv_heads", 4}, {"experts", 128},
                 {"head_dim", 128}, {"vocab", 151936}, {"layers", 48},  {"tied", false},   {"top_k", 8}}
      : model == "deepseek_v3/16B"
          ? Json{{"dim", 2048},
                 {"ffn", 10944},
                 {"n_heads", 16},
                 {"vocab", 102400},
                 {"layers", 27},
                 {"tied", false},
                 {"q_lora_rank", 0},
                 {"kv_lora_rank", 512},
                 {"v_head_dim", 128},
                 {"qk_nope_head_dim", 128},
                 {"qk_rope_head_dim", 64},
                 {"experts", 64},
                 {"score", "softmax"},
                 {"top_k", 6},
                 {"moe_ffn", 1408},
                 {"shared_ffn", 2816}}
          : Json{{"dim", 4096},     {"ffn", 14336},    {"n_heads", 32}, {"n_kv_heads", 8},
                 {"head_dim", 128}, {"vocab", 128256}, {"layers", 32},  {"tied", false}};
  if (options.contains("layers")) config["layers"] = options.at("layers");
  if (options.contains("vocab")) config["vocab"] = options.at("vocab");
  const std::int64_t layers = config.at("layers");
  config["moe_layers"] = !config.contains("experts")     ? 0
                         : model.starts_with("deepseek") ? layers - 1
                                                         : layers;
  return config;
}

/// The row as one of steps.json, with torchtitan's defaults.
Json step_of(const Json& row) {
  Json options{{"replicate", 1}, {"shard", 1},        {"tp", 1},   {"pp", 1},
               {"cp", 1},        {"ep", 1},           {"rank", 0}, {"gas", 1},
               {"mb", 1},        {"ac", "selective"}, {"cc", 80},  {"schedule", "1F1B"}};
  options.update(row.at("options"));
  options["microbatches"] = options.at("b").get<std::int64_t>() / options.at("mb").get<std::int64_t>();
  options["world"] = options.at("replicate").get<std::int64_t>() * options.at("shard").get<std::int64_t>() *
                     options.at("tp").get<std::int64_t>() * options.at("pp").get<std::int64_t>() *
                     options.at("cp").get<std::int64_t>();
  const std::string schedule = options.at("schedule");
  std::int64_t chunks = schedule == "1F1B" || schedule == "GPipe" ? 1 : 2;
  if (chunks > 1 && options.contains("layers_per_stage") && options.at("layers_per_stage").is_number())
    chunks = (config_of(options).at("layers").get<std::int64_t>() + 2) /
             options.at("layers_per_stage").get<std::int64_t>() / options.at("pp").get<std::int64_t>();
  return {{"id", row.at("what")},
          {"options", options},
          {"config", config_of(options)},
          {"stages", std::vector<std::int64_t>(static_cast<std::size_t>(chunks))},
          {"states_after_init", Json::object()},
          {"measured", {{"3", {{"requested_before", 1}, {"peak_requested", 1}}}}}};
}

TEST(TorchtitanChecks, AreZplansToo) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/torchtitan/refused.json";
  std::size_t judged = 0;
  for (const Json& row : Json::parse(read_file(path))) {
    const std::string name = row.at("what");
    if (beside_options().contains(name)) continue;
    const Json step = Json::array({step_of(row)});
    const Case made = read_torchtitan_steps(JsonReader(step, name)).front();
    if (!made.setup) continue;  // not planned
    const check::Setup& setup = *made.setup;
    const std::int64_t world = setup.strategy.layout.world();
    const std::vector<std::string> reasons =
        why_illegal(setup.model, setup.training, setup.strategy, World{world, world});
    const bool refused = row.at("refused").is_boolean() && row.at("refused").get<bool>();
    EXPECT_EQ(!reasons.empty(), refused) << name << ": " << (reasons.empty() ? "" : reasons.front());
    ++judged;
  }
  EXPECT_EQ(judged, 32U);
}

}  // namespace
}  // namespace zplan::check::testing

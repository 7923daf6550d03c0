// DeepSpeed 0.19.8's answers to configs of expert parallelism, and zplan's: every recorded
// answer in its words (tests/reference/expert_parallel/PROVENANCE.md).

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "models/base/json_reader.h"
#include "planner/frameworks/deepspeed/config/expert_config.h"

namespace zplan {
namespace {

/// Experts of a layer in the small models that were asked about.
std::int64_t experts_of(const std::string& architecture) {
  if (architecture == "qwen2_moe") return 12;
  return architecture == "llama" ? 0 : 8;
}

const Json& part(const Json& of, const char* key) {
  static const Json kNone = Json::object();
  return of.contains(key) ? of.at(key) : kNone;
}

ExpertUse use_of(const Json& asked) {
  Json section = {{"enabled", true}, {"autoep_size", asked.value("ep", 4)}};
  section.update(part(asked, "ep_extra"));
  const Json& extra = part(asked, "ds_extra");
  const Json &zero = part(extra, "zero_optimization"), &tensor = part(extra, "tensor_parallel");
  ExpertUse use;
  use.config = read_expert_config(JsonReader(section, "case"));
  use.architecture = asked.at("model");
  use.experts = experts_of(use.architecture);
  use.ranks = asked.value("world", 8);
  use.tensor_parallel = tensor.value("autotp_size", 1);
  if (tensor.contains("preset_model")) use.tensor_preset = tensor.at("preset_model");
  use.zero_stage = asked.value("zero", 2);
  use.precision = *from_name<Precision>(asked.value("precision", std::string("bf16")));
  use.offloads = zero.contains("offload_optimizer") || zero.contains("offload_param");
  use.data_before_expert = extra.value("use_data_before_expert_parallelism", false);
  use.contiguous_gradients = zero.value("contiguous_gradients", true);
  use.reduce_scatter = zero.value("reduce_scatter", true);
  use.quantized_gradients = zero.value("zero_quantized_gradients", false);
  use.secondary_partition = zero.value("zero_hpz_partition_size", 1);
  use.fp32_accumulation = part(extra, "data_types").value("grad_accum_dtype", std::string()) == "fp32";
  if (asked.contains("client")) use.optimizer = OptimizerMaker::client;
  if (asked.value("groups", std::string()) == "plain") use.optimizer = OptimizerMaker::unnamed_groups;
  use.adapted = asked.contains("lora");
  use.records_routers = !asked.value("unpatched", false);
  const bool begins_dense = use.architecture == "deepseek_v2" || use.architecture == "deepseek_v3" ||
                            use.architecture == "glm4_moe";
  use.mixtures = begins_dense ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{0, 1};
  return use;
}

/// Without the name of Python's exception.
std::string words(const std::string& error) { return error.substr(error.find(": ") + 2); }

TEST(ExpertParallel, IsRefusedAsDeepSpeedRefusesIt) {
  const Json answers = parse_json(read_file(ZPLAN_TEST_DATA "/reference/expert_parallel/constraints.json"),
                                  "constraints.json");
  int judged = 0;
  for (const auto& [name, row] : answers.items()) {
    const ExpertAnswer answer = answer_of_deepspeed(use_of(row.at("case")));
    ++judged;
    if (row.at("accepted").get<bool>()) {
      EXPECT_EQ(answer.error.value_or(""), "") << name;
      EXPECT_EQ(answer.replaces, row.at("layers").get<int>() > 0) << name;
    } else {
      EXPECT_EQ(answer.error.value_or("accepted"), words(row.at("error"))) << name;
    }
  }
  EXPECT_GE(judged, 80);
}

}  // namespace
}  // namespace zplan

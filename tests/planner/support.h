#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "models/base/json_reader.h"
#include "models/catalogue/catalogue.h"
#include "models/config.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan::testing {

/// A JSON file under tests/.
inline Json test_json(const std::string& path) {
  const std::string full = std::string(ZPLAN_TEST_DATA) + "/" + path;
  return parse_json(read_file(full), path);
}

/// A Llama-style model as the recorded runs describe it.
inline Model tiny_llama(const Json& shape) {
  const Json config = {{"model_type", "llama"},
                       {"hidden_size", shape["hidden"]},
                       {"intermediate_size", shape["ffn"]},
                       {"num_hidden_layers", shape["layers"]},
                       {"num_attention_heads", shape["heads"]},
                       {"num_key_value_heads", shape["kv"]},
                       {"vocab_size", shape["vocab"]},
                       {"max_position_embeddings", 512},
                       {"tie_word_embeddings", shape["tie"]}};
  return read_config(JsonReader(config, "recorded model"));
}

/// A cluster of `gpus` A100-like GPUs with plenty of everything.
inline Cluster roomy_cluster(std::int64_t gpus) {
  Cluster cluster;
  cluster.gpu.name = "test GPU";
  cluster.gpu.compute_capability = "8.0";
  cluster.gpu.bf16 = cluster.gpu.fp16 = FlopsPerSecond(312e12);
  cluster.gpu.fp32 = FlopsPerSecond(19.5e12);
  cluster.gpu.memory_bandwidth = BytesPerSecond(2e12);
  cluster.gpu.pcie = cluster.gpu.pcie_effective = BytesPerSecond(25e9);
  cluster.gpu.efficiency = Efficiency{.products = 0.5, .attention = 0.5, .memory = 0.5};
  cluster.gpus = cluster.gpus_per_node = gpus;
  cluster.memory = cluster.usable_memory = kGiB * 80;
  cluster.host_memory_per_node = kGiB * 1024;
  cluster.inside = {BytesPerSecond(230e9), BytesPerSecond(220e9), Seconds(25e-6)};
  return cluster;
}

/// A question with every choice left open, about a model of the catalogue.
inline Question question_about(const std::string& model, const ClusterRequest& request) {
  return {.model = resolve_model(model, {}),
          .cluster = assemble_cluster(request, built_in_profiles()),
          .training = {},
          .space = {},
          .headroom = {},
          .unit = {}};
}

}  // namespace zplan::testing

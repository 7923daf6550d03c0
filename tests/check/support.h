#pragma once

#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/config.h"
#include "planner/check/judge.h"
#include "planner/check/readers/read.h"
#include "planner/check/record.h"

namespace zplan::check::testing {

inline std::string sample_path(const std::string& name) {
  return std::string(ZPLAN_TEST_DATA) + "/check/samples/" + name;
}
inline std::string sample(const std::string& name) { return read_file(sample_path(name)); }

/// Returns the run of the sample logs: a small Llama on four GPUs, ZeRO 2.
inline const Setup& sample_plan() {
  static const Setup plan = [] {
    const Json config = {
        {"model_type", "llama"},  {"hidden_size", 256},           {"intermediate_size", 704},
        {"num_hidden_layers", 2}, {"num_attention_heads", 4},     {"num_key_value_heads", 2},
        {"vocab_size", 1000},     {"tie_word_embeddings", false}, {"max_position_embeddings", 512}};
    Setup setup{.model = read_config(JsonReader(config, "plan")),
                .cluster = assemble_cluster({.gpu = "A100-SXM-80GB",
                                             .memory = std::nullopt,
                                             .gpus = 4,
                                             .nodes = 1,
                                             .host_memory = std::nullopt},
                                            built_in_profiles())};
    setup.strategy.zero_stage = 2;
    setup.strategy.layout.shard = 4;
    setup.training.sequence_length = 128;
    return setup;
  }();
  return plan;
}

inline Given given() { return {built_in_profiles(), {}, &sample_plan()}; }

/// The cases of a text that is a document.
inline std::vector<Case> cases_of(const std::string& text, const std::string& source = "file") {
  const Document document = recognised(text, source);
  if (!document.format) return {};
  return read_cases(document, given());
}

/// The message of the InputError that reading `text` ends in; empty where it ends in none.
inline std::string message_of(const std::string& text, const std::string& source = "file") {
  try {
    (void)cases_of(text, source);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace zplan::check::testing

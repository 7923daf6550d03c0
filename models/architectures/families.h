#pragma once
// One function per architecture: config.json → model. The table in families.cpp maps model_type to function.

#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan::architectures {

struct Family {
  std::string_view model_type;       ///< as config.json says it
  std::string_view causal_lm_class;  ///< what `architectures` lists where model_type is left out
  Model (*read)(const JsonReader& config);
};

/// Every architecture, sorted by model_type.
[[nodiscard]] const std::vector<Family>& families();

// decoders.cpp: separate query, key and value, gated MLP, no experts
[[nodiscard]] Model llama(const JsonReader& config);
[[nodiscard]] Model mistral(const JsonReader& config);
[[nodiscard]] Model qwen2(const JsonReader& config);
[[nodiscard]] Model qwen3(const JsonReader& config);
[[nodiscard]] Model phi3(const JsonReader& config);
[[nodiscard]] Model olmo(const JsonReader& config);
[[nodiscard]] Model olmo2(const JsonReader& config);
[[nodiscard]] Model olmo3(const JsonReader& config);
[[nodiscard]] Model exaone4(const JsonReader& config);
[[nodiscard]] Model granite(const JsonReader& config);
[[nodiscard]] Model smollm3(const JsonReader& config);
[[nodiscard]] Model seed_oss(const JsonReader& config);
[[nodiscard]] Model ernie4_5(const JsonReader& config);
[[nodiscard]] Model arcee(const JsonReader& config);

// google.cpp, glm.cpp, layer_norm_decoders.cpp
[[nodiscard]] Model gemma(const JsonReader& config);
[[nodiscard]] Model gemma2(const JsonReader& config);
[[nodiscard]] Model gemma3(const JsonReader& config);
[[nodiscard]] Model gemma3_text(const JsonReader& config);
[[nodiscard]] Model glm(const JsonReader& config);
[[nodiscard]] Model glm4(const JsonReader& config);
[[nodiscard]] Model phi(const JsonReader& config);
[[nodiscard]] Model cohere(const JsonReader& config);
[[nodiscard]] Model cohere2(const JsonReader& config);
[[nodiscard]] Model stablelm(const JsonReader& config);
[[nodiscard]] Model starcoder2(const JsonReader& config);
[[nodiscard]] Model nemotron(const JsonReader& config);

// mixtures.cpp, deepseek.cpp: routed experts
[[nodiscard]] Model mixtral(const JsonReader& config);
[[nodiscard]] Model minimax_m2(const JsonReader& config);
[[nodiscard]] Model olmoe(const JsonReader& config);
[[nodiscard]] Model qwen2_moe(const JsonReader& config);
[[nodiscard]] Model qwen3_moe(const JsonReader& config);
[[nodiscard]] Model gpt_oss(const JsonReader& config);
[[nodiscard]] Model glm4_moe(const JsonReader& config);
[[nodiscard]] Model deepseek_v2(const JsonReader& config);
[[nodiscard]] Model deepseek_v3(const JsonReader& config);

// gpt.cpp, fused_decoders.cpp: the older generation
[[nodiscard]] Model gpt2(const JsonReader& config);
[[nodiscard]] Model gpt_bigcode(const JsonReader& config);
[[nodiscard]] Model gptj(const JsonReader& config);
[[nodiscard]] Model opt(const JsonReader& config);
[[nodiscard]] Model gpt_neox(const JsonReader& config);
[[nodiscard]] Model falcon(const JsonReader& config);
[[nodiscard]] Model bloom(const JsonReader& config);
[[nodiscard]] Model mpt(const JsonReader& config);

// remote_code.cpp: models whose code lies beside their weights
[[nodiscard]] Model qwen(const JsonReader& config);
[[nodiscard]] Model chatglm(const JsonReader& config);
[[nodiscard]] Model baichuan(const JsonReader& config);
[[nodiscard]] Model internlm2(const JsonReader& config);

}  // namespace zplan::architectures

#include "models/architectures/families.h"

namespace zplan::architectures {

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      {"arcee", "ArceeForCausalLM", arcee},
      {"baichuan", "BaichuanForCausalLM", baichuan},
      {"bloom", "BloomForCausalLM", bloom},
      {"chatglm", "ChatGLMModel", chatglm},
      {"cohere", "CohereForCausalLM", cohere},
      {"cohere2", "Cohere2ForCausalLM", cohere2},
      {"deepseek_v2", "DeepseekV2ForCausalLM", deepseek_v2},
      {"deepseek_v3", "DeepseekV3ForCausalLM", deepseek_v3},
      {"ernie4_5", "Ernie4_5ForCausalLM", ernie4_5},
      {"exaone4", "Exaone4ForCausalLM", exaone4},
      {"falcon", "FalconForCausalLM", falcon},
      {"gemma", "GemmaForCausalLM", gemma},
      {"gemma2", "Gemma2ForCausalLM", gemma2},
      {"gemma3", "Gemma3ForConditionalGeneration", gemma3},
      {"gemma3_text", "Gemma3ForCausalLM", gemma3_text},
      {"glm", "GlmForCausalLM", glm},
      {"glm4", "Glm4ForCausalLM", glm4},
      {"glm4_moe", "Glm4MoeForCausalLM", glm4_moe},
      {"gpt2", "GPT2LMHeadModel", gpt2},
      {"gpt_bigcode", "GPTBigCodeForCausalLM", gpt_bigcode},
      {"gpt_neox", "GPTNeoXForCausalLM", gpt_neox},
      {"gpt_oss", "GptOssForCausalLM", gpt_oss},
      {"gptj", "GPTJForCausalLM", gptj},
      {"granite", "GraniteForCausalLM", granite},
      {"internlm2", "InternLM2ForCausalLM", internlm2},
      {"llama", "LlamaForCausalLM", llama},
      {"minimax_m2", "MiniMaxM2ForCausalLM", minimax_m2},
      {"mistral", "MistralForCausalLM", mistral},
      {"mixtral", "MixtralForCausalLM", mixtral},
      {"mpt", "MptForCausalLM", mpt},
      {"nemotron", "NemotronForCausalLM", nemotron},
      {"olmo", "OlmoForCausalLM", olmo},
      {"olmo2", "Olmo2ForCausalLM", olmo2},
      {"olmo3", "Olmo3ForCausalLM", olmo3},
      {"olmoe", "OlmoeForCausalLM", olmoe},
      {"opt", "OPTForCausalLM", opt},
      {"phi", "PhiForCausalLM", phi},
      {"phi3", "Phi3ForCausalLM", phi3},
      {"qwen", "QWenLMHeadModel", qwen},
      {"qwen2", "Qwen2ForCausalLM", qwen2},
      {"qwen2_moe", "Qwen2MoeForCausalLM", qwen2_moe},
      {"qwen3", "Qwen3ForCausalLM", qwen3},
      {"qwen3_moe", "Qwen3MoeForCausalLM", qwen3_moe},
      {"seed_oss", "SeedOssForCausalLM", seed_oss},
      {"smollm3", "SmolLM3ForCausalLM", smollm3},
      {"stablelm", "StableLmForCausalLM", stablelm},
      {"starcoder2", "Starcoder2ForCausalLM", starcoder2},
  };
  return table;
}

}  // namespace zplan::architectures

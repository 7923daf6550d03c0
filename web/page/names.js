// Names of words that options take, where people write them otherwise. Any other word is its own name.

const NAMES = {
  full: "Full", lora: "LoRA", qlora: "QLoRA", deepspeed: "DeepSpeed", fsdp: "FSDP2", torch: "PyTorch, DDP", megatron: "Megatron-Core", trl: "TRL",
  transformers: "Transformers", swift: "ms-swift", "llama-factory": "LLaMA-Factory", axolotl: "Axolotl", litgpt: "LitGPT", "llm-foundry": "LLM Foundry",
  unsloth: "Unsloth", "megatron-lm": "Megatron-LM", liger: "Liger", fla: "FLA",
};

/** Returns what a word of an option is called. */
export const wordName = (word) => NAMES[word] ?? word;

// torchtune's recipe configs. Source: torchtune 0.6.1 recipes/configs, models/*/_model_builders.py.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/catalogue/catalogue.h"

namespace zplan {

namespace {

/// "llama31" of "Llama-3.1-": letters and digits alone.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

/// The builder's name without what it says of adapters: "qwen2_5_7b" of "…qwen2_5.lora_qwen2_5_7b_instruct".
std::string builder_of(std::string_view component) {
  std::string_view name = component.substr(component.rfind('.') + 1);
  for (const std::string_view front : {"qlora_", "lora_"})
    if (name.starts_with(front)) name.remove_prefix(front.size());
  for (const std::string_view back : {"_instruct", "_base"})
    if (name.ends_with(back)) name.remove_suffix(back.size());
  return letters_of(name);
}

/// The shortest name of the catalogue that begins so: builders leave out "Meta-", "-hf" and versions.
std::optional<std::string> catalogue_name(const std::string& builder) {
  std::optional<std::string> found;
  for (const CatalogueEntry& each : catalogue()) {
    std::string letters = letters_of(std::string_view(each.name).substr(each.name.find('/') + 1));
    if (letters.starts_with("meta")) letters.erase(0, 4);
    if (letters.starts_with(builder) && (!found || each.name.size() < found->size())) found = each.name;
  }
  return found;
}

bool has_adapters(std::string_view component) { return component.find(".lora_") != std::string_view::npos; }
bool is_packed(std::string_view component) { return component.find(".qlora_") != std::string_view::npos; }

/// Several GPUs are sharded by FSDP2, one runs plain PyTorch; the recipe's name says which, not its config.
RecipeOptions built(const RecipePlace& place) {
  const std::string component = place.scalar();
  // Some names have a size that the Hub's have not.
  auto name = catalogue_name(builder_of(component));
  if (!name) name = catalogue_name(builder_of(component.substr(0, component.rfind('_'))));
  if (!name && !place.asked.has_model)
    place.fail(in_quotes(component), "accepted: a builder of a model in the catalogue, or --model beside it");
  RecipeOptions options;
  if (name) options.emplace_back("--model", *name);
  if (place.asked.gpus.value_or(1) > 1)
    options.insert(options.end(), {{"--framework", "fsdp"}, {"--zero", "3"}});
  else
    options.emplace_back("--framework", "torch");
  if (is_packed(component))
    // torchao's NF4 tensors are sharded by FSDP2 as they are.
    options.insert(options.end(),
                   {{"--method", "qlora"}, {"--quantization", "nf4-double"}, {"--quant-storage", "bf16"}});
  else
    options.emplace_back("--method", has_adapters(component) ? "lora" : "full");
  return options;
}

/// Modules with adapters are three keys.
RecipeOptions targets(const RecipePlace& place) {
  std::string modules;
  const auto add = [&](std::string_view name) {
    modules += fmt::format("{}{}", modules.empty() ? "" : ",", name);
  };
  for (const RecipeValue& each : place.value.items) add(each.text == "output_proj" ? "o_proj" : each.text);
  if (place.is_on("model.apply_lora_to_mlp"))
    for (const std::string_view each : {"gate_proj", "up_proj", "down_proj"}) add(each);
  if (modules.empty()) return {};
  return {{"--lora-targets", modules}};
}

RecipeOptions optimizer(const RecipePlace& place) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> known{
      {{"torch.optim.AdamW", "adamw"},
       {"torch.optim.Adam", "adamw"},
       {"torch.optim.SGD", "sgd"},
       {"torch.optim.Adafactor", "adafactor_torch"},
       {"bitsandbytes.optim.AdamW8bit", "adamw8bit"},
       {"bitsandbytes.optim.PagedAdamW", "paged_adamw32bit"},
       {"bitsandbytes.optim.PagedAdamW8bit", "paged_adamw8bit"},
       {"bitsandbytes.optim.Lion8bit", "lion8bit"}}};
  const std::string component = place.scalar();
  for (const auto& [name, option] : known)
    if (name == component) return {{"--optimizer", std::string(option)}};
  std::vector<std::string> names;
  for (const auto& [name, option] : known) names.emplace_back(name);
  place.fail(in_quotes(component), accepted_words(component, names));
}

/// Slices of the loss are the trainer's default; others have whole logits.
RecipeOptions loss(const RecipePlace& place) {
  const std::string component = place.scalar();
  const std::string_view name = std::string_view(component).substr(component.rfind('.') + 1);
  if (name == "CEWithChunkedOutputLoss" || name == "LinearCrossEntropyLoss") return {};
  if (name == "CrossEntropyLoss") return {{"--loss-chunks", "1"}};
  if (name == "DPOLoss") return {{"--objective", "dpo"}};
  place.fail(in_quotes(component),
             "accepted: CEWithChunkedOutputLoss, LinearCrossEntropyLoss, CrossEntropyLoss, DPOLoss");
}

}  // namespace

const RecipeTable& torchtune_table() {
  static const RecipeTable table{
      .format = RecipeFormat::torchtune,
      .title = "torchtune",
      .trainers = "torchtune",
      .defaults = {{"batch_size", "--micro-batch", "1"}, {"dtype", "--precision", "bf16"}},
      .rows = {{"model._component_", "", built},
               {"model.lora_rank", "--lora-rank", as_text},
               {"model.lora_dropout", "--lora-dropout", as_text},
               {"model.lora_attn_modules", "--lora-targets", targets},
               {"model.apply_lora_to_mlp", "", as_word, {{"true", ""}, {"false", ""}}},
               {"model.apply_lora_to_output", "", nullptr, {}, "adapters of the head"},
               {"model.use_dora", "--dora", as_flag},
               {"tokenizer.max_seq_len", "--seq", as_text},
               {"batch_size", "--micro-batch", as_text},
               {"gradient_accumulation_steps", "--grad-accum", as_text},
               {"dtype", "--precision", as_word, {{"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}}},
               {"optimizer._component_", "--optimizer", optimizer},
               {"loss._component_", "", loss},
               {"enable_activation_checkpointing",
                "--checkpointing",
                as_word,
                {{"true", "full"}, {"false", "none"}}},
               {"fsdp_cpu_offload", "--offload", as_word, {{"true", "all"}, {"false", ""}}},
               {"epochs", "--epochs", as_text},
               {"optimizer_in_bwd",
                "",
                nullptr,
                {},
                "the optimizer's step within the backward frees gradients early"},
               {"enable_activation_offloading", "", nullptr, {}, "saved activations wait in host memory"},
               {"compile", "", nullptr, {}, "what torch.compile fuses"},
               {"tensor_parallel_dim", "", as_word, {{"1", ""}}},
               {"custom_sharded_layers", "", nullptr, {}, "which layers FSDP2 wraps by themselves"},
               {"ac_mode", "", nullptr, {}, "selective checkpointing of every so many layers"}},
      .telling = {"tokenizer._component_", "model._component_", "checkpointer._component_"}};
  return table;
}

}  // namespace zplan

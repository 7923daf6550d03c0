// ms-swift's arguments: YAML or JSON of them, its args.json, or a command line.
// Source: ms-swift 4.6 swift/arguments/*.py, swift/trainers/arguments.py, swift/config/zero*.json.

#include <fmt/format.h>

#include <algorithm>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace {

std::string command_of(const RecipeText& text) {
  for (const std::string& word : text.command)
    if (word == "rlhf" || word == "sft" || word == "pt") return word;
  return {};
}

/// --rlhf_type is `swift rlhf`'s; args.json of other runs has the default, too.
RecipeOptions preferences(const RecipePlace& place) {
  const std::string command = command_of(place.text);
  const bool preference = command == "rlhf" || (command.empty() && place.other("output_dir").empty());
  if (!preference && place.text.root.find("beta") == nullptr) return {};
  return as_word(place);
}

RecipeOptions quantised(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const std::string method = place.other("quant_method");
  if (method == "hqq") return hqq_bits(place);
  // Not needed where weights are packed already: AWQ and GPTQ stand in the model's own config.
  if (method == "awq" || method == "gptq" || method == "gptq_v2") return {};
  if (method != "bnb")
    place.fail(
        method.empty() ? "without quant_method" : fmt::format("with quant_method {}", in_quotes(method)),
        "accepted: with bnb, hqq");
  const std::string bits = place.scalar();
  if (bits == "8") return {{"--method", "qlora"}, {"--quantization", "int8"}};
  if (bits != "4") place.fail(in_quotes(bits), "accepted: 4, 8");
  const RecipeValue* twice = place.text.root.find("bnb_4bit_use_double_quant");
  const bool single = twice != nullptr && !place.is_on("bnb_4bit_use_double_quant");
  return {{"--method", "qlora"}, {"--quantization", single ? "nf4" : "nf4-double"}};
}

RecipeOptions evaluated_batch(const RecipePlace& place) {
  const std::string share = place.other("split_dataset_ratio");
  const bool split = !share.empty() && share.find_first_not_of("0.") != std::string::npos;
  const RecipeValue* data = place.text.root.find("val_dataset");
  const bool given = data != nullptr && (!data->items.empty() || !data->text.empty());
  return split || given ? as_text(place) : RecipeOptions{};
}

std::vector<RecipeRow> swift_rows() {
  std::vector<RecipeRow> all{
      {"model", "--model", as_model},
      {"tuner_type", "--method", as_word, {{"lora", "lora"}, {"full", "full"}}},
      {"train_type", "--method", as_word, {{"lora", "lora"}, {"full", "full"}}},
      {"quant_bits", "", quantised},
      {"quant_method", "", as_word, {{"bnb", ""}, {"hqq", ""}, {"awq", ""}, {"gptq", ""}, {"gptq_v2", ""}}},
      {"model", "--quantization", as_packed_model},
      {"bnb_4bit_quant_type", "", as_word, {{"nf4", ""}}},
      {"bnb_4bit_use_double_quant", "", as_word, {{"true", ""}, {"false", ""}}},
      {"bnb_4bit_quant_storage",
       "--quant-storage",
       as_word,
       {{"uint8", "uint8"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
      {"lora_rank", "--lora-rank", as_text},
      {"lora_dropout", "--lora-dropout", as_text},
      {"target_modules", "--lora-targets", as_targets},
      {"modules_to_save", "--modules-to-save", as_list},
      {"use_dora", "--dora", as_flag},
      {"torch_dtype",
       "--precision",
       as_word,
       {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
      {"max_length", "--seq", as_text},
      {"attn_impl",
       "--attention",
       as_word,
       {{"sdpa", "sdpa"},
        {"eager", "eager"},
        {"flash_attn", "flash"},
        {"flash_attention_2", "flash"},
        {"flash_attention_3", "flash"}}},
      {"rlhf_type",
       "--objective",
       preferences,
       {{"dpo", "dpo"}, {"orpo", "orpo"}, {"simpo", "simpo"}, {"kto", "kto"}, {"rm", "reward"}}},
      {"sequence_parallel_size", "--sp", as_text},
      {"deepspeed_autotp_size", "--tp", as_text},
      {"NPROC_PER_NODE", "--gpus", as_processes},
      {"NNODES", "--nodes", as_nodes},
      {"packing", "", as_word, {{"true", ""}, {"false", ""}}},
      {"freeze_llm", "", nullptr, {}, "which parts of an image-text model train: --freeze"},
      {"padding_free", "", nullptr, {}, "batches without padding"},
      {"use_galore", "", nullptr, {}, "GaLore's projected states"},
      {"lisa_activated_layers", "", nullptr, {}, "LISA trains some layers at a time"},
      {"vllm_mode", "", nullptr, {}, "vLLM's weights and KV cache beside the training are not planned"},
  };
  for (RecipeRow& each : training_arguments_rows()) {
    if (each.key == "deepspeed")
      each.words = {{"zero0", "--framework deepspeed --zero 0"},
                    {"zero1", "--framework deepspeed --zero 1 --offload none"},
                    {"zero2", "--framework deepspeed --zero 2 --offload none"},
                    {"zero3", "--framework deepspeed --zero 3 --offload none"},
                    {"zero2_offload", "--framework deepspeed --zero 2 --offload optimizer"},
                    {"zero3_offload", "--framework deepspeed --zero 3 --offload all"}};
    if (each.key == "per_device_eval_batch_size") each.translate = evaluated_batch;
    all.push_back(std::move(each));
  }
  return all;
}

/// Source: ms-swift 4.6 swift/cli/main.py, swift/cli/_megatron/main.py.
std::vector<RecipeCommand> swift_commands() {
  constexpr std::string_view kMegatron = "Megatron-Core";
  return {{.words = "swift sft", .config = "first"},
          {.words = "swift pt", .config = "first"},
          {.words = "swift rlhf", .config = "first"},
          {.words = "swift infer", .does = "runs a model"},
          {.words = "swift export", .does = "merges, quantizes or converts a model"},
          {.words = "swift merge-lora", .does = "merges adapters into a model"},
          {.words = "swift eval", .does = "evaluates a model"},
          {.words = "swift deploy", .does = "serves a model"},
          {.words = "swift rollout", .does = "serves a model that generates for another command's training"},
          {.words = "swift sample", .does = "generates data with a model"},
          {.words = "swift app", .does = "serves a model in a web page"},
          {.words = "swift web-ui", .does = "opens a web page"},
          {.words = "megatron export", .does = "converts a model"},
          {.words = "megatron sft", .not_planned = kMegatron},
          {.words = "megatron pt", .not_planned = kMegatron},
          {.words = "megatron rlhf", .not_planned = kMegatron}};
}

}  // namespace

const RecipeTable& swift_table() {
  static const RecipeTable table{.format = RecipeFormat::swift,
                                 .title = "ms-swift",
                                 .trainers = "swift",
                                 .defaults = {{"tuner_type", "--method", "lora"},
                                              {"per_device_train_batch_size", "--micro-batch", "1"},
                                              {"torch_dtype", "--precision", "bf16"},
                                              {"deepspeed", "--framework", "torch"}},
                                 .rows = swift_rows(),
                                 .telling = {"tuner_type", "train_type", "target_modules", "attn_impl",
                                             "rlhf_type", "quant_bits", "split_dataset_ratio"},
                                 .commands = swift_commands(),
                                 .trains_nothing = {},
                                 .trains = "a command that trains (swift pt, sft, rlhf)"};
  return table;
}

}  // namespace zplan

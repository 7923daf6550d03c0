// torchtune's recipe configs. Source: torchtune 0.7.0 recipes/*.py, recipes/configs,
// torchtune/models/*/_model_builders.py, _component_builders.py.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/base/json_reader.h"
#include "models/catalogue/catalogue.h"

namespace zplan {

namespace {

using namespace std::string_view_literals;

/// "llama31" of "Llama-3.1-": letters and digits alone.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

/// The parts of "torchtune.models.qwen2_5.lora_qwen2_5_7b_instruct".
struct Builder {
  std::string component;  ///< as it is written
  std::string family;     ///< "qwen2_5"
  std::string name;       ///< "qwen2_5_7b": without what it says of adapters, tuning and heads
  bool has_adapters{}, is_packed{};
  /// A builder of a whole family, which is given every size.
  [[nodiscard]] bool takes_sizes() const { return name == family; }
};

bool take_front(std::string& name, std::string_view front) {
  if (!name.starts_with(front)) return false;
  name.erase(0, front.size());
  return true;
}

void take_back(std::string& name, std::string_view back) {
  if (name.ends_with(back)) name.erase(name.size() - back.size());
}

Builder builder_of(const std::string& component) {
  Builder made{.component = component, .family = {}, .name = {}};
  const std::size_t dot = component.rfind('.');
  made.name = component.substr(dot == std::string::npos ? 0 : dot + 1);
  if (dot != std::string::npos) {
    const std::size_t before = component.rfind('.', dot - 1);
    made.family = component.substr(before == std::string::npos ? 0 : before + 1, dot - before - 1);
  }
  made.is_packed = take_front(made.name, "qlora_");
  made.has_adapters = take_front(made.name, "lora_") || made.is_packed;
  for (const std::string_view back : {"_instruct", "_base", "_classifier"}) take_back(made.name, back);
  // "llama2_reward_7b", "llama3_2_vision_11b": the Hub's names have sizes in front of such words, or not at
  // all.
  for (const std::string_view word : {"_reward", "_vision"})
    if (const std::size_t at = made.name.find(word);
        at != std::string::npos && at + word.size() < made.name.size()) {
      made.name.erase(at, word.size());
      if (word == "_vision") made.name += word;
    }
  return made;
}

/// A name of the catalogue without account, and without "Meta-", which builders leave out.
std::string letters_of(const CatalogueEntry& entry) {
  std::string letters = letters_of(std::string_view(entry.name).substr(entry.name.find('/') + 1));
  if (letters.starts_with("meta")) letters.erase(0, 4);
  return letters;
}

/// Returns the entry with the shortest name for which `fits` holds.
const CatalogueEntry* shortest(const auto& fits) {
  const CatalogueEntry* found = nullptr;
  for (const CatalogueEntry& each : catalogue())
    if (fits(letters_of(each)) && (found == nullptr || each.name.size() < found->name.size())) found = &each;
  return found;
}

/// Builders leave out "-hf" and versions. Of some the size is not in the Hub's name: "phi4_14b".
const CatalogueEntry* entry_of(const Builder& builder) {
  if (builder.takes_sizes() || builder.name.empty()) return nullptr;
  std::string name = builder.name;
  if (take_front(name, "code_llama2")) name.insert(0, "codellama");
  const std::string letters = letters_of(name), sizeless = letters_of(name.substr(0, name.rfind('_')));
  const auto* begun = shortest([&](const std::string& each) { return each.starts_with(letters); });
  return begun != nullptr ? begun : shortest([&](const std::string& each) { return each == sizeless; });
}

// ---- Models of the config's own sizes.

/// Maps arguments of a family's builder to keys of config.json.
constexpr std::array kSizes{std::pair{"vocab_size"sv, "vocab_size"sv},
                            std::pair{"num_layers"sv, "num_hidden_layers"sv},
                            std::pair{"num_heads"sv, "num_attention_heads"sv},
                            std::pair{"num_kv_heads"sv, "num_key_value_heads"sv},
                            std::pair{"embed_dim"sv, "hidden_size"sv},
                            std::pair{"max_seq_len"sv, "max_position_embeddings"sv},
                            std::pair{"intermediate_dim"sv, "intermediate_size"sv},
                            std::pair{"head_dim"sv, "head_dim"sv}};

std::optional<std::int64_t> number(std::string text) {
  std::erase(text, '_');
  const auto value = to_whole_number(text);
  return value && *value > 0 ? value : std::nullopt;
}

/// The width of a feed-forward layer that is given none. Source: torchtune 0.7 modules/common_utils.py,
/// models/llama2/_model_utils.py scale_hidden_dim_for_mlp.
std::int64_t scaled_width(std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 256;
  const std::int64_t width = 4 * (2 * hidden / 3);
  return (width + kMultiple - 1) / kMultiple * kMultiple;
}

/// model_type of a family whose layers have projections of their own for query, key, value, gate and up;
/// empty: not planned from sizes.
std::string_view type_of(std::string_view family) {
  for (const std::string_view llama : {"llama2"sv, "llama3"sv, "llama3_1"sv, "llama3_2"sv, "llama3_3"sv,
                                       "mistral"sv, "phi3"sv, "phi4"sv, "smol"sv})
    if (family == llama) return "llama";
  if (family == "qwen2" || family == "qwen2_5") return "qwen2";
  return family == "qwen3" ? "qwen3" : "";
}

bool ties_ends(const RecipePlace& place, std::string_view family) {
  return family == "llama3_2" || family == "smol" || place.is_on("model.tie_word_embeddings");
}

/// config.json of the sizes beside `place`; nothing where one is not given.
std::optional<std::string> config_of_sizes(const RecipePlace& place, const Builder& builder) {
  const std::string_view type = type_of(builder.family);
  if (type.empty() || !builder.takes_sizes()) return std::nullopt;
  const std::string section(place.row.key.substr(0, place.row.key.rfind('.') + 1));
  Json config{{"model_type", type},
              {"tie_word_embeddings", ties_ends(place, builder.family)},
              {"hidden_act", "silu"}};
  for (const auto& [argument, key] : kSizes)
    if (const auto value = number(place.other(section + std::string(argument))))
      config[std::string(key)] = *value;
  for (const char* needed : {"vocab_size", "num_hidden_layers", "num_attention_heads", "hidden_size"})
    if (!config.contains(needed)) return std::nullopt;
  if (!config.contains("intermediate_size"))
    config["intermediate_size"] = scaled_width(config["hidden_size"].get<std::int64_t>());
  return config.dump();
}

/// torchtune's Phi-3 has projections of its own where transformers' are joined: Llama's layers.
void separate_projections(Json& config) {
  config["model_type"] = "llama";
  for (const char* key : {"architectures", "auto_map", "rope_scaling", "sliding_window"}) config.erase(key);
}

/// torchtune's tower of Llama 3.2 Vision embeds the places of tiles by their row and column, transformers' by
/// the aspect ratio. Source: torchtune 0.7 models/clip/_position_embeddings.py TilePositionalEmbedding.
void embed_tiles_by_place(Json& config) {
  Json& vision = config["vision_config"];
  const auto tiles = vision.value("max_num_tiles", std::size_t{4});
  vision["supported_aspect_ratios"] = Json(std::vector<Json>(tiles - 1, Json{1, 1}));
}

/// Returns the config of a known model that torchtune builds otherwise; nothing where it builds it alike.
std::optional<std::string> config_as_built(const CatalogueEntry& entry) {
  Json config = Json::parse(entry.config);
  const std::string type = config.value("model_type", "");
  if (type == "phi3")
    separate_projections(config);
  else if (type == "mllama")
    embed_tiles_by_place(config);
  else
    return std::nullopt;
  return config.dump();
}

/// Returns --model, and makes the config of a model that the catalogue lacks or that torchtune builds
/// otherwise.
RecipeOptions model(const RecipePlace& place, const Builder& builder) {
  const CatalogueEntry* entry = entry_of(builder);
  std::optional<std::string> config =
      entry != nullptr ? config_as_built(*entry) : config_of_sizes(place, builder);
  if (entry == nullptr && !config) {
    if (place.asked.has_model) return {};
    place.fail(in_quotes(builder.component),
               "accepted: a builder of a model in the catalogue, or --model beside it");
  }
  place.recipe.model_config = std::move(config);
  return {{"--model", entry != nullptr ? entry->name : builder.component}};
}

// ---- Which recipe runs, and on what.

void name_as_not_planned(const RecipePlace& place, std::string_view key, std::string why) {
  const RecipeValue* value = place.text.root.find_path(key);
  place.recipe.not_planned.push_back(
      {std::string(key), value == nullptr ? place.value.line : value->line, std::move(why)});
}

/// True if comments start the config by a recipe of one device and by no other.
bool is_of_one_device(const std::string& text) {
  const auto runs = [&](std::string_view recipe) {
    return text.find(fmt::format("{} --config", recipe)) != std::string::npos;
  };
  return (runs("_single_device") || runs("_single_device \\\n")) && !runs("_distributed");
}

/// Several GPUs are sharded by torchtune's own FSDP2, one runs plain PyTorch. The recipe's name says which,
/// not its config.
void add_framework(const RecipePlace& place, RecipeOptions& options) {
  const bool is_alone = place.asked.gpus.value_or(1) == 1 && !place.is_on("fsdp_cpu_offload");
  if (is_alone) return options.emplace_back("--framework", "torch"), void();
  options.insert(options.end(), {{"--framework", "fsdp"}, {"--zero", "3"}});
  if (is_of_one_device(place.text.text))
    name_as_not_planned(place, place.row.key,
                        "its comments run it by a recipe of a single device: several are planned as the "
                        "distributed recipe runs them");
}

bool packs_base(const RecipePlace& place, const Builder& builder) {
  return builder.is_packed || (builder.has_adapters && place.is_on("model.quantize_base"));
}

RecipeOptions built(const RecipePlace& place) {
  const Builder builder = builder_of(place.scalar());
  RecipeOptions options = model(place, builder);
  add_framework(place, options);
  if (packs_base(place, builder))
    // torchao's NF4 tensors are sharded by FSDP2 as they are.
    options.insert(options.end(),
                   {{"--method", "qlora"}, {"--quantization", "nf4-double"}, {"--quant-storage", "bf16"}});
  else
    options.emplace_back("--method", builder.has_adapters ? "lora" : "full");
  return options;
}

bool has_adapters(const RecipePlace& place) {
  return builder_of(place.other("model._component_")).has_adapters;
}

bool has_tied_ends(const RecipePlace& place) {
  const CatalogueEntry* entry = entry_of(builder_of(place.other("model._component_")));
  return entry != nullptr && catalogue_model(*entry).shape.tied_embeddings;
}

/// Modules with adapters are three keys. Tied embeddings leave the output without any.
RecipeOptions targets(const RecipePlace& place) {
  std::string modules;
  const auto add = [&](std::string_view name) {
    modules += fmt::format("{}{}", modules.empty() ? "" : ",", name);
  };
  for (const RecipeValue& each : place.value.items) add(each.text == "output_proj" ? "o_proj" : each.text);
  if (place.is_on("model.apply_lora_to_mlp"))
    for (const std::string_view each : {"gate_proj", "up_proj", "down_proj"}) add(each);
  if (place.is_on("model.apply_lora_to_output") && !has_tied_ends(place)) add("lm_head");
  if (modules.empty()) return {};
  return {{"--lora-targets", modules}};
}

/// Notes that a key decides which parts of an image-text model train.
RecipeOptions trained_part(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  name_as_not_planned(place, place.row.key, "which parts of an image-text model are trained");
  return {};
}

// ---- The step.

struct NamedOptimizer {
  std::string_view component, option;
  std::string_view note{};
};
constexpr std::array kOptimizers{
    NamedOptimizer{"torch.optim.AdamW", "adamw"},
    NamedOptimizer{"torch.optim.Adam", "adamw"},
    NamedOptimizer{"torch.optim.SGD", "sgd"},
    NamedOptimizer{"torch.optim.Adafactor", "adafactor_torch"},
    NamedOptimizer{"bitsandbytes.optim.AdamW8bit", "adamw8bit"},
    NamedOptimizer{"bitsandbytes.optim.Adam8bit", "adamw8bit"},
    NamedOptimizer{"bitsandbytes.optim.AdamW", "adamw32bit"},
    NamedOptimizer{"bitsandbytes.optim.PagedAdamW", "paged_adamw32bit"},
    NamedOptimizer{"bitsandbytes.optim.PagedAdamW32bit", "paged_adamw32bit"},
    NamedOptimizer{"bitsandbytes.optim.PagedAdamW8bit", "paged_adamw8bit"},
    NamedOptimizer{"bitsandbytes.optim.Lion8bit", "lion8bit"},
    NamedOptimizer{"torchao.optim.AdamW8bit", "adamw8bit", "torchao's 8-bit AdamW: planned as bitsandbytes'"},
    NamedOptimizer{"torchao.optim.AdamW4bit", "adamw4bit"},
    NamedOptimizer{"torchao.optim.AdamWFp8", "adamw8bit", "torchao's 8-bit AdamW: planned as bitsandbytes'"},
    NamedOptimizer{"torchao.optim.CPUOffloadOptimizer", "adamw",
                   "states and gradients on the host: planned on the GPU, which takes more"}};

RecipeOptions optimizer(const RecipePlace& place) {
  std::string component = place.scalar();
  // torchao's optimizers stood in a folder of prototypes.
  if (constexpr std::string_view older = "torchao.prototype.low_bit_optim."; component.starts_with(older))
    component.replace(0, older.size(), "torchao.optim.");
  std::vector<std::string> names;
  for (const NamedOptimizer& each : kOptimizers) {
    names.emplace_back(each.component);
    if (each.component != component) continue;
    if (!each.note.empty()) name_as_not_planned(place, place.row.key, std::string(each.note));
    return {{"--optimizer", std::string(each.option)}};
  }
  place.fail(in_quotes(component), accepted_words(component, names));
}

/// Losses by the last part of their names. Slices of the loss are the trainer's default; others have whole
/// logits. Source: torchtune 0.7 modules/loss/, rlhf/loss/, dev/grpo/loss.py.
struct NamedLoss {
  std::string_view name;
  RecipeOptions options{};
  std::string_view note{};
};
const std::vector<NamedLoss>& losses() {
  constexpr std::string_view kPairs = "planned as the sigmoid loss, of the same tensors";
  static const std::vector<NamedLoss> all{
      {"LinearCrossEntropyLoss"},
      {"CEWithChunkedOutputLoss"},
      {"CrossEntropyLoss", {{"--loss-chunks", "1"}}},
      {"DPOLoss", {{"--objective", "dpo"}}},
      {"RSOLoss", {{"--objective", "dpo"}}, kPairs},
      {"IPOLoss", {{"--objective", "dpo"}}, kPairs},
      {"SimPOLoss", {{"--objective", "simpo"}}},
      {"PPOLoss",
       {{"--objective", "ppo"}},
       "torchtune's own PPO (generation with a cache, KL and advantages of its own): planned as TRL's"},
      {"GRPOLoss",
       {{"--objective", "grpo"}, {"--reference", "copy"}},
       "torchtune's own GRPO: planned as TRL's"},
      {"GRPOCompletionLoss",
       {{"--objective", "grpo"}, {"--reference", "copy"}},
       "torchtune's own GRPO: planned as TRL's"},
      {"GRPOSimpleLoss",
       {{"--objective", "grpo"}, {"--reference", "copy"}},
       "torchtune's own GRPO: planned as TRL's"},
      {"GRPOWithChunkedOutputLoss",
       {{"--objective", "grpo"}, {"--reference", "copy"}},
       "torchtune's own GRPO: planned as TRL's"}};
  return all;
}

RecipeOptions loss(const RecipePlace& place) {
  const std::string component = place.scalar();
  const std::string_view name = std::string_view(component).substr(component.rfind('.') + 1);
  const auto found = std::ranges::find(losses(), name, &NamedLoss::name);
  if (found == losses().end()) {
    name_as_not_planned(place, place.row.key, "a loss that zplan does not know: planned over whole logits");
    return {{"--loss-chunks", "1"}};
  }
  if (!found->note.empty()) name_as_not_planned(place, place.row.key, std::string(found->note));
  return found->options;
}

/// True if the loss takes the output in slices.
bool is_sliced(const RecipePlace& place) {
  const std::string name = place.other("loss._component_");
  return name.ends_with("LinearCrossEntropyLoss") || name.ends_with("CEWithChunkedOutputLoss");
}

RecipeOptions loss_slices(const RecipePlace& place) {
  return is_sliced(place) ? as_text(place) : RecipeOptions{};
}

/// ac_mode takes the place of enable_activation_checkpointing. Source: torchtune 0.7
/// training/activations.py apply_selective_activation_checkpointing.
RecipeOptions checkpointing(const RecipePlace& place) {
  const std::string mode = lower_case(place.other("ac_mode")), every = place.other("ac_option");
  if (mode.empty() || mode == "none" || mode == "null") return as_word(place);
  if (mode == "full" || (mode == "selective" && every == "1")) return {{"--checkpointing", "full"}};
  if (every == "op") return {{"--checkpointing", "selective"}};
  name_as_not_planned(place, place.row.key,
                      fmt::format("ac_mode checkpoints every layer of {}: planned without", every));
  return {{"--checkpointing", "none"}};
}

/// Reads optimizer_in_bwd, which recipes of adapters do not read.
RecipeOptions stepped_in_backward(const RecipePlace& place) {
  if (has_adapters(place)) return {};
  return as_flag(place);
}

/// torch's own optimizers run over lists of tensors where they are not fused, as they are not by default.
RecipeOptions kernel(const RecipePlace& place) {
  const std::string component = place.scalar();
  const bool lists = component == "torch.optim.AdamW" || component == "torch.optim.Adam";
  if (!lists || place.is_on("optimizer.fused")) return {};
  return {{"--optimizer-kernel", "foreach"}};
}

/// A validation pass runs where its interval is given.
RecipeOptions validated(const RecipePlace& place) {
  const std::string every = lower_case(place.other("run_val_every_n_steps"));
  const bool runs = !every.empty() && every != "null" && every != "none";
  return runs ? as_text(place) : RecipeOptions{};
}

RecipeOptions named_teacher(const RecipePlace& place) {
  name_as_not_planned(place, "teacher_model",
                      fmt::format("the frozen teacher {} and its logits: planned without", place.scalar()));
  return {};
}

std::int64_t number_of(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  return number(place.other(key)).value_or(otherwise);
}

/// Prompts have tokenizer.max_seq_len tokens; what is generated comes behind.
RecipeOptions completion(const RecipePlace& place) {
  RecipeOptions options{{"--completion-length", place.scalar()}};
  if (const auto prompt = number(place.other("tokenizer.max_seq_len")))
    options.emplace_back("--seq", std::to_string(*prompt + number(place.scalar()).value_or(0)));
  return options;
}

bool trains_values(const RecipePlace& place) { return place.text.root.find("policy_model") != nullptr; }

/// Samples of a forward pass. PPO divides what it generates into parts of ppo_batch_size. Source: torchtune
/// 0.7 recipes/ppo_full_finetune_single_device.py.
RecipeOptions samples(const RecipePlace& place) {
  if (!trains_values(place)) return as_text(place);
  const std::int64_t generated = number_of(place, "batch_size", 1);
  const std::int64_t part = number_of(place, "ppo_batch_size", generated);
  const std::int64_t steps = number_of(place, "gradient_accumulation_steps", 1);
  return {{"--micro-batch", std::to_string(std::max<std::int64_t>(1, part / steps))},
          {"--mini-batches", std::to_string(std::max<std::int64_t>(1, generated / part))}};
}

/// One copy is what FSDP2 alone has.
RecipeOptions replicas(const RecipePlace& place) {
  const std::string copies = place.scalar();
  return copies.empty() || copies == "1" ? RecipeOptions{} : RecipeOptions{{"--dp-replicate", copies}};
}

RecipeOptions scored_at_once(const RecipePlace& place) {
  return trains_values(place) ? as_text(place) : RecipeOptions{};
}

std::vector<RecipeRow> builder_rows() {
  return {{"model._component_", "", built},
          {"policy_model._component_", "", built},
          {"model.quantize_base", "", as_word, {{"true", ""}, {"false", ""}}},
          {"model.lora_rank", "--lora-rank", as_text},
          {"model.lora_dropout", "--lora-dropout", as_text},
          {"model.lora_attn_modules", "--lora-targets", targets},
          {"model.apply_lora_to_mlp", "", as_word, {{"true", ""}, {"false", ""}}},
          {"model.apply_lora_to_output", "", as_word, {{"true", ""}, {"false", ""}}},
          {"model.use_dora", "--dora", as_flag},
          {"model.decoder_trainable", "", trained_part},
          {"model.encoder_trainable", "", trained_part},
          {"model.fusion_trainable", "", trained_part},
          {"resize_token_embeddings", "", nullptr, {}, "embeddings of another vocabulary"},
          {"teacher_model._component_", "", named_teacher}};
}

std::vector<RecipeRow> step_rows() {
  return {{"tokenizer.max_seq_len", "--seq", as_text},
          {"dataset.packed", "", as_word, {{"true", ""}, {"false", ""}}},
          {"batch_size", "--micro-batch", samples},
          {"gradient_accumulation_steps", "--grad-accum", as_text},
          {"dtype", "--precision", as_word, {{"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}}},
          {"optimizer._component_", "--optimizer", optimizer},
          {"optimizer._component_", "--optimizer-kernel", kernel},
          {"optimizer.fused", "", as_word, {{"true", ""}, {"false", ""}}},
          {"optimizer_in_bwd", "--optimizer-in-backward", stepped_in_backward},
          {"loss._component_", "", loss},
          {"loss.num_output_chunks", "--loss-chunks", loss_slices},
          {"enable_activation_checkpointing",
           "--checkpointing",
           checkpointing,
           {{"true", "full"}, {"false", "none"}}},
          {"ac_mode", "", as_word, {{"none", ""}, {"full", ""}, {"selective", ""}}},
          {"fsdp_cpu_offload", "--offload", as_word, {{"true", "all"}, {"false", ""}}},
          {"fsdp_reshard_after_forward", "--zero", as_word, {{"true", "3"}, {"false", "2"}}},
          {"context_parallel_dim", "--cp", as_text},
          {"data_parallel_replicate_dim", "--dp-replicate", replicas},
          {"context_parallel_rotate_method",
           "--cp-rotate",
           as_word,
           {{"allgather", "allgather"}, {"alltoall", "alltoall"}}},
          {"epochs", "--epochs", as_text},
          {"batch_size_val", "--eval-batch", validated},
          {"max_generated_tokens", "--completion-length", completion},
          {"forward_batch_size", "--rollout-batch", scored_at_once},
          {"ppo_epochs", "--iterations", as_text},
          {"grpo_samples", "--generations", as_text}};
}

/// Degrees of 1 are none.
RecipeOptions degree(const RecipePlace& place) {
  const std::string degree = place.scalar();
  if (degree.empty() || degree == "1" || degree == "-1") return {};
  name_as_not_planned(place, place.row.key,
                      place.row.key == "tensor_parallel_dim"
                          ? fmt::format("tensor parallelism of {} under FSDP2", degree)
                          : fmt::format("shards over {}: planned over all GPUs", degree));
  return {};
}

/// A quantizer beside an optimizer is that of quantisation-aware training.
RecipeOptions quantizer(const RecipePlace& place) {
  if (place.text.root.find("optimizer") != nullptr)
    name_as_not_planned(place, "quantizer", "fake quantisation of weights and activations");
  return {};
}

bool packs_model(const RecipePlace& place) {
  return place.other("model._component_").find("qlora_") != std::string::npos ||
         place.is_on("model.quantize_base");
}

/// torchtune compiles each layer, and the loss, which is planned as it runs without that.
RecipeOptions compiled(const RecipePlace& place) {
  const std::optional<bool> compiles = place.boolean();
  if (compiles && !*compiles) return {};
  if (compiles && !packs_model(place)) return {{"--compile", "layer"}};
  name_as_not_planned(place, "compile", "what torch.compile fuses");
  return {};
}

/// Source: torchtune 0.6.1 training/_activation_offloading.py. On compiled layers its hooks fail with torch
/// 2.11.
RecipeOptions hooked_activations(const RecipePlace& place) {
  if (!place.boolean().value_or(true)) return {};
  if (!packs_model(place) && !place.is_on("compile")) return {{"--checkpoint-offload", "torchtune"}};
  place.not_planned("saved activations wait in host memory");
  return {};
}

/// Source: torchtune 0.6.1 training/quantization.py convert_to_float8_training.
RecipeOptions float8_layers(const RecipePlace& place) {
  if (!place.boolean().value_or(true)) return {};
  const std::string recipe = place.other("fp8_recipe_name");
  const bool is_known = recipe.empty() || recipe == "tensorwise" || recipe == "rowwise";
  const bool adapts = place.other("model._component_").find("lora_") != std::string::npos;
  if (is_known && !adapts) return {{"--float8", recipe == "rowwise" ? "rowwise" : "tensorwise"}};
  place.not_planned("matrix products in float8");
  return {};
}

std::vector<RecipeRow> unplanned_keys() {
  return {{"tensor_parallel_dim", "", degree},
          {"data_parallel_shard_dim", "", degree},
          {"enable_activation_offloading", "", hooked_activations},
          {"compile", "", compiled},
          {"custom_sharded_layers", "", nullptr, {}, "which layers FSDP2 wraps by themselves"},
          {"enable_fp8_training", "", float8_layers},
          {"fp8_recipe_name", "", [](const RecipePlace&) { return RecipeOptions{}; }},
          {"quantizer._component_", "", quantizer},
          {"layer_dropout", "", nullptr, {}, "layers that are left out at random"},
          {"early_exit_loss", "", nullptr, {}, "losses of layers in between"},
          {"enable_async_checkpointing", "", nullptr, {}, "a copy of the weights while they are saved"}};
}

bool names(const Recipe& recipe, std::string_view key) {
  return std::ranges::any_of(recipe.not_planned, [&](const RecipeKey& each) { return each.key == key; });
}

bool trains_all(const Recipe& recipe) {
  return std::ranges::any_of(recipe.settings, [](const RecipeSetting& setting) {
    return std::ranges::find(setting.options, std::pair{std::string("--method"), std::string("full")}) !=
           setting.options.end();
  });
}

/// Returns the recipe that reads such a config. Source: torchtune 0.7 _recipe_registry.py.
std::string recipe_of(const Recipe& recipe, std::int64_t gpus, std::string_view objective) {
  const std::string_view place = gpus > 1 ? "distributed" : "single_device";
  const bool full = trains_all(recipe);
  if (objective == "ppo") return "ppo_full_finetune_single_device";
  if (objective == "grpo") return "dev/grpo_full_finetune_distributed";
  if (objective != "sft") return full ? "full_dpo_distributed" : fmt::format("lora_dpo_{}", place);
  if (names(recipe, "teacher_model")) return fmt::format("knowledge_distillation_{}", place);
  if (names(recipe, "quantizer"))
    return full ? fmt::format("qat_{}", place) : std::string("qat_lora_finetune_distributed");
  return fmt::format("{}_finetune_{}", full ? "full" : "lora", place);
}

std::string tune_run(const Recipe& recipe, std::int64_t gpus, std::string_view objective) {
  const std::string name = recipe_of(recipe, gpus, objective);
  const std::string where = name.ends_with("distributed") ? "--nproc_per_node {gpus} " : "";
  return fmt::format("tune run {}{} --config {{file}}", where, name);
}

}  // namespace

const RecipeTable& torchtune_table() {
  static const RecipeTable table = [] {
    RecipeTable made{
        .format = RecipeFormat::torchtune,
        .title = "torchtune",
        .trainers = "torchtune",
        .defaults = {{"batch_size", "--micro-batch", "1"}, {"dtype", "--precision", "bf16"}},
        .rows = builder_rows(),
        .telling = {"tokenizer._component_", "model._component_", "checkpointer._component_"},
        .commands = {},
        .trains_nothing = {{.key = "tasks", .does = "evaluates a model"},
                           {.key = "prompt", .unless = "optimizer", .does = "generates with a model"},
                           {.key = "quantizer", .unless = "optimizer", .does = "quantizes a model"},
                           {.key = "", .unless = "optimizer loss dataset datasets", .does = "runs a model"}},
        .trains = "a config of a recipe that trains (full, LoRA, DPO, PPO, distillation, QAT)",
        .launches = tune_run,
        .has_references = true};
    for (const auto& rows : {step_rows(), unplanned_keys()})
      made.rows.insert(made.rows.end(), rows.begin(), rows.end());
    return made;
  }();
  return table;
}

}  // namespace zplan

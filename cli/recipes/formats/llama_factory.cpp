// LLaMA-Factory's arguments. Source: LLaMA-Factory 0.9.6.dev0 hparams/*.py, model/adapter.py,
// model/model_utils/.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/base/names.h"
#include "models/catalogue/catalogue.h"

namespace zplan {

namespace {

RecipeOptions stage(const RecipePlace& place) {
  if (lower_case(place.scalar()) == "ppo")
    place.not_planned("LLaMA-Factory's own PPO (a head of values on the policy): planned as TRL's");
  return as_word(place);
}

/// Stage dpo is any of the losses over pairs.
RecipeOptions preference(const RecipePlace& place) {
  if (place.other("stage") != "dpo" || place.value.kind == RecipeKind::nothing) return {};
  return as_word(place);
}

/// Returns the layers that freeze tuning trains; of a model that LLaMA Pro expanded the last of each group.
/// Source: hparams/finetuning_args.py freeze_trainable_layers, model/adapter.py _setup_freeze_tuning.
RecipeOptions frozen_layers(const RecipePlace& place) {
  constexpr std::int64_t kLayers = 2, kMost = 10'000;
  const std::string said = place.other("freeze_trainable_layers");
  const bool is_first = said.starts_with('-');
  const std::int64_t count =
      said.empty() ? kLayers : parse_integer(place.row.key, is_first ? said.substr(1) : said, 1, kMost);
  const std::string_view which = place.is_on("use_llama_pro") ? "every" : is_first ? "first" : "last";
  place.not_planned(
      "freeze tuning is planned by whole layers: freeze_trainable_modules and "
      "freeze_extra_modules are not");
  return {{"--method", "full"}, {"--train-layers", fmt::format("{}:{}", which, count)}};
}

/// Freeze tuning trains some layers, OFT rotates instead of adding.
RecipeOptions method(const RecipePlace& place) {
  const std::string type = lower_case(place.scalar());
  if (type == "freeze") return frozen_layers(place);
  if (type == "oft") place.not_planned("OFT's rotations: planned as LoRA of the same modules");
  return as_word(place);
}

/// bitsandbytes or HQQ packs as the model is loaded; bitsandbytes' 4 bits are doubly quantised unless told
/// otherwise. Source: model/model_utils/quantization.py configure_quantization.
RecipeOptions packed_bits(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  // Weights that are packed already stay so.
  if (const RecipeValue* model = place.text.root.find("model_name_or_path");
      model != nullptr && unpacked_name(model->text) != model->text)
    return {};
  const std::string method = lower_case(place.other("quantization_method"));
  const std::string bits = place.scalar();
  if (method == "hqq" && bits == "4") return hqq_bits(place);
  if (method == "hqq" || method == "eetq")
    place.not_planned(fmt::format("{} of {} bits: planned as bitsandbytes' 8 bits", method, bits));
  else if (!method.empty() && method != "bnb" && method != "bitsandbytes")
    place.fail(fmt::format("with quantization_method {}", in_quotes(method)),
               "accepted: with bnb, hqq, eetq");
  if (bits == "8" || method == "hqq" || method == "eetq")
    return {{"--method", "qlora"}, {"--quantization", "int8"}};
  if (bits != "4") place.fail(in_quotes(bits), "accepted: 4, 8");
  const RecipeValue* twice = place.text.root.find("double_quantization");
  const bool single = twice != nullptr && !place.is_on("double_quantization");
  // Packed values are stored in the type that computes.
  const std::string_view storage = place.is_on("bf16") || place.is_on("pure_bf16") ? "bf16"
                                   : place.is_on("fp16")                           ? "fp16"
                                                                                   : "fp32";
  return {{"--method", "qlora"},
          {"--quantization", single ? "nf4" : "nf4-double"},
          {"--quant-storage", std::string(storage)}};
}

RecipeOptions quantization_type(const RecipePlace& place) {
  if (lower_case(place.scalar()) == "fp4") place.not_planned("fp4: planned as nf4, of the same size");
  return {};
}

RecipeOptions cached_checkpoint(const RecipePlace& place) {
  return place.is_on("disable_gradient_checkpointing") ? RecipeOptions{{"--checkpointing", "none"}}
                                                       : RecipeOptions{{"--checkpointing", "full"}};
}

/// A reference model of its own is a copy beside the adapters.
RecipeOptions reference(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing || place.scalar().empty()) return {};
  const std::string stage = place.other("stage");
  const std::string loss = place.other("pref_loss");
  if (stage == "ppo" || (stage != "dpo" && stage != "kto") || loss == "orpo" || loss == "simpo") return {};
  return {{"--reference", "copy"}};
}

/// Another model gives the rewards of PPO.
RecipeOptions reward_model(const RecipePlace& place) {
  if (place.other("stage") != "ppo" || place.value.kind == RecipeKind::nothing) return {};
  place.not_planned("the reward model: planned as one of the policy's shape");
  return {};
}

/// Attention over packed samples apart is flash attention's; others are given a mask of whole rows.
RecipeOptions packed_apart(const RecipePlace& place) {
  const std::string attention = place.other("flash_attn");
  if (place.boolean().value_or(false) && attention != "fa2" && attention != "fa3")
    place.not_planned("a mask of packed samples, which sets attention's kernel");
  return {};
}

/// Pixels of an image where the file does not say them. Source: hparams/model_args.py image_max_pixels.
constexpr std::int64_t kDefaultPixels = 768 * 768;

std::int64_t whole_number(std::string text, std::int64_t otherwise) {
  std::erase(text, '_');
  constexpr std::size_t kMostDigits = 9;
  const bool is_number = !text.empty() && text.size() <= kMostDigits &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoll(text) : otherwise;
}

std::string named_model(const RecipePlace& place) {
  const RecipeValue* value = place.text.root.find("model_name_or_path");
  if (value == nullptr) return {};
  const RecipeOptions named =
      as_model({place.text, place.row, *value, place.folder, place.asked, place.recipe});
  return named.empty() ? std::string() : named.front().second;
}

/// Notes the images of the data, of which the file says the largest size alone.
RecipeOptions images_of(const RecipePlace& place, std::string key, std::int64_t pixels) {
  if (place.is_given("--images")) return {};
  place.recipe.not_planned.push_back(
      {std::move(key), place.value.line,
       fmt::format("images of the data, of up to {} pixels: planned with --images and --image-size",
                   pixels)});
  return {};
}

RecipeOptions image_pixels(const RecipePlace& place) {
  const std::int64_t most = whole_number(place.scalar(), 0);
  return most == 0 ? RecipeOptions{} : images_of(place, std::string(place.row.key), most);
}

/// Notes freeze_language_model where it is on.
RecipeOptions language_model(const RecipePlace& place) {
  if (place.boolean().value_or(false)) place.not_planned("a frozen language model: planned as if it trained");
  return {};
}

bool is_off_by(const RecipePlace& place, std::string_view key) {
  const RecipeValue* value = place.text.root.find(key);
  return value != nullptr && value->kind == RecipeKind::scalar && is_off(*value);
}

/// True if the name or the file speaks of images.
bool speaks_of_images(const RecipePlace& place, const std::string& model) {
  constexpr std::array kNames{"-vl",      "vl-",     "vision",    "llava", "minicpm-v",
                              "internvl", "pixtral", "paligemma", "vlm"};
  constexpr std::array kKeys{"image_max_pixels", "video_max_pixels", "freeze_vision_tower",
                             "freeze_multi_modal_projector"};
  const std::string name = lower_case(model);
  return std::ranges::any_of(kNames,
                             [&](const char* each) { return name.find(each) != std::string::npos; }) ||
         std::ranges::any_of(kKeys, [&](const char* key) { return place.text.root.find(key) != nullptr; });
}

/// The parts of the model, or, where it is not known, both if something speaks of images.
ImageTextParts parts_of(const RecipePlace& place) {
  const std::string model = place.asked.model.empty() ? named_model(place) : place.asked.model;
  const ImageTextParts known = image_text_parts(model);
  if (known.has_tower || known.has_projector) return known;
  const bool has = std::ranges::none_of(catalogue(), [&](const auto& each) { return each.name == model; }) &&
                   speaks_of_images(place, model);
  return {.has_tower = has, .has_projector = has};
}

/// Tower and projector are frozen unless told otherwise, and get no adapters. Source:
/// model/model_utils/visual.py get_forbidden_modules, patch_target_modules.
RecipeOptions frozen_by_default(const RecipePlace& place) {
  const ImageTextParts has = parts_of(place);
  if (!has.has_tower && !has.has_projector) return {};
  std::string parts;
  if (has.has_tower && !is_off_by(place, "freeze_vision_tower")) parts = "vision";
  if (has.has_projector && !is_off_by(place, "freeze_multi_modal_projector"))
    parts += parts.empty() ? "projector" : ",projector";
  if (parts.empty()) return {};
  return {{"--freeze", parts}};
}

/// Images of the default size where the file says none.
RecipeOptions default_images(const RecipePlace& place) {
  const ImageTextParts has = parts_of(place);
  if (!has.has_tower || place.text.root.find("image_max_pixels") != nullptr) return {};
  return images_of(place, "image_max_pixels", kDefaultPixels);
}

std::vector<RecipeRow> method_rows() {
  return {
      {"model_name_or_path", "--model", as_model},
      {"stage",
       "--objective",
       stage,
       {{"sft", "sft"}, {"pt", "sft"}, {"dpo", "dpo"}, {"kto", "kto"}, {"rm", "reward"}, {"ppo", "ppo"}}},
      {"pref_loss",
       "--objective",
       preference,
       {{"sigmoid", "dpo"},
        {"hinge", "dpo"},
        {"ipo", "dpo"},
        {"kto_pair", "dpo"},
        {"orpo", "orpo"},
        {"simpo", "simpo"}}},
      {"ref_model", "--reference", reference},
      {"reward_model", "", reward_model},
      {"finetuning_type",
       "--method",
       method,
       {{"lora", "lora"}, {"full", "full"}, {"freeze", "full"}, {"oft", "lora"}}},
      {"quantization_method", "", as_word, {{"bnb", ""}, {"bitsandbytes", ""}, {"hqq", ""}, {"eetq", ""}}},
      {"quantization_bit", "", packed_bits},
      {"model_name_or_path", "--quantization", as_packed_model},
      {"model_name_or_path", "--freeze", frozen_by_default},
      {"model_name_or_path", "--images", default_images},
      {"freeze_vision_tower", "", as_word, {{"true", ""}, {"false", ""}}},
      {"freeze_multi_modal_projector", "", as_word, {{"true", ""}, {"false", ""}}},
      {"quantization_type", "", quantization_type},
      {"double_quantization", "", as_word, {{"true", ""}, {"false", ""}}},
      {"lora_rank", "--lora-rank", as_text},
      {"lora_dropout", "--lora-dropout", as_text},
      {"lora_target", "--lora-targets", as_targets},
      {"oft_target", "--lora-targets", as_targets},
      {"additional_target", "--modules-to-save", as_list},
      {"use_dora", "--dora", as_flag},
      {"freeze_language_model", "", language_model}};
}

std::vector<RecipeRow> argument_rows() {
  return {{"cutoff_len", "--seq", as_text},
          {"packing", "", as_word, {{"true", ""}, {"false", ""}}},
          {"neat_packing", "", packed_apart},
          {"image_max_pixels", "--images", image_pixels},
          {"disable_gradient_checkpointing", "--checkpointing", cached_checkpoint},
          {"flash_attn",
           "--attention",
           as_word,
           {{"auto", ""},
            {"disabled", "eager"},
            {"sdpa", "sdpa"},
            {"fa2", "flash"},
            {"fa3", "flash"},
            {"flash_attention_2", "flash"},
            {"flash_attention_3", "flash"}}},
          {"enable_liger_kernel", "", as_word, {{"true", "--fused-loss --kernels liger"}, {"false", ""}}},
          {"pure_bf16", "", as_word, {{"true", "--precision bf16 --no-master-weights"}, {"false", ""}}},
          {"use_muon", "--optimizer", as_word, {{"true", "muon"}, {"false", ""}}},
          {"NPROC_PER_NODE", "--gpus", as_text}};
}

/// Its batches are padded, so that Unsloth compiles layers. Source: LLaMA-Factory 0.9.5
/// model/model_utils/unsloth.py.
RecipeOptions unsloth_layers(const RecipePlace& place) {
  if (!place.boolean().value_or(true)) return {};
  const std::string stage = place.other("stage");
  const bool is_planned =
      place.other("deepspeed").empty() && (stage.empty() || stage == "sft" || stage == "pt");
  if (!is_planned) place.not_planned("Unsloth's kernels");
  if (!is_planned) return {};
  RecipeOptions options{
      {"--modules", "unsloth"}, {"--compile", "layer"}, {"--expandable-segments", std::string(kFlagGiven)}};
  if (!place.is_on("disable_gradient_checkpointing")) options.emplace_back("--checkpoint-offload", "unsloth");
  if (!place.other("quantization_bit").empty()) options.emplace_back("--quantization", "nf4-double");
  return options;
}

/// Source: LLaMA-Factory 0.9.5 train/fp8_utils.py: torchao through accelerate.
RecipeOptions float8_full(const RecipePlace& place) {
  if (!place.boolean().value_or(true)) return {};
  const bool is_planned = place.other("finetuning_type") == "full" && place.other("deepspeed").empty();
  const bool gathers = place.is_on("fp8_enable_fsdp_float8_all_gather") && place.is_on("fsdp");
  if (is_planned) return {{"--float8", gathers ? "tensorwise-gather" : "tensorwise"}};
  place.not_planned("matrix products in float8");
  return {};
}

/// Layers are computed again where recompute_granularity says so alone. Source: LLaMA-Factory 0.9.6.dev0
/// hparams/megatron_bridge_args.py, train/megatron_bridge/config_builder.py _apply_model_parallelism.
RecipeOptions megatron_core(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  place.not_planned("Megatron-Core, which shards otherwise: planned as replicas of the model");
  if (!place.other("recompute_granularity").empty()) return {};
  return {{"--checkpointing", "none"}};
}

std::vector<RecipeRow> unplanned_arguments() {
  return {{"use_unsloth", "", unsloth_layers},
          {"use_unsloth_gc", "", nullptr, {}, "checkpointed inputs in host memory"},
          {"use_galore", "", nullptr, {}, "GaLore's projected states"},
          {"use_apollo", "", nullptr, {}, "APOLLO's projected states"},
          {"use_badam", "", nullptr, {}, "BAdam trains one block at a time"},
          {"use_adam_mini", "", nullptr, {}, "Adam-mini's states"},
          {"use_llama_pro", "", as_word, {{"true", ""}, {"false", ""}}},
          {"freeze_trainable_layers", "", [](const RecipePlace&) { return RecipeOptions{}; }},
          {"upcast_layernorm", "", nullptr, {}, "norms in fp32"},
          {"upcast_lmhead_output", "", nullptr, {}, "logits in fp32"},
          {"shift_attn", "", nullptr, {}, "S²-attention over groups of the sequence"},
          {"mixture_of_depths", "", nullptr, {}, "layers that skip tokens"},
          {"resize_vocab", "", nullptr, {}, "embeddings of another vocabulary"},
          {"moe_aux_loss_coef", "", nullptr, {}, "a loss of the router's logits"},
          {"use_kt", "", nullptr, {}, "KTransformers: experts in host memory"},
          {"use_dft_loss", "", nullptr, {}, "a loss weighed by each token's probability"},
          {"use_asft_loss", "", nullptr, {}, "a loss that compares with a reference model's logits"},
          {"use_eaft_loss", "", nullptr, {}, "a loss weighed by each token's entropy"},
          {"pref_ftx", "", nullptr, {}, "a loss of the chosen answers beside that of pairs"},
          {"compute_accuracy", "", nullptr, {}, "what an evaluation keeps of the logits"},
          {"ref_model_quantization_bit", "", nullptr, {}, "a packed reference model: planned in 16 bits"},
          {"reward_model_quantization_bit", "", nullptr, {}, "a packed reward model"},
          {"fp8", "", float8_full},
          {"fp8_enable_fsdp_float8_all_gather", "", [](const RecipePlace&) { return RecipeOptions{}; }},
          {"use_hyper_parallel", "", nullptr, {}, "sharding by HyperParallel instead of FSDP2"},
          {"tensor_model_parallel_size", "", megatron_core},
          {"pipeline_model_parallel_size", "", megatron_core},
          {"context_parallel_size", "", megatron_core},
          {"expert_model_parallel_size", "", megatron_core},
          {"use_distributed_optimizer", "", megatron_core}};
}

std::vector<RecipeRow> llama_factory_rows() {
  std::vector<RecipeRow> all = method_rows();
  for (const auto& rows : {argument_rows(), unplanned_arguments()})
    all.insert(all.end(), rows.begin(), rows.end());
  for (RecipeRow& each : training_arguments_rows())
    if (!each.key.ends_with("_checkpointing")) all.push_back(std::move(each));
  return all;
}

/// Source: LLaMA-Factory 0.9.5 launcher.py.
std::vector<RecipeCommand> llama_factory_commands() {
  return {{.words = "llamafactory-cli train", .config = "first"},
          {.words = "llamafactory-cli api", .does = "serves a model"},
          {.words = "llamafactory-cli chat", .does = "runs a model"},
          {.words = "llamafactory-cli export", .does = "merges or quantizes a model"},
          {.words = "llamafactory-cli eval", .does = "evaluates a model"},
          {.words = "llamafactory-cli webchat", .does = "serves a model in a web page"},
          {.words = "llamafactory-cli webui", .does = "opens a web page"},
          {.words = "llamafactory-cli env", .does = "prints versions"},
          {.words = "llamafactory-cli version", .does = "prints a version"},
          {.words = "llama_pro.py", .does = "adds blocks to a model"},
          {.words = "pissa_init.py", .does = "makes adapters of a model"},
          {.words = "loftq_init.py", .does = "makes adapters of a model"},
          {.words = "lmf train", .config = "first"},
          {.words = "lmf export", .does = "merges or quantizes a model"}};
}

bool shards(const Recipe& recipe, std::string_view framework) {
  return std::ranges::any_of(recipe.settings, [&](const RecipeSetting& setting) {
    return std::ranges::find(setting.options, std::pair{std::string("--framework"),
                                                        std::string(framework)}) != setting.options.end();
  });
}

/// llamafactory-cli starts torchrun where there are several GPUs; DeepSpeed needs it for one, too. Source:
/// launcher.py.
std::string llama_factory_command(const Recipe& recipe, std::int64_t gpus, std::string_view /*objective*/) {
  const bool forces = gpus > 1 || shards(recipe, "deepspeed");
  return fmt::format("{}llamafactory-cli train {{file}}", forces ? "FORCE_TORCHRUN=1 " : "");
}

}  // namespace

const RecipeTable& llama_factory_table() {
  static const RecipeTable table{
      .format = RecipeFormat::llama_factory,
      .title = "LLaMA-Factory",
      .trainers = "llama-factory",
      .defaults = {{"finetuning_type", "--method", "lora"},
                   {"per_device_train_batch_size", "--micro-batch", "8"},
                   {"cutoff_len", "--seq", "2048"},
                   {"bf16", "--precision", "fp32"},
                   {"deepspeed", "--framework", "torch"}},
      .rows = llama_factory_rows(),
      .telling = {"finetuning_type", "cutoff_len", "lora_target", "dataset_dir", "overwrite_cache", "stage"},
      .commands = llama_factory_commands(),
      .trains_nothing =
          {{.key = "export_dir", .unless = "do_train", .does = "merges or quantizes a model"},
           {.key = "infer_backend", .unless = "do_train", .does = "runs a model"},
           {.key = "do_predict", .unless = "do_train", .does = "predicts with a model"},
           {.key = "predict_with_generate", .unless = "do_train", .does = "predicts with a model"},
           {.key = "task", .unless = "do_train", .does = "evaluates a model"},
           {.key = "do_eval", .unless = "do_train", .does = "evaluates a model"},
           {.key = "template", .unless = "do_train dataset dataset_dir", .does = "runs a model"}},
      .trains = "a config or command that trains (llamafactory-cli train)",
      .launches = llama_factory_command};
  return table;
}

}  // namespace zplan

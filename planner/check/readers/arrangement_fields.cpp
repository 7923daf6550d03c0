// Fields that say which model runs, and how it is arranged over ranks.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/check/readers/field_values.h"
#include "planner/check/readers/machines.h"
#include "planner/check/readers/models.h"
#include "planner/frameworks/deepspeed/config/read_config.h"
#include "planner/frameworks/deepspeed/config/releases.h"
#include "planner/question/framework.h"

namespace zplan::check {

namespace {

/// Returns a degree that divides the ranks of the run.
std::int64_t degree_at(const JsonReader& value, std::int64_t ranks) {
  const std::int64_t degree = value.integer(1, kMostRanks);
  if (ranks % degree != 0)
    value.fail(std::to_string(degree), fmt::format("accepted: a divisor of {} ranks", ranks));
  return degree;
}

/// "auto", or a number of slices.
std::int64_t tiles_at(const JsonReader& value) {
  if (!value.raw().is_string()) return value.integer(1, kMostSequence);
  if (value.text() != "auto") value.fail_type("auto or a number of slices");
  return LongContext::kAutoTiles;
}

DsConfigPins pins_of(const JsonReader& config, const Run& run, DeepSpeedRelease release = {}) {
  return read_ds_config(config.raw().dump(), config.place(), run.setup.model.shape.hidden_size, release);
}

std::shared_ptr<const Model> scoring_model_at(const JsonReader& config, Skip& skip) {
  std::optional<Model> model = model_at(config, skip);
  return model ? std::make_shared<const Model>(scoring_model(*std::move(model))) : nullptr;
}

void set_model(std::optional<Model> model, Run& run) {
  run.has_model = model.has_value();
  if (model) run.setup.model = *std::move(model);
}

}  // namespace

void divide_ranks(Run& run, std::int64_t ParallelLayout::*axis, const JsonReader& value) {
  ParallelLayout& layout = run.setup.strategy.layout;
  layout.*axis = degree_at(value, run.gpus);
  layout = layout.filling(run.gpus);
}

bool divides_samples(const Run& run) {
  const auto given = run.options.find("sequence_parallel");
  return given && given->raw().is_number_integer();
}

// ---- ranks and the model

void read_gpus(const JsonReader& value, Run& run) {
  run.gpus = value.integer(1, kMostRanks);
  run.setup.strategy.layout = run.setup.strategy.layout.filling(run.gpus);
  if (run.format != kPublished)
    run.setup.cluster =
        usual_cluster(run.format == kHost ? kGenericCard : kMeasuredCard, run.gpus, std::nullopt);
}

namespace {

/// config.json of Megatron's GPTModel with learned positions, LayerNorm, GELU and biases, which is GPT-2's;
/// `skip` says why not where it is another.
Json gpt_config(const JsonReader& value, Skip& skip) {
  const auto is = [&](const char* key, std::string_view word) { return value.text_or(key, "") == word; };
  const auto number = [&](const char* key) { return value.at(key).integer(1, kMostSequence); };
  const bool is_gpt2 =
      is("position_embedding_type", "learned_absolute") && is("normalization", "LayerNorm") &&
      is("hidden_act", "gelu") && value.boolean_or("add_bias_linear", true) && !value.has("num_experts") &&
      !value.has("kv_lora_rank") && number("num_key_value_heads") == number("num_attention_heads");
  if (!is_gpt2) {
    skip.add("Megatron's GPTModel with parts of several architectures");
    return value.raw();
  }
  constexpr double kDropout = 0.1;
  return {{"model_type", "gpt2"},
          {"n_embd", number("hidden_size")},
          {"n_inner", number("intermediate_size")},
          {"n_head", number("num_attention_heads")},
          {"n_layer", number("num_hidden_layers")},
          {"n_positions", number("max_position_embeddings")},
          {"vocab_size", number("vocab_size")},
          {"resid_pdrop", kDropout},
          {"embd_pdrop", kDropout},
          {"attn_pdrop", kDropout},
          {"tie_word_embeddings", value.boolean_or("tie_word_embeddings", true)}};
}

/// Returns the config under the name of the architecture whose program its model runs.
Json named_otherwise(const JsonReader& value, Skip& skip) {
  if (!value.raw().is_object()) return value.raw();
  const std::string name = value.text_or("model_type", "");
  if (name == "megatron_gpt") return gpt_config(value, skip);
  Json config = value.raw();
  if (name == "kimi_k2") config["model_type"] = "deepseek_v3";
  return config;
}

}  // namespace

/// A mixture's architecture is the script's, which its rows do not repeat.
void read_model(const JsonReader& value, Run& run) {
  if (run.format == kRouted && value.raw().is_object() && !value.has("model_type")) {
    Json config = value.raw();
    config["model_type"] = "qwen3_moe";
    return set_model(model_at(JsonReader(config, run.row.place()), run.skip), run);
  }
  const Json config = run.format == kPublished ? named_otherwise(value, run.skip) : value.raw();
  set_model(model_at(JsonReader(config, value.place()), run.skip), run);
  if (run.has_model && (run.format == kPublished || run.format == kHost))
    run.setup.strategy.zero = zero_options(Buckets::hf_auto, run.setup.model.shape.hidden_size);
}

void read_cut_model(const JsonReader& value, Run& run) {
  set_model(measured_model(value.text(), run.row.at("shape")), run);
  if (!run.has_model) run.skip.add("a model that is not in the catalogue: " + value.text());
}

void read_small_llama(const JsonReader& value, Run& run) { set_model(small_llama(value), run); }

void read_modules(const JsonReader& value, Run& run) {
  choose_modules(run.setup.training.modules, value.place(), value.text());
  if (run.setup.training.modules.runs_llama_blocks)
    run.setup.model = with_split_projections(std::move(run.setup.model));
}

void read_kernels(const JsonReader& value, Run& run) {
  choose_kernels(run.setup.training.modules, value.place(), value.text());
}

/// Liger's own defaults: all but the cross-entropy by itself. Source: Liger-Kernel 0.8.5
/// transformers/monkey_patch.py.
void read_liger(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  LayerKernels kernels = kLiger.kernels;
  if (!value.boolean_or("rms_norm", true)) kernels.norm = nullptr;
  if (!value.boolean_or("rope", true)) kernels.rotation = nullptr;
  if (!value.boolean_or("swiglu", true)) kernels.feed_forward = nullptr;
  training.modules.kernels = kernels.replace_layers() ? kernels : LayerKernels{};
  training.fused_loss = value.boolean_or("fused_linear_cross_entropy", true);
  if (value.boolean_or("cross_entropy", false)) run.skip.add("Liger's cross-entropy of whole logits");
}

namespace {

/// True if torchtitan compiles the loss, too: since the middle of 2025, of which sources name the month or a
/// build of torch. Source: torchtitan torchtitan/components/loss.py build_cross_entropy_loss.
bool compiles_loss(const std::string& version) {
  return version.starts_with("2025-06") || version.find("torch 2.8") != std::string::npos ||
         version.find("torch 2.9") != std::string::npos;
}

}  // namespace

/// torchtitan compiles each layer; what others compile is not said. A compiled loss keeps whole logits and
/// their gradient in 16 bits and has temporaries of tiles, as a loss in many slices has.
void read_published_compile(const JsonReader& value, Run& run) {
  constexpr std::int64_t kTiles = 64;
  if (!value.boolean()) return;
  run.setup.training.compile = Compile::layer;
  const std::string framework = run.options.text_or("framework", "");
  // FSDP2's hooks divide a model that is compiled whole into its layers.
  if (framework != "torchtitan" && framework != "kempnerforge")
    run.skip.add("torch.compile of what is not said");
  if (framework == "torchtitan" && compiles_loss(run.options.text_or("framework_version", "")))
    run.setup.training.loss_chunks = kTiles;
}

namespace {

/// Transformer Engine's recipes: blocks of 32 values are planned as rows.
void read_engine_float8(const std::string& words, Run& run) {
  if (words.starts_with("nvfp4")) return run.skip.add("products in 4 bits");
  run.setup.training.float8 = words.starts_with("mxfp8") ? Float8::rowwise : Float8::tensorwise;
}

}  // namespace

/// True or false, or a recipe in the source's words.
void read_published_float8(const JsonReader& value, Run& run) {
  if (value.raw().is_boolean()) {
    if (value.boolean()) run.skip.add("float8 products");
    return;
  }
  const std::string words = value.text();
  if (run.options.text_or("framework", "").find("megatron") != std::string::npos)
    return read_engine_float8(words, run);
  // Blocks of 32 values have a scale each; rows have one.
  const bool by_rows = words.starts_with("float8 rowwise") || words.starts_with("mxfp8_cublas");
  const bool is_known = words.starts_with("float8 tensorwise") || by_rows;
  if (!is_known || words.find("gw_hp") != std::string::npos || words.find("handwritten") != std::string::npos)
    return run.skip.add("8-bit products other than torchao's", words);
  const bool gathers = words.find("float8 all-gather") != std::string::npos;
  run.setup.training.float8 = gathers   ? Float8::tensorwise_gather
                              : by_rows ? Float8::rowwise
                                        : Float8::tensorwise;
}

/// Unsloth's inputs of layers; others move all that is saved.
void read_published_offload(const JsonReader& value, Run& run) {
  if (!value.boolean()) return;
  if (run.options.text_or("framework", "") != "unsloth") return run.skip.add("offloaded activations");
  run.setup.strategy.long_context.checkpoint_offload = CheckpointOffload::buffered;
}

/// Reads how layers are checkpointed. zplan knows one kind of selective checkpointing: torchtitan's, by
/// operators.
void read_recompute(const JsonReader& value, Run& run) {
  const std::string words = value.text();
  if (run.setup.strategy.megatron) return read_megatron_recompute(words, run);
  if (words.starts_with("selective") && words != "selective op")
    run.skip.add("selective checkpointing of another kind", words);
}

void read_compile(const JsonReader& value, Run& run) { run.setup.training.compile = named<Compile>(value); }

/// "vision tower", or parts by --freeze's words.
void read_frozen(const JsonReader& value, Run& run) {
  const std::string parts = value.text();
  run.setup.training.freezes_vision = true;
  run.setup.training.freezes_projector = parts == "vision,projector";
  if (parts != "vision tower" && parts != "vision" && parts != "vision,projector")
    run.skip.add("frozen " + parts);
}

/// The model is the one that runs with images; their tokens must be those of the processor's rule.
void read_images(const JsonReader& value, Run& run) {
  if (!run.setup.model.with_images) return run.skip.add("images of a model whose tower is not known");
  constexpr std::int64_t kMostPixels = 65'536;
  ImageRequest request{.per_sample = value.integer(1, kMostPixels)};
  if (const auto size = run.options.find("image_size")) {
    const std::vector<JsonReader> sides = size->items();
    if (sides.size() != 2) size->fail_type("width and height");
    request.width = sides[0].integer(1, kMostPixels), request.height = sides[1].integer(1, kMostPixels);
  }
  const Model with_images = *run.setup.model.with_images;
  run.setup.model = with_images;
  run.setup.training.images = image_batch(with_images.vision->rule, with_images.vision->tower, request);
  const std::int64_t tokens = run.setup.training.images.tokens;
  if (const auto stated = run.options.find("image_tokens");
      stated && stated->integer(1, kMostSequence) != tokens)
    stated->fail(fmt::format("{} tokens an image", stated->integer(1, kMostSequence)),
                 fmt::format("by the processor's rule: {}", tokens));
}

void read_value_model(const JsonReader& value, Run& run) {
  run.setup.model.value = scoring_model_at(value, run.skip);
}
void read_reward_model(const JsonReader& value, Run& run) {
  run.setup.model.reward = scoring_model_at(value, run.skip);
}

/// The frozen model of a distillation.
void read_teacher(const JsonReader& value, Run& run) {
  if (std::optional<Model> model = model_at(value, run.skip))
    run.setup.model.teacher = std::make_shared<const Model>(*std::move(model));
}
void read_divergence(const JsonReader& value, Run& run) {
  run.setup.training.distillation.divergence = named<Divergence>(value);
}

// ---- degrees of parallelism

void read_tensor_parallel(const JsonReader& value, Run& run) {
  divide_ranks(run, &ParallelLayout::tensor, value);
}

/// Ranks that divide a sample are a ring under context parallelism.
void read_sequence_parallel(const JsonReader& value, Run& run) {
  const bool in_ring = run.options.at("framework").text() == "fsdp_cp";
  divide_ranks(run, in_ring ? &ParallelLayout::context : &ParallelLayout::sequence, value);
}

void read_replicas(const JsonReader& value, Run& run) {
  ParallelLayout& layout = run.setup.strategy.layout;
  layout.replicate = degree_at(value, layout.shard);
  layout.shard /= layout.replicate;
}

void read_routed_experts(const JsonReader& value, Run& run) {
  run.setup.strategy.layout.expert = value.integer(1, run.gpus);
  run.setup.strategy.experts.enabled = true;
  run.setup.training.partitions_made_models = run.setup.strategy.zero_stage == 3;
}

/// Reads the number of ranks. The ds_config, which is read before, says how experts are divided.
void read_experts(const JsonReader& value, Run& run) {
  run.setup.strategy.layout.expert = degree_at(value, run.setup.strategy.layout.world());
}

void read_maker(const JsonReader& value, Run& run) {
  run.setup.training.partitions_made_models =
      run.setup.strategy.zero_stage == 3 && value.text() != "zero.Init";
}

// ---- checkpointing, sharding, offload

/// "hf" and "titan" are checkpoints around whole layers, "sac" torchtitan's of chosen operators.
void read_checkpointing(const JsonReader& value, Run& run) {
  const std::string name = value.text();
  Checkpointing& kept = run.setup.strategy.checkpointing;
  if (name == "unsloth") {
    kept = Checkpointing::full;
    run.setup.strategy.long_context.checkpoint_offload = CheckpointOffload::buffered;
  } else if (name == "sac") {
    kept = Checkpointing::selective;
    run.setup.training.modules.recomputes_alternate_products = true;
  } else if (name == "reentrant" || name == "hf" || name == "titan") {
    kept = Checkpointing::full;
    run.setup.training.reentrant_checkpointing = name == "reentrant";
  } else {
    kept = named<Checkpointing>(value);
  }
}

void read_full_checkpointing(const JsonReader& value, Run& run) {
  run.setup.strategy.checkpointing = value.boolean() ? Checkpointing::full : Checkpointing::none;
}

void read_resharding(const JsonReader& value, Run& run) {
  run.setup.strategy.zero_stage = value.boolean() ? 3 : 2;
}

void read_offload(const JsonReader& value, Run& run) {
  const std::string text = value.text();
  const auto says = [&](const char* part) { return text == "all" || text.find(part) != std::string::npos; };
  if (says("optimizer")) run.setup.strategy.offload_optimizer = OffloadDevice::cpu;
  if (says("param")) run.setup.strategy.offload_parameters = OffloadDevice::cpu;
}

void read_tiled_mlp(const JsonReader& value, Run& run) {
  run.setup.strategy.long_context.tiled_mlp = tiles_at(value);
}
void read_tiled_loss(const JsonReader& value, Run& run) {
  run.setup.strategy.long_context.tiled_loss = tiles_at(value);
}

void read_checkpoint_offload(const JsonReader& value, Run& run) {
  const std::string name = value.text();
  CheckpointOffload& offload = run.setup.strategy.long_context.checkpoint_offload;
  if (name == "alst")
    offload = CheckpointOffload::host;
  else if (name == "ds")
    offload = CheckpointOffload::pinned;
  else if (name != "none")
    value.fail_type("alst or ds");
}

/// Rows name arguments of the hooks in their ids alone.
void read_saved_offload(const JsonReader& value, Run& run) {
  run.setup.strategy.long_context.checkpoint_offload = named<CheckpointOffload>(value);
  for (const char* argument : {"use_streams", "use_pin_memory"})
    if (run.id.find(argument) != std::string::npos) run.skip.add("hooks without a stream or pinned memory");
}

void read_float8(const JsonReader& value, Run& run) {
  Float8& products = run.setup.training.float8;
  products = named<Float8>(value);
  if (run.options.boolean_or("float8_all_gather", false)) products = Float8::tensorwise_gather;
}

// ---- DeepSpeed's config

void read_buckets(const JsonReader& value, Run& run) {
  run.setup.strategy.zero = zero_options(named<Buckets>(value), run.setup.model.shape.hidden_size);
}

void read_engine_config(const JsonReader& value, Run& run) {
  const DsConfigPins pins = pins_of(value, run);
  run.setup.strategy.zero = pins.zero;
  run.setup.strategy.experts = pins.experts;
  run.setup.strategy.layout.data_before_expert = pins.data_before_expert;
}

void read_reference_ds_config(const JsonReader& value, Run& run) {
  run.setup.strategy.reference_zero = pins_of(value, run).zero;
}

/// The config of a recorded run decides what its `spec` does not; the release that ran is 0.19.8 where none
/// is named.
void read_recorded_ds_config(const JsonReader& value, Run& run) {
  const auto named = run.options.find("deepspeed");
  const DsConfigPins pins =
      pins_of(value, run, named ? parse_release(named->place(), named->text()) : DeepSpeedRelease{});
  Training& training = run.setup.training;
  Strategy& strategy = run.setup.strategy;
  training.precision = pins.precision ? pins.precision->value : Precision::fp32;
  training.vocabulary_parallel_head = pins.vocabulary_parallel_head;
  strategy.zero_stage = pins.zero_stage ? pins.zero_stage->value : 0;
  if (pins.offload) {
    strategy.offload_optimizer = pins.offload->value.optimizer;
    strategy.offload_parameters = pins.offload->value.parameters;
  }
  if (pins.gradient_accumulation_steps)
    strategy.gradient_accumulation_steps = pins.gradient_accumulation_steps->value;
  strategy.zero = pins.zero;
}

// ---- machines

void read_capability(const JsonReader& value, Run& run) {
  const std::string capability = value.raw().is_string() ? value.text() : value.raw().dump();
  if (capability == "90") run.setup.cluster = usual_cluster("H100-SXM-80GB", run.gpus, std::nullopt);
}

void read_node_ranks(const JsonReader& /*value*/, Run& run) {
  read_ranks_per_node(run.options, run.setup.cluster);
}

void read_rank(const JsonReader& value, Run& run) { run.setup.rank = value.integer(0, run.gpus - 1); }

}  // namespace zplan::check

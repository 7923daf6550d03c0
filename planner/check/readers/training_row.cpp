#include "planner/check/readers/training_row.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/run_options.h"
#include "planner/frameworks/deepspeed/config/expert_config.h"
#include "planner/frameworks/deepspeed/config/read_config.h"
#include "planner/question/framework.h"

namespace zplan::check {

namespace {

Framework framework_of(const JsonReader& options) {
  const JsonReader framework = options.at("framework");
  const std::string name = framework.text();
  if (name == "deepspeed") return Framework::deepspeed;
  if (name == "fsdp" || name == "fsdp_cp") return Framework::fsdp;
  if (name == "single") return Framework::torch;
  framework.fail(in_quotes(name), "accepted: deepspeed, fsdp, fsdp_cp, single");
}

void read_precision(const JsonReader& options, Training& training) {
  const JsonReader precision = options.at("precision");
  const std::string name = precision.text();
  training.master_weights = true;
  if (name == "amp" || name == "bf16 compute, fp32 shards") return;
  const std::string stored = name.substr(0, name.find(' '));  // "bf16 shards"
  const auto known = from_name<Precision>(stored);
  if (!known) precision.fail(in_quotes(name), "accepted: bf16, fp16, fp32, amp");
  training.precision = *known;
  training.master_weights = spec(training.framework).casts_model;
}

struct NamedOptimizer {
  std::string_view name;
  Optimizer optimizer;
  OptimizerKernel kernel;
};
/// Names under which runs list an optimizer and how it walks the parameters; others go by their own.
constexpr std::array kOptimizers{
    NamedOptimizer{"torch_fused", Optimizer::adamw, OptimizerKernel::fused},
    NamedOptimizer{"torch_foreach", Optimizer::adamw, OptimizerKernel::foreach},
    NamedOptimizer{"torch_single", Optimizer::adamw, OptimizerKernel::single},
    NamedOptimizer{"ds_fused", Optimizer::adamw, OptimizerKernel::deepspeed_fused},
    NamedOptimizer{"ds_torch_adam", Optimizer::adamw, OptimizerKernel::foreach},
    NamedOptimizer{"ds_cpu", Optimizer::adamw, OptimizerKernel::deepspeed_fused},
    NamedOptimizer{"bnb_adamw32bit", Optimizer::adamw32bit, OptimizerKernel::fused},
    NamedOptimizer{"adafactor_hf", Optimizer::adafactor, OptimizerKernel::single},
    NamedOptimizer{"adafactor_torch", Optimizer::adafactor_torch, OptimizerKernel::foreach},
    NamedOptimizer{"adafactor_torch_single", Optimizer::adafactor_torch, OptimizerKernel::single},
    NamedOptimizer{"sgd", Optimizer::sgd, OptimizerKernel::foreach},
    NamedOptimizer{"sgd_fused", Optimizer::sgd, OptimizerKernel::fused},
    NamedOptimizer{"sgd_momentum", Optimizer::sgd_momentum, OptimizerKernel::foreach},
    NamedOptimizer{"sgd_momentum_fused", Optimizer::sgd_momentum, OptimizerKernel::fused},
    NamedOptimizer{"lion", Optimizer::lion, OptimizerKernel::single},
};

void read_row_optimizer(const JsonReader& options, Training& training, Skip& skip) {
  const std::string name = options.at("optimizer").text();
  for (const NamedOptimizer& known : kOptimizers) {
    if (known.name != name) continue;
    training.optimizer = known.optimizer, training.optimizer_kernel = known.kernel;
    return;
  }
  if (const auto known = from_name<Optimizer>(name))
    training.optimizer = *known;
  else
    skip.add("optimizer " + name);
}

/// Rows name the kernel: PyTorch's own choice of it is what ran, and in fp32 there is no flash kernel.
/// "none": the model has no attention.
Attention attention_of(const JsonReader& options) {
  const std::string named_kernel = options.text_or("attention", "");
  if (named_kernel == "none" || named_kernel == "flash (sdpa)") return Attention::sdpa;
  const auto attention = named<Attention>(options.at("attention"));
  return attention == Attention::flash ? Attention::sdpa : attention;
}

/// What was given to a step that trains on completions; no engine ran beside it.
void read_rollout(const JsonReader& options, Training& training) {
  const auto reference = options.find("reference_model");
  if (reference && !reference->raw().is_null()) training.reference = named<ReferenceModel>(*reference);
  training.rollout.engine = named<RolloutEngine>(options.at("engine"));
  training.rollout.engine_share = 0;
  training.rollout.completion_length = options.at("completion").integer(1, training.sequence_length - 1);
  training.rollout.generations = 1;  // as many as there are: they are trained on alike
  training.rollout.mini_batches = options.integer_or("mini_batches", 1, 1, kMostBatch);
  training.rollout.forward_batch =
      options.integer_or("rollout_batch", training.rollout.forward_batch, 1, kMostBatch);
}

/// PPO's other models: the policy's shape, or a config of their own.
void read_value_models(const JsonReader& row, Setup& setup, Skip& skip) {
  if (!trains_values(setup.training)) return;
  const auto of = [&](const char* key) {
    const auto config = row.find(key);
    std::optional<Model> model = config ? model_at(*config, skip) : std::optional(setup.model);
    return model ? std::make_shared<const Model>(scoring_model(*std::move(model))) : nullptr;
  };
  setup.model.value = of("value_config"), setup.model.reward = of("reward_config");
}

/// Rows of preference training name it as their method, and what is trained apart.
void read_objective(const JsonReader& options, Training& training) {
  training.objective = named<Objective>(options.at("method"));
  training.method = named<Method>(options.at("trained"));
  if (generates(training)) return read_rollout(options, training);
  if (!reference_of(training) || training.method == Method::full) return;
  const auto reference = options.find("reference_model");
  training.reference = !reference || reference->raw().is_null() ? ReferenceModel::adapters_off
                       : reference->text() == "adapter"         ? ReferenceModel::adapter
                                                                : ReferenceModel::copy;
}

/// Weights that are trained as copies beside adapters: modules_to_save.
void read_saved_modules(const JsonReader& options, Training& training) {
  training.dora = options.boolean_or("use_dora", false);
  const auto saved = options.find("modules_to_save");
  if (!saved || saved->raw().is_null()) return;
  for (const JsonReader& module : saved->items()) training.modules_to_save.push_back(module.text());
}

void read_row_method(const JsonReader& options, Setup& setup, Skip& skip) {
  Training& training = setup.training;
  const auto loss = options.find("loss");
  const bool names_loss =
      loss && from_name<Objective>(loss->text()).value_or(Objective::sft) != Objective::sft;
  if (names_loss)
    read_objective(options, training);
  else
    training.method =
        options.at("method").text() == "dora" ? Method::lora : named<Method>(options.at("method"));
  if (training.method == Method::full) return;
  read_saved_modules(options, training);
  read_adapters(options, setup.model, training, skip);
  training.adapters = options.integer_or("adapters", 1, 1, kMostAdapters);
  training.fp32_adapters = options.text_or("adapter_dtype", "fp32") == "fp32";
  if (training.method == Method::qlora)
    training.quantization = named<Quantization>(options.at("quantization"));
  if (training.method == Method::qlora && options.find("quant_storage"))
    training.quant_storage = named<QuantStorage>(options.at("quant_storage"));
}

/// Rows do not name ensure_weight_tying: how many parameters train tells.
void read_tying(const JsonReader& row, Setup& setup) {
  Training& training = setup.training;
  const auto trained = row.find("trainable");
  if (!setup.model.shape.tied_embeddings || training.modules_to_save.size() < 2 || !trained) return;
  Training tied = training;
  tied.ties_saved_modules = true;
  if (elements(added_tensors(setup.model, adapters_of(tied))).value == bytes_at(*trained).value)
    training = tied;
}

/// "vision tower", or parts by --freeze's words.
void read_frozen(const JsonReader& options, Training& training, Skip& skip) {
  const auto frozen = options.find("frozen");
  if (!frozen) return;
  const std::string parts = frozen->text();
  training.freezes_vision = true;
  training.freezes_projector = parts == "vision,projector";
  if (parts != "vision tower" && parts != "vision" && parts != "vision,projector")
    skip.add("frozen " + parts);
}

/// Images of each sample: how many, their size, and the model as it runs with them.
void read_images(const JsonReader& options, Setup& setup, Skip& skip) {
  const auto count = options.find("images");
  if (!count) return;
  if (!setup.model.with_images) return skip.add("images of a model whose tower is not known");
  constexpr std::int64_t kMostPixels = 65'536;
  ImageRequest request{.per_sample = count->integer(1, kMostPixels)};
  if (const auto size = options.find("image_size")) {
    const std::vector<JsonReader> sides = size->items();
    if (sides.size() != 2) size->fail_type("width and height");
    request.width = sides[0].integer(1, kMostPixels), request.height = sides[1].integer(1, kMostPixels);
  }
  const Model with_images = *setup.model.with_images;
  setup.model = with_images;
  setup.training.images = image_batch(with_images.vision->rule, with_images.vision->tower, request);
  if (const auto tokens = options.find("image_tokens"))
    if (tokens->integer(1, kMostSequence) != setup.training.images.tokens)
      tokens->fail(fmt::format("{} tokens an image", tokens->integer(1, kMostSequence)),
                   fmt::format("by the processor's rule: {}", setup.training.images.tokens));
}

Training read_training(const JsonReader& options, Skip& skip) {
  Training training;
  training.framework = framework_of(options);
  read_precision(options, training);
  training.sequence_length = options.at("seq").integer(1, kMostSequence);
  training.attention = attention_of(options);
  training.keeps_cache = options.boolean_or("keeps_cache", false);
  training.reentrant_checkpointing =
      options.boolean_or("reentrant", false) || options.at("checkpointing").text() == "reentrant";
  training.fsdp_holds_inputs = options.boolean_or("fsdp1_inside_checkpoints", false);
  training.prepares_kbit_training = options.boolean_or("prepare_kbit", false);
  training.lora_dropout = options.find("lora_dropout") ? options.at("lora_dropout").number(0, 1) : 0.0;
  training.autocast = options.boolean_or("autocast", false);
  training.padding_mask = options.boolean_or("padding_mask", false);
  const std::string loss = options.text_or("loss", "full");
  training.fused_loss = loss == "fused";
  if (loss != "full" && loss != "fused" && !from_name<Objective>(loss)) skip.add("loss " + loss);
  training.fused_head = options.boolean_or("fused_head", false);
  if (const auto kernels = options.find("kernels"))
    choose_kernels(training.modules, kernels->place(), kernels->text());
  if (options.text_or("loss_shift", "") == "logits_alone")
    training.loss_shift = LossShift::logits_alone;
  else if (options.find("loss_shift"))
    training.loss_shift = named<LossShift>(options.at("loss_shift"));
  read_frozen(options, training, skip);
  training.fsdp_reduces_fp32 = options.text_or("reduce", "fp32") == "fp32";
  if (const auto policy = options.find("mp_policy"))
    training.fsdp_reduces_fp32 = policy->text().find("reduce_dtype=torch.float32") != std::string::npos;
  if (const auto wrap = options.find("wrap")) training.fsdp_wraps_ends = wrap->text() == "accelerate";
  training.packed_mask = options.text_or("mask", "none") == "4d";
  training.syncs_each_micro_step = !options.boolean_or("no_sync", false);
  return training;
}

/// "auto", a number of slices, or nothing.
std::int64_t tiles_at(const JsonReader& options, const char* key) {
  const auto given = options.find(key);
  if (!given || given->raw().is_null()) return 0;
  if (!given->raw().is_string()) return given->integer(1, kMostSequence);
  if (given->text() != "auto") given->fail_type("auto or a number of slices");
  return LongContext::kAutoTiles;
}

CheckpointOffload checkpoint_offload_at(const JsonReader& options) {
  const std::string name = options.text_or("activation_offload", "none");
  if (name == "none") return CheckpointOffload::none;
  if (name == "alst") return CheckpointOffload::host;
  if (name == "ds") return CheckpointOffload::pinned;
  options.at("activation_offload").fail_type("alst or ds");
}

int stage_of(const JsonReader& options, Framework framework) {
  const FrameworkSpec& about = spec(framework);
  if (about.stages.size() == 1) return about.stages.front();
  if (!about.reads_ds_config) return options.boolean_or("reshard_after_forward", true) ? 3 : 2;
  return static_cast<int>(options.at("zero").integer(0, 3));
}

Strategy read_row_strategy(const JsonReader& row, const Setup& setup, std::int64_t gpus) {
  const JsonReader options = row.at("options");
  Strategy s = read_arrangement(options, gpus);
  s.zero_stage = stage_of(options, setup.training.framework);
  s.layout.replicate = options.integer_or("replicas", 1, 1, s.layout.shard);
  if (s.layout.shard % s.layout.replicate != 0)
    options.at("replicas").fail(std::to_string(s.layout.replicate), "accepted: a divisor of gpus");
  s.layout.shard /= s.layout.replicate;
  read_offload(options.text_or("offload", "none"), s);
  s.long_context.tiled_mlp = tiles_at(options, "tiled_mlp"),
  s.long_context.tiled_loss = tiles_at(options, "tiled_loss");
  s.long_context.checkpoint_offload = checkpoint_offload_at(options);
  if (const std::string rotation = options.text_or("rotate", ""); !rotation.empty())
    s.long_context.rotation = named<KeyRotation>(options.at("rotate"));
  if (const auto config = row.find("ds_config_reference"); config && s.zero_stage == 3)
    s.reference_zero =
        read_ds_config(config->raw().dump(), config->place(), setup.model.shape.hidden_size).zero;
  if (const auto config = row.find("ds_config"))
    s.zero = read_ds_config(config->raw().dump(), config->place(), setup.model.shape.hidden_size).zero;
  return s;
}

/// DeepSpeed's expert parallelism: its section of the ds_config, and how rows are spread.
void read_experts(const JsonReader& row, Setup& setup) {
  const JsonReader options = row.at("options");
  const auto given = options.find("expert_parallel");
  if (!given || given->raw().is_null()) return;
  Strategy& s = setup.strategy;
  s.layout.expert = given->integer(1, kMostRanks);
  if (s.layout.world() % s.layout.expert != 0)
    given->fail(std::to_string(s.layout.expert), "accepted: a divisor of gpus");
  const JsonReader config = row.at("ds_config");
  s.experts = expert_parallel_of(read_expert_config(config.at("expert_parallel")));
  s.layout.data_before_expert = config.boolean_or("use_data_before_expert_parallelism", false);
  if (const auto skew = options.find("routing_skew")) setup.training.routing_skew = skew->number(0, 1e6);
  const bool is_made = options.text_or("model_built_on", "zero.Init") != "zero.Init";
  setup.training.partitions_made_models = s.zero_stage == 3 && is_made;
}

/// The GPU that a row pretends to run on.
std::string profile_at(const JsonReader& options) {
  const std::string capability = options.text_or("compute_capability", "80");
  return capability == "90" ? "H100-SXM-80GB" : "A100-SXM-80GB";
}

}  // namespace

TrainingRow read_training_row(const JsonReader& row) {
  const JsonReader options = row.at("options");
  TrainingRow result{.id = row.at("id").text(), .setup = std::nullopt, .skip = {}};
  std::optional<Model> model = model_at(row.at("config"), result.skip);
  if (!model) return result;
  Setup setup{.model = std::move(*model), .training = {}, .strategy = {}, .cluster = {}};
  setup.training = read_training(options, result.skip);
  read_images(options, setup, result.skip);
  read_row_method(options, setup, result.skip);
  if (setup.training.objective == Objective::reward) make_reward_model(setup.model, setup.training);
  read_value_models(row, setup, result.skip);
  read_tying(row, setup);
  read_row_optimizer(options, setup.training, result.skip);
  const std::int64_t gpus = options.at("gpus").integer(1, kMostRanks);
  setup.strategy = read_row_strategy(row, setup, gpus);
  read_experts(row, setup);
  setup.cluster = usual_cluster(profile_at(options), gpus, std::nullopt);
  read_ranks_per_node(options, setup.cluster);
  setup.rank = options.integer_or("rank", 0, 0, gpus - 1);
  result.setup = std::move(setup);
  return result;
}

TrainingRow read_routed_row(const JsonReader& row) {
  const JsonReader options = row.at("options");
  TrainingRow result{.id = row.at("id").text(), .setup = std::nullopt, .skip = {}};
  // The architecture is the script's, which its rows do not repeat.
  Json config = row.at("config").raw();
  if (!config.contains("model_type")) config["model_type"] = "qwen3_moe";
  std::optional<Model> model = model_at(JsonReader(config, row.place()), result.skip);
  if (!model) return result;
  Setup setup{.model = std::move(*model), .training = {}, .strategy = {}, .cluster = {}};
  setup.training.sequence_length = 32;
  setup.training.attention = Attention::eager;
  setup.training.optimizer_kernel = OptimizerKernel::foreach;
  const std::int64_t ranks = options.at("world").integer(1, kMostRanks);
  Strategy& s = setup.strategy;
  s.zero_stage = static_cast<int>(options.at("zero").integer(0, 3));
  s.layout.tensor = options.integer_or("tp", 1, 1, ranks);
  s.layout = s.layout.filling(ranks);
  s.layout.expert = options.at("ep").integer(1, ranks);
  s.experts.enabled = true;
  s.gradient_accumulation_steps = options.integer_or("gas", 1, 1, kMostBatch);
  s.checkpointing = options.boolean_or("ckpt", false) ? Checkpointing::full : Checkpointing::none;
  setup.training.partitions_made_models = s.zero_stage == 3;
  setup.cluster = usual_cluster("A100-SXM-80GB", ranks, std::nullopt);
  result.setup = std::move(setup);
  return result;
}

}  // namespace zplan::check

// Fields that say what is trained, and how.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/format.h"
#include "models/lora.h"
#include "planner/check/readers/field_values.h"
#include "planner/check/readers/models.h"
#include "planner/question/framework.h"
#include "planner/question/trainers.h"

namespace zplan::check {

namespace {

const FrameworkSpec& framework_of(const Run& run) { return spec(run.setup.training.framework); }

/// Weights, master copy and products, by the legend of zplan.measurement/1.
struct NamedPrecision {
  std::string_view name;
  Precision precision;
  bool master_weights;
  bool fp32_adapters;
  bool autocast;
};
constexpr std::array kPrecisions{
    NamedPrecision{"fp32", Precision::fp32, true, true, false},
    NamedPrecision{"fp32-master-autocast-bf16", Precision::bf16, true, true, false},
    NamedPrecision{"fp32-master-autocast-fp16", Precision::fp16, true, true, false},
    NamedPrecision{"bf16-mixed", Precision::bf16, true, true, false},
    NamedPrecision{"fp16-mixed", Precision::fp16, true, true, false},
    NamedPrecision{"bf16-pure", Precision::bf16, false, false, false},
    NamedPrecision{"bf16-frozen-fp32-adapter", Precision::bf16, false, true, true},
};

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
    NamedOptimizer{"adamw_8bit", Optimizer::adamw8bit, OptimizerKernel::fused},
    NamedOptimizer{"paged_adamw_8bit", Optimizer::paged_adamw8bit, OptimizerKernel::fused},
    NamedOptimizer{"adamw_torch_fused", Optimizer::adamw, OptimizerKernel::fused},
    NamedOptimizer{"adafactor_hf", Optimizer::adafactor, OptimizerKernel::single},
    NamedOptimizer{"adafactor_torch", Optimizer::adafactor_torch, OptimizerKernel::foreach},
    NamedOptimizer{"adafactor_torch_single", Optimizer::adafactor_torch, OptimizerKernel::single},
    NamedOptimizer{"sgd", Optimizer::sgd, OptimizerKernel::foreach},
    NamedOptimizer{"sgd_fused", Optimizer::sgd, OptimizerKernel::fused},
    NamedOptimizer{"sgd_momentum", Optimizer::sgd_momentum, OptimizerKernel::foreach},
    NamedOptimizer{"sgd_momentum_fused", Optimizer::sgd_momentum, OptimizerKernel::fused},
    NamedOptimizer{"lion", Optimizer::lion, OptimizerKernel::single},
};

bool names_objective(const std::string& loss) {
  return from_name<Objective>(loss).value_or(Objective::sft) != Objective::sft;
}

/// Samples whose tokens a slice of the loss divides: a head in slices divides the tokens of every sample.
std::int64_t samples_in_slice(const Run& run) {
  return run.options.boolean_or("logits_chunked", false) ? 1 : run.setup.strategy.micro_batch_size;
}

/// Returns the modules that hold the token embedding and the output head, as modules_to_save names them.
std::vector<std::string> ends_of(const Model& model) {
  std::vector<std::string> modules;
  for (const Tensor& each : model.inventory.before)
    if (each.role == TensorRole::token_embedding) modules.push_back(each.module);
  for (const Tensor& each : model.inventory.after)
    if (each.role == TensorRole::head && each.linear) modules.push_back(each.module);
  if (model.shape.tied_embeddings) modules.emplace_back("lm_head");
  return modules;
}

/// Fields of a published run that say what an option of the command line says.
constexpr std::array kKeys{
    std::pair{std::string_view("--checkpointing"), "checkpointing"},
    std::pair{std::string_view("--attention"), "attention"},
    std::pair{std::string_view("--lora-rank"), "lora_rank"},
    std::pair{std::string_view("--lora-targets"), "lora_targets"},
    std::pair{std::string_view("--lora-dropout"), "lora_dropout"},
    std::pair{std::string_view("--no-master-weights"), "precision"},
    std::pair{std::string_view("--no-autocast-adapters"), "precision"},
    std::pair{std::string_view("--modules"), "modules"},
    std::pair{std::string_view("--sliced-head"), "loss"},
    std::pair{std::string_view("--fused-head"), "loss"},
    std::pair{std::string_view("--loss-shift"), "loss_shift"},
    std::pair{std::string_view("log-probabilities of answers"), "answer_loss"},
    std::pair{std::string_view("torch.autocast"), "autocast"},
    std::pair{std::string_view("reentrant checkpointing"), "reentrant"},
};

/// True if the row sets the option itself. Slices of a chunked loss are the trainer's unless the row counts
/// them.
bool says(const JsonReader& options, std::string_view option) {
  if (option == "--loss-chunks" || option == "loss in slices of tokens")
    return options.at("loss").text() != "chunked" || options.has("loss_chunks") ||
           options.has("loss_chunk_tokens");
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](const auto& each) { return each.first == option && options.has(each.second); });
}

/// True if fp32 masters exist: a script that loads 16-bit weights and trains nothing has none.
bool has_masters(const Run& run) {
  return run.options.has("precision") || framework_of(run).casts_model || framework_of(run).makes_shards;
}

void adapt(Run& run, const std::string& targets) {
  constexpr std::int64_t kMeasuredRank = 16;
  run.setup.training.method = Method::lora;
  run.setup.training.lora_rank = kMeasuredRank;
  run.setup.training.lora_targets.modules = {targets};
}

}  // namespace

// ---- framework, precision, kernels

namespace {

/// Sets what from_pretrained and Unsloth's Trainer choose, and what every NF4 checkpoint has.
void run_unsloth(Run& run) {
  Training& training = run.setup.training;
  training.framework = Framework::torch;
  choose_modules(training.modules, "framework", "unsloth");
  const bool trains_whole = run.options.text_or("method", "") == "full";
  training.autocast = !trains_whole;
  training.reentrant_checkpointing = training.expandable_segments = true;
  training.wide_embedding_moments = true;
  training.lora_targets.modules = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                   "gate_proj", "up_proj", "down_proj"};
  if (run.id.find("tiled_mlp") != std::string::npos) run.skip.add("Unsloth's tiled feed-forward");
  if (trains_whole || !run.options.boolean_or("padding_free", true)) training.compile = Compile::layer;
}

/// Its units are the embedding, each layer, and norm with head; its script has the allocator expand segments.
/// Source: torchtitan models/llama3/infra/parallelize.py apply_fsdp, run_train.sh.
void run_torchtitan(Training& training) {
  training.framework = Framework::fsdp;
  training.expandable_segments = true;
  training.fsdp_wraps_ends = true;
  choose_modules(training.modules, "framework", "torchtitan");
}

/// Its units are the layers, and all else together. Source: KempnerForge
/// kempnerforge/distributed/parallel.py apply_fsdp2.
void run_kempnerforge(Run& run) {
  run_torchtitan(run.setup.training);
  run.setup.training.fsdp_wraps_ends = false;
  if (run.setup.model.shape.experts) run.skip.add("mixtures of KempnerForge");
}

bool runs_unsloth(const Run& run) { return run.setup.training.modules.name == kUnsloth.name; }

}  // namespace

/// FSDP2 is stage 3 unless it does not reshard; FSDP that shards nothing replicates, as DDP does.
void read_framework(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  const std::string name = value.text();
  const bool published = run.format == kPublished;
  const bool whole = published && run.options.integer_or("zero", 3, 0, 3) == 0;
  if (name == "deepspeed")
    training.framework = Framework::deepspeed;
  else if (name == "single" || (published && name == "ddp") || (name == "fsdp" && whole))
    training.framework = Framework::torch;
  else if (name == "unsloth")
    run_unsloth(run);
  else if (published && starts_divided(name, run))
    ;  // its fields follow
  else if (published && name == "torchtitan")
    run_torchtitan(training);
  else if (published && name == "kempnerforge")
    run_kempnerforge(run);
  else if (name == "fsdp" || (published && name == "torch-fsdp") || (!published && name == "fsdp_cp"))
    training.framework = Framework::fsdp;
  else if (published)
    run.skip.add("framework " + name);
  else
    value.fail(in_quotes(name), "accepted: deepspeed, fsdp, fsdp_cp, single");
  const auto& stages = framework_of(run).stages;
  if (!published) run.setup.strategy.zero_stage = stages.size() == 1 ? stages.front() : 3;
  // Whoever shards a model with FSDP has no memory for it whole: it is made without memory, or on the host.
  if (published) training.fsdp_makes_shards = framework_of(run).makes_shards;
}

void read_host_framework(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  training = with_framework({}, named<Framework>(value));
  if (!has_masters(run)) training.master_weights = false;
  training.attention = Attention::sdpa;
  training.sequence_length = 16;
}

void read_published_precision(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  const std::string name = value.text();
  if (name.ends_with("-mixed") && !framework_of(run).casts_model)
    run.skip.add("16-bit weights beside an fp32 copy outside DeepSpeed");
  const auto* const known = std::find_if(kPrecisions.begin(), kPrecisions.end(),
                                         [&](const NamedPrecision& each) { return each.name == name; });
  if (known == kPrecisions.end()) value.fail_type("a precision of zplan.measurement/1");
  training.precision = known->precision, training.master_weights = known->master_weights;
  training.fp32_adapters = known->fp32_adapters;
  training.autocast = known->autocast;
}

/// "amp", "fsdp_fp32" and "bf16 compute, fp32 shards" are fp32 weights with bf16 products.
void read_precision(const JsonReader& value, Run& run) {
  const std::string name = value.text();
  if (name == "amp" || name == "fsdp_fp32" || name == "bf16 compute, fp32 shards") return;
  const auto known = from_name<Precision>(name.substr(0, name.find(' ')));  // "bf16 shards"
  if (!known) value.fail(in_quotes(name), "accepted: bf16, fp16, fp32, amp");
  run.setup.training.precision = *known;
  run.setup.training.master_weights = framework_of(run).casts_model;
}

/// Rows name the kernel that was requested. PyTorch's own choice ran, and has no flash kernel in fp32.
/// "none": the model has no attention.
void read_attention(const JsonReader& value, Run& run) {
  const std::string name = value.text();
  const bool chosen = name == "none" || name == "flash (sdpa)" || name == "sdpa flash";
  const Attention attention = chosen ? Attention::sdpa : named<Attention>(value);
  run.setup.training.attention = attention == Attention::flash ? Attention::sdpa : attention;
}

void read_variant(const JsonReader& value, Run& run) {
  const std::string variant = value.text();
  run.setup.training.padding_mask = variant == "padding_mask";
  run.setup.training.keeps_cache = variant == "use_cache";
  run.setup.training.fp32_adapters = variant != "lora_bf16";
}

// ---- the loss

void read_loss(const JsonReader& value, Run& run) {
  const std::string loss = value.text();
  run.setup.training.fused_loss = loss == "fused";
  run.setup.training.cut_loss = loss == "cce";
  if (loss == "full" || loss == "fused" || loss == "cce" || runs_unsloth(run)) return;
  if (run.format == kTraining && !from_name<Objective>(loss)) run.skip.add("loss " + loss);
  const bool is_own = loss == "chunked" || run.setup.strategy.megatron || run.setup.strategy.torchtitan;
  if (run.format == kPublished && !is_own) run.skip.add(loss + " cross-entropy");
}

void read_loss_chunk_tokens(const JsonReader& value, Run& run) {
  const Elements tokens(run.setup.training.sequence_length * samples_in_slice(run));
  run.setup.training.loss_chunks = share(tokens, value.integer(1, kMostSequence)).value;
}

void read_loss_chunks(const JsonReader& value, Run& run) {
  run.setup.training.loss_chunks = value.integer(1, kMostSequence);
}

/// Skips a chunked cross-entropy whose slices neither the run nor its trainer counts.
void check_loss_chunks(const JsonReader& /*value*/, Run& run) {
  if (run.setup.training.loss_chunks == 1) run.skip.add("chunked cross-entropy");
}

void read_answer_loss(const JsonReader& value, Run& run) {
  run.setup.training.answer_loss = named<AnswerLoss>(value);
}

void read_loss_shift(const JsonReader& value, Run& run) {
  run.setup.training.loss_shift =
      value.text() == "logits_alone" ? LossShift::logits_alone : named<LossShift>(value);
}

// ---- gradients and their reduction

void read_fsdp_inputs(const JsonReader& value, Run& run) {
  run.setup.training.fsdp_holds_inputs = value.boolean() && framework_of(run).makes_shards;
}

void read_zeroing(const JsonReader& value, Run& run) {
  run.setup.training.zeroes_behind_forward = value.boolean();
  if (value.boolean() && !framework_of(run).makes_shards)
    run.skip.add("gradients that live through the forward outside FSDP");
}

void read_steps_in_backward(const JsonReader& value, Run& run) {
  run.setup.training.steps_in_backward = value.boolean();
  if (value.boolean() && run.gpus > 1) run.skip.add("optimizer in the backward of several ranks");
}

void read_reduced_bytes(const JsonReader& value, Run& run) {
  run.setup.training.fsdp_reduces_fp32 = value.integer(1, 8) == 4;
}
void read_precision_policy(const JsonReader& value, Run& run) {
  run.setup.training.fsdp_reduces_fp32 = value.text().find("reduce_dtype=torch.float32") != std::string::npos;
}

// ---- the method, and adapters

/// Runs of an objective name it as their method, and what is trained apart.
void read_method(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  if (!names_objective(run.options.text_or("loss", ""))) {
    const bool dora = run.format == kTraining && value.text() == "dora";
    training.method = dora ? Method::lora : named<Method>(value);
    return;
  }
  training.objective = named<Objective>(value);
  training.method = named<Method>(run.options.at("trained"));
  const bool compares = !generates(training) && !distils(training);
  if (compares && reference_of(training) && training.method != Method::full)
    training.reference = ReferenceModel::adapters_off;
  if (trains_values(training)) {
    const auto scores = std::make_shared<const Model>(scoring_model(run.setup.model));
    run.setup.model.value = run.setup.model.reward = scores;  // the policy's shape
  }
}

void read_reference(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  if (generates(training))
    training.reference = named<ReferenceModel>(value);
  else if (reference_of(training) && training.method != Method::full)
    training.reference = value.text() == "adapter" ? ReferenceModel::adapter : ReferenceModel::copy;
}

/// Completions were given to the step: no engine ran beside it.
void read_engine(const JsonReader& value, Run& run) {
  run.setup.training.rollout.engine = named<RolloutEngine>(value);
  run.setup.training.rollout.engine_share = 0;
  run.setup.training.rollout.generations = 1;  // as many as there are: they are trained on alike
}

void read_completion(const JsonReader& value, Run& run) {
  run.setup.training.rollout.completion_length = value.integer(1, run.setup.training.sequence_length - 1);
}

void read_trained_ends(const JsonReader& value, Run& run) {
  if (value.boolean() && !run.setup.strategy.megatron)
    run.setup.training.modules_to_save = ends_of(run.setup.model);
}

void read_saved_modules(const JsonReader& value, Run& run) {
  for (const JsonReader& module : value.items()) run.setup.training.modules_to_save.push_back(module.text());
}

/// Unsloth trains embedding and head, where they are targets, as whole copies.
void save_ends(Training& training) {
  std::vector<std::string>& targets = training.lora_targets.modules;
  for (const char* end : {"embed_tokens", "lm_head"})
    if (std::erase(targets, end) > 0) training.modules_to_save.emplace_back(end);
}

/// A target that zplan does not adapt is a reason to skip the run.
void read_targets(const JsonReader& value, Run& run) {
  std::vector<std::string>& targets = run.setup.training.lora_targets.modules;
  if (value.raw() == "default" && runs_unsloth(run)) return;
  targets.clear();
  if (value.raw().is_string())
    targets = {value.text()};
  else
    for (const JsonReader& target : value.items()) targets.push_back(target.text());
  if (runs_unsloth(run)) save_ends(run.setup.training);
  const std::vector<std::string> known = adaptable_modules(run.setup.model);
  const auto is_known = [&](const std::string& module) {
    return std::find(known.begin(), known.end(), module) != known.end();
  };
  // Libraries with modules of their own call the projection behind attention what Llama calls it.
  if (!is_known("o_proj") && is_known("dense"))
    std::replace(targets.begin(), targets.end(), std::string("o_proj"), std::string("dense"));
  for (const std::string& target : targets)
    if (target != "all-linear" && target != "q_v" && !is_known(target))
      run.skip.add("adapters on modules that zplan does not adapt", target);
}

void read_recorded_adapters(const JsonReader& value, Run& run) {
  run.setup.training.method = Method::lora;
  run.setup.training.lora_rank = value.integer(1, kMostSequence);
  run.setup.training.fp32_adapters = false;  // the model was cast behind peft
}

void read_measured_adapters(const JsonReader& value, Run& run) {
  if (const std::string targets = value.text(); targets != "none") adapt(run, targets);
}

void read_quantization(const JsonReader& value, Run& run) {
  const auto known = from_name<Quantization>(value.text());
  if (!known && run.format == kPublished) return run.skip.add("quantization " + value.text());
  run.setup.training.quantization = runs_unsloth(run) ? Quantization::nf4_double : named<Quantization>(value);
}

void read_score_head(const JsonReader& /*value*/, Run& run) {
  make_reward_model(run.setup.model, run.setup.training);
}

/// Rows do not name ensure_weight_tying: how many parameters train tells.
void read_trainable(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  if (!run.setup.model.shape.tied_embeddings || training.modules_to_save.size() < 2) return;
  Training tied = training;
  tied.ties_saved_modules = true;
  if (elements(added_tensors(run.setup.model, adapters_of(tied))).value == bytes_at(value).value)
    training = tied;
}

/// Published runs name the optimizer alone: its kernel is the framework's.
void read_optimizer(const JsonReader& value, Run& run) {
  Training& training = run.setup.training;
  const std::string name = value.text();
  const auto* const row = std::find_if(kOptimizers.begin(), kOptimizers.end(),
                                       [&](const NamedOptimizer& each) { return each.name == name; });
  if (run.format == kTraining && row != kOptimizers.end()) {
    training.optimizer = row->optimizer, training.optimizer_kernel = row->kernel;
    return;
  }
  if (const auto known = from_name<Optimizer>(name))
    training.optimizer = *known;
  else
    run.skip.add("optimizer " + name);
  if (run.format == kPublished) training.optimizer_kernel = framework_of(run).kernel;
}

// ---- trainers, moments beside the steps

void read_trainer(const JsonReader& value, Run& run) {
  std::vector<TrainerChoice> choices;
  const std::string text = value.text();
  for (const std::string_view each : split(text, ',')) choices.push_back(parse_trainer(value.place(), each));
  apply_trainers(choices,
                 {run.setup.training, run.setup.strategy.checkpointing,
                  run.setup.strategy.long_context.checkpoint_offload, samples_in_slice(run)},
                 run.gpus, [&](std::string_view option) { return says(run.options, option); });
}

/// Who empties the cache keeps no blocks of other lengths.
void read_empty_cache(const JsonReader& value, Run& run) {
  if (value.boolean()) run.setup.varies = false;
}

void read_eval_batch(const JsonReader& value, Run& run) {
  run.setup.training.beside.eval_batch = value.integer(0, kMostBatch);
  run.setup.training.beside.keeps_logits = run.setup.training.beside.eval_batch > 0;
}

}  // namespace zplan::check

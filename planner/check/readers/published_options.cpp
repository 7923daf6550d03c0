#include "planner/check/readers/published_options.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "hardware_profiles/cluster.h"
#include "models/base/format.h"
#include "planner/check/readers/run_options.h"
#include "planner/check/readers/split_projections.h"
#include "planner/question/framework.h"
#include "planner/question/trainers.h"

namespace zplan::check {

namespace {

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

void read_precision(const JsonReader& options, Training& training, Skip& skip) {
  const JsonReader given = options.at("precision");
  const std::string name = given.text();
  if (name.ends_with("-mixed") && !spec(training.framework).casts_model)
    skip.add("16-bit weights beside an fp32 copy outside DeepSpeed");
  for (const NamedPrecision& known : kPrecisions) {
    if (known.name != name) continue;
    training.precision = known.precision, training.master_weights = known.master_weights;
    training.fp32_adapters = known.fp32_adapters;
    training.autocast = options.boolean_or("autocast", known.autocast);
    return;
  }
  given.fail_type("a precision of zplan.measurement/1");
}

void read_framework(const JsonReader& options, Training& training, Skip& skip) {
  const std::string name = options.at("framework").text();
  // FSDP that shards nothing replicates, as DDP does.
  const bool whole = options.at("zero").integer(0, 3) == 0;
  if (name == "deepspeed")
    training.framework = Framework::deepspeed;
  else if (name == "single" || name == "ddp" || (name == "fsdp" && whole))
    training.framework = Framework::torch;
  else if (name == "fsdp")
    training.framework = Framework::fsdp;
  else
    skip.add("framework " + name);
}

void read_optimizer(const JsonReader& options, Training& training, Skip& skip) {
  const std::string name = options.at("optimizer").text();
  if (const auto known = from_name<Optimizer>(name))
    training.optimizer = *known;
  else
    skip.add("optimizer " + name);
  training.optimizer_kernel = spec(training.framework).kernel;
}

void read_library(const JsonReader& options, Training& training) {
  // Whoever shards a model with FSDP has no memory for it whole: it is made without memory, or on the host.
  training.fsdp_makes_shards = spec(training.framework).makes_shards;
  if (const auto modules = options.find("modules"))
    choose_modules(training.modules, modules->place(), modules->text());
  if (const auto kernels = options.find("kernels"))
    choose_kernels(training.modules, kernels->place(), kernels->text());
  if (const auto dropout = options.find("lora_dropout")) training.lora_dropout = dropout->number(0, 1);
}

/// Slices of a chunked cross-entropy: their number, or how many tokens each has (of every sample where the
/// head is sliced too).
std::optional<std::int64_t> loss_chunks(const JsonReader& options) {
  if (const auto chunks = options.find("loss_chunks")) return chunks->integer(1, kMostSequence);
  const auto tokens = options.find("loss_chunk_tokens");
  if (!tokens) return std::nullopt;
  const std::int64_t samples =
      options.boolean_or("logits_chunked", false) ? 1 : options.at("micro_batch").integer(1, kMostBatch);
  return share(Elements(options.at("seq").integer(1, kMostSequence) * samples),
               tokens->integer(1, kMostSequence))
      .value;
}

void read_loss(const JsonReader& options, Training& training, Skip& skip) {
  const std::string loss = options.at("loss").text();
  training.fused_loss = loss == "fused";
  if (const auto shift = options.find("loss_shift")) training.loss_shift = named<LossShift>(*shift);
  if (loss == "full" || loss == "fused") return;
  training.sliced_head = options.boolean_or("logits_chunked", false);
  if (loss != "chunked")
    skip.add(loss + " cross-entropy");
  else if (const auto chunks = loss_chunks(options))
    training.loss_chunks = *chunks;
}

/// A chunked cross-entropy whose slices neither the record nor its trainer counts.
void check_chunks(const JsonReader& options, const Training& training, Skip& skip) {
  if (options.at("loss").text() == "chunked" && training.loss_chunks == 1) skip.add("chunked cross-entropy");
}

/// The modules that hold the token embedding and the output head, as modules_to_save names them.
std::vector<std::string> ends_of(const Model& model) {
  std::vector<std::string> modules;
  for (const Tensor& each : model.inventory.before)
    if (each.role == TensorRole::token_embedding) modules.push_back(each.module);
  for (const Tensor& each : model.inventory.after)
    if (each.role == TensorRole::head && each.linear) modules.push_back(each.module);
  if (model.shape.tied_embeddings) modules.emplace_back("lm_head");
  return modules;
}

void read_method(const JsonReader& options, Setup& setup, Skip& skip) {
  Training& training = setup.training;
  training.method = named<Method>(options.at("method"));
  if (training.method == Method::full) return;
  if (options.boolean_or("lora_trains_embeddings", false)) training.modules_to_save = ends_of(setup.model);
  read_adapters(options, setup.model, training, skip);
  if (training.method != Method::qlora) return;
  const std::string packed = options.at("quantization").text();
  if (const auto known = from_name<Quantization>(packed))
    training.quantization = *known;
  else
    skip.add("quantization " + packed);
}

/// Flags that stand for a feature each.
void read_flags(const JsonReader& options, Skip& skip) {
  const auto flag = [&](const char* key, const char* feature) {
    if (options.boolean_or(key, false)) skip.add(feature);
  };
  flag("activation_offload", "offloaded activations");
  flag("compile", "torch.compile");
  flag("fp8", "float8 products");
  flag("sequence_parallel", "sequence parallelism");
}

/// Keys of a record's options that say what an option of the command line says.
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
    std::pair{std::string_view("reentrant checkpointing"), "reentrant"},
};

/// Whether the record says it. Slices of a chunked loss are the trainer's where it does not count them.
bool says(const JsonReader& options, std::string_view option) {
  if (option == "--loss-chunks" || option == "loss in slices of tokens")
    return options.at("loss").text() != "chunked" || options.find("loss_chunks") ||
           options.find("loss_chunk_tokens");
  for (const auto& [name, key] : kKeys)
    if (name == option) return options.find(key).has_value() && !options.at(key).raw().is_null();
  return false;
}

/// The trainers that a record names: `options.trainer`, a list as --trainer takes it. Who published it does
/// not matter.
std::vector<TrainerChoice> trainers_of(const JsonReader& record) {
  const JsonReader options = record.at("options");
  std::vector<TrainerChoice> choices;
  const auto named = options.find("trainer");
  if (!named) return choices;
  const std::string text = named->text();
  for (const std::string_view each : split(text, ',')) choices.push_back(parse_trainer(named->place(), each));
  return choices;
}

Training read_training(const JsonReader& options, Skip& skip) {
  Training training;
  read_framework(options, training, skip);
  read_precision(options, training, skip);
  read_loss(options, training, skip);
  read_library(options, training);
  training.attention = named<Attention>(options.at("attention"));
  training.fused_kernels = options.boolean_or("fused_kernels", false);
  training.padding_mask = options.boolean_or("padding_mask", false);
  training.masks_by_where = options.boolean_or("masks_by_where", false);
  training.longest_first = options.boolean_or("longest_first", false);
  training.reentrant_checkpointing = options.boolean_or("reentrant", false);
  training.fsdp_holds_inputs =
      options.boolean_or("fsdp1_inside_checkpoints", false) && spec(training.framework).makes_shards;
  training.steps_in_backward = options.boolean_or("optimizer_in_backward", false);
  training.zeroes_behind_forward = options.boolean_or("zeroes_behind_forward", false);
  if (training.zeroes_behind_forward && !spec(training.framework).makes_shards)
    skip.add("gradients that live through the forward outside FSDP");
  if (training.steps_in_backward && options.at("gpus").integer(1, kMostRanks) > 1)
    skip.add("optimizer in the backward of several ranks");
  const std::int64_t gradient = options.at("gradient_dtype_bytes").integer(1, 8);
  training.fsdp_reduces_fp32 = options.integer_or("reduce_dtype_bytes", gradient, 1, 8) == 4;
  training.sequence_length = options.at("seq").integer(1, kMostSequence);
  training.syncs_each_micro_step = !options.boolean_or("no_sync", true);
  return training;
}

Strategy read_strategy(const JsonReader& options, const Setup& setup, std::int64_t gpus) {
  Strategy s = read_arrangement(options, gpus);
  s.zero_stage = static_cast<int>(options.at("zero").integer(0, 3));
  read_offload(options.at("offload").text(), s);
  const auto buckets = options.find("buckets");
  s.zero = zero_options(buckets ? named<Buckets>(*buckets) : Buckets::hf_auto, setup.model.shape.hidden_size);
  return s;
}

}  // namespace

PublishedRun read_published_run(const JsonReader& record) {
  const JsonReader options = record.at("options");
  PublishedRun run;
  run.gpus = options.at("gpus").integer(1, kMostRanks);
  read_flags(options, run.skip);
  std::optional<Model> model = model_at(record.at("config"), run.skip);
  if (!model) return run;
  Setup setup{.model = std::move(*model), .training = {}, .strategy = {}, .cluster = {}};
  setup.training = read_training(options, run.skip);
  if (setup.training.modules.runs_llama_blocks) setup.model = with_split_projections(std::move(setup.model));
  read_method(options, setup, run.skip);
  read_optimizer(options, setup.training, run.skip);
  setup.strategy = read_strategy(options, setup, run.gpus);
  // A head in slices divides the tokens of every sample.
  const std::int64_t samples =
      options.boolean_or("logits_chunked", false) ? 1 : setup.strategy.micro_batch_size;
  apply_trainers(trainers_of(record), {setup.training, setup.strategy.checkpointing, samples}, run.gpus,
                 [&](std::string_view option) { return says(options, option); });
  check_chunks(options, setup.training, run.skip);
  // Who empties the cache keeps no blocks of other lengths.
  const bool empties = options.boolean_or("empties_cache", false);
  setup.varies = !empties && !options.boolean_or("seq_exact", true);
  run.setup = std::move(setup);
  return run;
}

}  // namespace zplan::check

#include "planner/moments/rollout.h"

#include <algorithm>

#include "planner/model_trace/causal_lm.h"
#include "planner/moments/evaluation.h"
#include "planner/moments/ppo.h"
#include "planner/question/framework.h"
#include "planner/sharding/rank_model.h"
#include "planner/simulation/run.h"

namespace zplan {

namespace {

constexpr std::string_view kEngineWorker = "vLLM 0.11 v1/worker/gpu_worker.py";
constexpr std::string_view kWeightSync = "TRL 1.16 generation/vllm_generation.py";
constexpr std::string_view kGrpoTrainer = "TRL 1.16 trainer/grpo_trainer.py";
constexpr Bytes kEngineNumber(2);  ///< weights, keys and values of the engine have 16 bits

bool is_colocated(const Training& training) {
  return rolls_out(training) && training.rollout.engine == RolloutEngine::colocate;
}

Bytes share_of(const Training& training, Bytes device) {
  constexpr double kServer = 0.9;  // vLLM's own default of gpu_memory_utilization
  const double share =
      training.rollout.engine == RolloutEngine::server ? kServer : training.rollout.engine_share;
  return Bytes(static_cast<std::int64_t>(share * static_cast<double>(device.value)));
}

/// Returns the engine's weights: packed where the base is, without adapters, which are merged into them.
Bytes engine_weights(const Model& model, const Training& training) {
  Bytes all = parameters(model) * kEngineNumber;
  if (training.method == Method::qlora) {
    all = {};
    for (const RankTensor& each : rank_model(model, training, 1).tensors)
      if (!each.added) all += each.stored;
  }
  const std::int64_t ranks = training.rollout.engine_ranks;
  return Bytes((all.value + ranks - 1) / ranks);
}

/// Gate, up and their product, hidden states and residual of the tokens that run at once, and logits of the
/// sequences in two types. TRL sets max_num_batched_tokens to 4096.
Bytes engine_activations(const ModelShape& shape, std::int64_t ranks, std::int64_t sequences) {
  constexpr std::int64_t kTokens = 4096, kLogit = 2 + 4, kMostSequences = 1024;
  const std::int64_t width =
      3 * share(Elements(shape.intermediate_size), ranks).value + 2 * shape.hidden_size;
  return kEngineNumber * (kTokens * width) +
         Bytes(kLogit * std::min(sequences, kMostSequences) * shape.vocabulary_size);
}

/// Tokens whose keys and values a sequence has in all layers; those that slide see a window.
std::int64_t cached_tokens(const ModelShape& shape, std::int64_t tokens) {
  const std::int64_t sliding = shape.sliding_window > 0 ? std::min(shape.sliding_layers, shape.layers) : 0;
  return (shape.layers - sliding) * tokens + sliding * std::min(tokens, shape.sliding_window);
}

/// Returns the cached numbers of a token in a layer on each of the engine's GPUs. Latent attention caches, on
/// every GPU, what keys and values are projected from.
std::int64_t cached_numbers(const ModelShape& shape, std::int64_t ranks) {
  if (shape.latent_attention)
    return shape.latent_attention->key_value_rank + shape.latent_attention->rope_head_size;
  return 2 * units_on_rank(shape.key_value_heads, ranks, 0) * shape.head_size;
}

std::vector<Resident> held_beside_engine(const RunInputs& inputs, const StepFigures& step) {
  return {{.name = "what is held between steps",
           .device = step.held,
           .formula = "parameters, optimizer states, buffers",
           .source = "docs/states.md"},
          {.name = "CUDA context and NCCL",
           .device = step.outside - inputs.engine,
           .formula = "allowances",
           .source = "docs/memory.md"}};
}

/// Returns what is held between steps, and the engine where it stays awake.
std::vector<Resident> held_with_engine(const RunInputs& inputs, const StepFigures& step) {
  std::vector<Resident> parts = held_beside_engine(inputs, step);
  if (inputs.engine.value > 0)
    parts.push_back({.name = "the engine, which stays awake",
                     .device = inputs.engine,
                     .formula = "vllm_gpu_memory_utilization · the GPU's memory",
                     .source = kEngineWorker});
  return parts;
}

/// The engine's share, and what it is for.
void add_engine(std::vector<Resident>& parts, const EngineMemory& engine) {
  parts.push_back({.name = "the engine's weights",
                   .device = engine.weights,
                   .formula = "2 · Ψ / its GPUs",
                   .source = kEngineWorker});
  parts.push_back({.name = "the engine's activations, estimated",
                   .device = engine.activations,
                   .formula = "4096 tokens of a layer, logits of the sequences",
                   .source = "docs/rl.md"});
  parts.push_back({.name = "the engine's keys and values",
                   .device = engine.room(),
                   .formula = "the rest of vllm_gpu_memory_utilization · the GPU's memory",
                   .source = kEngineWorker});
}

/// Whole says which weights are whole while they are handed over or generate.
struct Whole {
  Bytes device;
  std::string_view formula;
};

Whole one_by_one(const StepInputs& in) {
  return {in.rank.largest_tensor * weight_size(in.training) * 2, "2 · w · elements of the largest tensor"};
}
Whole all_at_once(const StepInputs& in) {
  return {parameters(in.model) * weight_size(in.training), "w · Ψ: GatheredParameters of all"};
}

/// ZeRO-3 gathers a parameter at a time, and with adapters, which are merged, the whole model; so it does to
/// generate by itself.
Whole gathered_for_engine(const StepInputs& in) {
  if (in.strategy.zero_stage < 3) return {};
  const bool merges = in.training.method != Method::full && spec(in.training.framework).gathers_at_modules;
  return merges ? all_at_once(in) : one_by_one(in);
}

void add(std::vector<Resident>& parts, std::string_view name, const Whole& whole) {
  if (whole.device.value > 0)
    parts.push_back({.name = name, .device = whole.device, .formula = whole.formula, .source = kWeightSync});
}

/// The trainer's model generates a whole generation's sequences at once.
std::vector<Resident> generated_by_trainer(const RunInputs& inputs, const StepFigures& step) {
  const StepInputs& in = inputs.step;
  Training prompts = in.training;
  prompts.objective = Objective::sft;
  prompts.sequence_length -= completion_tokens(in.training);
  prompts.beside.new_tokens = completion_tokens(in.training);
  prompts.beside.eval_batch = in.strategy.micro_batch_size * micro_steps_fed(in.training, in.strategy);
  const RunInputs of{.step = {in.model, prompts, in.strategy, in.rank, in.shard, in.slice},
                     .recording = inputs.recording,
                     .compute_capability = inputs.compute_capability,
                     .outside = inputs.outside};
  StepFigures alone = step;
  const bool gathers = in.strategy.zero_stage == 3 && spec(in.training.framework).gathers_at_modules;
  alone.gathered = gathers ? all_at_once(in).device : step.gathered;
  return generation(of, alone);
}

/// PPOTrainer's own model generates, and three score what it made, a chunk at a time.
std::vector<Resident> generated_by_ppo(const RunInputs& inputs, const StepFigures& step) {
  std::vector<Resident> parts = held_beside_engine(inputs, step);
  const StepInputs& in = inputs.step;
  const Tape prompt = record_prediction(in.model, in.training, in.strategy, prompt_tokens(in.training));
  const std::vector<Resident> live = worst_of_generation(in.model, in.training, in.strategy, prompt);
  parts.insert(parts.end(), live.begin(), live.end());
  const Bytes gaps = generation_pool(in.model, in.training, in.strategy, prompt).needed - on_device(live);
  parts.push_back({.name = "gaps of PyTorch's allocator",
                   .device = std::max(gaps, Bytes{}),
                   .formula = "what growing keys and values leave between scores that stay",
                   .source = "docs/allocator.md"});
  return parts;
}

std::vector<Resident> scored_by_ppo(const RunInputs& inputs, const StepFigures& step) {
  std::vector<Resident> parts = held_beside_engine(inputs, step);
  const StepInputs& in = inputs.step;
  parts.push_back(
      worst_of_scoring(in.model, in.training, record_scoring(in.model, in.training, in.strategy)));
  return parts;
}

}  // namespace

std::int64_t EngineMemory::at_once() const {
  return room().value < 0 || sequence.value == 0 ? 0 : std::min(wanted, room().value / sequence.value);
}

EngineMemory engine_memory(const Model& model, const Training& training, const Strategy& strategy,
                           Bytes device) {
  const std::int64_t ranks = training.rollout.engine_ranks;
  const std::int64_t wanted = strategy.micro_batch_size * micro_steps_fed(training, strategy) * ranks;
  return {.share = share_of(training, device),
          .weights = engine_weights(model, training),
          .activations = engine_activations(model.shape, ranks, wanted),
          .sequence = kEngineNumber * (cached_tokens(model.shape, training.sequence_length) *
                                       cached_numbers(model.shape, ranks)),
          .wanted = wanted};
}

Bytes engine_resident(const Training& training, Bytes device) {
  const bool stays = is_colocated(training) && training.rollout.sleep_level == 0;
  return stays ? share_of(training, device) : Bytes{};
}

Bytes engine_on_host(const Model& model, const Training& training) {
  const bool waits = is_colocated(training) && training.rollout.sleep_level == 1;
  return waits ? engine_weights(model, training) : Bytes{};
}

std::vector<Resident> weight_sync(const RunInputs& inputs, const StepFigures& step) {
  const StepInputs& in = inputs.step;
  if (!rolls_out(in.training) || in.training.rollout.engine == RolloutEngine::trainer) return {};
  std::vector<Resident> parts = held_with_engine(inputs, step);
  if (is_colocated(in.training) && inputs.engine.value == 0)
    parts.push_back({.name = "the engine's weights, awake",
                     .device = engine_weights(in.model, in.training),
                     .formula = "2 · Ψ / its GPUs",
                     .source = kWeightSync});
  add(parts, "gathered to be handed over", gathered_for_engine(in));
  return parts;
}

std::vector<Resident> rollout_generation(const RunInputs& inputs, const StepFigures& step) {
  const StepInputs& in = inputs.step;
  if (!rolls_out(in.training) || in.training.rollout.engine == RolloutEngine::server) return {};
  if (trains_values(in.training)) return generated_by_ppo(inputs, step);
  if (in.training.rollout.engine == RolloutEngine::trainer) return generated_by_trainer(inputs, step);
  std::vector<Resident> parts = held_beside_engine(inputs, step);
  add_engine(parts, engine_memory(in.model, in.training, in.strategy, inputs.device));
  return parts;
}

std::string_view rollout_remedy(const Training& training) {
  if (trains_values(training))
    return "fewer samples of an update (--grad-accum), shorter completions (--completion-length) or smaller "
           "chunks (--rollout-batch)";
  if (training.rollout.engine == RolloutEngine::trainer)
    return "an inference engine, which keeps keys and values within its share (--rollout colocate)";
  return "a smaller share for the engine (--vllm-memory), or one on GPUs of its own (--rollout server)";
}

std::string_view scoring_remedy(const Training& training) {
  return trains_values(training) ? "smaller chunks (--rollout-batch)"
                                 : "a smaller micro-batch (--micro-batch)";
}

std::vector<Resident> scoring(const RunInputs& inputs, const StepFigures& step) {
  const StepInputs& in = inputs.step;
  if (trains_values(in.training)) return scored_by_ppo(inputs, step);
  if (!scores_policy(in.training) && (!generates(in.training) || !reference_of(in.training))) return {};
  std::vector<Resident> parts = held_with_engine(inputs, step);
  add(parts, "gathered parameters", {step.gathered, "as in a training step"});
  parts.push_back({.name = "forward of a micro-batch",
                   .device = forward_peak(record_scores(in.model, in.training, in.strategy, inputs.place)),
                   .formula = "its tape under torch.no_grad (docs/activations.md)",
                   .source = kGrpoTrainer});
  return parts;
}

}  // namespace zplan

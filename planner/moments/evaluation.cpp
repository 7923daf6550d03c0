#include "planner/moments/evaluation.h"

#include <algorithm>

#include "planner/model_trace/causal_lm.h"
#include "planner/model_trace/condensed.h"
#include "planner/question/framework.h"
#include "planner/simulation/run.h"

namespace zplan {

namespace {

constexpr std::string_view kLoop = "transformers 5.23 trainer.py evaluation_loop, trainer_pt_utils.py";
constexpr std::string_view kTape = "the forward's tape under torch.no_grad (docs/activations.md)";

std::int64_t divided_up(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

/// The most that is live over a tape's forward.
class ForwardPeak {
 public:
  void section(int /*unused*/, bool backward) { backward_ = backward; }
  void delta(const MemoryDelta& delta, std::int32_t /*unused*/) {
    if (backward_) return;
    highest_ = std::max(highest_, live_ + delta.highest_total);
    live_ += delta.net_total;
  }
  void gradient(int, std::int32_t, Bytes, Term) {}
  void part_of_gradient(int, std::int32_t, Bytes, Term) {}
  void module(const Event&, int) {}
  void workspace(std::int32_t) {}
  void phase(Phase) {}
  [[nodiscard]] Bytes highest() const { return highest_; }

 private:
  Bytes live_, highest_;
  bool backward_{};
};

/// Activations of one forward without gradients of `samples`.
Bytes forward_alone(const StepInputs& in, std::int64_t samples, bool with_logits) {
  Training training = in.training;
  // A recorded model keeps the head that it was recorded with.
  if (!with_logits && !in.model.recorded)
    training.fused_loss = true, training.loss_chunks = 1, training.sliced_head = false;
  Strategy strategy = in.strategy;
  strategy.micro_batch_size = samples;
  return forward_peak(record_evaluation(in.model, training, strategy));
}

std::vector<Resident> held(const StepFigures& step) {
  std::vector<Resident> parts{{.name = "what is held between steps",
                               .device = step.held,
                               .formula = "parameters, optimizer states, buffers",
                               .source = "docs/states.md"},
                              {.name = "CUDA context and NCCL",
                               .device = step.outside,
                               .formula = "allowances",
                               .source = "docs/memory.md"}};
  if (step.gathered.value > 0)
    parts.push_back({.name = "gathered parameters",
                     .device = step.gathered,
                     .formula = "as in a training step",
                     .source = "docs/gathered-parameters.md"});
  return parts;
}

/// Logits of an evaluation that compute_metrics is given, gathered from all ranks: every rank has them all.
struct KeptLogits {
  Bytes batch;  ///< of all ranks, as the model returns them
  std::int64_t batches{}, until_moved{};
  bool wide{};  ///< fp32; else numpy, which has no bf16, widens them
  [[nodiscard]] bool moves() const { return until_moved < batches; }
  /// On the device as torch.cat makes a chunk anew before the old one goes.
  [[nodiscard]] Bytes concatenated() const { return batch * until_moved * (until_moved > 1 ? 2 : 1); }
  /// Beside the last forward of a chunk.
  [[nodiscard]] Bytes before() const { return batch * (until_moved - 1); }
  [[nodiscard]] Bytes arrays(std::int64_t of) const { return batch * of * (wide ? 1 : 2); }
  /// On the host: arrays, concatenated with what was there before; a chunk's 16-bit copy is there until it is
  /// widened.
  [[nodiscard]] Bytes on_host(bool copied) const {
    const Bytes chunk = arrays(until_moved) + (copied && !wide ? batch * until_moved : Bytes{});
    if (!moves()) return chunk;
    return std::max(arrays(batches) * 2, arrays(batches - until_moved) + chunk);
  }
};

KeptLogits kept_logits(const StepInputs& in) {
  const BesideSteps& beside = in.training.beside;
  const std::int64_t at_once = beside.eval_batch * in.strategy.layout.data_ranks();
  const std::int64_t batches = std::max<std::int64_t>(1, divided_up(beside.eval_samples, at_once));
  // accelerate's convert_outputs_to_fp32 stands around every model under mixed precision but DeepSpeed's.
  const bool wide = in.training.precision == Precision::fp32 || !spec(in.training.framework).casts_model;
  const Elements numbers(at_once * in.training.sequence_length * in.model.shape.vocabulary_size);
  const std::int64_t every = beside.eval_accumulation_steps > 0 ? beside.eval_accumulation_steps : batches;
  return {.batch = numbers * Bytes(wide ? 4 : 2),
          .batches = batches,
          .until_moved = std::min(every, batches),
          .wide = wide};
}

}  // namespace

Bytes forward_peak(Tape tape) {
  ForwardPeak peak;
  play(condense(tape), peak);
  return peak.highest();
}

std::vector<Resident> evaluation(const RunInputs& inputs, const StepFigures& step) {
  const StepInputs& in = inputs.step;
  const BesideSteps& beside = in.training.beside;
  if (beside.eval_batch == 0) return {};
  std::vector<Resident> parts = held(step);
  const Bytes forward = forward_alone(in, beside.eval_batch, !in.training.fused_loss || beside.keeps_logits);
  if (!beside.keeps_logits) {
    parts.push_back({.name = "forward", .device = forward, .formula = kTape, .source = kLoop});
    return parts;
  }
  const KeptLogits kept = kept_logits(in);
  const bool in_forward = forward + kept.before() >= kept.concatenated();
  if (in_forward) parts.push_back({.name = "forward", .device = forward, .formula = kTape, .source = kLoop});
  parts.push_back({.name = "kept logits of all ranks",
                   .device = in_forward ? kept.before() : kept.concatenated(),
                   .host = kept.on_host(true),
                   .formula = "samples · T · V numbers, and once more as they are concatenated",
                   .source = kLoop});
  return parts;
}

Bytes kept_logits_on_cpu(const StepInputs& in) {
  const KeptLogits kept = kept_logits(in);
  // The loop still names the last batch's logits as chunks are moved.
  const Bytes arrays_before = kept.moves() ? kept.arrays(kept.batches - kept.until_moved) : Bytes{};
  const Bytes moving = kept.batch * (kept.until_moved + 1) + arrays_before + kept.arrays(kept.until_moved);
  const Bytes joined = kept.moves() ? kept.arrays(kept.batches) * 2 + kept.batch : Bytes{};
  return std::max({kept.concatenated() + arrays_before, moving, joined});
}

std::string_view evaluation_remedy(const Training& training) {
  if (!training.beside.keeps_logits) return "a smaller per_device_eval_batch_size (--eval-batch)";
  return "preprocess_logits_for_metrics that keeps token ids, or batch_eval_metrics: without either every "
         "rank keeps the logits of the whole evaluation; eval_accumulation_steps (--eval-accumulation) moves "
         "them "
         "to the host";
}

GenerationCache generation_cache(const Model& model, const Training& training, const Strategy& strategy,
                                 std::int64_t samples) {
  const ModelShape& shape = model.shape;
  const std::int64_t sliding = shape.sliding_window > 0 ? std::min(shape.sliding_layers, shape.layers) : 0;
  const std::int64_t linear = shape.delta_net ? shape.delta_net->layers : 0;
  const std::int64_t heads = units_on_rank(shape.key_value_heads, strategy.layout.tensor, 0);
  const std::int64_t numbers =
      shape.latent_attention
          ? units_on_rank(shape.attention_heads, strategy.layout.tensor, 0) *
                (shape.latent_attention->nope_head_size + shape.latent_attention->rope_head_size +
                 shape.latent_attention->value_head_size)
          : 2 * heads * shape.head_size;
  GenerationCache cache{.token = weight_size(training) * (samples * numbers),
                        .whole_layers = shape.layers - sliding - linear,
                        .sliding_layers = sliding,
                        .window = shape.sliding_window,
                        .states = {}};
  if (linear == 0) return cache;
  constexpr Bytes kWide{4};
  const DeltaNet& net = *shape.delta_net;
  cache.states = kWide * (samples * linear * net.value_heads * net.key_head_size * net.value_head_size);
  return cache;
}

std::vector<Resident> generation(const RunInputs& inputs, const StepFigures& step) {
  const StepInputs& in = inputs.step;
  const BesideSteps& beside = in.training.beside;
  if (beside.new_tokens == 0) return {};
  const std::int64_t batch = std::max<std::int64_t>(1, beside.eval_batch);
  const std::int64_t tokens = in.training.sequence_length + beside.new_tokens;
  const GenerationCache cache = generation_cache(in.model, in.training, in.strategy, batch);
  std::vector<Resident> parts = held(step);
  parts.push_back({.name = "forward of the prompt",
                   .device = forward_alone(in, batch, false),
                   .formula = "without logits but the last token's",
                   .source = kTape});
  // torch.cat makes a layer's cache anew before the old one goes.
  parts.push_back({.name = "keys and values",
                   .device = cache.keys_values(tokens) + cache.token * tokens,
                   .formula = "2 · layers · B · tokens · K · d, and a layer's once more",
                   .source = "transformers 5.23 cache_utils.py DynamicCache"});
  if (cache.states.value > 0)
    parts.push_back({.name = "states of linear attention",
                     .device = cache.states,
                     .formula = "4 · linear layers · B · value heads · key size · value size",
                     .source = "transformers 5.23 cache_utils.py LinearAttentionCacheLayerMixin"});
  return parts;
}

}  // namespace zplan

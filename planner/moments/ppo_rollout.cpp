#include "planner/moments/ppo_rollout.h"

#include <algorithm>
#include <array>

#include "planner/model_trace/causal_lm.h"
#include "planner/moments/evaluation.h"

namespace zplan {

namespace {

constexpr std::string_view kGeneration = "TRL 1.8 experimental/ppo/ppo_trainer.py batch_generation";
constexpr std::string_view kScoring = "TRL 1.8 experimental/ppo/ppo_trainer.py train";

using Parts = std::vector<Resident>;

/// A generation of a rank in chunks.
class Generation {
 public:
  Generation(const Model& model, const Training& training, const Strategy& strategy, const Tape& prompt)
      : model_(model),
        training_(training),
        strategy_(strategy),
        prompt_(forward_peak(prompt)),
        samples_(samples_generated(training, strategy)),
        chunk_(samples_at_once(training, strategy)) {}

  /// Returns the worst chunk: the last one of full size finds most memory taken; a remainder may be smaller.
  [[nodiscard]] Parts worst() const {
    const std::int64_t whole = samples_ / chunk_, left = samples_ % chunk_;
    Parts worst = padded();
    const auto take = [&](Parts parts) {
      if (on_device(parts) > on_device(worst)) worst = std::move(parts);
    };
    take(stacked((whole - 1) * chunk_, chunk_));
    take(prompted((whole - 1) * chunk_));
    if (left > 0) take(stacked(whole * chunk_, left));
    return worst;
  }

 private:
  [[nodiscard]] Bytes scores(std::int64_t samples) const {
    return kGeneratedScore * (samples * completion_tokens(training_) * model_.shape.vocabulary_size);
  }
  [[nodiscard]] Parts before(std::int64_t samples) const {
    if (samples == 0) return {};
    return {{.name = "scores of the chunks before",
             .device = scores(samples),
             .formula = "4 · S · C · V",
             .source = kGeneration}};
  }

  [[nodiscard]] Parts prompted(std::int64_t earlier) const {
    Parts parts = before(earlier);
    parts.push_back({.name = "forward of a chunk's prompts, with keys and values",
                     .device = prompt_,
                     .formula = "its tape under torch.no_grad (docs/activations.md)",
                     .source = kGeneration});
    return parts;
  }
  /// The last token that was generated was not computed.
  [[nodiscard]] Parts stacked(std::int64_t earlier, std::int64_t samples) const {
    Parts parts = before(earlier);
    const std::int64_t tokens = training_.sequence_length - 1;
    const GenerationCache cache = generation_cache(model_, training_, strategy_, samples);
    parts.push_back({.name = "scores of a chunk, and once more as they are stacked",
                     .device = std::max(scores(samples) * 2, scores(samples) + cache.token * tokens),
                     .formula = "2 · 4 · S · C · V",
                     .source = kGeneration});
    parts.push_back({.name = "keys and values of a chunk",
                     .device = cache.keys_values(tokens) + cache.states,
                     .formula = "2 · layers · S · (T − 1) · K · d numbers",
                     .source = "transformers 5.23 cache_utils.py DynamicCache"});
    return parts;
  }
  [[nodiscard]] Parts padded() const {
    return {
        {.name = "scores of all chunks, and once more as they are padded",
         .device = scores(samples_) + generation_scores(training_, strategy_, model_.shape.vocabulary_size),
         .formula = "2 · 4 · S · C · V",
         .source = kGeneration}};
  }

  const Model& model_;
  const Training& training_;
  const Strategy& strategy_;
  Bytes prompt_;  ///< of a chunk
  std::int64_t samples_, chunk_;
};

}  // namespace

std::vector<Resident> worst_of_generation(const Model& model, const Training& training,
                                          const Strategy& strategy, const Tape& prompt) {
  return Generation(model, training, strategy, prompt).worst();
}

Resident worst_of_scoring(const Model& model, const Training& training, const ScoringTapes& tapes) {
  constexpr std::string_view kForward = "its tape under torch.no_grad (docs/activations.md)";
  // torch.logsumexp makes the exponentials of a sample's scores.
  const Bytes exponentials = kGeneratedScore * (completion_tokens(training) * model.shape.vocabulary_size);
  const std::array<Resident, 4> all{{{.name = "exponentials of a sample's scores",
                                      .device = exponentials,
                                      .formula = "4 · C · V",
                                      .source = "TRL 1.8 trainer/utils.py selective_log_softmax"},
                                     {.name = "forward of the reference over a chunk, with whole logits",
                                      .device = forward_peak(tapes.reference),
                                      .formula = kForward,
                                      .source = kScoring},
                                     {.name = "forward of the value model over a chunk",
                                      .device = forward_peak(tapes.values),
                                      .formula = kForward,
                                      .source = kScoring},
                                     {.name = "forward of the reward model over a chunk",
                                      .device = forward_peak(tapes.rewards),
                                      .formula = kForward,
                                      .source = kScoring}}};
  return *std::ranges::max_element(all, {}, &Resident::device);
}

}  // namespace zplan

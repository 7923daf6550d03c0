#include "planner/moments/ppo.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "planner/model_trace/causal_lm.h"
#include "planner/model_trace/play.h"
#include "planner/moments/evaluation.h"
#include "planner/question/work.h"
#include "planner/simulation/caching_allocator.h"

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

namespace {

using Handle = CachingAllocator::Handle;

/// Blocks that keys and values are played in, and steps all the same: where a completion is so long several
/// tokens are played at once.
constexpr std::int64_t kMostBlocks = 400'000, kLeastSteps = 256;

/// A tape's forward in an allocator.
class Forward {
 public:
  Forward(const Tape& tape, CachingAllocator& allocator)
      : tape_(tape),
        layout_(tape),
        allocator_(allocator),
        blocks_(static_cast<std::size_t>(layout_.blocks())) {}
  void play() { zplan::play(tape_, layout_, *this); }

  void section(int /*unused*/, bool /*unused*/) {}
  void allocate(std::int32_t block, Term /*unused*/, Bytes size) {
    at(block) = allocator_.allocate(size).value();
  }
  void release(std::int32_t block) { allocator_.release(at(block)); }
  void gradient(int, std::int32_t, std::int32_t) {}
  void part_of_gradient(int, std::int32_t, std::int32_t) {}
  void module(const Event& /*unused*/, int /*unused*/) {}
  void workspace(std::int32_t /*unused*/) {}
  void phase(Phase /*unused*/) {}

 private:
  [[nodiscard]] Handle& at(std::int32_t block) { return blocks_[static_cast<std::size_t>(block)]; }

  const Tape& tape_;
  TapeLayout layout_;
  CachingAllocator& allocator_;
  std::vector<Handle> blocks_;
};

/// The last whole chunk of a generation, whose scores are stacked, and then padded with those before.
/// Source: transformers 5.23 generation/utils.py _sample, cache_utils.py; TRL 1.8
/// experimental/ppo/ppo_trainer.py generate, batch_generation.
class Chunk {
 public:
  Chunk(const Model& model, const Training& training, const Strategy& strategy)
      : cache_(generation_cache(model, training, strategy, samples_at_once(training, strategy))),
        allocator_({.expandable_segments = training.expandable_segments}),
        completion_(completion_tokens(training)),
        prompt_(prompt_tokens(training)),
        chunks_(chunks_generated(training, strategy)),
        scores_(kGeneratedScore * (samples_at_once(training, strategy) * model.shape.vocabulary_size)) {}

  GenerationPool play(const Tape& prompt) {
    for (std::int64_t i = 1; i < chunks_; ++i) stacked_.push_back(take(scores_ * completion_));
    Forward(prompt, allocator_).play();
    needed_ = allocator_.peak().reserved;
    generate();
    stack();
    pad();
    return {.reserved = allocator_.peak().reserved, .needed = needed_};
  }

 private:
  [[nodiscard]] Handle take(Bytes size) { return allocator_.allocate(size).value(); }
  void replace(Handle& by, Bytes size) {
    const Handle made = take(size);
    if (by != CachingAllocator::kNoMemory) allocator_.release(by);
    by = made;
  }

  /// torch.cat makes a layer's keys anew beside the old ones, then its values.
  void grow(std::int64_t tokens) {
    const auto layer = [&](std::size_t which, std::int64_t kept) {
      for (const std::size_t half : {std::size_t{0}, std::size_t{1}})
        replace(kept_[2 * which + half], Bytes(cache_.token.value / 2 * kept));
    };
    const auto whole = static_cast<std::size_t>(cache_.whole_layers);
    for (std::size_t i = 0; i < whole; ++i) layer(i, tokens);
    for (std::size_t i = whole; i < kept_.size() / 2; ++i) layer(i, cache_.in_window(tokens));
  }

  /// Allocates what a step's variables hold until the next step's exist: logits in fp32 and probabilities.
  /// Scores stay, and multinomial draws beside them.
  void sample(std::int64_t tokens) {
    const Handle logits = take(Bytes(scores_.value / 2));
    replace(widened_, scores_);
    of_tokens_.push_back(take(scores_ * tokens));
    replace(probabilities_, scores_);
    allocator_.release(take(scores_));
    allocator_.release(logits);
  }

  void generate() {
    kept_.assign(2 * static_cast<std::size_t>(cache_.whole_layers + cache_.sliding_layers),
                 CachingAllocator::kNoMemory);
    const std::int64_t most =
        std::max<std::int64_t>(kLeastSteps, kMostBlocks / static_cast<std::int64_t>(kept_.size() + 1));
    const std::int64_t stride = (completion_ + most - 1) / most;
    for (std::int64_t token = 0; token < completion_; token += stride) {
      stop_if_asked();
      grow(prompt_ + token);
      sample(std::min(stride, completion_ - token));
    }
    allocator_.release(widened_);
    allocator_.release(probabilities_);
  }

  /// Notes the reserved memory after an allocation if all free segments were given back before it.
  void note_needed(Bytes size) {
    CachingAllocator pressed = allocator_;
    pressed.empty_cache();
    static_cast<void>(pressed.allocate(size));
    needed_ = std::max(needed_, pressed.current().reserved);
  }
  void stack() {
    note_needed(scores_ * completion_);
    stacked_.push_back(take(scores_ * completion_));
    for (const Handle each : of_tokens_) allocator_.release(each);
    for (const Handle each : kept_) allocator_.release(each);
  }
  void pad() {
    note_needed(scores_ * (completion_ * chunks_));
    static_cast<void>(take(scores_ * (completion_ * chunks_)));
  }

  GenerationCache cache_;
  CachingAllocator allocator_;
  std::int64_t completion_, prompt_, chunks_;
  Bytes scores_;  ///< of one step
  Bytes needed_;
  std::vector<Handle> stacked_, of_tokens_, kept_;  ///< kept_: keys and values, layer by layer
  Handle widened_{CachingAllocator::kNoMemory}, probabilities_{CachingAllocator::kNoMemory};
};

}  // namespace

GenerationPool generation_pool(const Model& model, const Training& training, const Strategy& strategy,
                               const Tape& prompt) {
  return Chunk(model, training, strategy).play(prompt);
}

}  // namespace zplan

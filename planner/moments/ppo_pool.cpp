#include "planner/moments/ppo_pool.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/model_trace/causal_lm.h"
#include "planner/model_trace/play.h"
#include "planner/moments/evaluation.h"
#include "planner/question/work.h"
#include "planner/simulation/caching_allocator.h"

namespace zplan {

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

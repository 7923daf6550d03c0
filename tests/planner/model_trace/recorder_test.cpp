// The recorder's errors for programs that no tape can express, and operators whose outputs differ in size
// from their inputs.

#include "planner/model_trace/recorder.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "models/catalogue/catalogue.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/model_trace/condensed.h"
#include "planner/question/strategy.h"

namespace zplan::symbolic {
namespace {

// Handles are destroyed during exceptions, so errors of their blocks are reported at the end.
TEST(Recorder, TellsOfAMisplacedReleaseAtItsEnd) {
  Recorder recorder(3);
  recorder.enter(0);
  auto block = recorder.allocate(Bytes(512));
  recorder.enter(2);
  EXPECT_NO_THROW(block.reset());
  recorder.enter(Recorder::kModel);
  EXPECT_THROW((void)recorder.finish({0, 1, 2}), std::logic_error);
}

Flops matrix_products(const Model& model, Attention attention, bool padded) {
  Training training;
  training.method = Method::qlora, training.attention = attention, training.sequence_length = 512;
  training.padding_mask = padded;
  const Tape tape = record_tape(model, training, {.zero_stage = 0}, {});
  Flops sum;
  for (const Load& load : tape.loads)
    for (const Product& each : load.products) sum += each.flops();
  return sum;
}

// 256 slices would take gigabytes.
TEST(TiledFeedForward, KeepsEqualSlicesOnce) {
  const auto kept = [](std::int64_t slices) {
    Strategy strategy{.zero_stage = 3};
    strategy.long_context.tiled_mlp = slices;
    Training training;
    training.sequence_length = 4096;
    Tape tape = record_tape(resolve_model("8B", {}), training, strategy, {});
    share_loads(tape);
    const CondensedTape condensed = condense(tape);
    return std::pair(tape.loads.size(), condensed.deltas.size());
  };
  EXPECT_EQ(kept(64), kept(16));
}

// Packed layers take their width from the input. Values of latent attention are narrower than queries, which
// flash-attn's kernels pad and crop.
TEST(LatentAttention, IsAsWideAsItsValuesUnderEveryKernel) {
  const Model model = resolve_model("deepseek-ai/DeepSeek-V2-Lite", {});
  for (const bool padded : {false, true})
    EXPECT_EQ(matrix_products(model, Attention::flash, padded),
              matrix_products(model, Attention::sdpa, padded));
}

}  // namespace
}  // namespace zplan::symbolic

// Allocations of the operators of mixtures of experts, and the gathered experts that autograd keeps.

#include "planner/model_trace/operators.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/config.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/question/strategy.h"

namespace zplan::symbolic {
namespace {

using Sizes = std::vector<std::int64_t>;

/// An autograd whose tensors are watched: sizes in bytes, negative where freed.
class Bench {
  Recorder recorder_{0};

 public:
  Autograd torch{recorder_};

  /// A tensor that was there before and trains.
  Tensor trained(const Dimensions& sizes, DType type = DType::bf16) {
    Tensor tensor = frozen(sizes, type);
    torch.accumulate_into(tensor, leaves_++);
    return tensor;
  }
  static Tensor frozen(const Dimensions& sizes, DType type = DType::bf16) {
    Tensor tensor;
    tensor.layout = Layout::contiguous(sizes);
    tensor.type = type;
    return tensor;
  }
  Tensor made(const Dimensions& sizes, DType type) { return torch.make(Layout::contiguous(sizes), type); }

  /// Returns the events since the last call.
  Sizes events() {
    const Tape tape = Recorder(recorder_).finish({});
    std::vector<std::int64_t> sizes_of(static_cast<std::size_t>(tape.model.blocks));
    Sizes all;
    for (const Event& event : tape.model.forward) {
      if (event.kind == Event::Kind::allocate)
        all.push_back(sizes_of[static_cast<std::size_t>(event.block)] = event.size.value);
      if (event.kind == Event::Kind::release) all.push_back(-sizes_of[static_cast<std::size_t>(event.block)]);
    }
    Sizes fresh(all.begin() + static_cast<std::ptrdiff_t>(seen_), all.end());
    seen_ = all.size();
    return fresh;
  }
  /// Returns the events of the backward of `output`, whose gradient exists already.
  Sizes backward(Tensor& output) {
    Tensor gradient = frozen(output.layout.sizes, output.type);
    (void)events();
    torch.backward(output, gradient);
    return events();
  }

 private:
  std::int32_t leaves_{};
  std::size_t seen_{};
};

// Asked of torch 2.11's allocator (CUDA 13.0, compute capability 8.0) by torch.sort and by the backward of
// x[indices].
TEST(RadixSort, TakesWhatCubAsksFor) {
  EXPECT_EQ(radix_sort_memory(2304, 9), Bytes(1));
  EXPECT_EQ(radix_sort_memory(2305, 8), Bytes(3583));
  EXPECT_EQ(radix_sort_memory(2305, 9), Bytes(43'007));
  EXPECT_EQ(radix_sort_memory(3840, 8), Bytes(3583));
  EXPECT_EQ(radix_sort_memory(3841, 9), Bytes(68'607));
  EXPECT_EQ(radix_sort_memory(4097, 64), Bytes(84'991));
  EXPECT_EQ(radix_sort_memory(65'536, 10), Bytes(1'071'615));
  EXPECT_EQ(radix_sort_memory(1'000'000, 7), Bytes(269'823));
  EXPECT_EQ(radix_sort_memory(2'000'000, 64), Bytes(32'550'399));
}

TEST(Sort, OfFewNumbersTakesARangeAndOfManyScratchBesides) {
  Bench bench;
  const Tensor few = Bench::frozen({4096}, DType::int64), many = Bench::frozen({8192}, DType::int64);
  const Chosen short_order = sort(bench.torch, few);
  EXPECT_EQ(bench.events(), (Sizes{32'768, 32'768, 32'768, -32'768}));
  const Chosen long_order = sort(bench.torch, many);
  EXPECT_EQ(bench.events(), (Sizes{65'536, 65'536, 65'536, 151'039, -151'039, -65'536}));
}

TEST(TopK, KeepsIndicesAndGivesZerosBack) {
  Bench bench;
  const Tensor scores = bench.trained({10, 16}, DType::fp32);
  Tensor weights;
  {
    const Chosen best = topk(bench.torch, scores, 4);
    EXPECT_EQ(bench.events(), (Sizes{160, 320}));
    weights = scale(bench.torch, best.values);
  }
  EXPECT_EQ(bench.events(), (Sizes{160, -160}));  // the indices stay
  EXPECT_EQ(bench.backward(weights), (Sizes{160, 640, -160, -320}));
}

TEST(Index, SortsItsRowsOnTheWayBack) {
  Bench bench;
  const Tensor states = bench.trained({1024, 4});
  Tensor rows;
  {
    const Tensor tokens = bench.made({4096}, DType::int64);
    rows = index(bench.torch, states, tokens);
  }
  EXPECT_EQ(bench.events(), (Sizes{32'768, 32'768}));
  EXPECT_EQ(bench.backward(rows), (Sizes{8192, 32'768, 32'768, -32'768, 32'768, 32'768, 32'768, 72'191,
                                         -72'191, -32'768, -32'768, -32'768, -32'768, -32'768}));
}

TEST(DivisionInPlace, CopiesWhatItOverwrites) {
  Bench bench;
  Tensor weights = scale(bench.torch, bench.trained({10, 4}, DType::fp32));
  const Tensor total = sum(bench.torch, weights, 1, true);
  EXPECT_EQ(bench.events(), (Sizes{160, 40}));
  div_in_place(bench.torch, weights, total);
  EXPECT_EQ(bench.events(), (Sizes{160}));
  const Tensor frozen = Bench::frozen({10, 4}, DType::fp32);
  Tensor untrained = scale(bench.torch, frozen);
  div_in_place(bench.torch, untrained, Bench::frozen({10, 1}, DType::fp32));
  EXPECT_EQ(bench.events(), (Sizes{160}));
}

TEST(GroupedProduct, GivesTheWeightsGradientBeforeTheRows) {
  Bench bench;
  const Tensor offsets = bench.made({8}, DType::int32), input = bench.trained({20, 6});
  Tensor product = grouped_mm(bench.torch, input, bench.trained({8, 6, 10}), offsets);
  EXPECT_EQ(bench.events(), (Sizes{32, 400}));
  EXPECT_EQ(bench.backward(product), (Sizes{960, 240}));
}

TEST(GroupedProduct, OfFrozenWeightsDoesNotKeepItsRows) {
  Bench bench;
  const Tensor offsets = bench.made({8}, DType::int32);
  Tensor rows = scale(bench.torch, bench.trained({20, 6}));
  Tensor product = grouped_mm(bench.torch, rows, Bench::frozen({8, 6, 10}), offsets);
  EXPECT_EQ(bench.events(), (Sizes{32, 240, 400}));
  rows.reset();
  EXPECT_EQ(bench.events(), (Sizes{-240}));
  EXPECT_EQ(bench.backward(product), (Sizes{240, 240, -240}));
}

TEST(BatchedProduct, CopiesFactorsThatLieAcross) {
  Bench bench;
  const Tensor base = Bench::frozen({8, 10, 6}), straight = bench.trained({8, 10, 2}),
               right = bench.trained({8, 2, 6});
  const Tensor sum = baddbmm(bench.torch, base, straight, right);
  EXPECT_EQ(bench.events(), (Sizes{960}));
  // [out, rank, experts] seen as [experts, out, rank]: no dimension of a matrix is contiguous.
  const Tensor across = transpose(bench.torch, transpose(bench.torch, bench.trained({10, 2, 8}), 0, 2), 1, 2);
  const Tensor same = baddbmm(bench.torch, base, across, right);
  EXPECT_EQ(bench.events(), (Sizes{960, 320, -320}));
}

// ---- ZeRO stage 3 -----------------------------------------------------------------------------------------

Model mixture(const std::string& architecture) {
  const Json config = {{"model_type", architecture},  {"hidden_size", 64},        {"intermediate_size", 32},
                       {"num_hidden_layers", 2},      {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                       {"num_local_experts", 8},      {"num_experts", 8},         {"num_experts_per_tok", 2},
                       {"moe_intermediate_size", 32}, {"head_dim", 16},           {"vocab_size", 112}};
  return read_config(JsonReader(config, "a mixture"));
}

struct Kept {
  std::ptrdiff_t forward{}, backward{}, freed_forward{}, freed_backward{};
  bool operator==(const Kept&) const = default;
};

Kept kept(const Model& model, Checkpointing checkpointing, int stage) {
  Training training;
  training.sequence_length = 16;
  Strategy strategy;
  strategy.zero_stage = stage;
  strategy.checkpointing = checkpointing;
  const TapePart layer = record_tape(model, training, strategy).classes.front();
  const auto count = [](const std::vector<Event>& events, Event::Kind kind) {
    return std::count_if(events.begin(), events.end(), [&](const Event& each) { return each.kind == kind; });
  };
  return {
      count(layer.forward, Event::Kind::keep_parameter), count(layer.backward, Event::Kind::keep_parameter),
      count(layer.forward, Event::Kind::free_parameter), count(layer.backward, Event::Kind::free_parameter)};
}

TEST(GatheredExperts, StayFromForwardToBackward) {
  EXPECT_EQ(kept(mixture("mixtral"), Checkpointing::none, 3), (Kept{2, 0, 0, 2}));
  EXPECT_EQ(kept(mixture("qwen3_moe"), Checkpointing::none, 3), (Kept{2, 0, 0, 2}));
}

/// With all other parameters of the layer: tests/reference/zero3_gathers/modules/mixtral.json, k10 to k18.
TEST(GatheredExperts, AreKeptByTheSecondForwardUnderCheckpointing) {
  EXPECT_EQ(kept(mixture("mixtral"), Checkpointing::full, 3), (Kept{0, 9, 0, 9}));
}

TEST(GatheredExperts, AreNotToldOfWhereNothingIsGathered) {
  EXPECT_EQ(kept(mixture("mixtral"), Checkpointing::none, 2), Kept{});
}

}  // namespace
}  // namespace zplan::symbolic

// Module sets: rows of the table, and one that a contributor adds (docs/adding-a-module-set.md).

#include "planner/question/module_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "models/base/error.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/model_trace/program.h"
#include "planner/plan/rank_run.h"
#include "planner/simulation/memory.h"
#include "tests/planner/support.h"

namespace zplan {

// ---- a set as a contributor writes it: LoRA inside the product, a loss without logits, and checkpoints
// whose inputs wait on the host
// -----------------------------------------------------------------------------------

namespace symbolic {

namespace {

/// The base's product and the adapter's in one function, which keeps its input alone.
Tensor toy_linear(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x) {
  const std::string path = weight.about->name.substr(0, weight.about->name.rfind('.'));
  const Parameter* down = of.find(path + ".lora_A.default.weight");
  if (down == nullptr) return linear_of_transformers(p, of, weight, x);
  const Parameter& up = of.get(path + ".lora_B.default.weight");
  const std::int64_t in = x.layout.sizes.back(), out = weight.tensor.size(0), rows = x.elements() / in;
  const auto node = p.torch.node({&x, &down->tensor, &up.tensor});
  Dimensions sizes = x.layout.sizes;
  sizes.back() = out;
  Tensor result = p.torch.make(Layout::contiguous(sizes), x.type);
  p.torch.compute(product_of(rows, in, out, x.type));
  if (!node) return result;  // a checkpointed call runs without gradients first
  node->backward = [&torch = p.torch, kept = p.torch.save(x), needs = x.requires_gradient,
                    down = down->tensor, up = up.tensor](Tensors&) {
    const Tensor input = kept.get();
    Tensors gradients{{}, torch.make(down.layout, down.type), torch.make(up.layout, up.type)};
    if (needs) gradients[0] = torch.make(input.layout, input.type);
    return gradients;
  };
  return Autograd::connected(result, node);
}

/// The loss, whose backward makes the gradient of the hidden states.
Tensor toy_loss(Program& p, const Parameters&, const Tensor& hidden) {
  const auto node = p.torch.node({&hidden});
  Tensor loss = p.torch.make(Layout::contiguous({}), DType::fp32);
  node->backward = [&torch = p.torch, layout = hidden.layout, type = hidden.type](Tensors&) {
    return Tensors{torch.make(layout, type)};
  };
  return Autograd::connected(loss, node);
}

}  // namespace

}  // namespace symbolic

namespace testing {
namespace {

const ModuleSet kToy{.name = "toy",
                     .linear = symbolic::toy_linear,
                     .head_and_loss = symbolic::toy_loss,
                     .checkpoint_offload = CheckpointOffload::host};

const Model& model() {
  static const Model made = tiny_llama({{"hidden", 64},
                                        {"ffn", 128},
                                        {"layers", 3},
                                        {"heads", 4},
                                        {"kv", 2},
                                        {"vocab", 1000},
                                        {"tie", false}});
  return made;
}

Training adapted(const ModuleSet& modules) {
  return {.method = Method::lora, .sequence_length = 32, .modules = modules, .framework = Framework::torch};
}

Tape taped(const ModuleSet& modules, Checkpointing checkpointing = Checkpointing::none) {
  return record_tape(model(), adapted(modules), {.checkpointing = checkpointing});
}

std::ptrdiff_t count(const std::vector<Event>& events, Event::Kind kind) {
  return std::ranges::count(events, kind, &Event::kind);
}

/// Bytes that a part's forward leaves allocated.
Bytes kept(const std::vector<Event>& forward) {
  std::vector<Bytes> blocks(1000);
  for (const Event& each : forward)
    if (each.owner == Owner::here &&
        (each.kind == Event::Kind::allocate || each.kind == Event::Kind::release))
      blocks.at(static_cast<std::size_t>(each.block)) =
          each.kind == Event::Kind::allocate ? each.size : Bytes{};
  Bytes sum;
  for (const Bytes each : blocks) sum += each;
  return sum;
}

bool makes_logits(const Tape& tape) {
  return std::ranges::any_of(tape.head, [](const Event& each) {
    return each.kind == Event::Kind::allocate && each.term == Term::logits;
  });
}

TEST(ModuleSets, RecordWhatARowReplaces) {
  const Tape usual = taped({}), toy = taped(kToy);
  EXPECT_TRUE(makes_logits(usual));
  EXPECT_FALSE(makes_logits(toy));
  ASSERT_EQ(toy.classes.size(), usual.classes.size());
  for (std::size_t i = 0; i < toy.classes.size(); ++i) {
    EXPECT_LT(kept(toy.classes[i].forward), kept(usual.classes[i].forward));
    EXPECT_GT(count(toy.classes[i].backward, Event::Kind::adopt_gradient), 0);
    EXPECT_EQ(count(toy.classes[i].backward, Event::Kind::adopt_gradient),
              count(usual.classes[i].backward, Event::Kind::adopt_gradient));
  }
}

TEST(ModuleSets, KeepCheckpointsWhereTheySay) {
  const auto host_bytes = [](const ModuleSet& modules) {
    const RankRun run(model(), adapted(modules), {.checkpointing = Checkpointing::full}, {});
    return host_memory(run.step(), 1).total;
  };
  const std::int64_t layers = 3, tokens = 32, hidden = 64;
  EXPECT_EQ(host_bytes(kToy) - host_bytes({}), Bytes(2 * layers * tokens * hidden));
  EXPECT_LT(kept(taped(kToy, Checkpointing::full).classes[1].forward),
            kept(taped({}, Checkpointing::full).classes[1].forward));
}

TEST(ModuleSets, AreChosenByName) {
  ModuleSet set;
  choose_kernels(set, "--kernels", "liger");
  choose_modules(set, "--modules", "litgpt");
  EXPECT_EQ(set.name, "litgpt");
  EXPECT_EQ(set.kernels, kLiger.kernels);  // whichever is named first
  EXPECT_EQ(set.projections, kLitgpt.projections);
  choose_kernels(set, "--kernels", "torch");
  EXPECT_EQ(set, kLitgpt);
  choose_modules(set, "--modules", "transformers");
  EXPECT_EQ(set, ModuleSet{});
  EXPECT_THROW(choose_modules(set, "--modules", "liger"), InputError);
  EXPECT_THROW(choose_kernels(set, "--kernels", "litgpt"), InputError);
}

TEST(ModuleSets, HaveNamesOfTheirOwn) {
  for (const auto& names : {module_set_names(), kernel_names()})
    for (const std::string& each : names) EXPECT_EQ(std::ranges::count(names, each), 1) << each;
  EXPECT_EQ(module_set_names().size() + kernel_names().size(), kModuleSets.size() + 1);
}

}  // namespace
}  // namespace testing
}  // namespace zplan

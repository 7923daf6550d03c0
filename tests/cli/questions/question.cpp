#include "question.h"

#include <algorithm>

#include "hardware_profiles/profiles.h"
#include "models/base/names.h"
#include "models/catalogue/catalogue.h"
#include "planner/question/strategy.h"
#include "planner/search/inverse.h"

namespace zplan::test {

namespace {

using Words = std::vector<std::string>;

template <class E>
std::string any(Random& random) {
  return random.of(all_names<E>());
}

std::string number(std::int64_t value) { return std::to_string(value); }

class Typed {
 public:
  explicit Typed(Random& random) : random_(random) {}
  void word(const std::string& text) { words_.push_back(text); }
  void option(const std::string& name, const std::string& value) {
    words_.push_back(name), words_.push_back(value);
  }
  void flag(int percent, const std::string& name) {
    if (random_.chance(percent)) words_.push_back(name);
  }
  Words take() { return std::move(words_); }

 private:
  Random& random_;
  Words words_;
};

std::string model(Random& random) {
  if (random.chance(40))
    return random.of(Words{"0.1B", "0.5B", "1.7B", "3B", "8B", "13B", "32B", "70B", "180B"});
  static const Words names = [] {
    Words all;
    for (const CatalogueEntry& each : catalogue()) all.push_back(each.name);
    return all;
  }();
  return random.of(names);
}

void add_model(Random& random, Typed& typed) {
  typed.option("--model", model(random));
  const std::string method = random.of(Words{"full", "full", "full", "lora", "qlora"});
  if (method == "full") {
    if (random.chance(5)) typed.option("--train-layers", random.of(Words{"last:2", "first:1", "every:2"}));
    if (random.chance(3)) typed.option("--expand-blocks", random.of(Words{"1", "2"}));
    return;
  }
  typed.option("--method", method);
  if (random.chance(40)) typed.option("--lora-rank", number(std::int64_t{1} << random.between(0, 8)));
  if (random.chance(20)) typed.option("--lora-targets", random.of(Words{"all-linear", "q_v"}));
  if (method == "qlora" && random.chance(50)) typed.option("--quantization", any<Quantization>(random));
  if (method == "qlora" && random.chance(30)) typed.option("--quant-storage", any<QuantStorage>(random));
  if (random.chance(15)) typed.option("--adapters", random.of(Words{"2", "5", "64"}));
  typed.flag(10, "--dora");
  if (random.chance(10))
    typed.option("--modules-to-save", random.of(Words{"lm_head", "embed_tokens,lm_head"}));
}

/// Preferences and rewards; what else generates, and what that keeps.
void add_objective(Random& random, Typed& typed) {
  if (!random.chance(12)) return;
  const std::string objective = any<Objective>(random);
  typed.option("--objective", objective);
  if (random.chance(40)) typed.option("--reference", any<ReferenceModel>(random));
  if (objective == "ppo") {
    if (random.chance(40)) typed.option("--value-model", model(random));
    if (random.chance(40)) typed.option("--reward-model", model(random));
    if (random.chance(30)) typed.option("--completion-length", random.of(Words{"64", "1024"}));
    if (random.chance(20)) typed.option("--iterations", "2");
    if (random.chance(30)) typed.option("--rollout-batch", random.of(Words{"1", "3", "16"}));
    if (random.chance(20)) typed.option("--mini-batches", random.of(Words{"2", "4"}));
  }
  if (objective == "gkd") {
    if (random.chance(80)) typed.option("--teacher", model(random));
    if (random.chance(40)) typed.option("--divergence", any<Divergence>(random));
    if (random.chance(20)) typed.option("--teacher-top", random.of(Words{"1", "64"}));
    if (random.chance(30)) typed.option("--completion-length", random.of(Words{"64", "1024"}));
    if (random.chance(30)) typed.option("--rollout", any<RolloutEngine>(random));
    typed.flag(20, "--label-loss");
  }
  if (objective != "grpo") return;
  if (random.chance(50)) typed.option("--generations", random.of(Words{"2", "4", "16"}));
  if (random.chance(30)) typed.option("--completion-length", random.of(Words{"64", "1024"}));
  if (random.chance(20)) typed.option("--iterations", "2");
  if (random.chance(50)) typed.option("--rollout", any<RolloutEngine>(random));
  if (random.chance(30)) typed.option("--vllm-memory", random.of(Words{"0.1", "0.5", "0.9"}));
  if (random.chance(30)) typed.option("--vllm-sleep", random.of(Words{"1", "2"}));
}

/// Options of mixtures and of image-text models, which other models refuse.
void add_kinds_of_model(Random& random, Typed& typed) {
  if (random.chance(5)) {
    typed.option("--ep", random.of(Words{"2", "4", "1,8"}));
    if (random.chance(30)) typed.option("--routing", "skew=2");
  }
  if (random.chance(5)) {
    typed.option("--images", random.of(Words{"1", "4"}));
    typed.option("--image-size", random.of(Words{"224x224", "1344x1008"}));
  }
}

/// Nodes of every size, also of those that divide no power of two.
void add_cluster(Random& random, Typed& typed) {
  if (random.chance(8)) {
    typed.option("--instance", random.of(built_in_instances()).name);
    if (random.chance(30)) typed.option("--nodes", number(random.between(1, 4)));
    return;
  }
  const std::int64_t node = random.of(std::vector<std::int64_t>{1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 12, 16});
  const std::int64_t nodes = random.chance(60) ? 1 : random.between(2, 40);
  typed.option("--gpus", number(node * nodes));
  if (nodes > 1) typed.option("--nodes", number(nodes));
  const bool card = random.chance(40);
  if (card) {
    const std::string& name = random.of(built_in_profiles().gpus).name;
    typed.option("--gpu", name);
  }
  if (!card || random.chance(10))
    typed.option("--mem",
                 random.chance(80) ? number(random.between(6, 96)) : number(random.between(97, 400)));
  if (random.chance(15)) typed.option("--host-mem", number(random.between(16, 4096)));
  if (random.chance(10)) typed.option("--pcie", random.of(Words{"3x16", "4x8", "5x4"}));
  if (random.chance(10)) typed.option("--topology", any<PciePath>(random));
  if (random.chance(10)) typed.option("--host-threads", random.of(Words{"1", "8"}));
  if (random.chance(10)) typed.option("--host-bandwidth", random.of(Words{"40", "614.4"}));
  if (random.chance(10)) typed.option("--disk-bandwidth", random.of(Words{"1", "28"}));
  if (random.chance(15)) typed.option("--headroom", number(random.between(0, 50)));
}

/// Options that make long samples fit: ranks that divide their tokens, tiles, checkpoints on the host.
void add_long_context(Random& random, Typed& typed, const std::string& framework) {
  const std::string degrees = random.of(Words{"1", "2", "2", "4", "8", "1,2", "2,4"});
  if (framework == "fsdp") {
    typed.option("--cp", degrees);
    if (random.chance(40)) typed.option("--cp-rotate", any<KeyRotation>(random));
    return;
  }
  if (random.chance(60)) typed.option("--sp", degrees);
  if (random.chance(30)) typed.option("--tiled-mlp", random.of(Words{"auto", "2", "5"}));
  if (random.chance(30)) typed.option("--tiled-loss", random.of(Words{"auto", "3", "16"}));
  if (random.chance(30)) typed.option("--checkpoint-offload", any<CheckpointOffload>(random));
}

void add_strategies(Random& random, Typed& typed, bool one) {
  const std::string framework = random.of(Words{"deepspeed", "deepspeed", "deepspeed", "fsdp", "torch"});
  if (framework != "deepspeed") typed.option("--framework", framework);
  if (framework == "fsdp" && random.chance(30)) typed.option("--offload", "all");
  if (framework != "torch" && random.chance(20)) add_long_context(random, typed, framework);
  if (framework != "deepspeed") return;
  if (one || random.chance(40))
    typed.option("--zero",
                 random.of(one ? Words{"0", "1", "2", "3"} : Words{"0", "1", "2", "3", "2,3", "1,2"}));
  if (one || random.chance(30)) typed.option("--tp", random.of(Words{"1", "1", "1", "2", "4"}));
  if (one || random.chance(30))
    typed.option("--offload", one && random.chance(60) ? "none" : any<Offload>(random));
  if (random.chance(20)) typed.option("--buckets", any<Buckets>(random));
  if (random.chance(10))
    typed.option("--deepspeed-version", random.of(Words{"0.16", "0.17", "0.18", "0.19"}));
}

/// Loading, evaluation, saving, and how much is trained on.
void add_run(Random& random, Typed& typed) {
  if (random.chance(10)) typed.option("--load-dtype", any<Precision>(random));
  if (random.chance(10)) {
    typed.option("--eval-batch", random.of(Words{"1", "8"}));
    if (random.chance(50)) {
      typed.option("--eval-samples", random.of(Words{"1", "100", "5000"}));
      typed.flag(100, "--eval-logits");
      if (random.chance(50)) typed.option("--eval-accumulation", random.of(Words{"1", "10"}));
    }
  }
  if (random.chance(5)) typed.option("--generate", random.of(Words{"1", "512"}));
  if (random.chance(10)) {
    typed.option(random.of(Words{"--samples", "--tokens"}), random.of(Words{"1", "50000", "1000000000"}));
    if (random.chance(50)) typed.option("--price", random.of(Words{"0", "2.5"}));
    if (random.chance(50)) typed.option("--epochs", random.of(Words{"0.5", "3"}));
  }
}

void add_training(Random& random, Typed& typed) {
  if (random.chance(30)) typed.option("--precision", any<Precision>(random));
  if (random.chance(30)) typed.option("--optimizer", any<Optimizer>(random));
  typed.flag(10, "--no-master-weights");
  if (random.chance(10)) typed.option("--optimizer-kernel", any<OptimizerKernel>(random));
  if (random.chance(50)) typed.option("--checkpointing", any<Checkpointing>(random));
  if (random.chance(20))
    typed.option("--attention", random.of(Words{"sdpa", "sdpa", "sdpa", "eager", "flash"}));
  typed.flag(15, "--fused-loss");
  typed.flag(10, "--fused-head");
  if (random.chance(10)) typed.option("--kernels", random.of(kernel_names()));
  if (random.chance(5)) typed.option("--loss-shift", any<LossShift>(random));
  if (random.chance(10))
    typed.option("--trainer", random.of(Words{"trl", "trl@0.12", "swift", "torchtune", "transformers@4.46"}));
  if (random.chance(10)) {
    typed.option("--loss-chunks", random.of(Words{"2", "7", "16"}));
    typed.flag(50, "--sliced-head");
  }
  if (random.chance(10)) typed.option("--modules", random.of(module_set_names()));
  typed.flag(15, "--expandable-segments");
}

void add_sequence(Random& random, Typed& typed) {
  if (random.chance(30))
    typed.option("--seq", number(random.between(1, 4096)));
  else if (random.chance(40))
    typed.option("--seq", number(std::int64_t{1} << random.between(8, 17)));
}

void add_batch(Random& random, Typed& typed, bool fixed) {
  const bool global = random.chance(15);
  if (global)
    typed.option("--global-batch",
                 number(random.chance(70) ? random.between(1, 64) * 840 : random.between(1, 100'000)));
  if (random.chance(40))
    typed.option("--micro-batch", number(random.between(1, 24)));
  else if (!fixed && random.chance(25))
    typed.option("--micro-batch", "max");
  if (!global && random.chance(30)) typed.option("--grad-accum", number(random.between(1, 9)));
}

/// Options that would fix the solved quantity.
Words given_by(const std::string& asked) {
  if (asked == "micro-batch") return {"--micro-batch"};
  if (asked == "sequence") return {"--seq"};
  if (asked == "model") return {"--model"};
  if (asked == "memory") return {"--mem", "--gpu"};
  if (asked == "host-memory") return {"--host-mem"};
  return {};
}

Words without(const Words& words, const Words& options) {
  Words kept;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (std::find(options.begin(), options.end(), words[i]) != options.end())
      ++i;
    else
      kept.push_back(words[i]);
  return kept;
}

}  // namespace

Words random_question(Random& random) {
  Typed typed(random);
  const std::int64_t kind = random.between(1, 100);
  const bool search = kind <= 6, solve = kind > 6 && kind <= 14, oom = kind > 14 && kind <= 20;
  const std::string asked = solve && random.chance(80) ? any<Solve>(random) : "";
  if (search) typed.word("search");
  if (solve || oom) typed.word("fit");
  add_model(random, typed);
  add_cluster(random, typed);
  add_strategies(random, typed, oom);
  add_training(random, typed);
  add_objective(random, typed);
  add_kinds_of_model(random, typed);
  add_run(random, typed);
  add_sequence(random, typed);
  add_batch(random, typed, solve || oom);
  if (!asked.empty()) typed.option("--solve", asked);
  if (oom)
    typed.option("--oom",
                 "CUDA out of memory. Tried to allocate " + number(random.between(2, 4000)) +
                     ".00 MiB. GPU 0 has a total capacity of " + number(random.between(8, 80)) +
                     ".00 GiB of which 100.00 MiB is free. Process 1 has 7.00 GiB memory in use. Of the "
                     "allocated memory 5.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch "
                     "but unallocated.");
  return without(typed.take(), given_by(asked));
}

}  // namespace zplan::test

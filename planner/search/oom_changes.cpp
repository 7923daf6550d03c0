// Changes against an out-of-memory error, each planned anew.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "planner/explain/why.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/search/findings.h"
#include "planner/search/oom.h"
#include "planner/search/parallel.h"
#include "planner/search/scale.h"

namespace zplan {

namespace {

/// A change as it is applied to a question that is pinned to one strategy.
struct Step {
  std::string what, options, launch;
  int kind{};
  std::function<void(Question&)> apply;
};

constexpr int kSame = 0, kMoreMachines = 1, kOtherTraining = 2;

/// Start is what ran, for changes that depend on it.
struct Start {
  const OpenQuestion& open;
  const Question& question;  ///< pinned to what ran
  const Plan& plan;
  PlanContext& context;
  [[nodiscard]] const Strategy& strategy() const { return plan.strategy; }
};

OomChange planned(const Start& start, const std::vector<const Step*>& steps) {
  OomChange change;
  Question q = start.question;
  std::vector<std::string> what, options, launch;
  for (const Step* each : steps) {
    each->apply(q);
    what.push_back(each->what);
    if (!each->options.empty()) options.push_back(each->options);
    if (!each->launch.empty()) launch.push_back(each->launch);
    change.kind = std::max(change.kind, each->kind);
  }
  change.what = fmt::format("{}", fmt::join(what, " + "));
  change.options = fmt::format("{}", fmt::join(options, " "));
  change.launch = fmt::format("{}", fmt::join(launch, " "));
  const Candidates found = candidates(q);
  if (found.legal.empty()) {
    if (!found.rejected.empty()) change.illegal = found.rejected.front().reasons;
    return change;
  }
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  change.plan = context.complete(found.legal.front());
  change.frees = start.plan.memory().required - change.plan->memory().required;
  change.speed = change.plan->time.tokens_per_second / start.plan.time.tokens_per_second;
  return change;
}

/// Samples of one optimizer step stay what they are: fewer at a time, more often.
Step micro_batch_step(const Start& start, std::int64_t size) {
  const std::int64_t times =
      start.strategy().gradient_accumulation_steps * start.strategy().micro_batch_size / size;
  return {fmt::format("micro-batch {}, accumulated {} times", size, times),
          fmt::format("--micro-batch {} --grad-accum {}", size, times), "", kSame,
          [size, times](Question& q) {
            q.space.micro_batch_size = size, q.space.gradient_accumulation_steps = times;
            q.space.micro_batch_follows = false;
            q.space.global_batch_size.reset();
          }};
}

void add_micro_batches(const Start& start, std::vector<Step>& steps) {
  const std::int64_t now = start.strategy().micro_batch_size;
  for (std::int64_t size = now / 2; size >= 1; --size)
    if (now % size == 0) steps.push_back(micro_batch_step(start, size));
}

void add_training(const Start& start, std::vector<Step>& steps) {
  const Training& t = start.question.training;
  const auto add = [&](std::string what, std::string options, int kind,
                       std::function<void(Question&)> apply) {
    steps.push_back({std::move(what), std::move(options), "", kind, std::move(apply)});
  };
  if (start.strategy().checkpointing != Checkpointing::full)
    add("full activation checkpointing", "--checkpointing full", kSame,
        [](Question& q) { q.space.checkpointing = Checkpointing::full; });
  if (!t.fused_loss && !t.fused_head)
    add("a fused loss", "--fused-loss", kSame, [](Question& q) { q.training.fused_loss = true; });
  if (t.attention != Attention::flash && runs_flash(t, start.question.cluster.gpu))
    add("flash attention", "--attention flash", kSame,
        [](Question& q) { q.training.attention = Attention::flash; });
  if (t.method == Method::full && t.optimizer == Optimizer::adamw)
    add("8-bit AdamW", "--optimizer adamw8bit", kOtherTraining,
        [](Question& q) { q.training.optimizer = Optimizer::adamw8bit; });
  for (const Method method : {Method::lora, Method::qlora})
    if (t.method != method && t.method != Method::qlora)
      add(method == Method::lora ? "LoRA" : "QLoRA", fmt::format("--method {}", to_name(method)),
          kOtherTraining, [method](Question& q) { q.training.method = method; });
}

void add_strategies(const Start& start, std::vector<Step>& steps) {
  const Strategy& s = start.strategy();
  for (int stage = s.zero_stage + 1; stage <= 3; ++stage)
    steps.push_back({fmt::format("ZeRO-{}", stage), fmt::format("--zero {}", stage), "", kSame,
                     [stage](Question& q) { q.space.zero_stages = {stage}; }});
  const auto offload = [&](std::string what, Offload to) {
    if (to == Offload{s.offload_optimizer, s.offload_parameters}) return;
    steps.push_back({std::move(what), fmt::format("--offload {}", to_name(to)), "", kSame,
                     [to](Question& q) { q.space.offloads = {to}; }});
  };
  const OffloadDevice cpu = OffloadDevice::cpu;
  if (s.offload_optimizer == OffloadDevice::none)
    offload("optimizer states on the host", {cpu, OffloadDevice::none});
  if (s.offload_parameters == OffloadDevice::none)
    offload("optimizer states and parameters on the host", {cpu, cpu});
}

void add_allocator(const Start& start, std::vector<Step>& steps) {
  if (!start.question.training.expandable_segments)
    steps.push_back({"expandable segments", "--expandable-segments",
                     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", kSame,
                     [](Question& q) { q.training.expandable_segments = true; }});
  if (start.strategy().zero_stage > 0 && !start.question.space.zero &&
      start.question.space.buckets == Buckets::defaults)
    steps.push_back({"smaller buckets", "--buckets hf-auto", "", kSame,
                     [](Question& q) { q.space.buckets = Buckets::hf_auto; }});
}

void add_machines(const Start& start, std::vector<Step>& steps) {
  const auto gpus = fewest_gpus(start.plan, start.question, start.context, kMostSolvedGpus);
  if (!gpus) return;
  Cluster cluster = question_at(start.open, Solve::gpus, *gpus).cluster;
  cluster.usable_memory = start.question.cluster.usable_memory;  // of which others may hold a part
  const std::string nodes = cluster.nodes > 1 ? fmt::format(" --nodes {}", cluster.nodes) : "";
  steps.push_back({fmt::format("{} GPUs", *gpus), fmt::format("--gpus {}{}", *gpus, nodes), "", kMoreMachines,
                   [cluster](Question& q) { q.cluster = cluster; }});
}

void add_sequences(const Start& start, std::vector<Step>& steps) {
  constexpr std::int64_t kShortest = 256;
  for (std::int64_t length = start.question.training.sequence_length / 2; length >= kShortest; length /= 2)
    steps.push_back({fmt::format("sequences of {} tokens", length), fmt::format("--seq {}", length), "",
                     kOtherTraining, [length](Question& q) { q.training.sequence_length = length; }});
}

/// Adds the least of changes that differ only in degree that fits; where none fits, the furthest.
template <class Add>
void add_least(const Start& start, std::vector<Step>& chosen, const Add& add) {
  std::vector<Step> steps;
  add(start, steps);
  for (const Step& each : steps)
    if (planned(start, {&each}).fits()) return chosen.push_back(each);
  if (!steps.empty()) chosen.push_back(steps.back());
}

std::vector<OomChange> plan_all(const Start& start, const std::vector<std::vector<const Step*>>& sets) {
  return mapped_in_parallel(sets,
                            [&start](const std::vector<const Step*>& each) { return planned(start, each); });
}

bool is_nearer(const OomChange& a, const OomChange& b) {
  const auto key = [](const OomChange& c) {
    const double second = c.fits() ? -c.speed : -static_cast<double>(c.frees.value);
    return std::tuple(!c.fits(), !c.plan, c.fits() && c.frees.value <= 0, c.fits() ? c.kind : 0, second);
  };
  return key(a) < key(b);
}

/// Pairs of which each part does something alone; only those that fit are kept, the fastest few.
std::vector<OomChange> pairs_that_fit(const Start& start, const std::vector<Step>& steps) {
  constexpr std::size_t kMost = 6;
  std::vector<std::vector<const Step*>> sets;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t j = i + 1; j < steps.size(); ++j) {
      const std::string word = steps[i].options.substr(0, steps[i].options.find(' '));
      const bool overrules = !word.empty() && steps[j].options.starts_with(word);
      if (!overrules && steps[i].kind == kSame && steps[j].kind == kSame)
        sets.push_back({&steps[i], &steps[j]});
    }
  std::vector<OomChange> pairs = plan_all(start, sets);
  std::erase_if(pairs, [](const OomChange& each) { return !each.fits(); });
  std::stable_sort(pairs.begin(), pairs.end(), is_nearer);
  if (pairs.size() > kMost) pairs.resize(kMost);
  return pairs;
}

}  // namespace

OomRemedies oom_remedies(const OpenQuestion& open, const Strategy& strategy) {
  Question q = pinned_to(open.question, family_of(strategy));
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  OomRemedies remedies{.plan = context.complete(strategy), .changes = {}};
  remedies.plan.why = why(remedies.plan, findings_of(remedies.plan, q, context), q.unit);
  const Start start{open, q, remedies.plan, context};
  std::vector<Step> steps;
  add_least(start, steps, add_micro_batches);
  add_training(start, steps);
  add_strategies(start, steps);
  add_allocator(start, steps);
  add_machines(start, steps);
  add_least(start, steps, add_sequences);
  std::vector<std::vector<const Step*>> alone;
  for (const Step& each : steps) alone.push_back({&each});
  remedies.changes = plan_all(start, alone);
  const bool enough = std::any_of(remedies.changes.begin(), remedies.changes.end(),
                                  [](const OomChange& each) { return each.fits() && each.kind == kSame; });
  if (!enough)
    for (OomChange& each : pairs_that_fit(start, steps)) remedies.changes.push_back(std::move(each));
  std::stable_sort(remedies.changes.begin(), remedies.changes.end(), is_nearer);
  return remedies;
}

}  // namespace zplan

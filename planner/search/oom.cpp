#include "planner/search/oom.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "planner/explain/why.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/moments/rollout.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/search/findings.h"
#include "planner/search/parallel.h"
#include "planner/search/scale.h"
#include "planner/simulation/memory.h"
#include "planner/simulation/run.h"

namespace zplan {

namespace {

// Shares of a GPU below which figures are not worth a sentence, and above which one block is large.
constexpr double kWorthTelling = 0.05, kLarge = 0.1;

Bytes card_of(const OomMessage& m) { return m.allowed ? *m.allowed : m.capacity.value_or(m.asked); }

/// Sets what the process's other libraries and other processes hold of the GPU.
void take_shares(OomReading& reading) {
  const OomMessage& m = reading.message;
  const auto reserved = m.reserved();
  if (m.process && reserved) reading.outside = std::max(*m.process - *reserved, Bytes{});
  Bytes listed{};
  for (const OomMessage::Process& each : m.others) listed += each.size;
  if (!m.others.empty()) reading.others = listed;
  if (m.process || !reserved || !m.capacity || !m.free) return;
  reading.reserved_is_old = m.others.empty();
  if (reading.reserved_is_old) reading.others = std::max(*m.capacity - *m.free - *reserved, Bytes{});
}

OomCause cause_of(OomSource source) {
  switch (source) {
    case OomSource::pytorch: break;
    case OomSource::cuda: return OomCause::cuda;
    case OomSource::nccl: return OomCause::nccl;
    case OomSource::engine: return OomCause::engine;
    case OomSource::cache: return OomCause::cache;
    case OomSource::sleep: return OomCause::sleep;
    case OomSource::host: return OomCause::host;
  }
  return OomCause::unsaid;
}

OomCause cause_of(const OomReading& reading) {
  const OomMessage& m = reading.message;
  if (m.source != OomSource::pytorch) return cause_of(m.source);
  if (!m.capacity && !m.allowed)
    return m.free && *m.free >= m.asked ? OomCause::enough_free : OomCause::unsaid;
  const Bytes card = card_of(m), free = m.free.value_or(Bytes{});
  if (m.asked >= card) return OomCause::beyond_card;
  const Bytes reserved = m.reserved().value_or(Bytes{});
  if (m.allowed && reserved + m.asked > *m.allowed && free >= m.asked) return OomCause::limit;
  if (free >= m.asked) return OomCause::enough_free;
  // Older messages do not tell other processes from the context and NCCL: a tenth of the GPU is more than
  // these.
  const Bytes others = reading.others.value_or(Bytes{}), cached = m.unallocated.value_or(Bytes{});
  const double worth = reading.reserved_is_old ? kLarge : kWorthTelling;
  const bool strangers = free + others >= m.asked && ratio(others, card) >= worth;
  const bool gaps = free + cached >= m.asked && ratio(cached, card) >= kWorthTelling;
  if (strangers && (!gaps || others > cached)) return OomCause::other_processes;
  if (gaps) return OomCause::fragmentation;
  return ratio(m.asked, card) >= kLarge ? OomCause::large_block : OomCause::full;
}

std::string held_sentence(const OomReading& reading, ByteUnit unit) {
  const OomMessage& m = reading.message;
  std::string text;
  const auto add = [&](const std::optional<Bytes>& size, std::string_view what) {
    if (size) text += fmt::format("{}{} {}", text.empty() ? "held: " : ", ", format_bytes(*size, unit), what);
  };
  add(m.allocated, "in tensors");
  add(m.private_pools, "of them in CUDA graphs' pools");
  add(m.unallocated, "cached by PyTorch and not in use");
  add(reading.outside, "by this process outside PyTorch (CUDA context, NCCL, other libraries)");
  add(reading.others, reading.reserved_is_old ? "outside PyTorch: CUDA context, NCCL and other processes"
                                              : "by other processes");
  return text;
}

std::string cause_sentence(const OomReading& reading, ByteUnit unit) {
  const OomMessage& m = reading.message;
  const auto size = [unit](Bytes bytes) { return format_bytes(bytes, unit); };
  const Bytes free = m.free.value_or(Bytes{});
  switch (reading.cause) {
    case OomCause::beyond_card:
      return fmt::format(
          "one block of {} is more than the {} that there are: it has to become smaller, whatever else is "
          "freed",
          size(m.asked), size(card_of(m)));
    case OomCause::limit:
      return fmt::format(
          "the GPU has memory free, but this process may take only {} (set_per_process_memory_fraction)",
          size(*m.allowed));
    case OomCause::enough_free:
      return fmt::format(
          "{} were free, enough for it: freed again before the message was made, or kept back by the "
          "system (a limit of WSL, Windows or ROCm)",
          size(free));
    case OomCause::other_processes:
      return reading.reserved_is_old
                 ? fmt::format(
                       "{} are held outside PyTorch, more than a CUDA context and NCCL take: another process "
                       "is on this GPU; without it the block would fit",
                       size(*reading.others))
                 : fmt::format("other processes hold {}: without them the block would fit",
                               size(*reading.others));
    case OomCause::fragmentation:
      return fmt::format(
          "fragmentation: {} are cached and not in use, in pieces that are too small; with the {} that are "
          "free they would be enough",
          size(*m.unallocated), size(free));
    case OomCause::large_block:
      return fmt::format(
          "one large block, {} of the GPU: logits (micro-batch x sequence x vocabulary), a whole "
          "gradient or gathered embedding, or states made in the first optimizer step are of such a size",
          format_percent(ratio(m.asked, card_of(m))));
    case OomCause::full:
      return "the GPU is full of what this process holds: the block that failed is small and only the last "
             "of many";
    case OomCause::unsaid:
      return "the message does not say how large the GPU is and what it holds: --gpu or --mem with --model "
             "does";
    case OomCause::cuda:
      return "a call of CUDA outside PyTorch's allocator found no memory: the context, a library's "
             "workspace, "
             "or pinned host memory; PyTorch's cache may hold what it needs";
    case OomCause::nccl:
      return "NCCL found no memory for its buffers, which lie outside PyTorch: some hundred MiB for each "
             "communicator; PyTorch's cache held the rest of the GPU";
    case OomCause::engine:
      return "when vLLM started, less was free than the share that it was given (gpu_memory_utilization, 0.9 "
             "of the whole GPU by default): training, or another process, held the rest";
    case OomCause::cache:
      return "of vLLM's share nothing, or too little for one sequence of the longest length, was left for "
             "keys "
             "and values: its weights and a profiling run took it";
    case OomCause::sleep:
      return "vLLM woke from sleep (its allocator cumem) and found less free than it had put aside: what "
             "training holds at that moment, and PyTorch's cache, have to leave room for the engine";
    case OomCause::host:
      return "the host ran out of memory, not the GPU: the system (or the limit of a container, a job, a "
             "cgroup) ended a process with signal 9, or an allocation failed; dmesg or the scheduler's log "
             "says which";
    default: break;  // differences from a plan say it themselves
  }
  return "";
}

/// "GPU 1 of 44.4 GiB, rank 1: asked for 2.00 GiB where 512.0 MiB were free".
std::string asked_sentence(const OomMessage& m, ByteUnit unit) {
  if (m.source != OomSource::pytorch)
    return fmt::format("{}{}, line {}", m.asked_text, m.rank ? fmt::format(", rank {}", *m.rank) : "",
                       m.line);
  std::string text =
      m.gpu ? fmt::format("{} {}", m.device == "XPU" ? "XPU" : "GPU", *m.gpu) : std::string("a GPU");
  if (m.capacity) text += fmt::format(" of {}", format_bytes(*m.capacity, unit));
  if (m.rank) text += fmt::format(", rank {}", *m.rank);
  text += fmt::format(": asked for {}", format_bytes(m.asked, unit));
  if (m.free) text += fmt::format(" where {} were free", format_bytes(*m.free, unit));
  return text;
}

/// Returns what a small size in a message means: PyTorch allocates small blocks in segments.
std::optional<std::string> segment_sentence(const OomMessage& m) {
  if (m.asked_text == "2.00 MiB") return "2.00 MiB are a segment for blocks of up to 1 MiB";
  if (m.asked_text == "20.00 MiB")
    return "20.00 MiB are a segment for blocks of 1 to 10 MiB, or one block of that size";
  return std::nullopt;
}

}  // namespace

OomReading read_oom(const OomMessage& message, ByteUnit unit) {
  OomReading reading;
  reading.message = message;
  take_shares(reading);
  reading.cause = cause_of(reading);
  reading.sentences.push_back(asked_sentence(message, unit));
  if (const auto segment = segment_sentence(message)) reading.sentences.push_back(*segment);
  if (std::string held = held_sentence(reading, unit); !held.empty())
    reading.sentences.push_back(std::move(held));
  reading.sentences.push_back(cause_sentence(reading, unit));
  return reading;
}

std::vector<OomCause> causes_of(const OomReading& reading) {
  const OomMessage& m = reading.message;
  std::vector<OomCause> causes{reading.cause};
  if (m.source != OomSource::pytorch || (!m.capacity && !m.allowed)) return causes;
  const Bytes card = card_of(m), free = m.free.value_or(Bytes{});
  const auto add = [&](OomCause cause, Bytes held) {
    const bool is_new = std::ranges::find(causes, cause) == causes.end();
    if (is_new && free + held >= m.asked && ratio(held, card) >= kWorthTelling) causes.push_back(cause);
  };
  if (!reading.reserved_is_old || ratio(reading.others.value_or(Bytes{}), card) >= kLarge)
    add(OomCause::other_processes, reading.others.value_or(Bytes{}));
  add(OomCause::fragmentation, m.unallocated.value_or(Bytes{}));
  return causes;
}

Bytes taken_by_others(const OomReading& reading, Bytes usable) {
  const Bytes others = reading.reserved_is_old ? Bytes{} : reading.others.value_or(Bytes{});
  const Bytes beyond = reading.message.allowed ? usable - *reading.message.allowed : Bytes{};
  return std::clamp(std::max(others, beyond), Bytes{}, usable);
}

Bytes pool_of(const Question& q, const Strategy& s, const OomReading& reading) {
  const auto reserved = reading.message.reserved();
  if (reserved && reading.message.free && !reading.message.allowed) return *reserved + *reading.message.free;
  const Bytes allowance = outside_allocator(s, q.cluster.gpu.compute_capability, q.cluster.gpus_per_node) +
                          engine_resident(q.training, q.cluster.usable_memory);
  const Bytes card = reading.message.capacity.value_or(q.cluster.usable_memory);
  const Bytes others = reading.others.value_or(Bytes{});
  Bytes pool = card - (reading.reserved_is_old ? std::max(others, allowance)
                                               : others + reading.outside.value_or(allowance));
  if (reading.message.allowed) pool = std::min(pool, *reading.message.allowed);
  return std::max(pool, Bytes(1));
}

RankRun run_of(const Question& q, const Strategy& s, const OomMessage& message) {
  const std::int64_t rank = message.rank.value_or(message.gpu.value_or(0));
  const ProcessGroup data = process_group(s.layout, Group::data);
  const std::int64_t data_rank = std::min(rank / data.stride, data.size - 1);
  return {q.model, q.training, s, RankRun::target_of(q.cluster), data_rank * data.stride};
}

namespace {

/// Blocks whose message would print the same size.
std::vector<OomMatch> matches_of(const std::vector<BlockRequest>& requests, const OomMessage& message) {
  std::map<std::tuple<Term, Phase, std::string_view>, OomMatch> found;
  for (const BlockRequest& each : requests) {
    if (torch_size(asked_of_device(each.size)) != message.asked_text) continue;
    OomMatch& match = found[{each.term, each.phase, each.at}];
    const Bytes least = match.times == 0 ? each.size : std::min(match.size, each.size);
    match = {each.term, each.phase, each.at, match.times + 1, least};
  }
  std::vector<OomMatch> matches;
  for (const auto& [key, match] : found) matches.push_back(match);
  std::stable_sort(matches.begin(), matches.end(),
                   [](const OomMatch& a, const OomMatch& b) { return a.times > b.times; });
  return matches;
}

}  // namespace

OomReplay replay_oom(const Question& q, const Strategy& s, const OomReading& reading) {
  const OomMessage& message = reading.message;
  const RankRun refused = run_of(q, s, message);
  std::vector<BlockRequest> requests;
  RunInputs run = refused.inputs();
  run.requests = &requests;
  OomReplay replay;
  replay.pool = pool_of(q, s, reading);
  run.outside = message.capacity.value_or(q.cluster.usable_memory) - replay.pool;
  const RunResult pressed = simulate_within(run, replay.pool);
  replay.completes = pressed.completed;
  if (!pressed.completed && !requests.empty()) replay.refused = requests.back();
  replay.initialising = replay.refused && replay.refused->phase == Phase::initialisation;
  requests.clear();
  static_cast<void>(simulate(run));
  replay.matches = matches_of(requests, message);
  return replay;
}

// ---- changes against the error, each planned

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

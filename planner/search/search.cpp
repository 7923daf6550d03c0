#include "planner/search/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/search/why.h"

namespace zplan {

namespace {

constexpr std::int64_t kLargestMicroBatch = 65536;

/// Rank models differ by tensor-parallel degree only: made once each.
class RankModels {
 public:
  explicit RankModels(const Question& question) : question_(question) {}
  const RankModel& of(std::int64_t tensor_parallel) {
    const auto [at, missing] = made_.try_emplace(tensor_parallel);
    if (missing) at->second = rank_model(question_.model, question_.training, tensor_parallel);
    return at->second;
  }

 private:
  const Question& question_;
  std::map<std::int64_t, RankModel> made_;
};

Plan plan_one(const Question& q, RankModels& ranks, const Strategy& strategy) {
  return make_plan(q.model, q.cluster, q.training, strategy, ranks.of(strategy.tensor_parallel), q.headroom);
}

std::vector<std::int64_t> tensor_parallel_degrees(const Question& q) {
  if (!q.space.tensor_parallel.empty()) return q.space.tensor_parallel;
  std::vector<std::int64_t> degrees{1};
  for (std::int64_t t = 2; t <= std::min<std::int64_t>(8, q.cluster.gpus_per_node); t *= 2)
    if (q.cluster.gpus % t == 0) degrees.push_back(t);
  return degrees;
}

std::vector<Offload> offloads(const Question& q) {
  if (!q.space.offloads.empty()) return q.space.offloads;
  using enum OffloadDevice;
  return {{none, none}, {cpu, none}, {cpu, cpu}};
}

/// Left open, the search spares the reader combinations that nobody would take: they are not rejected, just
/// not tried.
bool worth_trying(const Question& q, const Strategy& s) {
  const bool open_offload = q.space.offloads.empty();
  if (open_offload && s.offload_parameters != OffloadDevice::none && s.zero_stage < 3) return false;
  if (open_offload && s.offload_optimizer != OffloadDevice::none && s.zero_stage < 2) return false;
  const bool open_degree = q.space.tensor_parallel.empty();
  if (open_degree && s.tensor_parallel > 1)
    return why_illegal(q.model, q.training, s, q.cluster.gpus).empty() && s.zero_stage < 3;
  return true;
}

/// Accumulation steps from what was given; InputError where the global batch cannot be made of whole
/// micro-batches.
std::int64_t accumulation_steps(const Question& q, const Strategy& s) {
  const SearchSpace& space = q.space;
  if (!space.global_batch_size) return space.gradient_accumulation_steps.value_or(1);
  const std::int64_t per_step = s.micro_batch_size * s.data_parallel;
  const std::int64_t global = *space.global_batch_size;
  if (global % per_step != 0) return 0;
  return global / per_step;
}

std::string batch_mismatch(const Question& q, const Strategy& s) {
  return fmt::format("a global batch of {} is not a multiple of micro-batch {} x {} data-parallel ranks",
                     *q.space.global_batch_size, s.micro_batch_size, s.data_parallel);
}

void set_batch(const Question& q, Strategy& s, std::int64_t micro_batch) {
  s.micro_batch_size = micro_batch;
  s.gradient_accumulation_steps = std::max<std::int64_t>(1, accumulation_steps(q, s));
}

/// Fits first; among those, faster first; among the others, the one that needs least first.
bool better(const Plan& a, const Plan& b) {
  if (a.fits != b.fits) return a.fits;
  const auto key = [](const Plan& p) {
    return std::tuple(p.fits ? -p.time.tokens_per_second : static_cast<double>(p.memory.required.value),
                      p.strategy.zero_stage, p.strategy.tensor_parallel);
  };
  return key(a) < key(b);
}

std::vector<Plan> plan_all(const Question& q, const std::vector<Strategy>& strategies) {
  RankModels ranks(q);
  std::vector<Plan> plans;
  plans.reserve(strategies.size());
  for (const Strategy& strategy : strategies) {
    Strategy sized = strategy;
    if (!q.space.micro_batch_size)
      if (const auto most = largest_micro_batch(q, strategy)) set_batch(q, sized, *most);
    plans.push_back(plan_one(q, ranks, sized));
  }
  std::stable_sort(plans.begin(), plans.end(), better);
  return plans;
}

struct Wider {
  Question question;
  std::string change;
};

/// Questions that loosen what was pinned, least change first.
std::vector<Wider> wider_questions(const Question& q) {
  std::vector<Wider> wider;
  Question open = q;
  open.space.zero_stages.clear(), open.space.tensor_parallel.clear(), open.space.offloads.clear();
  if (!(open.space == q.space)) wider.push_back({open, "another strategy"});
  if (open.space.checkpointing != Checkpointing::full) {
    open.space.checkpointing = Checkpointing::full;
    wider.push_back({open, "--checkpointing full"});
  }
  if (q.training.method == Method::full) {
    open.training.method = Method::lora;
    wider.push_back({open, "--method lora"});
  }
  if (q.training.method != Method::qlora) {
    open.training.method = Method::qlora;
    wider.push_back({open, "--method qlora"});
  }
  return wider;
}

void find_alternative(const Question& q, Answer& result) {
  for (const Wider& wider : wider_questions(q)) {
    std::vector<Plan> plans = plan_all(wider.question, candidates(wider.question).legal);
    if (plans.empty() || !plans.front().fits) continue;
    result.alternative = std::move(plans.front());
    result.alternative->why = why(*result.alternative, wider.question);
    result.alternative_change = wider.change;
    return;
  }
}

void warn(const Question& q, Answer& result) {
  if (!q.training.master_weights && q.training.precision != Precision::fp32)
    result.warnings.emplace_back(
        "without master weights the optimizer's states are counted at 8 B per parameter (fp32 moments); "
        "DeepSpeed's "
        "bf16_master_weights_and_grads with bf16_optimizer_states needs 6 B");
  if (!result.plans.empty() && !result.plans.front().measured_activations)
    result.warnings.push_back(
        fmt::format("the activations of {} are derived by analogy with measured architectures, not measured",
                    q.model.shape.architecture));
  if (!matrix_peak(q.cluster.gpu, q.training.precision))
    result.warnings.push_back(fmt::format("{} has no hardware for {}: times assume its fp32 rate",
                                          q.cluster.gpu.name, to_name(q.training.precision)));
}

/// What was pinned leaves nothing: each reason once, with a combination that it rules out.
[[noreturn]] void fail_without_candidates(const Candidates& found) {
  std::vector<std::string> reasons, told;
  for (const Rejection& each : found.rejected)
    for (const std::string& reason : each.reasons) {
      if (std::find(told.begin(), told.end(), reason) != told.end()) continue;
      told.push_back(reason);
      reasons.push_back(fmt::format("{}: {}", strategy_id(each.strategy), reason));
    }
  throw InputError("--zero, --tp, --offload", "no legal combination",
                   fmt::format("{}", fmt::join(reasons, "; ")));
}

}  // namespace

Candidates candidates(const Question& q) {
  Candidates found;
  const std::vector<int> all_stages{0, 1, 2, 3};
  for (const std::int64_t t : tensor_parallel_degrees(q))
    for (const int stage : q.space.zero_stages.empty() ? all_stages : q.space.zero_stages)
      for (const Offload offload : offloads(q)) {
        Strategy s{.zero_stage = stage,
                   .tensor_parallel = t,
                   .data_parallel = std::max<std::int64_t>(1, q.cluster.gpus / t),
                   .offload_optimizer = offload.optimizer,
                   .offload_parameters = offload.parameters,
                   .checkpointing = q.space.checkpointing,
                   .micro_batch_size = q.space.micro_batch_size.value_or(1),
                   .zero = q.space.zero.value_or(zero_options(q.space.buckets, q.model.shape.hidden_size))};
        if (!worth_trying(q, s)) continue;
        std::vector<std::string> reasons = why_illegal(q.model, q.training, s, q.cluster.gpus);
        s.gradient_accumulation_steps = accumulation_steps(q, s);
        if (s.gradient_accumulation_steps == 0) reasons.push_back(batch_mismatch(q, s));
        if (reasons.empty())
          found.legal.push_back(s);
        else
          found.rejected.push_back({s, std::move(reasons)});
      }
  return found;
}

std::optional<std::int64_t> largest_micro_batch(const Question& q, const Strategy& strategy) {
  RankModels ranks(q);
  const auto fits = [&](std::int64_t micro_batch) {
    Strategy s = strategy;
    s.micro_batch_size = micro_batch;
    if (q.space.global_batch_size && accumulation_steps(q, s) == 0) return false;
    set_batch(q, s, micro_batch);
    return plan_one(q, ranks, s).fits;
  };
  // With a global batch only its divisors are possible, so bisection would skip some: walk down from the
  // largest.
  if (q.space.global_batch_size) {
    for (std::int64_t b = *q.space.global_batch_size / strategy.data_parallel; b >= 1; --b)
      if (*q.space.global_batch_size % (b * strategy.data_parallel) == 0 && fits(b)) return b;
    return std::nullopt;
  }
  if (!fits(1)) return std::nullopt;
  std::int64_t low = 1, high = 2;
  while (high <= kLargestMicroBatch && fits(high)) low = high, high *= 2;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

Answer answer(const Question& q) {
  const SearchSpace& space = q.space;
  if (space.global_batch_size && space.gradient_accumulation_steps && space.micro_batch_size) {
    const std::int64_t dp =
        q.cluster.gpus / (space.tensor_parallel.size() == 1 ? space.tensor_parallel.front() : 1);
    if (*space.micro_batch_size * *space.gradient_accumulation_steps * dp != *space.global_batch_size)
      throw InputError("--global-batch",
                       fmt::format("{} is not micro-batch {} x accumulation {} x {} data-parallel ranks",
                                   *space.global_batch_size, *space.micro_batch_size,
                                   *space.gradient_accumulation_steps, dp),
                       fmt::format("accepted here: {}",
                                   *space.micro_batch_size * *space.gradient_accumulation_steps * dp));
  }
  Candidates found = candidates(q);
  if (found.legal.empty()) fail_without_candidates(found);
  Answer result;
  result.plans = plan_all(q, found.legal);
  result.rejected = std::move(found.rejected);
  for (Plan& plan : result.plans) plan.why = why(plan, q);
  if (!result.fits()) find_alternative(q, result);
  warn(q, result);
  return result;
}

}  // namespace zplan

#include "planner/explain/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "planner/accuracy.h"
#include "planner/frameworks/framework.h"
#include "planner/moments/rollout.h"
#include "planner/plan_context.h"
#include "planner/rank_run.h"
#include "planner/search/first.h"
#include "planner/search/plan_figures.h"
#include "planner/search/run_cost.h"

namespace zplan {

namespace {

std::string size_text(Bytes size, const Question& q) { return format_bytes(size, q.unit); }

/// The two parts that hold most at the peak: "28.4 GiB optimizer states and 14.9 GiB parameters".
std::string largest_parts(const Plan& plan, const Question& q) {
  std::vector<MemoryPart> parts;
  for (const auto& [part, name] : EnumNames<MemoryPart>::table) parts.push_back(part);
  const Composition& holds = plan.memory.peak.holds;
  std::stable_sort(parts.begin(), parts.end(),
                   [&](MemoryPart a, MemoryPart b) { return holds.part(a) > holds.part(b); });
  const auto words = [](MemoryPart part) {
    std::string name(to_name(part));
    std::replace(name.begin(), name.end(), '_', ' ');
    return name;
  };
  return fmt::format("{} {} and {} {}", size_text(holds.part(parts[0]), q), words(parts[0]),
                     size_text(holds.part(parts[1]), q), words(parts[1]));
}

/// GPUs in a node like these: as many as there are where there are several nodes, else at least the usual
/// number.
std::int64_t node_size(const Question& q) {
  const Cluster& cluster = q.cluster;
  return cluster.nodes > 1 ? cluster.gpus_per_node : std::max(cluster.node.usual_gpus, cluster.gpus_per_node);
}

std::string phase_words(const Peak& peak) {
  return peak.layer >= 0 ? fmt::format("{}, {} {}", to_name(reported(peak.phase)), peak.at, peak.layer)
                         : fmt::format("{}, {}", to_name(reported(peak.phase)), peak.at);
}

std::string device_verdict(const Plan& plan, const Question& q) {
  const Bytes missing = shortage(plan, q);
  const Bytes limit = available(q.cluster, q.headroom);
  if (missing.value <= 0)
    return fmt::format("needs {} of {} available per GPU: {} to spare", size_text(plan.memory.required, q),
                       size_text(limit, q), size_text(limit - plan.memory.required, q));
  return fmt::format("short by {} per GPU: needs {} of {} available", size_text(missing, q),
                     size_text(plan.memory.required, q), size_text(limit, q));
}

/// Which replicated state is to blame where a lower stage does not fit.
std::optional<std::string> replication(const Plan& plan, const Question& q) {
  const Strategy& s = plan.strategy;
  if (s.zero_stage == 3 || s.layout.gradient_ranks() == 1) return std::nullopt;
  return spec(plan.framework).replication(plan, q);
}

/// Where the steps fit, the moment beside them at which memory does not suffice, with what would help.
std::optional<std::string> moment_verdict(const Plan& plan, const Question& q) {
  const MomentMemory* found = short_moment(plan, q);
  if (shortage(plan, q).value > 0 || host_shortage(plan, q).value > 0 || found == nullptr)
    return std::nullopt;
  const Bytes device = available(q.cluster, q.headroom), host = available_on_host(q.cluster, q.headroom);
  const bool on_host = found->host > host;
  const Bytes needed = on_host ? found->host : found->device, limit = on_host ? host : device;
  const auto largest = std::ranges::max_element(found->parts, {}, [&](const Resident& each) {
    return on_host ? each.host * q.cluster.gpus_per_node + each.host_of_first : each.device;
  });
  return fmt::format("{} needs {} {}, {} more than the {} available ({}){}{}", moment_words(found->moment),
                     size_text(needed, q), on_host ? "of host memory per node" : "per GPU",
                     size_text(needed - limit, q), size_text(limit, q),
                     largest == found->parts.end() ? std::string_view("what offload keeps") : largest->name,
                     found->remedy.empty() ? "" : "; less needs ", found->remedy);
}

/// How long the run takes and what it costs, with how far off such speeds were.
std::optional<std::string> cost_sentence(const Plan& plan, const Question& q) {
  const auto cost = run_cost(plan, q);
  if (!cost) return std::nullopt;
  const Ends wall = cost->speeds.of_time(cost->wall.value);
  std::string text = fmt::format(
      "{} steps take {} ({} to {}, the range that held {} % of {} comparable runs)", cost->steps,
      duration_text(cost->wall), duration_text(Seconds(wall.low)), duration_text(Seconds(wall.high)),
      std::lround(100 * LikelyRange::kShare), cost->speeds.runs);
  text += fmt::format(": {} GPU-hours", amount_text(cost->gpu_hours));
  if (!cost->money) return text;
  text += fmt::format(", {} at {} per GPU-hour", amount_text(*cost->money), amount_text(*q.budget.price));
  const Ends money = cost->speeds.of_time(*cost->money);
  return text + fmt::format(" ({} to {})", amount_text(money.low), amount_text(money.high));
}

std::string host_verdict(const Plan& plan, const Question& q) {
  return fmt::format("needs {} of host memory per node, {} more than the {} available",
                     size_text(plan.memory.host.total, q), size_text(host_shortage(plan, q), q),
                     size_text(available_on_host(q.cluster, q.headroom), q));
}

void say_what_would_fit(const Plan& plan, const Question& q, PlanContext& context,
                        std::vector<std::string>& sentences) {
  constexpr std::int64_t kMostGpus = 1024;
  constexpr Bytes kLargestCard = kGiB * 1024;
  const Bytes card = round_up(smallest_card(plan, q), kGiB.value);
  if (host_shortage(plan, q).value > 0 || card > kLargestCard) return;
  std::string remedy = fmt::format("would fit on GPUs of {}", size_text(card, q));
  const bool near = shortage(plan, q) < available(q.cluster, q.headroom);
  if (const auto gpus = near ? fewest_gpus(plan, q, context, kMostGpus) : std::nullopt) {
    remedy += fmt::format(", or on {} GPUs like these", *gpus);
    if (const std::int64_t nodes = *gpus / node_size(q); *gpus > node_size(q))
      remedy += fmt::format(" in {} nodes", nodes);
  }
  sentences.push_back(remedy);
}

std::string likely_peak(const Plan& plan, const Question& q) {
  const LikelyRange range = likely_range(AccuracyOf::memory, comparable_to(plan, q));
  const Ends peak = range.around(static_cast<double>(plan.memory.required.value));
  const auto size = [&](double bytes) { return size_text(Bytes(std::llround(bytes)), q); };
  return fmt::format("the range that held {} % of {} comparable peaks is {} to {}",
                     std::lround(100 * LikelyRange::kShare), range.runs, size(peak.low), size(peak.high));
}

std::string speed(const Plan& plan, const Question& q) {
  const StepTime& time = plan.time;
  const double share_of_step = [&] {
    switch (time.bound) {
      case Bound::compute: return ratio(time.compute, time.step);
      case Bound::launching: return ratio(time.launching, time.step);
      case Bound::communication: return ratio(time.exposed_communication, time.step);
      case Bound::offload: return ratio(time.offload, time.step);
      case Bound::optimizer: return ratio(time.optimizer, time.step);
      case Bound::generation: return ratio(time.generation, time.step);
    }
    return 0.0;
  }();
  if (generates(q.training))
    return fmt::format("a step takes about {}, {} of it {}", format_seconds(time.step),
                       format_percent(share_of_step), to_name(time.bound));
  const LikelyRange range = likely_range(AccuracyOf::step_time, comparable_to(plan, q));
  const Ends step = range.of_time(time.step.value);
  return fmt::format(
      "a step takes about {}, {} of it {}; the range that held {} % of {} comparable runs is {} to {}",
      format_seconds(time.step), format_percent(share_of_step), to_name(time.bound),
      std::lround(100 * LikelyRange::kShare), range.runs, format_seconds(Seconds(step.low)),
      format_seconds(Seconds(step.high)));
}

/// What dividing experts changes, and what it does not.
std::optional<std::string> expert_parallelism(const Plan& plan, const Question& q) {
  const Strategy& s = plan.strategy;
  if (s.layout.expert == 1 || !q.model.shape.experts) return std::nullopt;
  const double all = static_cast<double>(elements(q.model.inventory, TensorRole::expert).value);
  const auto weights = [&](double count) {
    return size_text(weight_size(q.training) * static_cast<std::int64_t>(count), q);
  };
  const double own = all / static_cast<double>(s.layout.expert);
  if (s.zero_stage == 3)
    return fmt::format(
        "ZeRO-3 holds as much with any expert-parallel degree; {} makes a rank gather {} of experts' weights "
        "instead of {}, and send tokens instead",
        s.layout.expert,
        process_group(s.layout, Group::expert_data).size == 1 ? std::string("none") : weights(own),
        weights(all));
  return fmt::format(
      "expert parallel {} leaves {} of experts' weights on a GPU instead of {}; their optimizer states are "
      "{}",
      s.layout.expert, weights(own), weights(all),
      s.zero_stage == 0 ? "those of a rank's own experts" : "sharded over all ranks either way");
}

/// The phase that needs most of a GPU, of a step that generates, too.
std::optional<std::string> worst_phase(const Plan& plan, const Question& q) {
  if (!generates(plan.training ? *plan.training : q.training)) return std::nullopt;
  const MomentMemory* worst = nullptr;
  for (const MomentMemory& each : plan.moments) {
    const bool is_phase = each.moment > RunMoment::load && each.moment != RunMoment::evaluation &&
                          each.moment < RunMoment::save_model;
    if (is_phase && (worst == nullptr || each.device > worst->device)) worst = &each;
  }
  if (worst == nullptr) return std::nullopt;
  return fmt::format("of its phases {} takes most of a GPU: {}", moment_words(worst->moment),
                     size_text(worst->device, q));
}

/// What generation takes of a step, and how much of it runs at once.
std::optional<std::string> generation_sentence(const Plan& plan, const Question& q) {
  const Training& training = plan.training ? *plan.training : q.training;
  if (!generates(training)) return std::nullopt;
  const double part = ratio(plan.time.generation, plan.time.step);
  const std::string time = fmt::format(
      "generation takes {} of the step, by arithmetic alone: no engine was measured", format_percent(part));
  if (training.rollout.engine == RolloutEngine::trainer)
    return time + "; the trainer's own generation takes longer than that";
  const EngineMemory engine = engine_memory(q.model, training, plan.strategy, q.cluster.usable_memory);
  return fmt::format("{}; vLLM has {} for keys and values, {} of {} sequences at once", time,
                     format_bytes(engine.room(), q.unit), engine.at_once(), engine.wanted);
}

}  // namespace

std::string_view moment_words(RunMoment moment) {
  switch (moment) {
    case RunMoment::load: return "loading the model";
    case RunMoment::weight_sync: return "handing weights to the engine";
    case RunMoment::scoring: return "scoring completions";
    case RunMoment::training: return "training";
    case RunMoment::evaluation: return "evaluation";
    case RunMoment::generation: return "generation";
    case RunMoment::save_model: return "saving the model";
    case RunMoment::save_checkpoint: return "saving a checkpoint";
  }
  return "";
}

std::string amount_text(double amount) { return fmt::format("{:.{}f}", amount, amount < 100 ? 2 : 0); }

std::string duration_text(Seconds time) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (time.value < kMinute * 2) return fmt::format("{:.0f} s", time.value);
  if (time.value < kHour * 2) return fmt::format("{:.0f} min", time.value / kMinute);
  if (time.value < kDay * 2) return fmt::format("{:.1f} h", time.value / kHour);
  return fmt::format("{:.1f} days", time.value / kDay);
}

Bytes smallest_card(const Plan& plan, const Question& q) {
  const Bytes kept_by_driver = q.cluster.memory - q.cluster.usable_memory;
  const double needed = static_cast<double>(plan.memory.required.value) / (1 - q.headroom.fraction);
  Bytes usable(static_cast<std::int64_t>(std::ceil(needed)));
  if (plan.memory.failing_start.contains(usable)) usable = plan.memory.failing_start.until;
  return usable + kept_by_driver;
}

std::optional<std::int64_t> fewest_gpus(const Plan& plan, const Question& q, PlanContext& context,
                                        std::int64_t most) {
  if (plan.strategy.zero_stage == 0) return std::nullopt;
  // Experts are divided among as many ranks on more GPUs, too.
  const std::int64_t t = std::lcm(plan.strategy.layout.of_model().world(), plan.strategy.layout.expert);
  const Bytes limit = available(q.cluster, q.headroom);
  const auto on = [&](std::int64_t gpus) {
    Strategy more = plan.strategy;
    more.layout = more.layout.filling(gpus);
    return more;
  };
  // The first of low + step, low + 2·step, … up to high that fits: the allocator is asked from where on what
  // is live leaves it open.
  const auto first = [&](std::int64_t low, std::int64_t high,
                         std::int64_t step) -> std::optional<std::int64_t> {
    const std::int64_t count = (high - low) / step;
    const auto gpus = [&](std::int64_t i) { return low + (i + 1) * step; };
    std::map<std::int64_t, std::optional<WorstRank>> live;
    const auto may_fit = [&](std::int64_t i) -> const std::optional<WorstRank>& {
      const auto [place, is_new] = live.try_emplace(i);
      if (is_new) place->second = context.may_fit(on(gpus(i)), limit);
      return place->second;
    };
    const std::int64_t open = first_that(count, [&](std::int64_t i) { return may_fit(i).has_value(); });
    const std::int64_t found = open + first_that(count - open, [&](std::int64_t i) {
                                 const std::optional<WorstRank>& worst = may_fit(open + i);
                                 return worst && context.fits_device(*worst);
                               });
    return found < count ? std::optional(gpus(found)) : std::nullopt;
  };
  // Within one node a tensor-parallel group at a time; beyond it whole nodes.
  const std::int64_t node = node_size(q);
  std::int64_t low = q.cluster.gpus;
  if (q.cluster.nodes == 1 && node > low && node % t == 0) {
    if (const auto inside = first(low, node, t)) return inside;
    low = node;
  }
  if (low >= most || low % node != 0 || node % t != 0) return std::nullopt;
  return first(low, most, node);
}

std::vector<std::string> why(const Plan& plan, const Question& q, PlanContext& context) {
  std::vector<std::string> sentences{device_verdict(plan, q)};
  // An engine's share is as it is given; comparable peaks are of training alone.
  if (plan.fits && !generates(q.training)) sentences.push_back(likely_peak(plan, q));
  if (const auto blame = replication(plan, q)) sentences.push_back(*blame);
  sentences.push_back(
      fmt::format("the peak is in the {}: {}", phase_words(plan.memory.peak), largest_parts(plan, q)));
  if (const auto phase = worst_phase(plan, q)) sentences.push_back(*phase);
  if (plan.memory.failing_start.contains(q.cluster.usable_memory))
    sentences.emplace_back(
        "as it starts DeepSpeed copies the weights on the GPU where it takes that for large enough, and "
        "this one is not quite: with nvidia-ml-py installed it sees that, and copies them on the host");
  if (const auto divided = expert_parallelism(plan, q)) sentences.push_back(*divided);
  if (host_shortage(plan, q).value > 0) sentences.push_back(host_verdict(plan, q));
  if (const auto moment = moment_verdict(plan, q)) sentences.push_back(*moment);
  if (shortage(plan, q).value > 0) say_what_would_fit(plan, q, context, sentences);
  if (plan.fits) sentences.push_back(speed(plan, q));
  if (const auto generated = generation_sentence(plan, q)) sentences.push_back(*generated);
  if (const auto cost = cost_sentence(plan, q)) sentences.push_back(*cost);
  return sentences;
}

}  // namespace zplan

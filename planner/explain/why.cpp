#include "planner/explain/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/plan.h"

namespace zplan {

namespace {

/// SizeText formats bytes in the question's unit.
struct SizeText {
  ByteUnit unit;
  std::string operator()(Bytes size) const { return format_bytes(size, unit); }
};

/// The two parts that hold most at the peak: "28.4 GiB optimizer states and 14.9 GiB parameters".
std::string largest_parts(const Plan& plan, const SizeText& size) {
  std::vector<MemoryPart> parts;
  for (const auto& [part, name] : EnumNames<MemoryPart>::table) parts.push_back(part);
  const Composition& holds = plan.memory().peak.holds;
  std::stable_sort(parts.begin(), parts.end(),
                   [&](MemoryPart a, MemoryPart b) { return holds.part(a) > holds.part(b); });
  const auto words = [](MemoryPart part) {
    std::string name(to_name(part));
    std::replace(name.begin(), name.end(), '_', ' ');
    return name;
  };
  return fmt::format("{} {} and {} {}", size(holds.part(parts[0])), words(parts[0]),
                     size(holds.part(parts[1])), words(parts[1]));
}

std::string phase_words(const Peak& peak) {
  return peak.layer >= 0 ? fmt::format("{}, {} {}", to_name(reported(peak.phase)), peak.at, peak.layer)
                         : fmt::format("{}, {}", to_name(reported(peak.phase)), peak.at);
}

std::string device_verdict(const Plan& plan, const Findings& found, const SizeText& size) {
  if (found.missing.value <= 0)
    return fmt::format("needs {} of {} available per GPU: {} to spare", size(plan.memory().required),
                       size(found.available), size(found.available - plan.memory().required));
  return fmt::format("short by {} per GPU: needs {} of {} available", size(found.missing),
                     size(plan.memory().required), size(found.available));
}

/// Returns which moment beside the steps runs out of memory where the steps fit, and what would help.
std::optional<std::string> moment_verdict(const Findings& found, const SizeText& size) {
  const MomentMemory* at = found.short_moment;
  if (found.missing.value > 0 || found.host_missing.value > 0 || at == nullptr) return std::nullopt;
  const bool on_host = at->host > found.host_available;
  const Bytes needed = on_host ? at->host : at->device,
              limit = on_host ? found.host_available : found.available;
  const auto largest = std::ranges::max_element(at->parts, {}, [&](const Resident& each) {
    return on_host ? each.host * found.gpus_per_node + each.host_of_first : each.device;
  });
  return fmt::format("{} needs {} {}, {} more than the {} available ({}){}{}", moment_words(at->moment),
                     size(needed), on_host ? "of host memory per node" : "per GPU", size(needed - limit),
                     size(limit),
                     largest == at->parts.end() ? std::string_view("what offload keeps") : largest->name,
                     at->remedy.empty() ? "" : "; less needs ", at->remedy);
}

/// Returns how long the run takes and what it costs, with the range of comparable runs.
std::string cost_sentence(const RunCost& cost) {
  const Ends wall = cost.speeds.of_time(cost.wall.value);
  std::string text = fmt::format(
      "{} steps take {} ({} to {}, the range that held {} % of {} comparable runs)", cost.steps,
      duration_text(cost.wall), duration_text(Seconds(wall.low)), duration_text(Seconds(wall.high)),
      std::lround(100 * LikelyRange::kShare), cost.speeds.runs);
  text += fmt::format(": {} GPU-hours", amount_text(cost.gpu_hours));
  if (!cost.money) return text;
  text += fmt::format(", {} at {} per GPU-hour", amount_text(*cost.money),
                      amount_text(*cost.money / cost.gpu_hours));
  const Ends money = cost.speeds.of_time(*cost.money);
  return text + fmt::format(" ({} to {})", amount_text(money.low), amount_text(money.high));
}

std::string host_verdict(const Plan& plan, const Findings& found, const SizeText& size) {
  return fmt::format("needs {} of host memory per node, {} more than the {} available",
                     size(plan.memory().host.total), size(found.host_missing), size(found.host_available));
}

std::string remedy(const Enough& enough, const SizeText& size) {
  std::string text = fmt::format("would fit on GPUs of {}", size(enough.gpu));
  if (enough.gpus) text += fmt::format(", or on {} GPUs like these", *enough.gpus);
  if (enough.nodes) text += fmt::format(" in {} nodes", *enough.nodes);
  return text;
}

std::string likely_peak(const Plan& plan, const LikelyRange& range, const SizeText& size) {
  const Ends peak = range.around(static_cast<double>(plan.memory().required.value));
  const auto text = [&](double bytes) { return size(Bytes(std::llround(bytes))); };
  return fmt::format("the range that held {} % of {} comparable peaks is {} to {}",
                     std::lround(100 * LikelyRange::kShare), range.runs, text(peak.low), text(peak.high));
}

std::string speed(const StepTime& time, const std::optional<LikelyRange>& range) {
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
  const std::string own = fmt::format("a step takes about {}, {} of it {}", format_seconds(time.step),
                                      format_percent(share_of_step), to_name(time.bound));
  if (!range) return own;
  const Ends step = range->of_time(time.step.value);
  return fmt::format("{}; the range that held {} % of {} comparable runs is {} to {}", own,
                     std::lround(100 * LikelyRange::kShare), range->runs, format_seconds(Seconds(step.low)),
                     format_seconds(Seconds(step.high)));
}

/// Returns what dividing experts changes, and what it does not.
std::string expert_parallelism(const Strategy& s, const DividedExperts& experts, const SizeText& size) {
  const std::string all = size(experts.all), own = size(experts.own);
  if (s.zero_stage == 3)
    return fmt::format(
        "ZeRO-3 holds as much with any expert-parallel degree; {} makes a rank gather {} of experts' weights "
        "instead of {}, and send tokens instead",
        s.layout.expert, process_group(s.layout, Group::expert_data).size == 1 ? std::string("none") : own,
        all);
  return fmt::format(
      "expert parallel {} leaves {} of experts' weights on a GPU instead of {}; their optimizer states are "
      "{}",
      s.layout.expert, own, all,
      s.zero_stage == 0 ? "those of a rank's own experts" : "sharded over all ranks either way");
}

/// Returns which share of a step generation takes, and how much of it runs at once.
std::string generation(const Plan& plan, const SizeText& size) {
  if (plan.time.scoring.value > 0)
    return fmt::format(
        "generation takes {} of the step and scoring {}, by kernels and launches of their forwards: neither "
        "was measured",
        format_percent(ratio(plan.time.generation, plan.time.step)),
        format_percent(ratio(plan.time.scoring, plan.time.step)));
  const std::string time =
      fmt::format("generation takes {} of the step, by arithmetic alone: no engine was measured",
                  format_percent(ratio(plan.time.generation, plan.time.step)));
  if (!plan.engine) return time + "; the trainer's own generation takes longer than that";
  return fmt::format("{}; vLLM has {} for keys and values, {} of {} sequences at once", time,
                     size(plan.engine->room()), plan.engine->at_once(), plan.engine->wanted);
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

std::vector<std::string> why(const Plan& plan, const Findings& found, ByteUnit unit) {
  const SizeText size{unit};
  std::vector<std::string> sentences{device_verdict(plan, found, size)};
  if (found.peaks) sentences.push_back(likely_peak(plan, *found.peaks, size));
  if (found.replicated) sentences.push_back(*found.replicated);
  sentences.push_back(
      fmt::format("the peak is in the {}: {}", phase_words(plan.memory().peak), largest_parts(plan, size)));
  if (found.worst_phase != nullptr)
    sentences.push_back(fmt::format("of its phases {} takes most of a GPU: {}",
                                    moment_words(found.worst_phase->moment),
                                    size(found.worst_phase->device)));
  if (found.fails_as_it_starts)
    sentences.emplace_back(
        "as it starts DeepSpeed copies the weights on the GPU where it takes that for large enough, and "
        "this one is not quite: with nvidia-ml-py installed it sees that, and copies them on the host");
  if (found.experts) sentences.push_back(expert_parallelism(plan.strategy, *found.experts, size));
  if (found.host_missing.value > 0) sentences.push_back(host_verdict(plan, found, size));
  if (const auto moment = moment_verdict(found, size)) sentences.push_back(*moment);
  if (found.enough) sentences.push_back(remedy(*found.enough, size));
  if (plan.fits) sentences.push_back(speed(plan.time, found.speeds));
  if (found.worst_phase != nullptr) sentences.push_back(generation(plan, size));
  if (found.cost) sentences.push_back(cost_sentence(*found.cost));
  return sentences;
}

}  // namespace zplan

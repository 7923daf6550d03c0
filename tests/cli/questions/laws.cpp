#include "laws.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/options/request.h"
#include "cli/report/report.h"
#include "cli/run.h"
#include "planner/plan/plan_context.h"
#include "planner/search/candidates.h"
#include "planner/search/search.h"

namespace zplan::test {

namespace {

/// Figures that say by how much one thing is more than another.
bool may_be_negative(const std::string& key) {
  static const std::set<std::string> kSigned{"absolute", "fraction", "frees_bytes", "frees", "gained"};
  return kSigned.contains(key);
}

void check_figures(const Json& at, const std::string& path, const std::string& key,
                   std::vector<Broken>& broken) {
  if (at.is_structured()) {
    for (const auto& [name, each] : at.items())
      check_figures(each, path + "/" + name, at.is_object() ? name : key, broken);
    return;
  }
  if (!at.is_number()) return;
  const auto value = at.get<double>();
  if (!std::isfinite(value) || (value < 0 && !may_be_negative(key)))
    broken.push_back({"figures are finite and not negative", fmt::format("{} is {}", path, value)});
}

Json json_of(const Question& question, const Plan& plan) {
  const Answer alone{
      .plans = {plan}, .rejected = {}, .alternative = {}, .alternative_change = {}, .warnings = {}};
  const Options options;
  return report_json({question, alone, options, {}, {}})["plans"][0];
}

/// Returns the differences, by path.
std::string difference(const Json& a, const Json& b) { return Json::diff(a, b).dump().substr(0, 400); }

void expect_same(const Json& a, const Json& b, std::string_view how, const Plan& plan,
                 std::vector<Broken>& broken) {
  if (a == b) return;
  broken.push_back({"a plan does not depend on how it was requested",
                    fmt::format("{} {}: {}", plan.id(), how, difference(a, b))});
}

/// The words with this strategy alone.
std::vector<std::string> pinned_words(const Answered& answered, const Plan& plan) {
  std::vector<std::string> words;
  const std::vector<std::string>& all = answered.words;
  for (std::size_t i = 0; i < all.size(); ++i) {
    static const std::set<std::string> kStrategy{"--zero", "--tp", "--sp", "--cp", "--offload"};
    const bool strategy = kStrategy.contains(all[i]);
    if (strategy)
      ++i;
    else
      words.push_back(all[i]);
  }
  const Strategy& s = plan.strategy;
  const auto add = [&words](const char* option, const std::string& value) {
    words.emplace_back(option), words.push_back(value);
  };
  add("--zero", std::to_string(s.zero_stage)), add("--tp", std::to_string(s.layout.tensor));
  if (s.layout.sequence > 1) add("--sp", std::to_string(s.layout.sequence));
  if (s.layout.context > 1) add("--cp", std::to_string(s.layout.context));
  add("--offload", std::string(to_name(Offload{s.offload_optimizer, s.offload_parameters})));
  return words;
}

const Plan* called(const std::vector<Plan>& plans, const std::string& id) {
  for (const Plan& each : plans)
    if (each.id() == id) return &each;
  return nullptr;
}

Json without_why(Json plan) {
  plan.erase("why");
  return plan;
}

}  // namespace

void check_figures(const Json& report, std::vector<Broken>& broken) { check_figures(report, "", "", broken); }

void check_required(const std::vector<Plan>& plans, std::vector<Broken>& broken) {
  for (const Plan& each : plans) {
    const MemoryPlan& m = each.memory();
    if (m.required_low > m.required || m.required > m.required_high || m.peak.bytes() > m.required ||
        m.peak_allocated > m.peak_reserved)
      broken.push_back({"peak <= required_low <= required <= required_high",
                        fmt::format("{}: peak {}, required {} <= {} <= {}, allocated {} <= reserved {}",
                                    each.id(), m.peak.bytes().value, m.required_low.value, m.required.value,
                                    m.required_high.value, m.peak_allocated.value, m.peak_reserved.value)});
  }
}

void check_sameness(const Answered& answered, const Plan& plan, Random& random, std::vector<Broken>& broken) {
  const Question& q = answered.question;
  const Json among = json_of(q, plan);
  const Options options = parse_options(pinned_words(answered, plan));
  const Request alone = make_request(options, {});
  const Answer answer_alone = answer(alone.question);
  expect_same(among, json_of(q, answer_alone.plans.front()), "alone", plan, broken);
  expect_same(without_why(among),
              without_why(json_of(q, make_plan(q.model, q.cluster, q.training, plan.strategy, q.headroom))),
              "by the library", plan, broken);
  const Answer draft = draft_answer(q, plan.id());
  if (const Plan* drafted = called(draft.plans, plan.id()))
    expect_same(without_why(among), without_why(json_of(q, *drafted)), "in a draft", plan, broken);
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const Plan outline = context.outline(plan.strategy);
  if (outline.fits != plan.fits || outline.time.step != plan.time.step)
    broken.push_back({"a plan does not depend on how it was requested",
                      fmt::format("{} outlined: fits {}, {} s; in full {}, {} s", plan.id(), outline.fits,
                                  outline.time.step.value, plan.fits, plan.time.step.value)});
  if (!random.chance(20)) return;
  std::vector<std::string> typed = answered.words;
  typed.emplace_back("--json");
  std::ostringstream out, err;
  static_cast<void>(run(typed, {}, out, err));
  const Json printed = Json::parse(out.str());
  for (const Json& each : printed["plans"])
    if (each["id"] == plan.id()) expect_same(Json::parse(among.dump()), each, "as printed", plan, broken);
}

/// Returns the device memory of loading, evaluating and saving.
Bytes beside_steps(const Plan& plan) {
  Bytes most;
  for (const MomentMemory& each : plan.moments)
    if (each.moment != RunMoment::training) most = std::max(most, each.device);
  return most;
}

void check_cards(const Question& q, const Plan& plan, Random& random, LargerCards& cards,
                 std::vector<Broken>& broken) {
  const auto low = static_cast<double>(plan.memory().required_low.value),
             high = static_cast<double>(plan.memory().required_high.value);
  std::vector<double> rooms{low * 0.999, high * 1.001,
                            high * (1 + static_cast<double>(random.between(1, 100)) / 50)};
  // The allocator decides between the bounds.
  for (int i = 0; i < 3; ++i)
    rooms.push_back(low + (high - low) * static_cast<double>(random.between(0, 1000)) / 1000);
  std::sort(rooms.begin(), rooms.end());
  bool smaller_fits = false;
  for (const double room : rooms) {
    Cluster cluster = q.cluster;
    cluster.usable_memory = Bytes(static_cast<std::int64_t>(std::ceil(room / (1 - q.headroom.fraction))));
    cluster.memory = cluster.usable_memory + (q.cluster.memory - q.cluster.usable_memory);
    PlanContext context(q.model, cluster, q.training, q.headroom);
    const Plan on = context.complete(plan.strategy);
    const MemoryPlan& m = on.memory();
    const Bytes available_memory = available(cluster, q.headroom), beside = beside_steps(on);
    const bool fails_to_start = m.failing_start.contains(cluster.usable_memory);
    const auto tell = [&](std::string_view law) {
      broken.push_back(
          {std::string(law),
           fmt::format("{} with {} available fits: {}; required {} <= {} <= {}, failing start {} to {}",
                       on.id(), available_memory.value, on.fits_device, m.required_low.value,
                       m.required.value, m.required_high.value, m.failing_start.from.value,
                       m.failing_start.until.value)});
    };
    if (on.fits_device != (m.required <= available_memory && beside <= available_memory))
      tell("a plan fits where what it needs is available");
    if (on.fits_device != context.outline(plan.strategy).fits_device)
      tell("an outline fits where its plan does");
    if (on.fits_device && available_memory < m.required_low) tell("no GPU below required_low fits");
    if (!on.fits_device && !fails_to_start && available_memory >= std::max(m.required_high, beside))
      tell("a larger GPU never fits less: all from required_high on");
    const bool between = available_memory >= m.required_low && available_memory < m.required_high;
    if (between && !fails_to_start && smaller_fits && beside <= available_memory)
      ++cards.between, cards.without_room += on.fits_device ? 0 : 1;
    smaller_fits = smaller_fits || on.fits_device;
  }
}

namespace {

/// Returns the requested bytes; the cached blocks that PyTorch uses may be up to 1 MiB larger.
Bytes live_peak(const Plan& plan) {
  return plan.memory().peak.bytes() - plan.memory().peak.holds[Term::allocator_rounding];
}

/// True if only the longer samples exceed the window. With its mask SDPA may choose a kernel that holds no
/// scores, so the law does not hold there (recorded: tests/reference/architectures, starcoder2 in fp32).
bool begins_to_mask(const ModelShape& shape, const Training& shorter, const Training& longer) {
  return shorter.sequence_length <= shape.sliding_window && longer.sequence_length > shape.sliding_window;
}

}  // namespace

void check_sizes(const Question& q, const Plan& plan, Random& random, std::vector<Broken>& broken) {
  Training longer = q.training;
  Strategy larger = plan.strategy;
  const bool samples = random.chance(50);
  const std::int64_t times = random.between(1, 3);
  if (samples)
    longer.sequence_length += std::max<std::int64_t>(1, longer.sequence_length * times / 4);
  else
    larger.micro_batch_size += times;
  const std::int64_t positions = q.model.shape.max_positions;
  if (samples && positions > 0 && longer.sequence_length > positions) return;
  if (samples && begins_to_mask(q.model.shape, q.training, longer)) return;
  if (longer.sequence_length * larger.micro_batch_size > kMostTokens) return;
  const Plan more = make_plan(q.model, q.cluster, longer, larger, q.headroom);
  const auto differ = [&](std::string_view what, Bytes before, Bytes after) {
    if (after >= before) return;
    broken.push_back(
        {samples ? "longer samples never have less live" : "larger micro-batches never have less live",
         fmt::format("{} {}: {} with {} x {} tokens, {} with {} x {}", plan.id(), what, before.value,
                     plan.strategy.micro_batch_size, q.training.sequence_length, after.value,
                     larger.micro_batch_size, longer.sequence_length)});
  };
  differ("peak", live_peak(plan), live_peak(more));
  differ("host memory", plan.memory().host.total, more.memory().host.total);
}

}  // namespace zplan::test

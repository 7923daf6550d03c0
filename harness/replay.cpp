#include "harness/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "harness/control.h"
#include "harness/measure.h"
#include "harness/recorder.h"
#include "harness/timing.h"
#include "models/base/error.h"
#include "models/base/format.h"

namespace zplan::bench {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 46;

/// The parallel layout of a schedule.
struct PlannedLayout {
  std::int64_t ranks{1}, tensor{1}, expert{1};
  bool data_before_expert{};
};

PlannedLayout layout_of(const JsonReader& schedule) {
  return {.ranks = schedule.at("ranks").integer(1, 1 << 20),
          .tensor = schedule.at("tensor_parallel").integer(1, 1 << 20),
          .expert = schedule.integer_or("expert_parallel", 1, 1, 1 << 20),
          .data_before_expert = schedule.boolean_or("data_before_expert", false)};
}

/// Returns the distance between ranks of an expert-parallel group: neighbours in the world, or, with
/// data_before_expert, as far apart as there are ranks with the same experts.
std::int64_t expert_stride(const PlannedLayout& layout, bool holds_the_same) {
  if (holds_the_same == layout.data_before_expert) return 1;
  return holds_the_same ? layout.expert : layout.ranks / layout.expert;
}

/// Ranks that divide a sample's tokens are neighbours within data parallelism.
Groups groups_of(const JsonReader& call, const PlannedLayout& layout) {
  const JsonReader group = call.at("group");
  const std::int64_t size = call.at("group_size").integer(2, 1 << 20);
  if (group.text() == "expert" || group.text() == "expert-data")
    return {.kind = GroupKind::data, .size = size, .stride = expert_stride(layout, group.text() != "expert")};
  const bool divides_tokens = group.text() == "sequence" || group.text() == "context";
  return {.kind = divides_tokens ? GroupKind::data : parse_name<GroupKind>(group.place(), group.text()),
          .size = size,
          .stride = call.integer_or("stride", 1, 1, 1 << 20),
          .tensor = layout.tensor};
}

/// Reads the parts of an uneven all_to_all; see Work.
void read_counts(const JsonReader& call, std::int64_t ranks, Work& work) {
  work.returns = call.has("receive_counts");
  const auto counts = call.find(work.returns ? "receive_counts" : "send_counts");
  if (!counts) return;
  for (const JsonReader& each : counts->items()) work.counts.push_back(each.integer(0, kMost / ranks));
  if (static_cast<std::int64_t>(work.counts.size()) != ranks || work.operation != Operation::all_to_all)
    counts->fail(fmt::format("{} counts of {}", work.counts.size(), to_name(work.operation)),
                 fmt::format("accepted: one for each rank of an all_to_all's group, {}", ranks));
  if (const std::int64_t sent = layout(work, ranks, 0).send; sent != work.elements)
    counts->fail(fmt::format("the group's first rank sends {}", sent),
                 fmt::format("accepted: what adds up to elements, {}", work.elements));
}

PlannedCall call_of(const JsonReader& at, const PlannedLayout& planned) {
  const std::int64_t ranks = planned.ranks;
  PlannedCall call;
  call.groups = groups_of(at, planned);
  (void)members(call.groups, ranks, 0, at.at("group_size").place());
  call.group = at.at("group").text(), call.phase = at.at("phase").text();
  call.dtype = at.at("dtype").text(), call.purpose = at.at("purpose").text();
  call.work = {.operation = parse_name<Operation>(at.at("operation").place(), at.at("operation").text()),
               .dtype = parse_name<DataType>(at.at("dtype").place(), call.dtype),
               .elements = at.at("elements").integer(1, kMost)};
  read_counts(at, call.groups.size, call.work);
  if (call.work.counts.empty() && is_shared_out(call.work.operation) &&
      call.work.elements % call.groups.size != 0)
    at.at("elements")
        .fail(fmt::format("{}", call.work.elements),
              fmt::format("accepted: a multiple of the group's size, {}", call.groups.size));
  call.times = at.integer_or("times", 1, 1, kMost);
  if (const auto compute = at.find("compute_seconds")) call.compute = Seconds(compute->number(0, 1e9));
  call.exposed = at.boolean_or("exposed", false);
  return call;
}

}  // namespace

PlannedStep read_plan(const std::string& path, std::int64_t ranks) {
  const Json document = parse_json(read_file(path), path);
  const JsonReader root(document, path);
  if (!document.is_object() || (!root.has("schedule") && !root.has("calls")))
    root.fail("no schedule", "accepted: what zplan … --json prints, of zplan 0.1 or newer");
  const JsonReader schedule = root.has("schedule") ? root.at("schedule") : root;
  PlannedStep step{.plan = schedule.raw(),
                   .ranks = schedule.at("ranks").integer(1, 1 << 20),
                   .device_memory = Bytes(schedule.at("device_memory_bytes").integer(0, kMost))};
  step.plan["file"] = path;
  if (step.ranks != ranks)
    schedule.at("ranks").fail(fmt::format("the plan is for {} ranks, and {} run here", step.ranks, ranks),
                              fmt::format("accepted: a plan for --gpus {}", ranks));
  const PlannedLayout planned = layout_of(schedule);
  for (const JsonReader& each : schedule.at("calls").items()) step.calls.push_back(call_of(each, planned));
  return step;
}

namespace {

/// Counts the calls and elements of one step where they are issued.
struct Tally {
  std::vector<std::int64_t> calls, elements;  ///< by planned call
  explicit Tally(std::size_t planned) : calls(planned), elements(planned) {}
  bool operator==(const Tally&) const = default;
};

class Replay {
 public:
  Replay(Session& session, const PlannedStep& step) : session_(session), step_(step) {
    for (const PlannedCall& each : step.calls) {
      teams_.push_back(&session.team(each.groups, "--plan"));
      works_.push_back(each.work);
      works_.back().in_place = !session.backend.has_form(each.work.operation, false);
    }
  }

  bool run() {
    const Json memory = take_planned_memory();
    arena_ = session_.arena(largest());
    if (arena_.size() < largest())
      throw OutOfMemory("the plan's largest message does not fit: " + format_bytes(largest()));
    const bool right = check();
    const std::vector<double> steps = time_steps();
    const Json calls = calls_json(time_calls());
    if (session_.is_first() && !steps.empty())
      session_.recorder.set("replay", replay_json(steps, calls, memory));
    return right && (memory.is_null() || memory["holds"].get<bool>());
  }

 private:
  [[nodiscard]] Bytes largest() const {
    Bytes most{};
    for (const PlannedCall& each : step_.calls)
      most = std::max(most, largest_buffer(each.work, each.groups.size));
    return most;
  }
  Json take_planned_memory();
  bool check();
  Tally one_step();
  std::vector<double> time_steps();
  std::vector<double> time_calls();
  [[nodiscard]] Json calls_json(const std::vector<double>& seconds) const;
  [[nodiscard]] Json replay_json(const std::vector<double>& steps, const Json& calls,
                                 const Json& memory) const;

  Session& session_;
  const PlannedStep& step_;
  std::vector<Team*> teams_;  ///< by planned call
  std::vector<Work> works_;   ///< by planned call, in place if the backend has no other form
  Memory planned_memory_;
  Arena arena_;
  Tally tally_{0};
  bool every_rank_alike_{true};
};

/// Allocates the plan's memory until the end of the replay.
Json Replay::take_planned_memory() {
  if (!session_.options.allocate) return nullptr;
  session_.watchdog.begin("allocating the plan's memory, " + format_bytes(step_.device_memory));
  std::string lacks;
  try {
    planned_memory_ = session_.backend.allocate(step_.device_memory);
  } catch (const OutOfMemory& error) {
    lacks = error.what();
  }
  bool holds = true;
  for (const std::string& each : session_.control().all_gather(lacks)) {
    if (!each.empty() && holds && session_.is_first()) session_.progress(each);
    holds = holds && each.empty();
  }
  return {{"planned_bytes", step_.device_memory.value},
          {"allocated_bytes", holds ? step_.device_memory.value : 0},
          {"holds", holds}};
}

/// Makes each kind of call once and compares every element with the correct one.
bool Replay::check() {
  std::vector<std::pair<const Team*, Work>> seen;
  bool right = true;
  for (std::size_t i = 0; i < step_.calls.size(); ++i) {
    const std::pair<const Team*, Work> kind(teams_[i], works_[i]);
    if (std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
    seen.push_back(kind);
    const Verdict verdict = check_once(session_, *kind.first, kind.second, arena_);
    if (verdict.wrong > 0 && session_.is_first()) session_.progress(verdict.first);
    right = right && verdict.wrong == 0;
  }
  return right;
}

Tally Replay::one_step() {
  Tally tally(step_.calls.size());
  const bool computes = session_.options.compute;
  for (std::size_t i = 0; i < step_.calls.size(); ++i) {
    const PlannedCall& call = step_.calls[i];
    const Work& work = works_[i];
    const Placed at = place(work, *teams_[i]->communicator, arena_);
    for (std::int64_t k = 0; k < call.times; ++k) {
      if (computes && call.compute.value > 0)
        session_.backend.compute(call.compute), session_.backend.let_calls_wait();
      teams_[i]->communicator->issue(work, at.send, at.receive);
      ++tally.calls[i], tally.elements[i] += work.elements;
      if (computes && call.exposed) session_.backend.let_compute_wait();
      session_.watchdog.tick();
    }
  }
  session_.backend.finish();
  return tally;
}

/// Times the steps. The first warms up, since it makes the connections. All ranks begin a step together, and
/// it ends with the slowest.
std::vector<double> Replay::time_steps() {
  std::vector<double> seconds;
  session_.watchdog.begin("a step of the plan");
  tally_ = one_step();
  while (static_cast<std::int64_t>(seconds.size()) < session_.options.steps && session_.goes_on()) {
    session_.control().barrier();
    session_.watchdog.begin(fmt::format("step {} of the plan", seconds.size() + 1));
    session_.backend.mark_step(true);
    const Clock::time_point begin = Clock::now();
    every_rank_alike_ = one_step() == tally_ && every_rank_alike_;
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    session_.backend.mark_step(false);
  }
  Json mine = {tally_.calls, tally_.elements, every_rank_alike_};
  for (const std::string& each : session_.control().all_gather(mine.dump()))
    every_rank_alike_ = every_rank_alike_ && Json::parse(each) == mine;
  return slowest(session_.exchange(seconds));
}

/// Returns the seconds of each planned call alone, on the slowest rank: the median of as many tries as steps.
/// None if the run ends early.
std::vector<double> Replay::time_calls() {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < step_.calls.size() && session_.goes_on(); ++i) {
    const Work& work = works_[i];
    const Placed at = place(work, *teams_[i]->communicator, arena_);
    session_.watchdog.begin(name_of(work, step_.calls[i].groups));
    const std::vector<double> mine = session_.backend.time(session_.options.steps, [&] {
      teams_[i]->communicator->issue(work, at.send, at.receive);
      session_.watchdog.tick();
    });
    seconds.push_back(statistics_of(slowest(session_.exchange(mine))).median.value);
  }
  return seconds;
}

/// Adds up calls of one kind, in the order in which each is first issued.
Json Replay::calls_json(const std::vector<double>& seconds) const {
  Json kinds = Json::array();
  for (std::size_t i = 0; i < step_.calls.size(); ++i) {
    const PlannedCall& call = step_.calls[i];
    const Json kind = {{"operation", std::string(to_name(call.work.operation))},
                       {"group", call.group},
                       {"group_size", call.groups.size},
                       {"stride", call.groups.stride},
                       {"phase", call.phase},
                       {"dtype", call.dtype},
                       {"purpose", call.purpose}};
    const auto is_same = [&kind](const Json& each) {
      return std::all_of(kind.items().begin(), kind.items().end(),
                         [&each](const auto& item) { return each.at(item.key()) == item.value(); });
    };
    auto at = std::find_if(kinds.begin(), kinds.end(), is_same);
    if (at == kinds.end()) {
      Json fresh = kind;
      fresh.update({{"count", 0}, {"elements", 0}, {"bytes", 0}, {"seconds", 0.0}});
      kinds.push_back(std::move(fresh));
      at = std::prev(kinds.end());
    }
    (*at)["count"] = (*at)["count"].get<std::int64_t>() + tally_.calls[i];
    (*at)["elements"] = (*at)["elements"].get<std::int64_t>() + tally_.elements[i];
    (*at)["bytes"] = (*at)["bytes"].get<std::int64_t>() + tally_.elements[i] * size_of(call.work.dtype);
    if (i >= seconds.size())
      (*at)["seconds"] = nullptr;
    else if (!(*at)["seconds"].is_null())
      (*at)["seconds"] = (*at)["seconds"].get<double>() + seconds[i] * static_cast<double>(tally_.calls[i]);
  }
  return kinds;
}

Json Replay::replay_json(const std::vector<double>& steps, const Json& calls, const Json& memory) const {
  return {{"plan", step_.plan},
          {"steps", steps},
          {"seconds", statistics_json(statistics_of(steps))},
          {"compute_stand_in", session_.options.compute},
          {"calls", calls},
          {"every_rank_alike", every_rank_alike_},
          {"device_memory", memory}};
}

}  // namespace

bool replay(Session& session, const PlannedStep& step) { return Replay(session, step).run(); }

}  // namespace zplan::bench

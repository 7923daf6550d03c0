#include "harness/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "harness/pattern.h"
#include "harness/recorder.h"
#include "harness/work.h"
#include "models/base/format.h"

namespace zplan::bench {

namespace {

Bytes bytes_of(std::int64_t elements, DataType type) { return Bytes(elements * size_of(type)); }

/// Returns a line for stderr that names the wrong elements in this rank's output.
std::string line_of(const WrongElements& wrong, const Work& work, const Groups& groups, int rank) {
  return fmt::format("{}: rank {} has {} wrong elements, the first is element {}: {} instead of {}",
                     name_of(work, groups), rank, wrong.count, wrong.first, wrong.is, wrong.should_be);
}

/// Compares this rank's output with the pattern, and adds up the results of all ranks.
Verdict compare(Session& session, const Team& team, const Work& work, const Pattern& pattern,
                const Placed& at) {
  const std::int64_t elements = layout(work, team.communicator->size(), team.communicator->rank()).receive;
  std::vector<std::byte> output(static_cast<std::size_t>(bytes_of(elements, work.dtype).value));
  session.backend.download(output.data(), at.receive, bytes_of(elements, work.dtype));
  const std::optional<WrongElements> wrong = pattern.check(output.data());
  const Json mine = {{"checked", pattern.has_result() ? elements : 0},
                     {"wrong", wrong ? wrong->count : 0},
                     {"first", wrong ? line_of(*wrong, work, team.groups, session.control().rank()) : ""}};
  Verdict verdict;
  for (const std::string& each : session.control().all_gather(mine.dump())) {
    const Json theirs = Json::parse(each);
    verdict.checked += theirs["checked"].get<std::int64_t>();
    verdict.wrong += theirs["wrong"].get<std::int64_t>();
    if (verdict.first.empty()) verdict.first = theirs["first"].get<std::string>();
  }
  return verdict;
}

void upload_input(Session& session, const Pattern& pattern, const Placed& at) {
  const std::vector<std::byte> input = pattern.input();
  session.backend.upload(at.send, input.data(), Bytes(static_cast<std::int64_t>(input.size())));
}

/// Returns the number of calls that fit in `longest`, by rank 0's estimate.
std::int64_t iterations_within(Session& session, std::optional<Seconds> longest, double one_call) {
  std::int64_t iterations = session.options.iterations;
  if (longest && one_call > 0)
    iterations = std::clamp(static_cast<std::int64_t>(std::min(longest->value / one_call, 1e9)),
                            std::int64_t{1}, iterations);
  return std::stoll(session.control().broadcast(std::to_string(iterations)));
}

double median_of_means(const std::vector<std::vector<double>>& by_rank, std::size_t calls) {
  std::vector<double> means;
  for (std::size_t i = 0; i < calls; ++i) {
    double sum = 0;
    for (const std::vector<double>& each : by_rank) sum += each[i];
    means.push_back(sum / static_cast<double>(by_rank.size()));
  }
  return statistics_of(std::move(means)).median.value;
}

}  // namespace

std::string name_of(const Work& work, const Groups& groups) {
  return fmt::format("{} of {} {} ({}){} in {}", to_name(work.operation), work.elements, to_name(work.dtype),
                     format_bytes(work.bytes()), work.in_place ? ", in place," : "",
                     groups.kind == GroupKind::world ? "the " + name_of(groups) : name_of(groups));
}

Placed place(const Work& work, const Communicator& group, const Arena& arena) {
  if (!work.in_place) return {arena.send.data(), arena.receive.data()};
  const auto at = [&](std::int64_t offset) { return arena.send.data() + bytes_of(offset, work.dtype).value; };
  return {at(in_place_send_offset(work, group.size(), group.rank())),
          at(in_place_receive_offset(work, group.size(), group.rank()))};
}

Verdict check_once(Session& session, const Team& team, const Work& work, const Arena& arena) {
  const Placed at = place(work, *team.communicator, arena);
  const Pattern pattern(work, team.communicator->size(), team.communicator->rank());
  session.watchdog.begin(name_of(work, team.groups));
  upload_input(session, pattern, at);
  team.communicator->issue(work, at.send, at.receive);
  session.backend.finish();
  return compare(session, team, work, pattern, at);
}

Measurement measure(Session& session, const Team& team, const Work& work, const Arena& arena,
                    std::optional<Seconds> longest) {
  Measurement found{.work = work, .groups = team.groups, .nodes = team.nodes, .at_once = team.at_once};
  const Placed at = place(work, *team.communicator, arena);
  Verdict verdict = check_once(session, team, work, arena);
  const std::function<void()> issue = [&] {
    team.communicator->issue(work, at.send, at.receive);
    session.watchdog.tick();
  };
  found.warmup = session.options.warmup;
  const std::vector<double> first = session.backend.time(std::max<std::int64_t>(found.warmup, 1), issue);
  found.iterations = iterations_within(session, longest, statistics_of(first).median.value);
  std::optional<SentMeter> meter;
  if (session.sent) meter.emplace(session.control(), session.hosts, session.sent);
  const std::vector<double> samples = session.backend.time(found.iterations, issue);
  if (meter) found.sent = meter->total();
  const std::vector<std::vector<double>> by_rank = session.exchange(samples);
  found.samples = slowest(by_rank);
  found.mean_over_ranks = median_of_means(by_rank, samples.size());
  // In place the data was summed in every call: only a call on new data can be checked.
  const Pattern pattern(work, team.communicator->size(), team.communicator->rank());
  const Verdict after =
      work.in_place ? check_once(session, team, work, arena) : compare(session, team, work, pattern, at);
  found.checked = verdict.checked + after.checked, found.wrong = verdict.wrong + after.wrong;
  if (session.is_first() && found.wrong > 0)
    session.progress(verdict.wrong > 0 ? verdict.first : after.first);
  return found;
}

Json measurement_json(const Measurement& m) {
  const TimeStatistics seconds = statistics_of(m.samples);
  Json json{
      {"operation", std::string(to_name(m.work.operation))},
      {"dtype", std::string(to_name(m.work.dtype))},
      {"in_place", m.work.in_place},
      {"group",
       {{"name", std::string(to_name(m.groups.kind))},
        {"size", m.groups.size},
        {"stride", m.groups.kind == GroupKind::data ? m.groups.tensor * m.groups.stride : m.groups.stride},
        {"at_once", m.at_once}}},
      {"nodes", m.nodes},
      {"bytes", m.work.bytes().value},
      {"elements", m.work.elements},
      {"iterations", m.iterations},
      {"warmup", m.warmup},
      {"seconds", statistics_json(seconds)},
      {"samples", m.samples},
      {"mean_over_ranks", m.mean_over_ranks},
      {"algorithm_bandwidth", algorithm_bandwidth(m.work.bytes(), seconds.median).value},
      {"bus_bandwidth", bus_bandwidth(m.work.operation, m.work.bytes(), seconds.median, m.groups.size).value},
      {"checked_elements", m.checked},
      {"wrong_elements", m.wrong}};
  if (m.sent) json["sent_bytes"] = *m.sent, json["sent_calls"] = m.iterations;
  return json;
}

namespace {

Groups groups_of(GroupKind kind, std::int64_t ranks, std::int64_t tensor) {
  switch (kind) {
    case GroupKind::tensor: return {.kind = kind, .size = tensor, .tensor = tensor};
    case GroupKind::data:
      return {.kind = kind, .size = ranks / std::max<std::int64_t>(tensor, 1), .tensor = tensor};
    case GroupKind::world: break;
  }
  return {.kind = kind, .size = ranks};
}

std::vector<bool> placements(Placement placement) {
  if (placement == Placement::both) return {false, true};
  return {placement == Placement::in};
}

struct Planned {
  Groups groups;
  Work work;
};

/// Returns all calls to measure, without duplicates. An operation that cannot have a size gets the next lower
/// one.
std::vector<Planned> planned(Session& session) {
  const Options& o = session.options;
  std::vector<Planned> all;
  for (const GroupKind kind : o.groups)
    for (const Operation operation : o.measured_operations())
      for (const DataType dtype : o.dtypes)
        for (const bool in_place : placements(o.placement)) {
          if (!session.backend.has_form(operation, in_place)) continue;
          const Groups groups = groups_of(kind, session.ranks(), o.tensor_parallel);
          for (const Bytes size : sizes(o)) {
            Work work = work_of_size(operation, dtype, size, groups.size);
            work.in_place = in_place;
            if (all.empty() || all.back().work != work || all.back().groups != groups)
              all.push_back({groups, work});
          }
        }
  return all;
}

}  // namespace

bool sweep(Session& session, const std::function<void(const Measurement&)>& tell) {
  std::vector<Planned> all = planned(session);
  if (all.empty()) return true;
  Bytes largest{};
  for (const Planned& each : all) largest = std::max(largest, each.work.bytes());
  const Arena arena = session.arena(largest);
  std::erase_if(all, [&](const Planned& each) { return each.work.bytes() > arena.size(); });
  bool right = true;
  for (std::size_t i = 0; i < all.size() && session.goes_on(); ++i) {
    const Team& team = session.team(all[i].groups, "--groups");
    const Measurement found = measure(session, team, all[i].work, arena,
                                      session.share_of_budget(static_cast<std::int64_t>(all.size() - i)));
    right = right && found.wrong == 0;
    if (!session.is_first()) continue;
    session.recorder.add("collectives", measurement_json(found));
    tell(found);
  }
  return right;
}

}  // namespace zplan::bench

#include "planner/cost/price.h"

#include <algorithm>

namespace zplan {

void price(Schedule& schedule, const std::vector<Call>& calls, CostModel& cost_model) {
  std::vector<Bytes> largest(schedule.collectives.size());
  for (const Call& call : calls) {
    const auto at = std::find_if(schedule.collectives.begin(), schedule.collectives.end(),
                                 [&](const Collective& kind) { return is_of_kind(call, kind); });
    if (at == schedule.collectives.end()) continue;
    const Bytes size = call.elements * call.element;
    const CollectiveCost cost = cost_model.pricer(call).cost(size);
    at->inside_bytes_per_gpu += cost.inside * call.times;
    at->outside_bytes_per_gpu += cost.outside * call.times;
    at->time += cost.time * static_cast<double>(call.times);
    Bytes& most = largest[static_cast<std::size_t>(at - schedule.collectives.begin())];
    if (size < most) continue;
    most = size;
    at->algorithm = cost.algorithm, at->protocol = cost.protocol;
  }
}

Seconds exposed_in(const RunTime& run, Phase phase) {
  Seconds exposed;
  for (std::size_t i = 0; i < kPhases; ++i)
    if (reported(static_cast<Phase>(i)) == phase) exposed += run.exposed[i];
  return exposed;
}

std::vector<Traffic> traffic(const Schedule& schedule, const RunTime& run) {
  std::vector<Traffic> all;
  for (const Phase pass : {Phase::forward, Phase::backward, Phase::step}) {
    Seconds exposed;
    for (std::size_t i = 0; i < kPhases; ++i)
      if (pass_of(static_cast<Phase>(i)) == pass) exposed += run.exposed[i];
    for (const Group group : {Group::tensor, Group::data}) {
      Traffic sum{.phase = pass, .group = group};
      for (const Collective& each : schedule.collectives) {
        if (pass_of(each.phase) != pass || each.group != group) continue;
        sum.calls += each.count;
        sum.inside += each.inside_bytes_per_gpu, sum.outside += each.outside_bytes_per_gpu;
        sum.time += each.time;
      }
      sum.exposed = group == Group::tensor ? std::min(sum.time, exposed) : exposed;
      exposed = exposed - sum.exposed;
      if (sum.calls > 0 || sum.exposed > Seconds{}) all.push_back(sum);
    }
  }
  return all;
}

}  // namespace zplan

#include "planner/check/case.h"

#include "hardware_profiles/cluster.h"

namespace zplan::check {

namespace {

struct StatisticsOf {
  std::vector<Statistic> operator()(const MeasuredMemory& memory) const {
    std::vector<Statistic> all;
    for (const MeasuredFigure& figure : memory.figures) all.push_back(figure.statistic);
    return all;
  }
  std::vector<Statistic> operator()(const MeasuredSpeed&) const { return {Statistic::tokens_per_second}; }
  std::vector<Statistic> operator()(const MeasuredCalls& timed) const {
    std::vector<Statistic> all;
    for (std::size_t i = 0; i < timed.calls.size(); ++i) {
      all.push_back(Statistic::seconds);
      if (timed.by_model) all.push_back(Statistic::seconds_by_model);
    }
    return all;
  }
  std::vector<Statistic> operator()(const MeasuredSent&) const { return {Statistic::sent}; }
  std::vector<Statistic> operator()(const MeasuredSchedule&) const { return {Statistic::schedule}; }
  std::vector<Statistic> operator()(const MeasuredReplay& replay) const {
    std::vector<Statistic> all(replay.kinds.size(), Statistic::schedule);
    all.push_back(Statistic::seconds);
    return all;
  }
  std::vector<Statistic> operator()(const MeasuredHost&) const { return {Statistic::host_resident}; }
  std::vector<Statistic> operator()(const MeasuredHeld&) const { return {Statistic::held}; }
  std::vector<Statistic> operator()(const MeasuredActivations&) const {
    return {Statistic::requested, Statistic::allocated};
  }
};

}  // namespace

std::vector<Statistic> statistics_of(const Measured& measured) {
  return std::visit(StatisticsOf{}, measured);
}

void append_folded(std::vector<CallTally>& sequence, CallTally call) {
  if (!sequence.empty()) {
    CallTally& last = sequence.back();
    const bool alike = last.operation == call.operation && last.dtype == call.dtype &&
                       last.group_size == call.group_size && last.phase == call.phase &&
                       last.elements.value * call.count == call.elements.value * last.count;
    if (alike) {
      last.count += call.count, last.elements += call.elements;
      return;
    }
  }
  sequence.push_back(std::move(call));
}

}  // namespace zplan::check

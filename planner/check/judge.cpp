#include "planner/check/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "hardware_profiles/cluster.h"
#include "planner/question/work.h"

namespace zplan::check {

namespace {

double number(Bytes size) { return static_cast<double>(size.value); }

Range exactly(double value) { return {value, value}; }

Traits traits_of(const Case& measured) {
  Traits traits{.card = measured.card, .grade = measured.grade};
  if (!measured.setup) return traits;
  traits.framework = to_name(measured.setup->training.framework);
  traits.method = to_name(measured.setup->training.method);
  traits.attention_cost = measured.setup->training.modules.attention_time;
  return traits;
}

Record blank(const Case& measured, Statistic statistic) {
  return {.id = measured.id,
          .file = measured.file,
          .kind = measured.kind,
          .statistic = statistic,
          .subset = measured.subset,
          .sweeps = measured.sweeps,
          .traits = traits_of(measured)};
}

Record judged(const Case& measured, Statistic statistic, double predicted, const Range& range) {
  Record record = blank(measured, statistic);
  record.predicted = predicted;
  record.measured = range;
  record.error = relative_error(predicted, range);
  record.exact = range.high && predicted == range.low && predicted == *range.high;
  return record;
}

/// The figure of [low, high] nearest to `range`.
Bytes nearest(Bytes low, Bytes high, const Range& range) {
  if (number(high) < range.low) return high;
  return range.high && number(low) > *range.high
             ? low
             : Bytes(static_cast<std::int64_t>(std::clamp(range.low, number(low), number(high))));
}

bool judges_fit(const Case& measured) {
  return measured.kind == Kind::measurement && measured.setup->card_is_known;
}

bool needs_required(const Case& measured, const MeasuredMemory& memory) {
  return judges_fit(measured) ||
         std::any_of(memory.figures.begin(), memory.figures.end(),
                     [](const MeasuredFigure& figure) { return figure.statistic == Statistic::required; });
}

/// Records whether the run fitted on its GPU and whether that is predicted, if the GPU is known.
void judge_fit(Record& record, const Case& measured, const MemoryPrediction& prediction) {
  if (!judges_fit(measured)) return;
  record.ran = record.statistic != Statistic::required;
  record.fits = prediction.required.value() + prediction.outside <= measured.setup->cluster.usable_memory;
}

std::vector<Record> judge_measured(const Case& measured, const MeasuredMemory& memory) {
  const MemoryPrediction prediction = predict_memory(*measured.setup, needs_required(measured, memory));
  std::vector<Record> records;
  for (const MeasuredFigure& figure : memory.figures) {
    records.push_back(judged(measured, figure.statistic,
                             number(predicted_bytes(prediction, figure, measured.kind)), figure.range));
    if (!memory.failed_in.empty()) records.back().part = "failed in " + memory.failed_in;
    if (records.size() == 1) judge_fit(records.back(), measured, prediction);  // a run counts once
    if (memory.peak_phases.empty() || figure.statistic != Statistic::allocated) continue;
    records.back().phase_right = std::find(memory.peak_phases.begin(), memory.peak_phases.end(),
                                           prediction.peak_phase) != memory.peak_phases.end();
  }
  return records;
}

std::vector<Record> judge_measured(const Case& measured, const MeasuredSpeed& speed) {
  return {judged(measured, Statistic::tokens_per_second, predict_tokens_per_second_per_gpu(*measured.setup),
                 exactly(speed.tokens_per_second_per_gpu))};
}

/// Bandwidth decides long messages, latency short ones.
std::string_view size_subset(Bytes size) { return size >= kLongMessage ? "16 MiB and more" : "below 16 MiB"; }

Record judged_call(const Case& measured, Statistic statistic, const TimedCall& call, Seconds predicted) {
  Record record = judged(measured, statistic, predicted.value, exactly(call.time.value));
  record.id += " " + std::string(to_name(call.operation)) + " " + std::to_string(call.size.value) + " B";
  return record;
}

/// One or two records per message size: a peak bandwidth says nothing of small messages.
std::vector<Record> judge_measured(const Case& measured, const MeasuredCalls& timed) {
  std::vector<Record> records;
  for (const TimedCall& call : timed.calls) {
    const CallPrediction prediction = predict_call(timed.cluster, call.operation, call.size, timed.record);
    const std::string size(size_subset(call.size));
    records.push_back(judged_call(measured, Statistic::seconds, call, prediction.time));
    records.back().subset = (prediction.measured ? "measured curves, " : "NCCL's model, ") + size;
    if (!timed.by_model) continue;
    records.push_back(judged_call(measured, Statistic::seconds_by_model, call, prediction.by_model));
    records.back().subset = size;
  }
  return records;
}

std::vector<Record> judge_measured(const Case& measured, const MeasuredSent& seen) {
  const SentPrediction prediction = predict_sent(seen.cluster, seen.operation, seen.size, seen.calls);
  Record record = judged(measured, Statistic::sent, number(prediction.bytes), exactly(number(seen.sent)));
  record.part = prediction.way;
  return {record};
}

/// Returns the calls without the elements of all_to_alls, and of what tensor-parallel ranks share of them.
std::vector<CallTally> without_rows(const std::vector<CallTally>& calls, const ParallelLayout& layout) {
  std::vector<CallTally> result;
  for (CallTally each : calls) {
    const bool folded = layout.tensor > 1 && each.group_size == layout.tensor && each.phase != Phase::step;
    if (each.operation == Operation::all_to_all || folded) each.elements = {};
    append_folded(result, std::move(each));
  }
  return result;
}

/// Returns the calls with all transfers between stages in one pass.
std::vector<CallTally> without_direction(const std::vector<CallTally>& calls) {
  std::vector<CallTally> result;
  for (CallTally each : calls) {
    if (each.operation == Operation::send_recv) each.phase = Phase::forward;
    append_folded(result, std::move(each));
  }
  return result;
}

std::vector<Record> judge_measured(const Case& measured, const MeasuredSchedule& seen) {
  std::vector<CallTally> planned = predict_calls(*measured.setup);
  MeasuredSchedule schedule = seen;
  if (seen.routed) {
    const ParallelLayout& layout = measured.setup->strategy.layout;
    planned = without_rows(planned, layout);
    schedule.calls = without_rows(seen.calls, layout);
    schedule.sequence = without_rows(seen.sequence, layout);
  }
  const ScheduleDifference difference = compare_calls(planned, schedule.calls);
  Record record = blank(measured, Statistic::schedule);
  record.predicted = static_cast<double>(difference.planned);
  record.measured = exactly(static_cast<double>(difference.recorded));
  record.error = difference.share;
  record.exact = difference.equal;
  const bool ordered = schedule.sequence.empty() ||
                       (seen.undirected ? without_direction(planned) == without_direction(schedule.sequence)
                                        : planned == schedule.sequence);
  if (!ordered) record.part = difference.equal ? "issued in another order" : "";
  return {record};
}

/// Describes the figures of a kind, or the lack of it.
std::string figures_text(const std::optional<ReplayKind>& kind) {
  if (!kind) return "none";
  return std::to_string(kind->count) + " calls, " + std::to_string(kind->elements) + " elements, " +
         std::to_string(kind->bytes) + " B";
}

/// Returns the error of the first figure in which the two differ.
double difference(const ReplayKind& planned, const ReplayKind& counted) {
  for (const auto& [ours, theirs] :
       {std::pair(planned.count, counted.count), std::pair(planned.elements, counted.elements),
        std::pair(planned.bytes, counted.bytes)})
    if (ours != theirs)
      return relative_error(static_cast<double>(ours), exactly(static_cast<double>(theirs)));
  return 0;
}

/// A step is replayed call for call: whatever differs is wrong, on one of the two sides.
Record judged_kind(const Case& measured, const ReplayedKind& kind) {
  const ReplayKind none;
  const ReplayKind &planned = kind.planned ? *kind.planned : none,
                   &counted = kind.counted ? *kind.counted : none;
  Record record = judged(measured, Statistic::schedule, static_cast<double>(planned.count),
                         exactly(static_cast<double>(counted.count)));
  record.id += ": " + kind.name;
  record.error = difference(planned, counted);
  record.exact = kind.planned && kind.counted && planned.count == counted.count &&
                 planned.elements == counted.elements && planned.bytes == counted.bytes;
  if (!record.exact)
    record.failure =
        kind.name + ": planned " + figures_text(kind.planned) + "; counted " + figures_text(kind.counted);
  return record;
}

Record judged_time(const Case& measured, const std::string& name, double predicted, double seconds) {
  Record record = judged(measured, Statistic::seconds, predicted, exactly(seconds));
  record.id += ": " + name;
  return record;
}

std::vector<Record> judge_measured(const Case& measured, const MeasuredReplay& replay) {
  std::vector<Record> records;
  for (const ReplayedKind& kind : replay.kinds) records.push_back(judged_kind(measured, kind));
  for (const ReplayedKind& kind : replay.kinds)
    if (kind.planned && kind.counted && kind.planned->seconds && kind.counted->seconds)
      records.push_back(judged_time(measured, kind.name, *kind.planned->seconds, *kind.counted->seconds));
  if (replay.planned) {
    records.push_back(judged_time(measured, "whole step", replay.planned->value, replay.measured.value));
    return records;
  }
  records.push_back(blank(measured, Statistic::seconds));
  records.back().id += ": whole step";
  records.back().skip.add("offload between the calls of a replayed step");
  return records;
}

/// Returns the plan without the fields that the recording does not show.
HeldBytes shown(HeldBytes planned, const HeldBytes& recorded) {
  if (!recorded.master_weights) planned.master_weights.reset();
  if (!recorded.parameters_on_host) planned.parameters_on_host.reset();
  return planned;
}

Record worst_of(const std::vector<Record>& records) {
  return *std::max_element(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::abs(*a.error) < std::abs(*b.error);
  });
}

/// The rank whose bytes are furthest off.
std::vector<Record> judge_measured(const Case& measured, const MeasuredHost& seen) {
  std::vector<Record> records;
  for (const MomentOnHost& each : seen.moments) {
    const Bytes predicted = each.processes + predict_resident(*measured.setup, each.moment, seen.trained);
    records.push_back(
        judged(measured, Statistic::host_resident, number(predicted), exactly(number(each.resident))));
    records.back().part = to_name(each.moment);
  }
  return records;
}

std::vector<Record> judge_measured(const Case& measured, const MeasuredHeld& held) {
  std::vector<Record> ranks;
  bool exact = true;
  for (std::size_t rank = 0; rank < held.ranks.size(); ++rank) {
    const HeldBytes& recorded = held.ranks[rank];
    const HeldBytes planned = shown(predict_held(*measured.setup, static_cast<std::int64_t>(rank)), recorded);
    exact = exact && planned == recorded;
    ranks.push_back(
        judged(measured, Statistic::held, number(planned.total()), exactly(number(recorded.total()))));
    ranks.back().part = "rank " + std::to_string(rank);
  }
  Record worst = worst_of(ranks);
  worst.exact = exact;
  return {worst};
}

struct ActivationPart {
  const char* name;
  Bytes ActivationFigures::*figure;
};
constexpr std::array<ActivationPart, 5> kActivationParts{
    {{"saved after the forward", &ActivationFigures::saved_after_forward},
     {"forward peak", &ActivationFigures::forward},
     {"loss peak", &ActivationFigures::loss},
     {"loss backward peak", &ActivationFigures::loss_backward},
     {"layers backward peak", &ActivationFigures::layers_backward}}};

std::vector<Record> judge_measured(const Case& measured, const MeasuredActivations& seen) {
  const ActivationPrediction prediction = predict_activations(*measured.setup, seen.first);
  const auto one = [&](Statistic statistic, const ActivationFigures& predicted,
                       const ActivationFigures& range) {
    std::vector<Record> figures;
    for (const ActivationPart& part : kActivationParts) {
      figures.push_back(
          judged(measured, statistic, number(predicted.*part.figure), exactly(number(range.*part.figure))));
      figures.back().part = part.name;
    }
    Record worst = worst_of(figures);
    worst.exact = predicted == range;
    return worst;
  };
  return {one(Statistic::requested, prediction.requested, seen.requested),
          one(Statistic::allocated, prediction.allocated, seen.allocated)};
}

std::vector<Record> skipped(const Case& measured, const Skip& skip) {
  std::vector<Record> records;
  for (const Statistic statistic : statistics_of(measured.measured)) {
    records.push_back(blank(measured, statistic));
    records.back().skip = skip;
  }
  return records;
}

using CallKey = std::tuple<Operation, std::string, std::int64_t, Phase>;
struct CallSum {
  std::int64_t count{}, elements{};
};

std::map<CallKey, CallSum> sums(const std::vector<CallTally>& calls) {
  std::map<CallKey, CallSum> result;
  for (const CallTally& call : calls) {
    CallSum& sum = result[{call.operation, call.dtype, call.group_size, call.phase}];
    sum.count += call.count, sum.elements += call.elements.value;
  }
  return result;
}

/// Σ |planned − recorded| over kinds of call.
struct Gap {
  std::int64_t apart{}, planned{}, recorded{};
  void add(std::int64_t a, std::int64_t b) { apart += std::abs(a - b), planned += a, recorded += b; }
  [[nodiscard]] double share() const {
    const double size = static_cast<double>(apart) / static_cast<double>(std::max<std::int64_t>(recorded, 1));
    return planned < recorded ? -size : size;
  }
};

}  // namespace

Bytes predicted_bytes(const MemoryPrediction& prediction, const MeasuredFigure& figure, Kind kind) {
  switch (figure.statistic) {
    case Statistic::requested: return prediction.peak_requested;
    case Statistic::held: return prediction.held;
    case Statistic::reserved: return prediction.peak_reserved;
    case Statistic::device: return prediction.peak_reserved + prediction.outside;
    case Statistic::host_pinned: return prediction.host_pinned;
    case Statistic::host_pageable: return prediction.host_pageable;
    case Statistic::required:
      return prediction.required.value() + (kind == Kind::measurement ? prediction.outside : Bytes{});
    case Statistic::unknown:
      return nearest(prediction.peak_allocated, prediction.peak_reserved + prediction.outside, figure.range);
    default: return prediction.peak_allocated;
  }
}

ScheduleDifference compare_calls(const std::vector<CallTally>& planned,
                                 const std::vector<CallTally>& recorded) {
  const std::map<CallKey, CallSum> ours = sums(planned), theirs = sums(recorded);
  std::map<CallKey, std::pair<CallSum, CallSum>> all;
  for (const auto& [key, sum] : ours) all[key].first = sum;
  for (const auto& [key, sum] : theirs) all[key].second = sum;
  Gap counts, elements;
  for (const auto& [key, pair] : all) {
    counts.add(pair.first.count, pair.second.count);
    elements.add(pair.first.elements, pair.second.elements);
  }
  return {.planned = counts.planned,
          .recorded = counts.recorded,
          .share = counts.apart != 0 ? counts.share() : elements.share(),
          .equal = counts.apart == 0 && elements.apart == 0};
}

std::vector<Record> judge(const Case& measured) {
  if (measured.skip.any()) return skipped(measured, measured.skip);
  if (measured.setup)
    if (const Skip skip = not_modelled(*measured.setup, measured.measured); skip.any())
      return skipped(measured, skip);
  return std::visit([&](const auto& figures) { return judge_measured(measured, figures); },
                    measured.measured);
}

std::vector<Record> judge(const std::vector<Case>& cases) {
  std::vector<Record> records;
  for (const Case& each : cases) {
    stop_if_asked();
    for (Record& record : judge(each)) records.push_back(std::move(record));
  }
  return records;
}

}  // namespace zplan::check

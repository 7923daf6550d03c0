#include "planner/check/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace zplan::check {

namespace {

/// Nearest rank: the ⌈9n/10⌉-th smallest.
double p90_of(const std::vector<double>& sorted) { return sorted[(sorted.size() * 9 + 9) / 10 - 1]; }

template <class Predicate>
double share_of(const std::vector<double>& errors, Predicate predicate) {
  return static_cast<double>(std::count_if(errors.begin(), errors.end(), predicate)) /
         static_cast<double>(errors.size());
}

RecordGroup group_of(const std::vector<const Record*>& records) {
  RecordGroup group;
  group.kind = records.front()->kind, group.statistic = records.front()->statistic;
  std::vector<double> errors;
  for (const Record* record : records) {
    ++group.records;
    if (!record->judged()) {
      ++group.skipped;
      for (const std::string& feature : record->skip.features) ++group.skip_reasons[feature];
      continue;
    }
    ++group.judged;
    errors.push_back(*record->error);
    group.exact += record->exact ? 1U : 0U;
    group.phase_judged += record->phase_right ? 1U : 0U;
    group.phase_right += record->phase_right.value_or(false) ? 1U : 0U;
  }
  const ErrorFigures figures = error_figures(errors);
  group.median_error = figures.median, group.p90_error = figures.p90, group.worst_error = figures.worst;
  group.under_predicted = figures.under_predicted, group.cautious = figures.cautious;
  return group;
}

/// True for a peak that PyTorch's allocator or the driver counted; `unknown` does not say what counted it.
bool is_counted_peak(Statistic statistic) {
  return statistic == Statistic::allocated || statistic == Statistic::active ||
         statistic == Statistic::reserved || statistic == Statistic::device;
}

struct Point {
  double at{};
  const Record* record{};
};

double middle(const Range& range) { return (range.low + range.high.value_or(range.low)) / 2; }

}  // namespace

double relative_error(double predicted, const Range& measured) {
  const bool low = predicted < measured.low;
  const bool high = measured.high && predicted > *measured.high;
  if (!low && !high) return 0;
  const double end = low ? measured.low : *measured.high;
  if (end == 0) return predicted < 0 ? -1 : 1;
  return (predicted - end) / end;
}

void Skip::add(const std::string& feature, const std::string& said) {
  if (std::find(features.begin(), features.end(), feature) == features.end()) features.push_back(feature);
  if (!said.empty()) detail += (detail.empty() ? "" : ", ") + said;
}

std::string Skip::text() const {
  const std::string names = fmt::format("{}", fmt::join(features, "; "));
  return detail.empty() ? names : fmt::format("{}: {}", names, detail);
}

double median_of(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

ErrorFigures error_figures(const std::vector<double>& signed_errors) {
  if (signed_errors.empty()) return {};
  std::vector<double> sorted;
  for (const double error : signed_errors) sorted.push_back(std::abs(error));
  std::sort(sorted.begin(), sorted.end());
  return {.median = median_of(sorted),
          .p90 = p90_of(sorted),
          .worst = sorted.back(),
          .under_predicted = share_of(signed_errors, [](double error) { return error < -kUnderPredicted; }),
          .cautious = share_of(signed_errors, [](double error) { return error >= 0; })};
}

std::vector<RecordGroup> summarise(const std::vector<Record>& records) {
  std::map<std::pair<Kind, Statistic>, std::vector<const Record*>> sorted;
  for (const Record& record : records) sorted[{record.kind, record.statistic}].push_back(&record);
  std::vector<RecordGroup> groups;
  groups.reserve(sorted.size());
  for (const auto& [key, members] : sorted) groups.push_back(group_of(members));
  return groups;
}

std::vector<Subset> summarise_subsets(const std::vector<Record>& records, bool pooled) {
  std::map<std::tuple<Kind, std::string, Statistic>, std::vector<const Record*>> sorted;
  std::map<std::pair<Kind, std::string>, std::vector<const Record*>> pools;
  for (const Record& record : records) {
    if (record.subset.empty()) continue;
    sorted[{record.kind, record.subset, record.statistic}].push_back(&record);
    if (is_counted_peak(record.statistic)) pools[{record.kind, record.subset}].push_back(&record);
  }
  std::vector<Subset> subsets;
  for (const auto& [key, members] : sorted) subsets.push_back({std::get<1>(key), group_of(members)});
  if (!pooled) return subsets;
  for (const auto& [key, members] : pools)
    subsets.push_back({key.second + std::string(kPooled), group_of(members)});
  return subsets;
}

FitTally fit_tally(const std::vector<Record>& records) {
  FitTally tally;
  for (const Record& record : records) {
    if (!record.ran || !record.fits) continue;
    ++(*record.ran ? tally.ran : tally.failed);
    if (*record.fits) ++(*record.ran ? tally.ran_and_fits : tally.failed_and_fits);
  }
  return tally;
}

std::vector<Slope> slopes(const std::vector<Record>& records) {
  // Leaves out figures that are known less closely or hardly change: their slope would be the uncertainty's.
  constexpr double kCertain = 1.01;      // the measured range's high end over its low end, at most
  constexpr double kLeastChange = 0.01;  // of the first point's figure
  std::map<std::pair<std::string, std::string>, std::vector<Point>> sweeps;
  for (const Record& record : records) {
    const bool certain = record.judged() && record.measured && record.measured->high &&
                         *record.measured->high <= record.measured->low * kCertain;
    if (!certain) continue;
    for (const SweepPlace& place : record.sweeps)
      sweeps[{place.variable, place.runs}].push_back({place.at, &record});
  }
  std::vector<Slope> result;
  for (auto& [key, points] : sweeps) {
    const auto [least, greatest] = std::minmax_element(
        points.begin(), points.end(), [](const Point& a, const Point& b) { return a.at < b.at; });
    const double apart = greatest->at - least->at;
    if (apart == 0) continue;
    const Record &low = *least->record, &high = *greatest->record;
    const double measured = middle(*high.measured) - middle(*low.measured);
    if (std::abs(measured) < kLeastChange * middle(*low.measured)) continue;
    result.push_back({.variable = key.first,
                      .from = low.id,
                      .to = high.id,
                      .statistic = low.statistic,
                      .predicted = (*high.predicted - *low.predicted) / apart,
                      .measured = measured / apart});
  }
  return result;
}

std::vector<Record> worst_records(const std::vector<Record>& records, std::size_t most) {
  std::vector<Record> judged;
  std::copy_if(records.begin(), records.end(), std::back_inserter(judged),
               [](const Record& record) { return record.judged(); });
  std::stable_sort(judged.begin(), judged.end(),
                   [](const Record& a, const Record& b) { return std::abs(*a.error) > std::abs(*b.error); });
  judged.resize(std::min(most, judged.size()));
  return judged;
}

}  // namespace zplan::check

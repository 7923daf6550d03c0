#include "planner/check/summary.h"

#include <algorithm>
#include <cmath>

namespace zplan::check {

namespace {

double median_of(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/// Nearest rank: the ⌈9n/10⌉-th smallest.
double p90_of(const std::vector<double>& sorted) { return sorted[(sorted.size() * 9 + 9) / 10 - 1]; }

template <class Predicate>
double share_of(const std::vector<double>& errors, Predicate predicate) {
  return static_cast<double>(std::count_if(errors.begin(), errors.end(), predicate)) /
         static_cast<double>(errors.size());
}

Group group_of(const std::vector<const Record*>& records) {
  Group group;
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

}  // namespace

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

std::vector<Group> summarise(const std::vector<Record>& records) {
  std::map<std::pair<Kind, Statistic>, std::vector<const Record*>> sorted;
  for (const Record& record : records) sorted[{record.kind, record.statistic}].push_back(&record);
  std::vector<Group> groups;
  groups.reserve(sorted.size());
  for (const auto& [key, members] : sorted) groups.push_back(group_of(members));
  return groups;
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

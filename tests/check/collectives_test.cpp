// Accuracy of the prices of collectives: every published nccl-tests log judged by curves of the others, and
// by NCCL's model alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "hardware_profiles/cluster.h"
#include "planner/check/judge.h"
#include "planner/check/record.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

const std::vector<Record>& records() {
  static const std::vector<Record> all = [] {
    const std::string path = "published/collectives.json";
    return judge(cases_of(read_file(std::string(ZPLAN_TEST_DATA) + "/reference/" + path), path));
  }();
  return all;
}

/// Absolute errors of the judged records that `wanted` takes.
template <class Wanted>
ErrorFigures figures(Statistic statistic, Wanted wanted) {
  std::vector<double> errors;
  for (const Record& record : records())
    if (record.judged() && record.statistic == statistic && wanted(record)) errors.push_back(*record.error);
  EXPECT_FALSE(errors.empty());
  return error_figures(errors);
}

bool is_long(const Record& record) { return record.subset.ends_with("16 MiB and more"); }
bool from_curves(const Record& record) { return record.subset.starts_with("measured curves"); }
bool any(const Record& /*unused*/) { return true; }

/// Logs that have another one of the same GPU, number of GPUs and nodes, and network: 8 A100 (n02, n03),
/// 2 × 8 H100 (n11, n12), 2 × 8 H200 (n15, n16), and gathers and scatters of 8 B200 (n18, n19).
bool has_a_twin(const Record& record) {
  static const std::set<std::string> logs{"n02", "n03", "n11", "n12", "n15", "n16", "n18", "n19"};
  return logs.contains(record.id.substr(0, record.id.find(' ')));
}

TEST(PublishedCollectiveTimes, FollowTheirTwins) {
  EXPECT_LT(figures(Statistic::seconds, has_a_twin).median, 0.05);
  EXPECT_LT(figures(Statistic::seconds, has_a_twin).p90, 0.15);
}

/// Other numbers of GPUs and other networks of the same GPU included.
TEST(PublishedCollectiveTimes, FollowOtherLogsOfTheSameCard) {
  EXPECT_LT(figures(Statistic::seconds, [](const Record& r) { return from_curves(r) && is_long(r); }).median,
            0.05);
  EXPECT_LT(figures(Statistic::seconds, from_curves).median, 0.10);
}

/// Logs of GPUs without peer-to-peer, each priced without its own curve.
bool goes_through_the_host(const Record& record) {
  static const std::set<std::string> logs{"n30", "n36", "n38", "n39"};
  return logs.contains(record.id.substr(0, record.id.find(' ')));
}

TEST(PublishedCollectiveTimes, AreNearThroughTheHost) {
  EXPECT_LT(figures(Statistic::seconds, goes_through_the_host).median, 0.25);
  EXPECT_LT(figures(Statistic::seconds_by_model, goes_through_the_host).median, 0.25);
}

/// Over every log that names its GPU: no constant of the model is fitted to any.
TEST(PublishedCollectiveTimes, AreNearNcclsModel) {
  EXPECT_LT(figures(Statistic::seconds_by_model, any).median, 0.25);
  EXPECT_LT(figures(Statistic::seconds_by_model, is_long).median, 0.20);
  EXPECT_GT(figures(Statistic::seconds_by_model, any).under_predicted, 0.5);  // it is optimistic
}

/// Curves are worth having.
TEST(PublishedCollectiveTimes, AreNearerToCurvesThanToTheModel) {
  std::set<std::string> measured;
  for (const Record& record : records())
    if (record.statistic == Statistic::seconds && from_curves(record)) measured.insert(record.id);
  const auto same = [&](const Record& record) { return measured.contains(record.id); };
  EXPECT_LT(figures(Statistic::seconds, same).median, figures(Statistic::seconds_by_model, same).median);
}

}  // namespace
}  // namespace zplan::check::testing

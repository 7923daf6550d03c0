// What a step sends, by phase, group and link.

#include <fmt/format.h>

#include "cli/report/report_text.h"
#include "planner/cost/price.h"
#include "planner/plan/plan.h"

namespace zplan {

namespace {

std::string milliseconds(Seconds time) {
  const double value = time.value * 1e3;
  return fmt::format("{:.{}f}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}

Row row_of(std::string phase, std::string group, const Traffic& each, const Cluster& cluster) {
  Row row{{std::move(phase), std::move(group), group_digits(each.calls)}, Tone::plain};
  if (cluster.gpus_per_node > 1) row.cells.push_back(format_bytes_value(each.inside, ByteUnit::gb));
  if (cluster.network) row.cells.push_back(format_bytes_value(each.outside, ByteUnit::gb));
  row.cells.push_back(milliseconds(each.time));
  row.cells.push_back(milliseconds(each.exposed));
  return row;
}

}  // namespace

Table traffic_table(const Plan& plan, const Question& question) {
  const Cluster& cluster = question.cluster;
  Table table{{{"phase", "", false, kAlways}, {"group", "", false, kAlways}, {"calls", "", true, kAlways}},
              {}};
  if (cluster.gpus_per_node > 1) table.columns.push_back({name_of_inner_link(cluster), "GB", true, kAlways});
  if (cluster.network) table.columns.push_back({cluster.network->name, "GB", true, kAlways});
  table.columns.push_back({"time", "ms", true, kAlways});
  table.columns.push_back({"exposed", "ms", true, kAlways});
  Traffic sum;
  for (const Traffic& each : traffic(plan.communication(), plan.time.run)) {
    table.rows.push_back(
        row_of(std::string(to_name(each.phase)), std::string(to_name(each.group)), each, cluster));
    sum.calls += each.calls, sum.inside += each.inside, sum.outside += each.outside;
    sum.time += each.time, sum.exposed += each.exposed;
  }
  if (table.rows.size() > 1) {
    table.rows.push_back(row_of("all", "", sum, cluster));
    table.rows.back().tone = Tone::strong;
  }
  return table;
}

}  // namespace zplan

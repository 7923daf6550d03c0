#include "hardware_profiles/cluster.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

constexpr std::string_view kCollectivesSchema = "zplan.collectives/1";

Case collectives_case(const JsonReader& record) {
  if (record.at("schema").text() != kCollectivesSchema)
    record.at("schema").fail_type(std::string(kCollectivesSchema));
  const auto operation = named<Operation>(record.at("operation"));
  Skip skip;
  std::optional<std::string> card;
  if (const auto gpu = record.find("gpu"))
    card = profile_named(gpu->text(), std::nullopt, skip);
  else
    skip.add("a GPU that is not named");
  const std::int64_t gpus = record.at("gpus").integer(2, kMostRanks);
  // The links of a GPU that is not known may be none that the generic GPU has.
  MeasuredCalls calls{
      card ? linked_cluster(*card, record, gpus) : usual_cluster(kGenericCard, gpus, std::nullopt),
      {},
      record.at("id").text()};
  for (const JsonReader& row : record.at("rows").items())
    calls.calls.push_back(
        {operation, bytes_at(row.at("bytes")), Seconds(row.at("seconds").number(1e-9, kMostSeconds))});
  return {.id = record.at("id").text(),
          .file = {},
          .kind = Kind::collectives,
          .measured = std::move(calls),
          .setup = std::nullopt,
          .skip = std::move(skip),
          .card = card.value_or("")};
}

/// One process that drives all GPUs launches on one after the other, which of messages up to this size
/// decides the time: twice that of one process per GPU on the same machine.
constexpr Bytes kLaunched = kMiB * 8;

bool one_process(const JsonReader& record) { return record.boolean_or("single_process", false); }

/// Takes the sizes out of a case whose time is the launch's.
Case take_launched(Case& whole) {
  Case launched = whole;
  launched.id += ", small";
  launched.skip.add("small messages where one process drives all GPUs");
  const auto is_small = [](const TimedCall& call) { return call.size < kLaunched; };
  std::erase_if(std::get<MeasuredCalls>(whole.measured).calls, is_small);
  std::erase_if(std::get<MeasuredCalls>(launched.measured).calls,
                [&](const TimedCall& call) { return !is_small(call); });
  return launched;
}

}  // namespace

std::vector<Case> read_published_collectives(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& record : rows.items()) {
    cases.push_back(collectives_case(record));
    if (!one_process(record)) continue;
    if (Case launched = take_launched(cases.back());
        !std::get<MeasuredCalls>(launched.measured).calls.empty())
      cases.push_back(std::move(launched));
  }
  return cases;
}

}  // namespace zplan::check

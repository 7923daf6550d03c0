#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"

namespace zplan::check {

namespace {

constexpr std::string_view kSchema = "zplan.collectives/1";

Case collectives_case(const JsonReader& record) {
  if (record.at("schema").text() != kSchema) record.at("schema").fail_type(std::string(kSchema));
  const auto operation = named<Operation>(record.at("operation"));
  MeasuredCalls calls{
      linked_cluster(profile_named(record.text_or("gpu", "")), record.text_or("interconnect", ""),
                     record.at("gpus").integer(2, kMostRanks), record.at("nodes")),
      {}};
  for (const JsonReader& row : record.at("rows").items())
    calls.calls.push_back(
        {operation, bytes_at(row.at("bytes")), Seconds(row.at("seconds").number(1e-9, kMostSeconds))});
  return {.id = record.at("id").text(),
          .file = {},
          .kind = Kind::collectives,
          .measured = std::move(calls),
          .setup = std::nullopt,
          .skip = record.has("gpu") ? Skip{} : Skip{{"a card that is not named"}, ""}};
}

}  // namespace

std::vector<Case> read_published_collectives(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& record : rows.items()) cases.push_back(collectives_case(record));
  return cases;
}

}  // namespace zplan::check

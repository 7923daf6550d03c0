// The table of fields: every format's rows are read by it.

#include "planner/check/readers/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace zplan::check::testing {
namespace {

using ::testing::HasSubstr;

struct Sample {
  std::string name;
  RowFormat format{};
  std::string path;
  std::size_t row{};
};
void PrintTo(const Sample& sample, std::ostream* out) { *out << sample.name; }

const std::vector<Sample> kSamples{
    {"Published", kPublished, "published/memory.json", 0},
    {"Training", kTraining, "steps/steps.json", 0},
    {"Routed", kRouted, "expert_parallel/schedules.json", 0},
    {"Host", kHost, "host_memory/host_memory.json", 0},
    {"Recorded", kRecorded, "deepspeed_runs/runs.json", 0},
    {"Activation", kActivation, "activations/activations.json", 0},
};

Json row_of(const Sample& sample) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/" + sample.path;
  const Json rows = parse_json(read_file(path), sample.path);
  if (sample.format != kRouted) return rows.at(sample.row);
  return *std::find_if(rows.begin(), rows.end(), [](const Json& row) { return row.contains("backend"); });
}

/// Returns the object of the row that holds the field, and the field's key in it.
std::pair<Json*, std::string> holder_of(const Field& field, Json& row, RowFormat format) {
  if (field.key.starts_with('/')) return {&row, std::string(field.key.substr(1))};
  Json& holder = format == kActivation ? row : row.at(format == kRecorded ? "spec" : "options");
  return {&holder, std::string(field.key)};
}

std::string error_of(const Json& row, RowFormat format) {
  try {
    (void)read_run(JsonReader(row, "row"), format);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

class FieldsOf : public ::testing::TestWithParam<Sample> {};

TEST_P(FieldsOf, GiveARun) {
  const Json row = row_of(GetParam());
  EXPECT_TRUE(read_run(JsonReader(row, "row"), GetParam().format).has_model);
}

TEST_P(FieldsOf, AreNamedWhereTheyAreNeededAndMissing) {
  const Sample& sample = GetParam();
  int removed = 0;
  for (const Field& field : fields()) {
    if ((field.needed & sample.format) == 0 || field.applies != nullptr) continue;
    Json row = row_of(sample);
    const auto [holder, key] = holder_of(field, row, sample.format);
    ASSERT_EQ(holder->erase(key), 1U) << key;
    EXPECT_THAT(error_of(row, sample.format), HasSubstr("has no \"" + key + "\"")) << key;
    ++removed;
  }
  EXPECT_GE(removed, 2);
}

// A list is no value of any field but three, which are lists themselves.
TEST_P(FieldsOf, AreNamedWhereTheirValueIsWrong) {
  const Sample& sample = GetParam();
  for (const Field& field : fields()) {
    if ((field.formats & sample.format) == 0 || field.applies != nullptr) continue;
    Json row = row_of(sample);
    const auto [holder, key] = holder_of(field, row, sample.format);
    if (!holder->contains(key) || holder->at(key).is_null() || holder->at(key).is_array()) continue;
    (*holder)[key] = Json::array({Json::object()});
    EXPECT_THAT(error_of(row, sample.format), HasSubstr("/" + key)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FieldsOf, ::testing::ValuesIn(kSamples),
                         [](const auto& each) { return each.param.name; });

TEST(Fields, SayWhatTheyMean) {
  for (const Field& field : fields()) {
    EXPECT_FALSE(field.meaning.empty()) << field.key;
    EXPECT_EQ(field.needed & ~field.formats, 0U) << field.key;
    EXPECT_NE(field.read, nullptr) << field.key;
  }
}

}  // namespace
}  // namespace zplan::check::testing

// Bus bandwidth as we derive it from size and time, against the column that nccl-tests itself printed.

#include <gtest/gtest.h>

#include "harness/work.h"
#include "models/base/json_reader.h"

namespace zplan {
namespace {

Json published_rows() {
  return parse_json(read_file(std::string(ZPLAN_TEST_DATA) + "/reference/nccl_tests/bus_bandwidth.json"),
                    "bus_bandwidth.json");
}

TEST(BusBandwidth, EqualsWhatNcclTestsPrinted) {
  std::size_t rows = 0;
  for (const Json& log : published_rows()) {
    const auto operation = parse_name<Operation>("operation", log["operation"].get<std::string>());
    for (const Json& row : log["rows"]) {
      const double ours =
          bus_bandwidth(operation, Bytes(row["bytes"].get<std::int64_t>()),
                        Seconds(row["seconds"].get<double>()), log["gpus"].get<std::int64_t>())
              .value;
      const auto printed = row["bus_bandwidth"].get<double>();
      // Time and bandwidth are each printed with two to four digits.
      EXPECT_NEAR(ours, printed, 0.01 * printed + 0.01e9) << log["id"] << ", " << row["bytes"] << " bytes";
      ++rows;
    }
  }
  EXPECT_GE(rows, 90U);
}

TEST(BusBandwidth, OfOneRankIsNothing) {
  EXPECT_EQ(bus_bandwidth(Operation::all_reduce, Bytes(1000), Seconds(1), 1), BytesPerSecond(0));
}

}  // namespace
}  // namespace zplan

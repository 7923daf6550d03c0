// Compares the operation costs of record_tape with what PyTorch computes in the same micro-step.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "models/base/json_reader.h"
#include "planner/model_trace/play.h"
#include "tests/planner/model_trace/recorded_step.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

/// Forward with loss, and backward.
enum class Half : std::uint8_t { forward, backward };
constexpr std::array kHalves{Half::forward, Half::backward};
const char* name_of(Half half) { return half == Half::forward ? "forward" : "backward"; }

/// Sums what a tape computes.
class LoadSums {
 public:
  explicit LoadSums(const Tape& tape) : tape_(tape) {}

  void section(int, bool) {}
  void allocate(std::int32_t, Term, Bytes) {}
  void release(std::int32_t) {}
  void part_of_gradient(int, std::int32_t, std::int32_t) {}
  void gradient(int, std::int32_t, std::int32_t) {}
  void module(const Event&, int) {}
  void workspace(std::int32_t) {}
  void phase(Phase phase) {
    if (phase == Phase::loss_backward) half_ = Half::backward;
  }
  void compute(std::int32_t index) {
    const Load& load = tape_.loads[static_cast<std::size_t>(index)];
    Load& sum = sums_[static_cast<std::size_t>(half_)];
    for (const Product& each : load.products) sum.add(each);
    sum.attention_forward += load.attention_forward, sum.attention_backward += load.attention_backward;
    sum.moved += load.moved;
    sum.kernels += load.kernels, sum.operators += load.operators, sum.nodes += load.nodes;
  }
  [[nodiscard]] const Load& of(Half half) const { return sums_[static_cast<std::size_t>(half)]; }

 private:
  const Tape& tape_;
  Half half_{Half::forward};
  std::array<Load, 2> sums_;
};

/// Counts each product by [batch, rows, inner, columns, bytes of an element]; a product and its
/// transpose are one.
using Products = std::map<std::array<std::int64_t, 5>, std::int64_t>;

void count(Products& products, const std::array<std::int64_t, 6>& product) {
  const auto [batch, rows, inner, columns, element, times] = product;
  products[{batch, std::min(rows, columns), inner, std::max(rows, columns), element}] += times;
}

Products products_of(const Load& load) {
  Products products;
  for (const Product& each : load.products)
    count(products, {each.batch, each.rows, each.inner, each.columns, each.element.value, each.times});
  return products;
}

Products recorded_products(const Json& half) {
  Products products;
  for (const Json& each : half["products"]) count(products, each.get<std::array<std::int64_t, 6>>());
  return products;
}

/// 2·b·a·(d + d')·pairs, in the backward 5 / 2 of it.
double recorded_attention_flops(const Json& half) {
  double sum = 0;
  for (const Json& each : half["attention"]) {
    const auto [batch, heads, queries, keys, key_width, value_width, causal, backward, times] =
        each.get<std::array<std::int64_t, 9>>();
    const std::int64_t pairs = causal != 0 ? queries * (queries + 1) / 2 : queries * keys;
    sum += 2.0 * static_cast<double>(batch * heads * (key_width + value_width) * pairs * times) *
           (backward != 0 ? 2.5 : 1.0);
  }
  return sum;
}

struct RecordedLoads {
  std::string name;
  Json row;
};
void PrintTo(const RecordedLoads& recorded, std::ostream* out) { *out << recorded.name; }

std::vector<RecordedLoads> recorded_loads() {
  std::vector<RecordedLoads> all;
  for (const Json& row : test_json("reference/loads/loads.json"))
    all.push_back({row["name"].get<std::string>(), row});
  return all;
}

double relative(double ours, double theirs) { return theirs == 0 ? ours : ours / theirs - 1; }

/// Figures for the test report.
void note(const std::string& what, double error) {
  ::testing::Test::RecordProperty(what, std::to_string(error));
}

class TapeLoads : public ::testing::TestWithParam<RecordedLoads> {
 protected:
  [[nodiscard]] const Json& row() const { return GetParam().row; }
  [[nodiscard]] const Json& recorded(Half half) const { return row()[name_of(half)]; }
  [[nodiscard]] const Load& load(Half half) const { return sums_.of(half); }

 private:
  [[nodiscard]] static LoadSums sums_of(const Tape& tape) {
    LoadSums sums(tape);
    play(tape, TapeLayout(tape), sums);
    return sums;
  }
  Tape tape_{tape_of(GetParam().row)};
  LoadSums sums_{sums_of(tape_)};
};

TEST_P(TapeLoads, ProductsAreThoseOfPyTorch) {
  for (const Half half : kHalves)
    EXPECT_EQ(products_of(load(half)), recorded_products(recorded(half))) << name_of(half);
}

TEST_P(TapeLoads, AttentionIsThatOfPyTorch) {
  for (const Half half : kHalves) {
    const Load& own = load(half);
    EXPECT_DOUBLE_EQ((own.attention_forward + own.attention_backward).value,
                     recorded_attention_flops(recorded(half)))
        << name_of(half);
  }
}

TEST_P(TapeLoads, OtherKernelsMoveWhatPyTorchs) {
  for (const Half half : kHalves) {
    const double error = relative(static_cast<double>(load(half).moved.value), recorded(half)["moved"]);
    note(std::string("moved_") + name_of(half), error);
    EXPECT_LE(std::abs(error), 0.005)
        << name_of(half) << ": " << load(half).moved.value << " of " << recorded(half)["moved"] << " bytes";
  }
}

TEST_P(TapeLoads, OperatorsKernelsAndNodesAreAsManyAsPyTorchs) {
  const auto compare = [](const std::string& what, std::int64_t ours, const Json& theirs) {
    const double error = relative(static_cast<double>(ours), theirs);
    note(what, error);
    EXPECT_LE(std::abs(error), 0.1) << what << ": " << ours << " of " << theirs;
  };
  for (const Half half : kHalves) {
    compare(std::string("operators_") + name_of(half), load(half).operators, recorded(half)["operators"]);
    compare(std::string("kernels_") + name_of(half), load(half).kernels, recorded(half)["kernels"]);
  }
  // The engine runs the graphs of reentrant checkpoints one inside the other; DeepSpeed's hooks have nodes.
  if (row().value("checkpointing", "") != "reentrant" && !row().contains("zero_stage"))
    compare("nodes", load(Half::backward).nodes, row()["nodes"]);
}

INSTANTIATE_TEST_SUITE_P(Recorded, TapeLoads, ::testing::ValuesIn(recorded_loads()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zplan::testing

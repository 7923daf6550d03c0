// Properties of every report, whatever its figures.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

const std::vector<std::string> kGrid = [] {
  std::vector<std::string> lines;
  for (const char* model : {"0.5B", "8B", "Qwen/Qwen3-30B-A3B", "gpt2"})
    for (const char* cluster :
         {"--gpus 1 --mem 24", "--gpus 5 --mem 44", "--gpus 16 --nodes 2 --gpu H100-SXM-80GB"})
      for (const char* training :
           {"", "--precision fp32 --checkpointing none", "--method lora --micro-batch 4",
            "--no-master-weights --grad-accum 4 --buckets default"})
        lines.push_back(std::string("--model ") + model + " " + cluster + " " + training);
  return lines;
}();

const std::vector<std::string> kParts{
    "parameters",  "gradients",         "optimizer_states", "activations", "loss", "communication_buffers",
    "temporaries", "framework_overhead"};

std::int64_t sum_of(const json& object, const std::vector<std::string>& keys) {
  return std::accumulate(keys.begin(), keys.end(), std::int64_t{0},
                         [&object](std::int64_t sum, const std::string& key) {
                           return sum + object.at(key).get<std::int64_t>();
                         });
}

class Grid : public testing::TestWithParam<std::string> {
 protected:
  /// Asked for once: every property below is of the same answer.
  static const json& answer() {
    static std::map<std::string, json> answers;
    const auto [at, missing] = answers.try_emplace(GetParam());
    if (missing) at->second = report(GetParam());
    return at->second;
  }
};

TEST_P(Grid, PartsAddUpToThePeak) {
  const json& r = answer();
  for (const json& plan : r.at("plans")) {
    const json& memory = plan.at("memory");
    EXPECT_EQ(sum_of(memory, kParts), memory.at("peak").get<std::int64_t>()) << plan.at("id");
    EXPECT_LE(memory.at("peak_allocated"), memory.at("peak"));
    EXPECT_LE(memory.at("peak_allocated"), memory.at("peak_reserved"));
    EXPECT_LE(memory.at("required_low"), memory.at("required"));
    EXPECT_LE(memory.at("required"), memory.at("required_high"));
    EXPECT_LE(memory.at("peak"), memory.at("required"));
  }
}

TEST_P(Grid, TheTimelinePeaksAtTheAllocatedPeak) {
  const json& r = answer();
  for (const json& plan : r.at("plans")) {
    std::int64_t most = 0;
    for (const json& moment : plan.at("memory").at("timeline"))
      most = std::max(most, moment.at("bytes").get<std::int64_t>());
    EXPECT_EQ(most, plan.at("memory").at("peak_allocated").get<std::int64_t>()) << plan.at("id");
  }
}

TEST_P(Grid, FittingIsWhatTheFiguresSay) {
  const json& r = answer();
  const json &room = r.at("cluster").at("available_memory_bytes"),
             &host = r.at("cluster").at("available_host_memory_bytes_per_node");
  for (const json& plan : r.at("plans")) {
    const json& memory = plan.at("memory");
    bool fits = memory.at("required") <= room && memory.at("host") <= host;
    for (const json& moment : plan.at("moments"))
      fits = fits && moment.at("device") <= room && moment.at("host_per_node") <= host;
    EXPECT_EQ(plan.at("fits").get<bool>(), fits) << plan.at("id");
  }
}

TEST_P(Grid, FittingPlansComeFirstFastestFirst) {
  const json& r = answer();
  const json& plans = r.at("plans");
  for (std::size_t i = 1; i < plans.size(); ++i) {
    EXPECT_GE(plans[i - 1].at("fits"), plans[i].at("fits"));
    if (plans[i].at("fits")) {
      EXPECT_GE(plans[i - 1].at("time").at("tokens_per_second"), plans[i].at("time").at("tokens_per_second"));
    }
  }
  const bool any = plans.at(0).at("fits");
  EXPECT_EQ(r.at("recommended"), any ? plans.at(0).at("id") : json(nullptr));
  EXPECT_EQ(r.at("ds_config").is_null(), !any);
  EXPECT_EQ(in_process(GetParam()).status, any ? kFits : kNothingFits);
}

TEST_P(Grid, AHigherStageNeverHoldsMoreSteadyState) {
  const json r = report(GetParam() + " --tp 1 --offload none");
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const char* id : {"zero0", "zero1", "zero2", "zero3"})
    for (const json& plan : r.at("plans"))
      if (plan.at("id").get<std::string>().starts_with(id)) {
        const std::int64_t held =
            sum_of(plan.at("memory").at("steady"), {"parameters", "gradients", "optimizer_states"});
        EXPECT_LE(held, before) << id;
        before = held;
      }
  EXPECT_NE(before, std::numeric_limits<std::int64_t>::max());
}

TEST_P(Grid, TrafficAddsUpAndEverySpeedIsConsistent) {
  const json& r = answer();
  for (const json& plan : r.at("plans")) {
    const json& communication = plan.at("communication");
    std::int64_t bytes = 0, wire = 0;
    for (const json& each : communication.at("collectives"))
      bytes += each.at("bytes").get<std::int64_t>(),
          wire += each.at("wire_bytes_per_gpu").get<std::int64_t>();
    EXPECT_EQ(bytes, communication.at("bytes").get<std::int64_t>());
    EXPECT_EQ(wire, communication.at("wire_bytes_per_gpu").get<std::int64_t>());
    const json &time = plan.at("time"), &s = plan.at("strategy");
    const double tokens =
        s.at("global_batch_size").get<double>() * r.at("training").at("sequence_length").get<double>();
    EXPECT_NEAR(time.at("tokens_per_second").get<double>() * time.at("step").get<double>(), tokens,
                1e-6 * tokens);
    EXPECT_EQ(s.at("tensor_parallel").get<std::int64_t>() * s.at("data_parallel").get<std::int64_t>(),
              r.at("cluster").at("gpus").get<std::int64_t>());
  }
}

double sum_of_values(const json& object) {
  double sum = 0;
  for (const auto& [name, value] : object.items()) sum += value.get<double>();
  return sum;
}

TEST_P(Grid, TimesAddUpToTheStep) {
  for (const json& plan : answer().at("plans")) {
    const json& time = plan.at("time");
    const auto of = [&time](const char* key) { return time.at(key).get<double>(); };
    const double step = of("step"), exposed = of("exposed_communication");
    EXPECT_NEAR(of("products") + of("attention") + of("other_kernels"), of("compute"), 1e-9 * step);
    EXPECT_NEAR(of("compute") + of("launching") + exposed + of("offload") + of("optimizer"), step,
                1e-6 * step);
    EXPECT_NEAR(sum_of_values(time.at("exposed_by_phase")), exposed, 1e-9 * step);
    EXPECT_LE(of("exposed_tensor_parallel"), exposed * (1 + 1e-9));
    EXPECT_LE(of("mfu"), of("hfu") * (1 + 1e-9));
  }
}

TEST_P(Grid, LinksCarryWhatCollectivesSend) {
  const json& r = answer();
  for (const json& plan : r.at("plans")) {
    const json& communication = plan.at("communication");
    std::int64_t inside = 0, outside = 0;
    double seconds = 0;
    for (const json& each : communication.at("collectives")) {
      const auto in = each.at("inside_bytes_per_gpu").get<std::int64_t>(),
                 out = each.at("outside_bytes_per_gpu").get<std::int64_t>();
      if (each.at("algorithm") == "ring") {
        EXPECT_GE(in + out, each.at("wire_bytes_per_gpu").get<std::int64_t>() -
                                2 * each.at("count").get<std::int64_t>())
            << plan.at("id") << each;
      }
      inside += in, outside += out, seconds += each.at("seconds").get<double>();
    }
    EXPECT_EQ(inside, communication.at("inside_bytes_per_gpu").get<std::int64_t>());
    EXPECT_EQ(outside, communication.at("outside_bytes_per_gpu").get<std::int64_t>());
    EXPECT_NEAR(seconds, plan.at("time").at("communication").get<double>(), 1e-9 + 1e-6 * seconds);
    if (r.at("cluster").at("nodes") == 1) {
      EXPECT_EQ(outside, 0);
    }
  }
}

/// RFC 4180, as far as it is needed here.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      rows.back().back() += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && c == ',')
      rows.back().emplace_back();
    else if (!quoted && c == '\n')
      rows.emplace_back(1);
    else if (quoted || c != '\r')
      rows.back().back() += c;
  }
  EXPECT_FALSE(quoted);
  rows.pop_back();  // behind the last line's end
  return rows;
}

TEST_P(Grid, CsvHasTheSamePlansAndFigures) {
  const json& r = answer();
  const auto rows = parse_csv(in_process(GetParam() + " --csv").out);
  ASSERT_EQ(rows.size(), r.at("plans").size() + 1);
  const auto column = [&rows](const std::string& name) {
    return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) - rows[0].begin());
  };
  for (std::size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), rows[0].size());
    const json& plan = r.at("plans").at(i - 1);
    EXPECT_EQ(rows[i][column("id")], plan.at("id"));
    EXPECT_EQ(rows[i][column("required")], plan.at("memory").at("required").dump());
    EXPECT_EQ(rows[i][column("fits")], plan.at("fits").dump());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Grid, testing::ValuesIn(kGrid));

TEST(Json, IsOneObjectAndNothingElse) {
  const Result result = as_process(split("--model 8B --gpus 5 --mem 44 --json"));
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(json::parse(result.out).is_object());
}

TEST(Json, MoreGpusNeverNeedMorePerGpuAtStage3) {
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const char* gpus : {"1", "2", "4", "8", "16"}) {
    const json r = report(std::string("--model 8B --mem 80 --zero 3 --tp 1 --offload none --gpus ") + gpus);
    const std::int64_t steady = sum_of(plan_of(r, "zero3").at("memory").at("steady"),
                                       {"parameters", "gradients", "optimizer_states"});
    EXPECT_LT(steady, before);
    before = steady;
  }
}

}  // namespace
}  // namespace zplan::test

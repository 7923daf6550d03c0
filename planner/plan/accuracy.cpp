#include "planner/plan/accuracy.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/base/embedded.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> accuracy_data;
}  // namespace embedded

namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr double kMostError = 1e6;
constexpr double kLeastFactor = 1e-3;

template <class E>
std::optional<E> name_at(const JsonReader& at, const char* key) {
  const auto value = at.find(key);
  return value ? std::optional(parse_name<E>(value->place(), value->text())) : std::nullopt;
}

Accuracy read_group(const JsonReader& at) {
  Accuracy group;
  group.of = parse_name<AccuracyOf>(at.at("kind").place(), at.at("kind").text());
  group.against = at.at("against").text();
  group.statistic = at.at("statistic").text();
  group.on_cards = at.at("on_cards").boolean();
  group.slower_attention = at.at("slower_attention").boolean();
  group.framework = name_at<Framework>(at, "framework");
  group.method = name_at<Method>(at, "method");
  if (const auto card = at.find("card")) group.card = card->text();
  group.judged = at.at("judged").integer(1, kMost);
  group.exact = at.at("exact").integer(0, kMost);
  group.median = at.at("median_error").number(0, kMostError);
  group.nine_in_ten = at.at("p90_error").number(0, kMostError);
  group.worst = at.at("worst_error").number(0, kMostError);
  group.too_low = at.at("under_predicted").number(0, 1);
  group.anchor = at.at("anchor").text();
  return group;
}

/// RangeGroup holds a group of ranges with what it applies to.
struct RangeGroup {
  AccuracyOf of{};
  bool offloads{};
  LikelyRange range;
};

RangeGroup read_range(const JsonReader& at) {
  RangeGroup group;
  group.of = parse_name<AccuracyOf>(at.at("kind").place(), at.at("kind").text());
  group.offloads = at.at("offloads").boolean();
  group.range.framework = name_at<Framework>(at, "framework");
  group.range.method = name_at<Method>(at, "method");
  group.range.units = name_at<MatrixUnits>(at, "units");
  group.range.runs = at.at("runs").integer(1, kMost);
  group.range.sources = at.at("sources").integer(1, kMost);
  group.range.low = at.at("low").number(kLeastFactor, kMostError);
  group.range.high = at.at("high").number(group.range.low, kMostError);
  return group;
}

/// Returns the list in one member of the file: a plan needs only ranges, a twelfth of it. Does not use
/// parse_json, whose checks every answer would pay for: docs/generate_accuracy.py writes the file.
template <class Read>
auto listed(std::string_view member, const Read& read) {
  const embedded::EmbeddedFile& file = embedded::accuracy_data.front();
  const Json list = Json::parse(json_member(file.text, member));
  std::vector<decltype(read(JsonReader(list, std::string())))> all;
  for (const JsonReader& each : JsonReader(list, std::string(file.name)).items()) all.push_back(read(each));
  return all;
}

/// The narrowest first.
const std::vector<RangeGroup>& ranges() {
  static const std::vector<RangeGroup> read = listed("ranges", read_range);
  return read;
}

bool covers(const RangeGroup& group, AccuracyOf of, const Comparable& plan) {
  const LikelyRange& range = group.range;
  return group.of == of && group.offloads == plan.offloads &&
         range.framework.value_or(plan.framework) == plan.framework &&
         range.method.value_or(plan.method) == plan.method && range.units.value_or(plan.units) == plan.units;
}

bool covers(const Accuracy& group, const Coverage& plan) {
  return group.framework.value_or(plan.framework) == plan.framework &&
         group.method.value_or(plan.method) == plan.method && group.card.value_or(plan.card) == plan.card;
}

/// Returns how much a group leaves open: its GPU counts less than its method, since memory hardly depends on
/// the GPU.
int breadth(const Accuracy& group) { return (group.method ? 0 : 2) + (group.card ? 0 : 1); }

bool same_measurements(const Accuracy& a, const Accuracy& b) {
  return a.against == b.against && a.statistic == b.statistic;
}

/// Returns the accuracy of the speeds that are furthest off, for a framework that has none.
const Accuracy& widest_speeds() {
  const Accuracy* widest = nullptr;
  for (const Accuracy& each : accuracies()) {
    const bool counts = each.of == AccuracyOf::step_time && each.framework && !each.method && !each.card;
    if (counts && (widest == nullptr || widest->median < each.median)) widest = &each;
  }
  if (widest == nullptr)
    throw InputError("planner/plan/accuracy.json", "no speeds", "accepted: five or more of a framework");
  return *widest;
}

/// Returns the accuracy of a framework's speeds with any method, on that GPU or on any.
const Accuracy* speeds(Framework framework, const std::optional<std::string>& card, bool slower_attention) {
  constexpr std::int64_t kFewest = 5;
  const auto found = std::find_if(accuracies().begin(), accuracies().end(), [&](const Accuracy& each) {
    return each.of == AccuracyOf::step_time && each.framework == framework && !each.method &&
           each.card == card && each.slower_attention == slower_attention && each.judged >= kFewest;
  });
  return found == accuracies().end() ? nullptr : &*found;
}

}  // namespace

const std::vector<Accuracy>& accuracies() {
  static const std::vector<Accuracy> read = listed("groups", read_group);
  return read;
}

std::vector<Accuracy> accuracies(AccuracyOf of, const Coverage& plan) {
  std::vector<Accuracy> narrowest;
  for (const Accuracy& each : accuracies()) {
    if (each.of != of || !covers(each, plan)) continue;
    const auto same = std::find_if(narrowest.begin(), narrowest.end(),
                                   [&](const Accuracy& other) { return same_measurements(each, other); });
    if (same == narrowest.end())
      narrowest.push_back(each);
    else if (breadth(each) < breadth(*same))
      *same = each;
  }
  return narrowest;
}

bool is_of(const Accuracy& accuracy, const Coverage& plan) {
  const bool of_no_framework = !accuracy.framework && !accuracy.method;
  return accuracy.card == plan.card &&
         (of_no_framework || (accuracy.framework == plan.framework && accuracy.method == plan.method));
}

LikelyRange likely_range(AccuracyOf of, const Comparable& plan) {
  for (const RangeGroup& each : ranges()) {
    if (!covers(each, of, plan)) continue;
    LikelyRange range = each.range;
    if (of == AccuracyOf::step_time) range.low *= plan.slowest_path, range.high *= plan.fastest_path;
    return range;
  }
  throw InputError("planner/plan/accuracy.json", "no range of " + std::string(to_name(of)),
                   "accepted: one that covers every plan");
}

bool overlap(double a, const LikelyRange& of_a, double b, const LikelyRange& of_b) {
  return a * of_a.low <= b * of_b.high && b * of_b.low <= a * of_a.high;
}

Tie speed_tie(Framework framework, const std::string& card) {
  for (const bool slower_attention : {false, true})
    for (const std::optional<std::string>& where : {std::optional(card), std::optional<std::string>()})
      if (const Accuracy* found = speeds(framework, where, slower_attention)) return {found->median, *found};
  const Accuracy& widest = widest_speeds();
  return {widest.median, widest};
}

Tie speed_tie(Framework a, Framework b, const std::string& card) {
  const Tie one = speed_tie(a, card), other = speed_tie(b, card);
  return one.within < other.within ? other : one;
}

}  // namespace zplan

#include "cli/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/text.h"
#include "models/base/embedded.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> accuracy_data;
}  // namespace embedded

namespace {

constexpr std::int64_t kMostRows = 1'000'000'000;
constexpr std::string_view kPage = "docs/accuracy.md";
constexpr double kMostError = 1e6;
/// What is less is not said to be nothing.
constexpr double kLeastShown = 0.0001;

Accuracy read_group(const JsonReader& at) {
  Accuracy group;
  group.of = parse_name<AccuracyOf>(at.at("kind").place(), at.at("kind").text());
  group.against = at.at("against").text();
  if (at.has("framework"))
    group.framework = parse_name<Framework>(at.at("framework").place(), at.at("framework").text());
  group.judged = at.at("judged").integer(1, kMostRows);
  group.exact = at.at("exact").integer(0, kMostRows);
  group.median = at.at("median_error").number(0, kMostError);
  group.nine_in_ten = at.at("p90_error").number(0, kMostError);
  group.too_low = at.at("under_predicted").number(0, 1);
  group.anchor = at.at("anchor").text();
  return group;
}

std::vector<Accuracy> read_groups() {
  const embedded::EmbeddedFile& file = embedded::accuracy_data.front();
  const std::string name(file.name);
  const Json json = parse_json(file.text, name);
  std::vector<Accuracy> groups;
  for (const JsonReader& each : JsonReader(json, name).at("groups").items())
    groups.push_back(read_group(each));
  return groups;
}

std::string percent(double fraction) {
  const double value = fraction * 100;
  return fmt::format("{:.{}f} %", value, value < 0.1 ? 2 : value < 10 ? 1 : 0);
}

}  // namespace

const std::vector<Accuracy>& accuracies() {
  static const std::vector<Accuracy> groups = read_groups();
  return groups;
}

std::vector<Accuracy> accuracies(AccuracyOf of, Framework framework) {
  std::vector<Accuracy> found;
  std::copy_if(
      accuracies().begin(), accuracies().end(), std::back_inserter(found),
      [&](const Accuracy& each) { return each.of == of && each.framework.value_or(framework) == framework; });
  return found;
}

std::string accuracy_text(const Accuracy& accuracy) {
  std::string text = fmt::format("{} {}", accuracy.judged, accuracy.against);
  if (accuracy.exact == accuracy.judged) return text + ", all equal";
  text += fmt::format(", median {}, 90 % within {}", percent(accuracy.median),
                      percent(std::max(accuracy.nine_in_ten, kLeastShown)));
  if (accuracy.too_low > 0)
    text += fmt::format(", too low by more than 5 % in {}", percent(accuracy.too_low));
  return text;
}

std::string accuracy_badge(AccuracyOf of, Framework framework) {
  const std::vector<Accuracy> found = accuracies(of, framework);
  const std::string name = in_words(to_name(of));
  if (found.empty()) return fmt::format("{}: not checked under {}", name, to_name(framework));
  return fmt::format("{}: {}", name, accuracy_text(found.front()));
}

std::string accuracy_page(std::string_view anchor) {
  return anchor.empty() ? std::string(kPage) : fmt::format("{}#{}", kPage, anchor);
}

std::vector<std::string> accuracy_sentences(Framework framework) {
  std::vector<std::string> sentences;
  for (const auto& [of, name] : EnumNames<AccuracyOf>::table) {
    const std::vector<Accuracy> found = accuracies(of, framework);
    for (const Accuracy& each : found)
      sentences.push_back(fmt::format("{}: {}", in_words(name), accuracy_text(each)));
    if (found.empty()) sentences.push_back(accuracy_badge(of, framework));
  }
  sentences.push_back(fmt::format("what was measured, and what nobody has checked: {}", accuracy_page()));
  return sentences;
}

}  // namespace zplan

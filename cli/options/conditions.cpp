// Conditions of options: one loop over the table refuses options that could do nothing.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/options.h"
#include "cli/options/strategy_words.h"
#include "models/base/format.h"

namespace zplan {

namespace {

/// "lora, qlora or full"
template <class Words>
std::string either(const Words& words) {
  if (words.size() == 1) return std::string(words.front());
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

bool share_a_word(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  return std::ranges::find_first_of(some, others) != some.end();
}

bool holds(const Condition& condition, const StandingOf& standing) {
  if (!condition.words.empty())
    return share_a_word(standing(condition.options.front()).words, condition.words);
  const bool is_given = std::ranges::any_of(
      condition.options, [&](std::string_view option) { return standing(option).is_given; });
  return is_given != condition.is_excluded;
}

std::vector<std::string> words_of(const OptionSpec& option, const Options& options) {
  const std::string text = option.type.show(options);
  std::vector<std::string> words;
  for (const std::string_view each : split(text, ',')) words.emplace_back(each);
  return words;
}

Standing standing_in(const Options& options, std::string_view name) {
  const OptionSpec& option = *find_option(name);
  static const Options kDefaults;
  const std::vector<std::string> by_default = words_of(option, kDefaults);
  Standing standing{.words = words_of(option, options), .is_given = options.has(name)};
  standing.is_given = standing.is_given &&
                      (option.value.empty() || by_default.front().empty() || standing.words != by_default);
  // Strategies of `compare` name methods, too.
  if (name == "--method")
    for (const Method each : methods_named(options)) standing.words.emplace_back(to_name(each));
  return standing;
}

/// The option's values that no condition refuses.
std::vector<std::string> values_left(const OptionSpec& option, const StandingOf& standing) {
  std::vector<std::string> left = option.type.words;
  std::erase_if(left, [&](const std::string& word) { return unmet(option, {word}, standing) != nullptr; });
  return left;
}

std::string accepted_text(const OptionSpec& option, const Condition& unmet_one, const StandingOf& standing) {
  if (unmet_one.is_excluded) return "accepted: one of the two";
  if (unmet_one.of.empty()) return "accepted: with " + needed_text(unmet_one);
  return fmt::format("accepted: {}", fmt::join(values_left(option, standing), ", "));
}

void check_needed(const Options& options, const OptionSpec& option) {
  if (!option.needed || options.has(option.name)) return;
  const std::string_view beside = option.needed->beside;
  if (beside.empty() || options.has(beside))
    throw InputError(std::string(option.name), "missing", fmt::format("needed: {}", option.needed->why));
}

}  // namespace

const Condition* unmet(const OptionSpec& option, const std::vector<std::string>& own,
                       const StandingOf& standing) {
  for (const Condition& each : option.conditions) {
    const bool counts = each.of.empty() || std::ranges::find(own, each.of) != own.end();
    if (counts && !holds(each, standing)) return &each;
  }
  return nullptr;
}

std::string needed_text(const Condition& condition) {
  if (condition.words.empty()) return either(condition.options);
  return fmt::format("{} {}", condition.options.front(), either(condition.words));
}

std::string unmet_text(const Condition& condition, const StandingOf& standing) {
  const std::string_view option = condition.options.front();
  if (condition.is_excluded) return fmt::format("given with {}{}", option, condition.because);
  if (condition.words.empty()) return fmt::format("does nothing without {}", either(condition.options));
  const std::string found = condition.of.empty() ? "does nothing" : std::string(condition.of);
  return fmt::format("{} with {} {}{}", found, option, fmt::join(standing(option).words, ", "),
                     condition.because);
}

void check_conditions(const Options& options) {
  const StandingOf standing = [&options](std::string_view name) { return standing_in(options, name); };
  for (const OptionSpec& option : option_table()) {
    check_needed(options, option);
    if (!options.has(option.name)) continue;
    if (const Condition* first = unmet(option, words_of(option, options), standing))
      throw InputError(std::string(option.name), unmet_text(*first, standing),
                       accepted_text(option, *first, standing));
  }
}

}  // namespace zplan

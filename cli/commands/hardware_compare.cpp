// `zplan hardware compare`: one question on several GPUs and cloud shapes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options/command_line.h"
#include "cli/options/request.h"
#include "cli/report/scenario_report.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

constexpr std::string_view kPlace = "hardware compare";

/// Returns the catalogue's name of `word`. Throws InputError with the nearest GPU or shape.
ComparedHardware named(const std::string& word, const HardwareProfiles& profiles) {
  if (word.ends_with(".json")) return {.name = word, .instance = false, .impossible = {}};
  if (const Gpu* gpu = gpu_called(profiles, word))
    return {.name = gpu->name, .instance = false, .impossible = {}};
  if (const Instance* instance = instance_called(profiles, word))
    return {.name = instance->name, .instance = true, .impossible = {}};
  std::vector<std::string> names;
  for (const Gpu& gpu : profiles.gpus) {
    names.push_back(gpu.name);
    names.insert(names.end(), gpu.aliases.begin(), gpu.aliases.end());
  }
  for (const Instance& instance : profiles.instances) names.push_back(instance.name);
  const auto near = nearest_word(word, names);
  throw InputError(std::string(kPlace), in_quotes(word),
                   fmt::format("{}zplan hardware and zplan hardware instances list the names",
                               near ? fmt::format("did you mean {}? ", *near) : ""));
}

void check_prices(const Options& options) {
  const std::size_t prices = options.prices.size(), names = options.words.size();
  if (prices > 1 && prices != names)
    throw InputError("--price", fmt::format("{} prices for {} names", prices, names),
                     "accepted: one for all, or one for each in the order of the names");
  if (options.order == ListOrder::cheapest && prices == 0)
    throw InputError(
        "--order", "cheapest without --price",
        "needed: --price with one price of a GPU-hour for all, or one for each name, such as 1.9,2.6");
}

/// Returns the price for the name at this place.
std::optional<double> price_of(const Options& options, std::size_t place) {
  if (options.prices.empty()) return std::nullopt;
  return options.prices.size() == 1 ? options.prices.front() : options.prices[place];
}

std::vector<ComparedHardware> all_named(const Options& options, const HardwareProfiles& profiles) {
  if (options.words.size() < 2)
    throw InputError(std::string(kPlace), options.words.empty() ? "no names" : "one name",
                     "accepted: two or more GPUs or cloud shapes, such as H100-SXM-80GB p4d.24xlarge");
  check_prices(options);
  std::vector<ComparedHardware> all;
  for (const std::string& word : options.words) {
    ComparedHardware one = named(word, profiles);
    const bool twice = std::any_of(all.begin(), all.end(),
                                   [&one](const ComparedHardware& each) { return each.name == one.name; });
    if (twice) throw InputError(std::string(kPlace), in_quotes(word) + " twice", "accepted: each once");
    one.price = price_of(options, all.size());
    all.push_back(std::move(one));
  }
  return all;
}

/// True if the option belongs to the comparison and not to the question.
bool is_own(std::string_view option) {
  constexpr std::array<std::string_view, 7> kOwn{"--json",  "--csv",   "--markdown", "--no-color",
                                                 "--price", "--order", "--"};
  return std::find(kOwn.begin(), kOwn.end(), option) != kOwn.end();
}

/// The words that ask the same on one of them, by `zplan`.
std::vector<std::string> words_for(const Options& options, const std::vector<std::string>& arguments,
                                   const ComparedHardware& one) {
  std::vector<std::string> words;
  std::vector<std::string> names = options.words;
  names.insert(names.begin(), {"hardware", "compare"});
  for (const GivenOption& each : given_options(arguments)) {
    const auto first = arguments.begin() + static_cast<std::ptrdiff_t>(each.first);
    const bool is_name = each.words == 1 && std::find(names.begin(), names.end(), *first) != names.end();
    if (!is_name && !is_own(each.name))
      words.insert(words.end(), first, first + static_cast<std::ptrdiff_t>(each.words));
  }
  if (one.price && options.budget.is_known())
    words.insert(words.end(), {"--price", fmt::format("{}", *one.price)});
  words.insert(words.end(), {one.instance ? "--instance" : "--gpu", one.name});
  return words;
}

}  // namespace

int hardware_compare(const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
  const HardwareProfiles profiles = with_user_profiles(user_hardware_folder(environment));
  HardwareComparison all{
      .hardware = all_named(options, profiles), .order = options.order, .unit = options.unit};
  std::optional<InputError> refused;
  for (ComparedHardware& each : all.hardware) {
    const Scenario scenario{.name = each.name, .arguments = words_for(options, arguments, each)};
    try {
      each.planned = planned_scenario(scenario, environment);
      if (options.format == OutputFormat::json)
        each.planned->details = details_for(each.planned->question, each.planned->answer, options.format);
    } catch (const InputError& error) {
      each.impossible = fmt::format("{}: {}", error.place(), error.found());
      refused = error;
    }
  }
  const auto is_planned = [](const ComparedHardware& each) { return each.planned.has_value(); };
  // An error on every GPU is an error of the question.
  if (std::none_of(all.hardware.begin(), all.hardware.end(), is_planned)) throw *refused;
  all.sort(options.order);
  out << (options.format == OutputFormat::json ? json_text(hardware_comparison_json(all))
                                               : in_format(hardware_document(all), options.format, style));
  const auto fits = [](const ComparedHardware& each) { return each.fits(); };
  return std::any_of(all.hardware.begin(), all.hardware.end(), fits) ? kFits : kNothingFits;
}

}  // namespace zplan

// Names of two words or more that were typed without quotes: --gpu A100 80GB, --model Qwen3 14b.

#include <algorithm>

#include "cli/options/command_line.h"
#include "cli/options/options.h"
#include "hardware_profiles/profiles.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"
#include "models/catalogue/names.h"

namespace zplan {

namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kMostWords = 5;  // "RTX PRO 6000 Blackwell Workstation"

bool names_model(const std::string& text) {
  return parse_size(text) || entries_named(text, NameMatch::loose, catalogue()).size() == 1 ||
         meaning_of_name(text);
}

bool is_known(NamesOf kind, const std::string& text) {
  switch (kind) {
    case NamesOf::models: return names_model(text);
    case NamesOf::gpus: return gpu_called(profiles_for(text, {}), text) != nullptr;
    case NamesOf::instances: return instance_called(profiles_for({}, {}, text), text) != nullptr;
    default: return false;
  }
}

bool may_continue_name(const std::string& word) {
  return !word.empty() && word.front() != '-' && find_command(word) == nullptr &&
         word.find('/') == std::string::npos;
}

/// The number of words behind `words[at]`, a value, that belong to its name: as many as make a known one.
/// Behind a model that is whole by itself, where the command takes words of its own, only a size is one more.
std::size_t words_of_name(const Words& words, std::size_t at, NamesOf kind, bool has_words) {
  std::string name = words[at];
  const bool only_sizes = has_words && kind == NamesOf::models && is_known(kind, name);
  std::size_t longest = 0;
  for (std::size_t more = 1; more < kMostWords && at + more < words.size(); ++more) {
    const std::string& word = words[at + more];
    const bool is_size = !word.empty() && word.front() >= '0' && word.front() <= '9';
    if (!may_continue_name(word) || (only_sizes && !is_size)) break;
    name += " " + word;
    if (is_known(kind, name)) longest = more;
  }
  return longest;
}

NamesOf names_of(const GivenOption& given) {
  const OptionSpec* option = given.words == 2 ? find_option(given.name) : nullptr;
  return option == nullptr ? NamesOf::nothing : option->type.names;
}

/// True if the command among the words takes words of its own.
bool takes_words(const std::vector<GivenOption>& given) {
  return std::ranges::any_of(given, [](const GivenOption& each) {
    const CommandSpec* spec = find_command(each.name);
    return spec != nullptr && !spec->arguments.empty();
  });
}

}  // namespace

Words with_joined_names(const Words& arguments) {
  const std::vector<GivenOption> given = given_options(arguments);
  const bool has_words = takes_words(given);
  Words joined;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const GivenOption& each = given[i];
    const auto first = arguments.begin() + static_cast<std::ptrdiff_t>(each.first);
    joined.insert(joined.end(), first, first + static_cast<std::ptrdiff_t>(each.words));
    const NamesOf kind = names_of(each);
    const bool is_followed = i + 1 < given.size() && may_continue_name(arguments[given[i + 1].first]);
    if (kind == NamesOf::nothing || !is_followed) continue;
    const std::size_t value = each.first + 1;
    for (std::size_t more = words_of_name(arguments, value, kind, has_words); more > 0; --more)
      joined.back() += " " + arguments[given[++i].first];
  }
  return joined;
}

}  // namespace zplan

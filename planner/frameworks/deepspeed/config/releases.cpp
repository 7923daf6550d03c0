#include "planner/frameworks/deepspeed/config/releases.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/keys.h"

namespace zplan {

namespace {

/// Three numbers, or two: then the patch is absent.
struct Parts {
  int major{}, minor{};
  std::optional<int> patch;
};

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text.front() == '-' || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::optional<Parts> parts(std::string_view text) {
  const std::size_t first = text.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = text.find('.', first + 1);
  const auto major = number(text.substr(0, first)),
             minor = number(
                 text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1));
  if (!major || !minor) return std::nullopt;
  if (second == std::string_view::npos) return Parts{*major, *minor, std::nullopt};
  const auto patch = number(text.substr(second + 1));
  if (!patch) return std::nullopt;
  return Parts{*major, *minor, patch};
}

DeepSpeedRelease release_of(const std::string& text) {
  const Parts read = parts(text).value();
  return {read.major, read.minor, read.patch.value()};
}

using Defaults = std::vector<KeyHistory::Default>;

struct Record {
  std::vector<DeepSpeedRelease> releases;
  std::vector<KeyHistory> keys;
  Defaults clipping;
};

Defaults read_defaults(const Json& entries) {
  Defaults defaults;
  for (const Json& each : entries) defaults.push_back({release_of(each.at("since")), each.at("value")});
  return defaults;
}

KeyHistory read_history(const Json& entry) {
  KeyHistory history{entry.at("pointer"), std::nullopt, {}};
  if (entry.contains("since")) history.since = release_of(entry.at("since"));
  if (entry.contains("defaults")) history.defaults = read_defaults(entry.at("defaults"));
  return history;
}

const Record& record() {
  static const Record read = [] {
    Record all;
    const Json json = deepspeed_data("releases.json");
    for (const Json& each : json.at("releases")) all.releases.push_back(release_of(each));
    for (const Json& each : json.at("keys")) all.keys.push_back(read_history(each));
    all.clipping = read_defaults(json.at("gradient_clipping"));
    return all;
  }();
  return read;
}

const Json& default_at(const Defaults& defaults, DeepSpeedRelease release) {
  const Json* value = &defaults.front().value;
  for (const KeyHistory::Default& each : defaults)
    if (each.since <= release) value = &each.value;
  return *value;
}

std::string section_of(const std::string& pointer) { return pointer.substr(0, pointer.rfind('/')); }
std::string key_of(const std::string& pointer) { return pointer.substr(pointer.rfind('/') + 1); }

/// The newest default where the release has another; nothing where the release's own is what was written.
void set_default(Json& section, const KeyHistory& history, DeepSpeedRelease release) {
  if (history.defaults.empty()) return;
  const std::string key = key_of(history.pointer);
  const Json &then = default_at(history.defaults, release), &now = history.defaults.back().value;
  if (!section.contains(key) && then != now)
    section[key] = now;
  else if (section.contains(key) && section.at(key) == then)
    section.erase(key);
}

}  // namespace

const std::vector<KeyHistory>& key_histories() { return record().keys; }

double default_clipping(DeepSpeedRelease release) {
  return default_at(record().clipping, release).get<double>();
}

const std::vector<DeepSpeedRelease>& known_releases() { return record().releases; }

DeepSpeedRelease parse_release(const std::string& place, std::string_view text) {
  const std::vector<DeepSpeedRelease>& all = known_releases();
  const auto wanted = parts(text);
  const auto at = std::find_if(all.rbegin(), all.rend(), [&wanted](const DeepSpeedRelease& each) {
    return wanted && each.major == wanted->major && each.minor == wanted->minor &&
           wanted->patch.value_or(each.patch) == each.patch;
  });
  if (at != all.rend()) return *at;
  throw InputError(place, in_quotes(text),
                   fmt::format("accepted: a release from {} to {}, or the first two numbers of one",
                               to_text(all.front()), to_text(all.back())));
}

std::vector<std::string> fit_to_release(Json& config, DeepSpeedRelease release) {
  std::vector<std::string> lost;
  for (const KeyHistory& history : key_histories()) {
    const Json::json_pointer where(section_of(history.pointer));
    if (!config.contains(where)) continue;
    Json& section = config.at(where);
    const std::string key = key_of(history.pointer);
    if (history.since && release < *history.since) {
      if (section.erase(key) > 0)
        lost.push_back(fmt::format("DeepSpeed {} does not know {} (since {}): it is left out",
                                   to_text(release), history.pointer.substr(1), to_text(*history.since)));
      continue;
    }
    set_default(section, history, release);
  }
  return lost;
}

}  // namespace zplan

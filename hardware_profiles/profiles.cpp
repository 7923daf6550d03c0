#include "hardware_profiles/profiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/embedded.h"
#include "models/base/names.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> hardware_profiles;
}

namespace {

namespace fs = std::filesystem;

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// What names are compared by: "NVIDIA GeForce RTX 4090" and "rtx-4090" are one.
std::string key_of(std::string_view name) {
  std::string key = folded(name);
  for (const std::string_view brand : {"nvidia", "geforce", "tesla"})
    if (key.starts_with(brand) && key.size() > brand.size()) key.erase(0, brand.size());
  return key;
}

template <class Profile>
bool has_alias(const Profile& profile, const std::string& key) {
  return std::any_of(profile.aliases.begin(), profile.aliases.end(),
                     [&key](const std::string& alias) { return key_of(alias) == key; });
}

template <class Profile>
const Profile* lookup(const std::vector<Profile>& profiles, std::string_view name) {
  const std::string key = key_of(name);
  for (const Profile& profile : profiles)
    if (key_of(profile.name) == key) return &profile;
  for (auto it = profiles.rbegin(); it != profiles.rend(); ++it)
    if (has_alias(*it, key)) return &*it;
  return nullptr;
}

/// "did you mean X? accepted: …", X being the name of the profile whose name or alias is nearest.
template <class Profile>
std::string accepted_profiles(const std::vector<Profile>& profiles, std::string_view given) {
  std::vector<std::string> names, words;
  for (const Profile& profile : profiles) {
    names.push_back(profile.name);
    words.push_back(profile.name);
    words.insert(words.end(), profile.aliases.begin(), profile.aliases.end());
  }
  const std::string list = fmt::format("accepted: {}", fmt::join(names, ", "));
  const auto near = nearest_word(key_of(given), words);
  return near ? fmt::format("did you mean {}? {}", lookup(profiles, *near)->name, list) : list;
}

template <class Profile>
const Profile& find(const std::vector<Profile>& profiles, std::string_view name, std::string_view place,
                    std::string_view also) {
  if (const Profile* found = lookup(profiles, name)) return *found;
  throw InputError(std::string(place), in_quotes(name),
                   accepted_profiles(profiles, name) + std::string(also));
}

template <class Profile>
void put(std::vector<Profile>& profiles, const Profile& added) {
  const std::string key = key_of(added.name);
  const auto same = std::find_if(profiles.begin(), profiles.end(),
                                 [&key](const Profile& each) { return key_of(each.name) == key; });
  if (same == profiles.end())
    profiles.push_back(added);
  else
    *same = added;
}

HardwareProfiles read_text(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  return read_profiles(JsonReader(json, source));
}

/// Of the file of a built-in GPU, which has its name (test BuiltIn.FilesOfGpusHaveTheirNames); else empty.
std::string gpu_key(std::string_view file) {
  constexpr std::string_view kFolder = "gpus/", kEnding = ".json";
  if (!file.starts_with(kFolder) || !file.ends_with(kEnding)) return {};
  file.remove_prefix(kFolder.size()), file.remove_suffix(kEnding.size());
  return key_of(file);
}

/// Files for which `wanted`(name).
template <class Wanted>
HardwareProfiles read_embedded(const Wanted& wanted) {
  HardwareProfiles all;
  for (const auto& file : embedded::hardware_profiles) {
    if (!wanted(file.name)) continue;
    // Not parse_json: the tests check these files once and for all, every start of the program would pay for
    // it.
    const Json json = Json::parse(file.text);
    const std::string source = "hardware_profiles/" + std::string(file.name);
    all = merge_profiles(std::move(all), read_profiles(JsonReader(json, source)));
  }
  return all;
}

std::vector<std::string> profile_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".json") files.push_back(it->path().string());
  if (error) throw InputError(folder, error.message(), "accepted: a folder of *.json profiles");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

const HardwareProfiles& built_in_profiles() {
  static const HardwareProfiles profiles = read_embedded([](std::string_view) { return true; });
  return profiles;
}

const std::vector<Network>& built_in_networks() {
  static const std::vector<Network> networks =
      read_embedded([](std::string_view file) { return file.starts_with("networks/"); }).networks;
  return networks;
}

HardwareProfiles profiles_for(std::string_view gpu, const std::string& folder) {
  const std::string key = key_of(gpu.empty() ? "generic" : gpu);
  std::error_code ignored;
  const bool has_others = !folder.empty() && fs::exists(folder, ignored);
  HardwareProfiles read;
  if (!has_others)
    read = read_embedded([&key](std::string_view file) {
      const std::string of_gpu = gpu_key(file);
      return of_gpu.empty() || of_gpu == key;
    });
  if (read.gpus.empty()) return with_user_profiles(folder);
  const std::string like = key_of(read.gpus.front().collectives_as);
  if (like.empty()) return read;
  return merge_profiles(std::move(read),
                        read_embedded([&like](std::string_view file) { return gpu_key(file) == like; }));
}

HardwareProfiles merge_profiles(HardwareProfiles profiles, const HardwareProfiles& added) {
  for (const Gpu& gpu : added.gpus) put(profiles.gpus, gpu);
  for (const Node& node : added.nodes) put(profiles.nodes, node);
  for (const Network& network : added.networks) put(profiles.networks, network);
  return profiles;
}

HardwareProfiles with_user_profiles(const std::string& folder) {
  HardwareProfiles all = built_in_profiles();
  std::error_code ignored;
  if (folder.empty() || !fs::exists(folder, ignored)) return all;
  for (const std::string& path : profile_files(folder))
    all = merge_profiles(std::move(all), read_text(read_file(path), path));
  return all;
}

const Gpu& find_gpu(const HardwareProfiles& profiles, std::string_view name, std::string_view place) {
  return find(profiles.gpus, name, place, ", or the path of a profile (*.json)");
}

const Node& find_node(const HardwareProfiles& profiles, std::string_view name, std::string_view place) {
  return find(profiles.nodes, name, place, "");
}

const Network& find_network(const HardwareProfiles& profiles, std::string_view name, std::string_view place) {
  return find(profiles.networks, name, place, "");
}

}  // namespace zplan

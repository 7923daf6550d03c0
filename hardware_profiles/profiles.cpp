#include "hardware_profiles/profiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "hardware_profiles/gpu_names.h"
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

/// Returns the key by which names are compared: "NVIDIA GeForce RTX 4090" and "rtx-4090" have the same.
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

std::vector<Instance> merged(std::vector<Instance> instances, const std::vector<Instance>& added) {
  for (const Instance& each : added) put(instances, each);
  return instances;
}

HardwareProfiles read_text(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  return read_profiles(JsonReader(json, source));
}

// Not parse_json: the tests check these files once and for all, every start of the program would pay for it.
HardwareProfiles read_embedded(const embedded::EmbeddedFile& file) {
  const Json json = Json::parse(file.text);
  return read_profiles(JsonReader(json, "hardware_profiles/" + std::string(file.name)));
}

HardwareProfiles read_folder(std::string_view folder) {
  HardwareProfiles all;
  for (const auto& file : embedded::hardware_profiles)
    if (file.name.starts_with(folder)) all = merge_profiles(std::move(all), read_embedded(file));
  return all;
}

/// Nodes and networks: few, and any question may need them.
const HardwareProfiles& built_in_surroundings() {
  static const HardwareProfiles profiles = merge_profiles(read_folder("nodes/"), read_folder("networks/"));
  return profiles;
}

/// A GPU that is compiled in, read when it is first asked for.
class BuiltInGpu {
 public:
  explicit BuiltInGpu(const embedded::EmbeddedFile& file) : file_(&file), keys_(keys_of(file.text)) {}

  [[nodiscard]] bool is_called(const std::string& key) const {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  }
  [[nodiscard]] const Gpu& read() const {
    std::call_once(once_, [this] { gpu_ = std::move(read_embedded(*file_).gpus.front()); });
    return gpu_;
  }

 private:
  /// Name and aliases stand first: whose profile it is can be seen without reading the rest.
  static std::vector<std::string> keys_of(std::string_view text) {
    const Json head = Json::parse(std::string(text.substr(0, text.find(",\n  \"memory_mib\""))) + "}");
    std::vector<std::string> keys{key_of(head.at("name").get_ref<const std::string&>())};
    if (const auto aliases = head.find("aliases"); aliases != head.end())
      for (const Json& alias : *aliases) keys.push_back(key_of(alias.get_ref<const std::string&>()));
    return keys;
  }

  const embedded::EmbeddedFile* file_;
  std::vector<std::string> keys_;
  mutable std::once_flag once_;
  mutable Gpu gpu_;
};

const std::deque<BuiltInGpu>& built_in_gpus() {
  static const std::deque<BuiltInGpu> gpus = [] {
    std::deque<BuiltInGpu> all;
    for (const auto& file : embedded::hardware_profiles)
      if (file.name.starts_with("gpus/")) all.emplace_back(file);
    return all;
  }();
  return gpus;
}

void add_called(HardwareProfiles& profiles, std::string_view name) {
  const std::string key = key_of(name);
  for (const BuiltInGpu& each : built_in_gpus()) {
    if (!each.is_called(key)) continue;
    put(profiles.gpus, each.read());
    if (!each.read().collectives_as.empty()) add_called(profiles, each.read().collectives_as);
  }
}

HardwareProfiles read_all() {
  HardwareProfiles all = built_in_surroundings();
  all.instances = built_in_instances();
  for (const BuiltInGpu& each : built_in_gpus()) all.gpus.push_back(each.read());
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

HardwareProfiles user_profiles(const std::string& folder) {
  HardwareProfiles profiles;
  std::error_code ignored;
  if (folder.empty() || !fs::exists(folder, ignored)) return profiles;
  for (const std::string& path : profile_files(folder))
    profiles = merge_profiles(std::move(profiles), read_text(read_file(path), path));
  return profiles;
}

}  // namespace

const HardwareProfiles& built_in_profiles() {
  static const HardwareProfiles profiles = read_all();
  return profiles;
}

const std::vector<Network>& built_in_networks() { return built_in_surroundings().networks; }

const std::vector<Instance>& built_in_instances() {
  static const std::vector<Instance> instances = read_folder("instances.json").instances;
  return instances;
}

HardwareProfiles merge_profiles(HardwareProfiles profiles, const HardwareProfiles& added) {
  for (const Gpu& gpu : added.gpus) put(profiles.gpus, gpu);
  for (const Node& node : added.nodes) put(profiles.nodes, node);
  for (const Network& network : added.networks) put(profiles.networks, network);
  for (const Instance& instance : added.instances) put(profiles.instances, instance);
  return profiles;
}

HardwareProfiles with_user_profiles(const std::string& folder) {
  return merge_profiles(built_in_profiles(), user_profiles(folder));
}

HardwareProfiles profiles_for(std::string_view gpu, const std::string& user_folder,
                              std::string_view instance) {
  const HardwareProfiles own = user_profiles(user_folder);
  HardwareProfiles profiles = built_in_surroundings();
  if (!instance.empty()) profiles.instances = merged(built_in_instances(), own.instances);
  const Instance* machine = lookup(profiles.instances, instance);
  const std::string of_machine = machine == nullptr ? std::string("generic") : machine->gpu;
  add_called(profiles, gpu.empty() ? of_machine : gpu);
  if (profiles.gpus.empty()) return merge_profiles(built_in_profiles(), own);
  for (const Gpu& each : own.gpus)
    if (!each.collectives_as.empty()) add_called(profiles, each.collectives_as);
  return merge_profiles(std::move(profiles), own);
}

namespace {

/// Returns the part of a GPU that `name` says; null if it says none, or of no known GPU. Parts are kept, so
/// that they can be referred to.
const Gpu* part_called(const HardwareProfiles& profiles, std::string_view name) {
  static std::mutex guard;
  static std::deque<Gpu> parts;
  const auto mig = mig_name(name);
  const Gpu* whole = mig ? gpu_called(profiles, mig->gpu) : nullptr;
  if (whole == nullptr) return nullptr;
  Gpu part = mig_part(*whole, *mig);
  const std::lock_guard lock(guard);
  for (const Gpu& each : parts)
    if (each == part) return &each;
  return &parts.emplace_back(std::move(part));
}

}  // namespace

const Gpu* gpu_called(const HardwareProfiles& profiles, std::string_view name) {
  if (const Gpu* found = lookup(profiles.gpus, name)) return found;
  if (const Gpu* part = part_called(profiles, name)) return part;
  const auto printed = gpus_printed_as(profiles.gpus, name);
  return printed.empty() ? nullptr : printed.front();
}

const Instance* instance_called(const HardwareProfiles& profiles, std::string_view name) {
  return lookup(profiles.instances, name);
}

const Gpu& find_gpu(const HardwareProfiles& profiles, std::string_view name, std::string_view place) {
  if (const Gpu* found = gpu_called(profiles, name)) return *found;
  // There are too many to name them all.
  constexpr std::size_t kMost = 5;
  const std::vector<std::string> near = nearest_gpus(profiles.gpus, name, kMost);
  throw InputError(
      std::string(place), in_quotes(name),
      fmt::format("did you mean {}? nearest: {}; \"zplan hardware list\" shows all {}, and a profile "
                  "(*.json) describes another",
                  near.empty() ? "generic" : near.front(), fmt::join(near, ", "), profiles.gpus.size()));
}

const Node& find_node(const HardwareProfiles& profiles, std::string_view name, std::string_view place) {
  return find(profiles.nodes, name, place, "");
}

const Network& find_network(const HardwareProfiles& profiles, std::string_view name, std::string_view place) {
  return find(profiles.networks, name, place, "");
}

const Instance& find_instance(const HardwareProfiles& profiles, std::string_view name,
                              std::string_view place) {
  if (const Instance* found = instance_called(profiles, name)) return *found;
  // There are too many to name them all.
  std::vector<std::string> names;
  for (const Instance& each : profiles.instances) names.push_back(each.name);
  const auto near = nearest_word(name, names);
  throw InputError(std::string(place), in_quotes(name),
                   fmt::format("{}accepted: a cloud shape as zplan hardware instances lists them",
                               near ? fmt::format("did you mean {}? ", *near) : ""));
}

}  // namespace zplan

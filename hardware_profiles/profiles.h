#pragma once
// The hardware profiles: compiled in, from a user's folder, by path.

#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/gpu.h"
#include "hardware_profiles/node.h"
#include "models/base/json_reader.h"

namespace zplan {

/// Profiles by kind.
struct HardwareProfiles {
  std::vector<Gpu> gpus{};
  std::vector<Node> nodes{};
  std::vector<Network> networks{};
  std::vector<Instance> instances{};
  friend bool operator==(const HardwareProfiles&, const HardwareProfiles&) = default;
};

/// Returns the profiles compiled into the program, in order of file name.
[[nodiscard]] const HardwareProfiles& built_in_profiles();

/// Returns the networks among them.
[[nodiscard]] const std::vector<Network>& built_in_networks();

/// Returns the profiles that a question about `gpu` needs (empty: the GPU of `instance`, else the generic
/// one): those of with_user_profiles, but of the built-in GPUs only those with that name or alias, and those
/// whose curves they use; all of them if none has the name. Cloud shapes are included if one is named.
[[nodiscard]] HardwareProfiles profiles_for(std::string_view gpu, const std::string& user_folder,
                                            std::string_view instance = {});

/// Returns the cloud shapes compiled into the program, in the order of hardware_profiles/instances.json.
[[nodiscard]] const std::vector<Instance>& built_in_instances();

/// Reads a profile (`zplan.gpu/1`, `zplan.node/1`, `zplan.network/1`) or a list of cloud shapes
/// (`zplan.instances/1`). Throws InputError, which names file and pointer, for unknown keys, wrong types and
/// ranges, a figure without a source and a source without a figure.
[[nodiscard]] HardwareProfiles read_profiles(const JsonReader& file);

/// True if a profile may have this name: letters, digits, dots, dashes, underscores and blanks, a letter or
/// digit in front, at most 100.
[[nodiscard]] bool is_profile_name(std::string_view name);

/// Returns `profiles` with those of `added` in place of the ones with their name (case and punctuation
/// ignored), or at the end.
[[nodiscard]] HardwareProfiles merge_profiles(HardwareProfiles profiles, const HardwareProfiles& added);

/// Returns the built-in profiles and every *.json of a user's folder, in order of file name. A user's profile
/// replaces a built-in one with its name. A folder that does not exist adds nothing. Throws InputError for a
/// file that is no profile.
[[nodiscard]] HardwareProfiles with_user_profiles(const std::string& folder);

/// Find a GPU or instance as find_gpu and find_instance do; null if there is none.
[[nodiscard]] const Gpu* gpu_called(const HardwareProfiles& profiles, std::string_view name);
[[nodiscard]] const Instance* instance_called(const HardwareProfiles& profiles, std::string_view name);

/// Find a profile by name or alias. Ignore case, punctuation, and NVIDIA, GeForce and Tesla in front. Names
/// win over aliases, later profiles' aliases over earlier ones'. Throw InputError, which names `place` and
/// the nearest name, if there is none.
[[nodiscard]] const Gpu& find_gpu(const HardwareProfiles& profiles, std::string_view name,
                                  std::string_view place = "--gpu");
[[nodiscard]] const Node& find_node(const HardwareProfiles& profiles, std::string_view name,
                                    std::string_view place = "--node");
[[nodiscard]] const Network& find_network(const HardwareProfiles& profiles, std::string_view name,
                                          std::string_view place = "--network");
[[nodiscard]] const Instance& find_instance(const HardwareProfiles& profiles, std::string_view name,
                                            std::string_view place = "--instance");

/// Returns the GPU as zplan.gpu/1. read_profiles() reads the same GPU back, but for rounding of units.
[[nodiscard]] Json write_gpu(const Gpu& gpu);

}  // namespace zplan

#pragma once
// The hardware profiles: compiled in, from a user's folder, by path.

#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/gpu.h"
#include "hardware_profiles/node.h"
#include "models/base/json_reader.h"

namespace zplan {

struct HardwareProfiles {
  std::vector<Gpu> gpus{};
  std::vector<Node> nodes{};
  std::vector<Network> networks{};
  std::vector<Instance> instances{};
  friend bool operator==(const HardwareProfiles&, const HardwareProfiles&) = default;
};

/// The profiles compiled into the program, in order of file name.
[[nodiscard]] const HardwareProfiles& built_in_profiles();

/// The networks among them.
[[nodiscard]] const std::vector<Network>& built_in_networks();

/// Returns the profiles that a question about `gpu` needs (empty: the GPU of `instance`, else the generic
/// one): those of with_user_profiles, but of the built-in GPUs only those with that name or alias, and those
/// whose curves they use; all of them if none has the name. Cloud shapes are included if one is named.
[[nodiscard]] HardwareProfiles profiles_for(std::string_view gpu, const std::string& user_folder,
                                            std::string_view instance = {});

/// Cloud shapes that are compiled in, in the file's order (hardware_profiles/instances.json).
[[nodiscard]] const std::vector<Instance>& built_in_instances();

/// One profile file (`zplan.gpu/1`, `zplan.node/1`, `zplan.network/1`), or a list of cloud shapes
/// (`zplan.instances/1`), checked: unknown keys, types, ranges, and a source for every figure and no other.
/// Throws InputError naming file and pointer.
[[nodiscard]] HardwareProfiles read_profiles(const JsonReader& file);

/// True if a profile may have this name: letters, digits, dots, dashes, underscores and blanks, a letter or
/// digit in front, at most 100.
[[nodiscard]] bool is_profile_name(std::string_view name);

/// `profiles` with those of `added` put in place of the ones of their name (case and punctuation ignored), or
/// at the end.
[[nodiscard]] HardwareProfiles merge_profiles(HardwareProfiles profiles, const HardwareProfiles& added);

/// Built-in profiles plus every *.json of a user's folder, in order of file name; a user's profile replaces a
/// built-in one of its name. A folder that does not exist adds nothing; a file that is no profile is an
/// InputError.
[[nodiscard]] HardwareProfiles with_user_profiles(const std::string& folder);

/// Find a GPU or instance as find_gpu and find_instance do; null if there is none.
[[nodiscard]] const Gpu* gpu_called(const HardwareProfiles& profiles, std::string_view name);
[[nodiscard]] const Instance* instance_called(const HardwareProfiles& profiles, std::string_view name);

/// By name or alias, case, punctuation and the words NVIDIA, GeForce and Tesla in front ignored; InputError
/// naming `place` with the nearest name otherwise. Names win over aliases, later profiles' aliases over
/// earlier ones'.
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

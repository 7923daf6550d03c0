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
  friend bool operator==(const HardwareProfiles&, const HardwareProfiles&) = default;
};

/// The profiles compiled into the program, in order of file name.
[[nodiscard]] const HardwareProfiles& built_in_profiles();

/// One profile file (`zplan.gpu/1`, `zplan.node/1`, `zplan.network/1`), checked: unknown keys, types, ranges,
/// and a source for every figure and no other. Throws InputError naming file and pointer.
[[nodiscard]] HardwareProfiles read_profiles(const JsonReader& file);

/// Whether a profile may be called so: letters, digits, dots, dashes, underscores and blanks, a letter or
/// digit in front, at most 100.
[[nodiscard]] bool is_profile_name(std::string_view name);

/// `profiles` with those of `added` put in place of the ones of their name (case and punctuation ignored), or
/// at the end.
[[nodiscard]] HardwareProfiles merge_profiles(HardwareProfiles profiles, const HardwareProfiles& added);

/// Built-in profiles plus every *.json of a user's folder, in order of file name; a user's profile replaces a
/// built-in one of its name. A folder that does not exist adds nothing; a file that is no profile is an
/// InputError.
[[nodiscard]] HardwareProfiles with_user_profiles(const std::string& folder);
/// Of them what a cluster of `gpu` (empty: the generic one) is assembled from. Only the files that this needs
/// are read where `gpu` is the name of a built-in GPU and there is no `folder`.
[[nodiscard]] HardwareProfiles profiles_for(std::string_view gpu, const std::string& folder);
/// The networks of built_in_profiles().
[[nodiscard]] const std::vector<Network>& built_in_networks();

/// By name or alias, case, punctuation and the words NVIDIA, GeForce and Tesla in front ignored; InputError
/// naming `place` with the nearest name otherwise. Names win over aliases, later profiles' aliases over
/// earlier ones'.
[[nodiscard]] const Gpu& find_gpu(const HardwareProfiles& profiles, std::string_view name,
                                  std::string_view place = "--gpu");
[[nodiscard]] const Node& find_node(const HardwareProfiles& profiles, std::string_view name,
                                    std::string_view place = "--node");
[[nodiscard]] const Network& find_network(const HardwareProfiles& profiles, std::string_view name,
                                          std::string_view place = "--network");

}  // namespace zplan

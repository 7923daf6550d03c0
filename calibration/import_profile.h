#pragma once
// Measurements of collectives → a GPU's profile that has them.

#include <string>
#include <vector>

#include "hardware_profiles/profiles.h"
#include "planner/check/read.h"

namespace zplan::check {

/// What a profile is made from. Empty names: the measurements decide.
struct ImportRequest {
  const HardwareProfiles& hardware;
  std::string gpu;      ///< the GPU whose figures stand where nothing was measured: a name or a path (*.json)
  std::string node;     ///< node type of the machines
  std::string network;  ///< between them
  std::string name;     ///< of the profile; empty: the GPU's with "-measured"
};

struct ImportedProfile {
  Gpu gpu;
  std::vector<std::string> notes;  ///< what was left out, and what looks odd: a sentence each
};

/// Of nccl-tests logs and benchmark results. Curves of groups that had the machines to themselves, with
/// a fitted line each: out of place, or in place where an operation has no other form; what copies of pinned
/// memory reach; everything else from the GPU. Curves that the GPU brings are kept for operations that were
/// not measured. Each figure's source is where it was measured: program, date, library, driver, hosts,
/// command. Throws InputError for other documents, broken ones, results that contradict themselves or that
/// are of different GPUs, and where nothing was measured that a profile holds.
[[nodiscard]] ImportedProfile import_profile(const std::vector<Document>& documents,
                                             const ImportRequest& request);

/// Where times fall by a factor of ten or more from a size to a larger one: a sentence each.
[[nodiscard]] std::vector<std::string> odd_points(const CollectiveCurve& curve);

}  // namespace zplan::check

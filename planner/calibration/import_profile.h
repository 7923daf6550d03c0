#pragma once
// Makes a GPU's profile of measured collectives.

#include <string>
#include <vector>

#include "hardware_profiles/profiles.h"
#include "planner/check/readers/read.h"

namespace zplan::check {

/// Choices for a profile. An empty name is taken from the measurements.
struct ImportRequest {
  const HardwareProfiles& hardware;
  std::string gpu;      ///< GPU whose figures stand where nothing was measured: a name or a path (*.json)
  std::string node;     ///< node type of the machines
  std::string network;  ///< between them
  std::string name;     ///< of the profile; empty: the GPU's with "-measured"
};

struct ImportedProfile {
  Gpu gpu;
  std::vector<std::string> notes;  ///< figures that are left out or look odd: a sentence each
};

/// Makes a profile of nccl-tests logs and benchmark results. It has a curve with a fitted line for each group
/// that had the machines to itself: out of place, or in place where an operation has no other form; the speed
/// of copies of pinned memory; and all other figures of the GPU, with its curves of operations that were not
/// measured. Each figure's source names program, date, library, driver, hosts and command. Throws InputError
/// for other or broken documents, for results that contradict themselves or are of different GPUs, and if
/// nothing was measured that a profile holds.
[[nodiscard]] ImportedProfile import_profile(const std::vector<Document>& documents,
                                             const ImportRequest& request);

/// Returns a sentence for each size from which times fall by a factor of ten or more to a larger one.
[[nodiscard]] std::vector<std::string> odd_points(const CollectiveCurve& curve);

}  // namespace zplan::check

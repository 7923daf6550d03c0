#pragma once
// What is left free of the memory that there is.

#include "models/base/quantity.h"

namespace zplan {

struct Cluster;

/// The share of a GPU that is left free beyond everything the plan counts.
struct Headroom {
  double fraction{0.10};
};

/// Device bytes that `required` may take: usable memory less the headroom.
[[nodiscard]] Bytes available(const Cluster& cluster, Headroom headroom);
/// Host bytes that offload may take on one node: its memory less the same share, for the system, the training
/// processes and the data loader.
[[nodiscard]] Bytes available_on_host(const Cluster& cluster, Headroom headroom);

}  // namespace zplan

#pragma once
// The algorithms and protocols that NCCL has for a collective.

#include <array>
#include <string_view>
#include <utility>

#include "models/base/names.h"

namespace zplan {

/// How the ranks pass data on. `pairwise` is what all_to_all and send_recv are: each sends to each.
enum class CollectiveAlgorithm { ring, tree, nvls, nvls_tree, pairwise };
template <>
struct EnumNames<CollectiveAlgorithm> {
  static constexpr std::array<std::pair<CollectiveAlgorithm, std::string_view>, 5> table{{
      {CollectiveAlgorithm::ring, "ring"},
      {CollectiveAlgorithm::tree, "tree"},
      {CollectiveAlgorithm::nvls, "NVLS"},
      {CollectiveAlgorithm::nvls_tree, "NVLSTree"},
      {CollectiveAlgorithm::pairwise, "pairwise"},
  }};
};

/// How a message is handed over: with a flag in every 8 bytes, in every 128, or behind each chunk.
enum class CollectiveProtocol { ll, ll128, simple };
template <>
struct EnumNames<CollectiveProtocol> {
  static constexpr std::array<std::pair<CollectiveProtocol, std::string_view>, 3> table{{
      {CollectiveProtocol::ll, "LL"},
      {CollectiveProtocol::ll128, "LL128"},
      {CollectiveProtocol::simple, "Simple"},
  }};
};

}  // namespace zplan

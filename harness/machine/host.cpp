#include "harness/machine/host.h"

#include <nlohmann/json.hpp>

namespace zplan::bench {

namespace {

template <class T>
Json or_null(const T& value) {
  return value == T{} ? Json(nullptr) : Json(value);
}

Json json_of(const GpuDevice& gpu) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"memory_bytes", or_null(gpu.memory.value)},
          {"compute_capability", or_null(gpu.compute_capability)},
          {"pci", or_null(gpu.pci)},
          {"pcie_generation", or_null(gpu.pcie_generation)},
          {"pcie_lanes", or_null(gpu.pcie_lanes)}};
}

Json json_of(const GpuLink& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"kind", to_name(link.kind)},
          {"lanes", link.lanes},
          {"switched", link.switched},
          {"peer_to_peer", link.peer_to_peer ? Json(*link.peer_to_peer) : Json(nullptr)}};
}

Json json_of(const Nic& nic) {
  return {{"name", nic.name}, {"bytes_per_second", nic.rate ? Json(nic.rate->value) : Json(nullptr)}};
}

template <class T>
Json list_of(const std::vector<T>& all) {
  Json list = Json::array();
  for (const T& each : all) list.push_back(json_of(each));
  return list;
}

}  // namespace

Json host_json(const Host& host) {
  return {{"name", host.name},
          {"ranks", host.ranks},
          {"processor", host.processor},
          {"cores", host.cores},
          {"numa_nodes", or_null(host.numa_nodes)},
          {"memory_bytes", host.memory.value},
          {"gpus", list_of(host.gpus)},
          {"links", list_of(host.links)},
          {"nics", list_of(host.nics)},
          {"notes", host.notes}};
}

}  // namespace zplan::bench

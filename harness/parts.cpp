#include "harness/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "hardware_profiles/profiles.h"
#include "harness/machine/cluster_options.h"
#include "harness/machine/interfaces.h"
#include "harness/machine/storage.h"
#include "harness/machine/topology.h"
#include "harness/statistics.h"
#include "models/base/format.h"

#ifdef ZPLAN_HAS_NCCL
#include "harness/nccl/device_measurements.h"
#endif

namespace zplan::bench {

namespace {

void record_storage(const Options& options, Recorder& recorder) {
  for (const StorageResult& each : measure_storage(options.storage)) {
    recorder.add("storage", storage_json(each));
    if (!each.note.empty()) recorder.add("notes", each.note);
  }
}

#ifdef ZPLAN_HAS_NCCL
Json copy_json(const CopyTimes& copy) {
  const TimeStatistics seconds = statistics_of(copy.samples);
  return {{"direction", std::string(to_name(copy.direction))},
          {"memory", std::string(to_name(copy.memory))},
          {"rank", 0},
          {"bytes", copy.bytes.value},
          {"seconds", statistics_json(seconds)},
          {"bytes_per_second", static_cast<double>(copy.bytes.value) / seconds.median.value}};
}

Json product_json(const ProductTimes& times) {
  const Product& p = times.product;
  const TimeStatistics seconds = statistics_of(times.samples);
  const double operations =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return {{"kind", "matrix_product"},
          {"dtype", std::string(to_name(p.type))},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"seconds", statistics_json(seconds)},
          {"flops_per_second", operations / seconds.median.value}};
}

Json memory_json(const MemoryTimes& memory) {
  const TimeStatistics seconds = statistics_of(memory.samples);
  return {{"kind", "memory"},
          {"bytes", memory.bytes.value},
          {"seconds", statistics_json(seconds)},
          {"bytes_per_second", static_cast<double>(memory.bytes.value) / seconds.median.value}};
}

/// Rank 0, which alone does this, is the first of its host and has the first GPU.
void record_device(const Options& options, Recorder& recorder) {
  const DeviceTimes found = measure_device({.timeout = options.timeout});
  for (const CopyTimes& each : found.copies) recorder.add("copies", copy_json(each));
  for (const ProductTimes& each : found.products) recorder.add("compute", product_json(each));
  for (const MemoryTimes& each : found.memory) recorder.add("compute", memory_json(each));
  for (const std::string& each : found.notes) recorder.add("notes", each);
}
#endif

std::string gpu_line(const GpuDevice& gpu) {
  return fmt::format("  GPU {}  {}, {}, compute capability {}, PCIe {} x{} at {}\n", gpu.index, gpu.name,
                     format_bytes(gpu.memory), gpu.compute_capability, gpu.pcie_generation, gpu.pcie_lanes,
                     gpu.pci);
}

std::string link_line(const GpuLink& link) {
  std::string how(to_name(link.kind));
  if (link.lanes > 0) how += fmt::format(" x{}", link.lanes);
  if (link.switched) how += " through a switch";
  if (link.peer_to_peer) how += *link.peer_to_peer ? ", peer to peer" : ", no peer to peer";
  return fmt::format("  GPU {} to {}  {}\n", link.from, link.to, how);
}

std::string nic_line(const Nic& nic) {
  return fmt::format("  NIC {}  {}\n", nic.name,
                     nic.rate ? format_rate(*nic.rate) : std::string("rate unknown"));
}

}  // namespace

Machine machine_of(const Options& options, BackendChoice choice) {
  Machine machine;
  machine.host = [] { return host_json(read_host()); };
  machine.sent = [] { return sent_bytes("/"); };
  machine.storage = [&options](Recorder& recorder) { record_storage(options, recorder); };
#ifdef ZPLAN_HAS_NCCL
  if (choice == BackendChoice::nccl)
    machine.device = [&options](Recorder& recorder) { record_device(options, recorder); };
#else
  (void)choice;
#endif
  return machine;
}

std::string topology_text(bool json) {
  const Host host = read_host();
  const ClusterOptions options = cluster_options(host, built_in_profiles());
  if (json) {
    const Json document = {
        {"schema", "zplan.topology/1"}, {"hosts", {host_json(host)}}, {"options", options.words}};
    return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string out =
      fmt::format("{}: {}, {} cores, {}\n", host.name, host.processor, host.cores, format_bytes(host.memory));
  for (const GpuDevice& each : host.gpus) out += gpu_line(each);
  for (const GpuLink& each : host.links) out += link_line(each);
  for (const Nic& each : host.nics) out += nic_line(each);
  if (!options.words.empty()) out += "\nfor zplan: " + command_line(options) + "\n";
  for (const std::string& each : host.notes) out += "  - " + each + "\n";
  for (const std::string& each : options.notes) out += "  - " + each + "\n";
  return out;
}

}  // namespace zplan::bench

#include "fake_nvml.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "harness/machine/nvml.h"

// Functions of NVML, which return 0 for success, 2 for a bad argument, 3 for something that is not supported.
namespace {

using namespace zplan::bench::nvml;

const FakeMachine* machine = nullptr;
int started = 0;

/// Handles are index + 1.
Device handle_of(unsigned int index) {
  return reinterpret_cast<Device>(static_cast<std::uintptr_t>(index) + 1);
}
const FakeGpu* gpu_of(Device device) {
  const auto index = reinterpret_cast<std::uintptr_t>(device) - 1;
  return started > 0 && index < machine->gpus.size() ? &machine->gpus[index] : nullptr;
}

void tell(const FakeGpu& gpu, Pci* pci) {
  *pci = Pci{};
  pci->bus = gpu.bus;
  (void)std::snprintf(pci->bus_id.data(), pci->bus_id.size(), "00000000:%02X:00.0", gpu.bus);
}

}  // namespace

extern "C" {

void fake_nvml_set(const FakeMachine* told) { machine = told; }

Result nvmlInit_v2() {
  if (machine->init_result == 0) ++started;
  return machine->init_result;
}
Result nvmlShutdown() { return --started, 0; }
const char* nvmlErrorString(Result result) { return result == 9 ? "Driver Not Loaded" : "Unknown Error"; }

Result nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  return std::snprintf(text, size, "580.65.06"), 0;
}
Result nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 13000, 0; }

Result nvmlDeviceGetCount_v2(unsigned int* count) {
  return *count = static_cast<unsigned int>(machine->gpus.size()), 0;
}
Result nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
  if (index >= machine->gpus.size()) return 2;
  if (machine->gpus[index].lost) return 15;
  return *device = handle_of(index), 0;
}
Result nvmlDeviceGetName(Device device, char* name, unsigned int size) {
  return std::snprintf(name, size, "%s", gpu_of(device)->name.c_str()), 0;
}
Result nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return *memory = {.total = gpu_of(device)->memory, .free = 1, .used = 2}, 0;
}
Result nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return *major = gpu_of(device)->major, *minor = gpu_of(device)->minor, 0;
}
Result nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) { return tell(*gpu_of(device), pci), 0; }
Result nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned int* generation) {
  return *generation = gpu_of(device)->generation, *generation == 0 ? 3 : 0;
}
Result nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned int* lanes) {
  return *lanes = gpu_of(device)->lanes, 0;
}

/// A place for one more link than are active, as GPUs have whose bridge carries fewer.
Result nvmlDeviceGetNvLinkState(Device device, unsigned int link, int* active) {
  const std::size_t links = gpu_of(device)->links.size();
  if (links == 0) return 3;
  if (link > links) return 2;
  return *active = link < links ? 1 : 0, 0;
}
Result nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned int link, int* kind) {
  return *kind = gpu_of(device)->links.at(link).to_switch ? 2 : 0, 0;
}
Result nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned int link, Pci* pci) {
  return tell(machine->gpus.at(gpu_of(device)->links.at(link).gpu), pci), 0;
}
Result nvmlDeviceGetP2PStatus(Device, Device, int, int* status) {
  if (!machine->says_peer_to_peer) return 3;
  return *status = machine->peer_to_peer ? 0 : 1, 0;
}
}

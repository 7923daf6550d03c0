#pragma once
// A machine that the stand-in for NVML tells of.

#include <string>
#include <vector>

/// Active NVLinks of a GPU go to a switch, or to the GPU of that index.
struct FakeLink {
  bool to_switch{};
  unsigned int gpu{};
};

struct FakeGpu {
  std::string name{};
  unsigned long long memory{};
  int major{9}, minor{};
  unsigned int bus{};
  unsigned int generation{5}, lanes{16};
  std::vector<FakeLink> links{};
  bool lost{};  ///< fell off the bus
};

struct FakeMachine {
  std::vector<FakeGpu> gpus{};
  bool peer_to_peer{true};
  bool says_peer_to_peer{true};
  int init_result{};
};

/// Exported by the library: what it tells of from here on.
extern "C" void fake_nvml_set(const FakeMachine* machine);

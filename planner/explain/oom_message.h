#pragma once
// PyTorch's out-of-memory messages, as text and as figures. docs/fit.md

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// Who found no memory.
enum class OomSource {
  pytorch,  ///< PyTorch's allocator, on the device
  cuda,     ///< a call of CUDA outside that allocator
  nccl,     ///< NCCL, for its buffers
  engine,   ///< vLLM at its start: too little is free for the share that it was given
  cache,    ///< vLLM: nothing, or too little, is left of its share for keys and values
  sleep,    ///< vLLM's allocator of sleep mode (cumem), when it wakes
  host      ///< the host: the system ended the process, or an allocation failed
};

/// OomMessage holds the figures of one message, which PyTorch prints with two decimals of their unit. A
/// figure is absent where this version's message lacks it, or where no GPU could have it.
///
/// Source of the wording: c10/cuda/CUDACachingAllocator.cpp of torch 1.0 ("cached"), 1.13 and 2.0 ("already
/// allocated"), 2.1 ("total capacty"), 2.2 to 2.11 ("total capacity", "allowed", private pools); torch for
/// ROCm puts HIP for CUDA, torch for Intel XPU.
struct OomMessage {
  OomSource source{OomSource::pytorch};
  std::string device;  ///< "CUDA", "HIP", "XPU"
  std::optional<int> gpu;
  std::optional<int> rank;  ///< of a prefix such as torchrun's "[rank3]: "
  std::size_t line{1};      ///< where it begins, from 1

  Bytes asked;                         ///< of the device, for the block that could not be had
  std::string asked_text;              ///< as printed: "2.00 GiB"; of other sources what was asked for
  std::optional<Bytes> capacity;       ///< of the GPU, as a process sees it
  std::optional<Bytes> free;           ///< of that, when the message was made
  std::optional<Bytes> allowed;        ///< by set_per_process_memory_fraction
  std::optional<Bytes> allocated;      ///< by PyTorch, in tensors
  std::optional<Bytes> unallocated;    ///< reserved by PyTorch and not allocated
  std::optional<Bytes> private_pools;  ///< of what is allocated, in CUDA graphs' pools
  std::optional<Bytes> process;        ///< all that this process holds, the CUDA context included
  struct Process {
    std::int64_t id{};
    Bytes size;
    bool operator==(const Process&) const = default;
  };
  std::vector<Process> others;  ///< processes on this GPU by the ids that the driver knows them by
  bool operator==(const OomMessage&) const = default;

  /// PyTorch's share of the GPU.
  [[nodiscard]] std::optional<Bytes> reserved() const;
};

/// Returns every message in a text: PyTorch's in order, then one of each other source. Repeated ones (same
/// rank, same figures) stand once. Ignores colours, time stamps and wrapped lines.
[[nodiscard]] std::vector<OomMessage> read_oom_messages(std::string_view text);

/// Returns a size as the messages print it: "512 bytes", "17.38 MiB", "2.00 GiB".
/// Source: torch 2.11 c10/cuda/CUDACachingAllocator.cpp format_size.
[[nodiscard]] std::string torch_size(Bytes size);

}  // namespace zplan

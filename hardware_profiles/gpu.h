#pragma once
// One kind of GPU. Figures are data with sources (hardware_profiles/gpus/*.json); nothing is guessed in
// code.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/link.h"
#include "models/base/quantity.h"

namespace zplan {

/// Figure → its source. A source that starts with "assumed:" marks an uncertain figure.
using Sources = std::map<std::string, std::string>;

/// Shares of a GPU's peaks that training reaches, by kind of work.
struct Efficiency {
  double products{};   ///< of the dense 16-bit matrix rate, by large matrix products
  double attention{};  ///< of that rate, by fused attention kernels, forward and backward
  double memory{};     ///< of the memory bandwidth, by kernels that only read and write
  friend bool operator==(const Efficiency&, const Efficiency&) = default;
};

/// One kind of GPU.
struct Gpu {
  std::string name{};  ///< "H100-SXM-80GB"
  std::vector<std::string> aliases{};
  Bytes memory{};           ///< what nvidia-smi prints as total
  Bytes driver_reserved{};  ///< part of `memory` that the driver keeps and cudaMemGetInfo does not count
  /// Factors of the rates, if the profile has them: multiprocessors x FLOP per clock x clock, and bus width x
  /// rate of a pin.
  std::optional<std::int64_t> multiprocessors{}, boost_mhz{}, memory_bus_bits{};
  std::optional<double> memory_gbit_per_pin{};  ///< 1e9 bits per second
  BytesPerSecond memory_bandwidth{};
  /// Dense peak rates of matrix products with fp32 accumulation; absent if the GPU's matrix units lack the
  /// type. fp32: the plain units.
  std::optional<FlopsPerSecond> bf16{}, fp16{}, tf32{}, fp32{}, fp8{};
  /// "9.0"; for other vendors' GPUs their compilers' name: "gfx942", "ascend910b", "gaudi2". Determines
  /// kernels and platform (hardware_profiles/platform.h).
  std::string compute_capability{};
  BytesPerSecond nvlink{};            ///< rated, one direction, all links together; 0: none
  BytesPerSecond nvlink_effective{};  ///< as a ring of NCCL reaches it
  BytesPerSecond pcie{};              ///< rated, one direction to the host, as the slot is wired
  BytesPerSecond pcie_effective{};    ///< as NCCL and large copies reach it
  bool peer_to_peer{};                ///< GPUs read each other over PCIe with the stock driver
  /// True if host and GPU share one pool of memory, so that offload between them frees nothing.
  bool unified_memory{};
  std::optional<double> board_power{};  ///< watts, the limit that the board is sold with
  /// Measured on this GPU. Absent: the model of all GPUs applies (efficiency_of).
  std::optional<Efficiency> efficiency{};
  std::string usual_node{};         ///< node type if none is named
  std::string usual_network{};      ///< network of several nodes if none is named
  std::vector<MeasuredLink> links;  ///< measured peaks of collectives, per fabric and number of GPUs
  std::vector<CollectiveCurve> collectives{};  ///< measured curves, if there are any
  /// Name of a GPU with the same links and generation of kernels, whose curves are used after this one's own;
  /// empty: none.
  std::string collectives_as{};
  Sources sources{};
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// True if the source marks a figure as uncertain.
[[nodiscard]] bool is_assumed(std::string_view source);

/// Returns the keys of the GPU's uncertain figures, in alphabetical order.
[[nodiscard]] std::vector<std::string> assumed_figures(const Gpu& gpu);

/// Returns the generation, 9 of "9.0", which determines the kernels. 0 if the text is no version.
[[nodiscard]] int capability_major(std::string_view compute_capability);

/// Generations whose matrix units sustain alike at a given power: Volta and Turing; GA100; the smaller
/// Amperes; Ada, GeForce and RTX PRO Blackwell; Hopper; Blackwell of data centres.
enum class MatrixUnits : std::uint8_t { volta, ampere_large, ampere_small, ada, hopper, blackwell };
inline constexpr std::size_t kMatrixUnits = 6;

/// Rate that a generation's multiprocessor sustains in large 16-bit matrix products at a power of the board.
struct SustainedRate {
  double flops{};  ///< per second and multiprocessor
  double watts{};  ///< of board power, per multiprocessor
  friend bool operator==(const SustainedRate&, const SustainedRate&) = default;
};

/// Operations of PyTorch's memory-efficient attention in a clock cycle of a multiprocessor with 100 KiB of
/// shared memory, where its tiles are small and latency, not the matrix units, bounds it.
struct SmallTileAttention {
  double forward{};
  double backward{};         ///< heads of more than 64 features
  double narrow_backward{};  ///< others
  friend bool operator==(const SmallTileAttention&, const SmallTileAttention&) = default;
};

/// Values, each with its source, are in gpu.cpp.
struct KernelModel {
  KernelModel();
  std::array<SustainedRate, kMatrixUnits> sustained{};  ///< by MatrixUnits
  double power_exponent{};                              ///< how the sustained rate grows with power
  double issue{};                                       ///< share of the peak where power does not limit
  double issue_before_ampere{};  ///< that share for compute capability 7, which lacks asynchronous copies
  double older_instructions{};  ///< of Hopper's peak, by the instructions that FlashAttention-2 is written in
  double plain{};               ///< of the plain units' rate, by fp32 products
  double tail{};                ///< of a wave of tiles, what a product's last one leaves idle
  double unaligned{};           ///< times as long a product takes whose rows have an odd length
  /// Clock cycles of a multiprocessor, beside the matrix units', for each 128 query-key features of
  /// attention: exponentials, sums, rescaling.
  double softmax_cycles{};
  SmallTileAttention small_tiles{};
  double copy{};  ///< of the rated memory bandwidth, by long copies
  /// Bytes per second that one multiprocessor keeps in flight in PyTorch's elementwise kernels and
  /// reductions.
  double bytes_per_multiprocessor{};
  Seconds gap{};  ///< between a kernel's end and the next one's begin on a stream
  friend bool operator==(const KernelModel&, const KernelModel&) = default;
};

/// Returns the matrix units of a GPU, by compute capability.
[[nodiscard]] MatrixUnits matrix_units(const Gpu& gpu);

/// True if a multiprocessor has at most 100 KiB of shared memory, too little for the large tiles of
/// PyTorch's memory-efficient attention: compute capabilities 7.5, 8.6, 8.9 and 12.
[[nodiscard]] bool has_small_tiles(const Gpu& gpu);

/// Returns the shares of a GPU's profile, else those that the model computes.
[[nodiscard]] Efficiency efficiency_of(const Gpu& gpu, const KernelModel& model = {});

}  // namespace zplan

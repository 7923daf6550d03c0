#pragma once
// What kernels reach of a GPU's peaks, from its multiprocessors, clocks, memory and board power: one set of
// parameters for all GPUs (docs/step-time.md).

#include <array>
#include <cstddef>
#include <cstdint>

#include "hardware_profiles/gpu.h"

namespace zplan {

/// Generations whose matrix units sustain alike at a given power: Volta and Turing; GA100; the smaller
/// Amperes; Ada, GeForce and RTX PRO Blackwell; Hopper, and Blackwell of data centres.
enum class MatrixUnits : std::uint8_t { volta, ampere_large, ampere_small, ada, hopper };
inline constexpr std::size_t kMatrixUnits = 5;

/// What a generation's multiprocessor sustains in large 16-bit matrix products while the board draws so much.
struct SustainedRate {
  double flops{};  ///< per second and multiprocessor
  double watts{};  ///< of board power, per multiprocessor
  friend bool operator==(const SustainedRate&, const SustainedRate&) = default;
};

/// Operations of PyTorch's memory-efficient attention in a clock cycle of a multiprocessor with 100 KiB of
/// shared memory, where its tiles are small and latency sets the pace, however fast the matrix units are.
struct SmallTileAttention {
  double forward{};
  double backward{};         ///< heads of more than 64 features
  double narrow_backward{};  ///< others
  friend bool operator==(const SmallTileAttention&, const SmallTileAttention&) = default;
};

/// Values, each with its source, are in kernel_model.cpp.
struct KernelModel {
  KernelModel();
  std::array<SustainedRate, kMatrixUnits> sustained{};  ///< by MatrixUnits
  double power_exponent{};                              ///< how the sustained rate grows with power
  double issue{};                                       ///< share of the peak where power does not limit
  double issue_before_ampere{};  ///< the same of compute capability 7, before asynchronous copies
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

/// By compute capability.
[[nodiscard]] MatrixUnits matrix_units(const Gpu& gpu);

/// Whether a multiprocessor has no more than 100 KiB of shared memory, too little for the large tiles of
/// PyTorch's memory-efficient attention: compute capabilities 7.5, 8.6, 8.9 and 12.
[[nodiscard]] bool has_small_tiles(const Gpu& gpu);

/// The shares that the model gives a GPU; those of its profile where that has some.
[[nodiscard]] Efficiency efficiency_of(const Gpu& gpu, const KernelModel& model = {});

}  // namespace zplan

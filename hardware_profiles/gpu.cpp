#include "hardware_profiles/gpu.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace zplan {

bool is_assumed(std::string_view source) { return source.starts_with("assumed:"); }

std::vector<std::string> assumed_figures(const Gpu& gpu) {
  std::vector<std::string> figures;
  for (const auto& [figure, source] : gpu.sources)
    if (is_assumed(source)) figures.push_back(figure);
  return figures;
}

int capability_major(std::string_view compute_capability) {
  int major = 0;
  std::from_chars(compute_capability.data(), compute_capability.data() + compute_capability.size(), major);
  return major;
}

// "Fitted": to published runs, `zplan check --fit-efficiency` (docs/step-time.md).
KernelModel::KernelModel()
    // V100 (95 TFLOP/s) and A6000 (95): mli/transformers-benchmarks README @04df81d, MatMul FP16. RTX PRO
    // 6000 Max-Q (229): waynehacking8/blackwell-tensorcore-kernels results/bench.csv @05f3a9e, cuBLAS with
    // fp32 accumulation, 8192. A100 and H100: fitted. B200: as H100, times 1745 TFLOP/s over 794.5, the best
    // that PyTorch's products reached on each: stas00/ml-engineering compute/accelerator/README.md, Maximum
    // Achievable Matmul FLOPS.
    : sustained{{{95e12 / 80, 300.0 / 80},
                 {2.085e12, 400.0 / 108},
                 {95e12 / 84, 300.0 / 84},
                 {229e12 / 188, 300.0 / 188},
                 {4.37e12, 700.0 / 132},
                 {4.37e12 * 132 * (1745 / 794.5) / 148, 1000.0 / 148}}},
      // One kernel of CUTLASS reaches 235 TFLOP/s on an A100 of 400 W and 158 on one of 250 W: NVIDIA/cutlass
      // issue 956.
      power_exponent(0.85),
      // An L20 reaches 105 to 115 of 119.5 TFLOP/s (DefTruth/CUDA-Learn-Notes hgemm), an RTX 4090 165 of 165
      // (tinygrad/tinygrad pull request 11390).
      issue(0.95),
      // 44.9 of 53.8 TFLOP/s on an RTX 2080 Ti: bewantbe/busy-gemm-benchmark.
      issue_before_ampere(0.83),
      // 62.9 %: Luo et al. 2024, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture.
      older_instructions(0.629),
      // 14.1 of 19.5 TFLOP/s on an A100, 21 of 40 on an RTX 3090 Ti (bewantbe/busy-gemm-benchmark), 54 of 110
      // on an RTX PRO 6000 Max-Q (as above).
      plain(0.6),
      tail(0.614),  // fitted
      // cuBLAS turns to kernels that load value by value: on an RTX 4090 107, 111, 112 and 116 TFLOP/s for
      // odd sizes from 2055 to 2073 beside 156 for 2040 (pytorch/pytorch issue 181718); a vocabulary that is
      // padded to a multiple takes 10 ms instead of 14 (PaddlePaddle/models pull request 5134).
      unaligned(155.9 / ((115.6 + 106.8 + 110.9 + 112.0) / 4)),
      softmax_cycles(0.191),  // fitted
      // Forward and backward 31.1 and 12.4 TFLOP/s with heads of 128, backward 24.4 with heads of 64:
      // CUTLASS's kernels in Dao-AILab/flash-attention issue 416, on a GPU whose FlashAttention-2, 54
      // TFLOP/s, is that of an RTX 3090 (82 multiprocessors at 1.695 GHz).
      small_tiles{.forward = 31.1e12 / (82 * 1.695e9),
                  .backward = 12.4e12 / (82 * 1.695e9),
                  .narrow_backward = 24.4e12 / (82 * 1.695e9)},
      // Assumed: what refresh and turns of the bus leave of the rated bandwidth.
      copy(0.9),
      bytes_per_multiprocessor(18.5e9),  // fitted
      gap(0.994e-6)                      // fitted
{}

namespace {

// Shares of a GPU whose profile lacks multiprocessors, clock or power: about those of an A100.
constexpr Efficiency kUnknown{.products = 0.7, .attention = 0.5, .memory = 0.6};

double issue_share(const Gpu& gpu, const KernelModel& model) {
  return matrix_units(gpu) == MatrixUnits::volta ? model.issue_before_ampere : model.issue;
}

/// Returns the share of the 16-bit peak that the board's power allows, nothing if the power is not known.
std::optional<double> power_share(const Gpu& gpu, const KernelModel& model) {
  if (!gpu.board_power || !gpu.multiprocessors || !gpu.fp16) return std::nullopt;
  const SustainedRate& sustained = model.sustained[static_cast<std::size_t>(matrix_units(gpu))];
  const auto multiprocessors = static_cast<double>(*gpu.multiprocessors);
  const double watts = *gpu.board_power / multiprocessors;
  return multiprocessors * sustained.flops * std::pow(watts / sustained.watts, model.power_exponent) /
         gpu.fp16->value;
}

double products_share(const Gpu& gpu, const KernelModel& model) {
  const auto by_power = power_share(gpu, model);
  return by_power ? std::min(issue_share(gpu, model), *by_power) : kUnknown.products;
}

/// The matrix units' work and the softmax's between share a multiprocessor's time.
double attention_share(const Gpu& gpu, const KernelModel& model, double products) {
  if (!gpu.multiprocessors || !gpu.boost_mhz || !gpu.fp16) return kUnknown.attention;
  constexpr double kFlopsOfFeatures = 512;  // 4 of each of 128 features
  const double per_cycle = gpu.fp16->value / (static_cast<double>(*gpu.multiprocessors) *
                                              static_cast<double>(*gpu.boost_mhz) * 1e6);
  const MatrixUnits units = matrix_units(gpu);
  const bool new_instructions = units == MatrixUnits::hopper || units == MatrixUnits::blackwell;
  const double issue = new_instructions ? model.older_instructions : issue_share(gpu, model);
  return std::min(products, 1 / (1 / issue + model.softmax_cycles * per_cycle / kFlopsOfFeatures));
}

/// PyTorch's elementwise kernels have eight values of 16 bits in flight for each thread on Blackwell, four on
/// the GPUs that the rate is fitted to: pytorch/pytorch pull request 141959. A B200 copies 128 MiB in 45.1
/// µs, 5.95 TB/s: pull request 174553.
constexpr double kWideAccesses = 2;

/// Kernels are held back by the memory's bandwidth or by how much a multiprocessor keeps in flight.
double memory_share(const Gpu& gpu, const KernelModel& model) {
  if (!gpu.multiprocessors) return kUnknown.memory;
  const double rated = gpu.memory_bandwidth.value / static_cast<double>(*gpu.multiprocessors);
  const bool is_wide = matrix_units(gpu) == MatrixUnits::blackwell;
  // C libraries differ in the last bit of std::hypot: the module of the page would print other digits.
  const double copies = 1 / model.copy;
  const double in_flight = rated / (model.bytes_per_multiprocessor * (is_wide ? kWideAccesses : 1));
  return 1 / std::sqrt(copies * copies + in_flight * in_flight);
}

}  // namespace

MatrixUnits matrix_units(const Gpu& gpu) {
  switch (capability_major(gpu.compute_capability)) {
    case 8:
      if (gpu.compute_capability == "8.0") return MatrixUnits::ampere_large;
      return gpu.compute_capability == "8.9" ? MatrixUnits::ada : MatrixUnits::ampere_small;
    case 9: return MatrixUnits::hopper;
    case 10: return MatrixUnits::blackwell;
    case 12: return MatrixUnits::ada;
    default: return MatrixUnits::volta;
  }
}

// Source: PyTorch aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernels/generate_kernels.py: "GPUs
// with less shmem (Sm75, Sm86 ...)" fall back to tiles of 64; CUDA C++ Programming Guide, maximum amount of
// shared memory per multiprocessor.
bool has_small_tiles(const Gpu& gpu) {
  const MatrixUnits units = matrix_units(gpu);
  return gpu.compute_capability == "7.5" || units == MatrixUnits::ampere_small || units == MatrixUnits::ada;
}

Efficiency efficiency_of(const Gpu& gpu, const KernelModel& model) {
  if (gpu.efficiency) return *gpu.efficiency;
  const double products = products_share(gpu, model);
  return {.products = products,
          .attention = attention_share(gpu, model, products),
          .memory = memory_share(gpu, model)};
}

}  // namespace zplan

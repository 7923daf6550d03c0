#pragma once
// Time of work on a machine: loads of a tape, collectives, bytes that an optimizer moves.

#include <deque>
#include <optional>
#include <vector>

#include "hardware_profiles/collective_cost.h"
#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"
#include "planner/step/call.h"

namespace zplan {

/// The GPU's peak rate for matrix products in the training precision; nothing where it cannot do them in
/// hardware. fp32 runs on the plain units: PyTorch's torch.get_float32_matmul_precision() is "highest" unless
/// a script says otherwise.
[[nodiscard]] std::optional<FlopsPerSecond> matrix_peak(const Gpu& gpu, Precision precision);

/// Returns that peak or, where there is none, the plain units'.
[[nodiscard]] FlopsPerSecond rate_of(const Gpu& gpu, Precision precision);

/// A load on the device, by class of operation, and what the host needs to issue it.
struct LoadTime {
  Seconds products, attention, other;
  Seconds host;
  [[nodiscard]] Seconds device() const { return products + attention + other; }
};

/// Rates that kernels of one training reach on one cluster's GPU.
class KernelRates {
 public:
  KernelRates(const Cluster& cluster, const Training& training);

  /// A matrix product: its operations at the reached rate, with what its last wave of tiles leaves idle, but
  /// no less than reading both factors and writing the result takes.
  [[nodiscard]] Seconds time(const Product& product) const;
  [[nodiscard]] LoadTime time(const Load& load) const;
  /// Returns the rate of kernels that do nothing but read and write.
  [[nodiscard]] BytesPerSecond memory() const { return memory_; }

 private:
  [[nodiscard]] FlopsPerSecond rate(const Product& product) const;
  [[nodiscard]] bool is_unaligned(const Product& product) const;

  [[nodiscard]] Seconds time(const TiledAttention& tiled) const;

  FlopsPerSecond matrix_, plain_, attention_, in_8_bits_;
  SmallTileAttention tiled_;  ///< operations per second; none where tiles are not small
  std::int64_t narrow_head_{};
  BytesPerSecond memory_;
  double multiprocessors_{}, tail_{}, unaligned_{1}, attention_cost_{1};
  Seconds gap_;
};

class CostModel {
 public:
  /// `experts_of_token`: experts that each token of a mixture goes to.
  CostModel(const Tape& tape, const Cluster& cluster, const Training& training, const Strategy& strategy,
            std::int64_t experts_of_token = 1);

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const std::vector<LoadTime>& loads() const { return loads_; }
  /// Returns the time of one of the calls.
  [[nodiscard]] Seconds call(const Call& call);
  [[nodiscard]] const CollectivePricer& pricer(const Call& call);
  /// Returns the rate of kernels that do nothing but read and write.
  [[nodiscard]] BytesPerSecond memory() const { return rates_.memory(); }

 private:
  struct Priced {
    Operation operation;
    Group group;
    std::int64_t ranks, stride;
    CollectivePricer pricer;
  };

  /// Returns the part of an exchange of rows that a dispatcher sends which sends equal rows once.
  [[nodiscard]] double sent_share(const Call& call) const;

  const Cluster& cluster_;
  ParallelLayout layout_;
  std::int64_t experts_of_token_{1};  ///< 1: every row is sent
  std::deque<Priced> priced_;         ///< as they are first asked for
  KernelRates rates_;
  std::vector<LoadTime> loads_;
};

}  // namespace zplan

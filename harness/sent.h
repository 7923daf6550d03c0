#pragma once
// Counts the bytes that hosts send over their network interfaces while collectives run.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/control.h"

namespace zplan::bench {

/// Bytes by network interface ("eth0", "lo") and InfiniBand port ("mlx5_0:1").
using SentBytes = std::map<std::string, std::int64_t>;
/// Returns the bytes that this host has sent up to now. An empty function if this build cannot count them.
using SentCounter = std::function<SentBytes()>;

/// Returns by how much each counter grew. Leaves out counters that fell or are new.
[[nodiscard]] SentBytes grown(const SentBytes& before, const SentBytes& after);

/// Counts from here on over all hosts. Every rank makes one and asks it; the first rank of each host reads,
/// while no rank sends.
class SentMeter {
 public:
  /// `hosts`: names by rank.
  SentMeter(Control& control, const std::vector<std::string>& hosts, SentCounter counter);

  /// Since then, summed over hosts; nothing where a host counts nothing.
  [[nodiscard]] std::optional<SentBytes> total();

 private:
  [[nodiscard]] SentBytes read_between_barriers();

  Control& control_;
  SentCounter counter_;  ///< empty: another rank reads, or none does
  bool reads_{};
  SentBytes before_;
};

}  // namespace zplan::bench

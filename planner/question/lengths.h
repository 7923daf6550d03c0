#pragma once
// Samples of a data set differ in length: how long batches get as loaders make them, and the worst of them.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"

namespace zplan {

/// Batching is how a loader makes micro-batches: in random order, padded to the longest sample; of samples of
/// similar lengths (transformers' group_by_length), padded too; or rows packed with samples up to the limit.
enum class Batching { padded, grouped, packed };
template <>
struct EnumNames<Batching> {
  static constexpr std::array<std::pair<Batching, std::string_view>, 3> table{
      {{Batching::padded, "padded"}, {Batching::grouped, "grouped"}, {Batching::packed, "packed"}}};
};

struct LengthCount {
  std::int64_t length{}, samples{};
  bool operator==(const LengthCount&) const = default;
};

/// A data set's samples by length in tokens, shortest first.
struct SampleLengths {
  std::vector<LengthCount> counts;

  [[nodiscard]] std::int64_t samples() const;
  [[nodiscard]] std::int64_t longest() const { return counts.back().length; }
  [[nodiscard]] std::int64_t shortest() const { return counts.front().length; }
  [[nodiscard]] double mean() const;
  /// The length that a share of the samples does not exceed.
  [[nodiscard]] std::int64_t quantile(double share) const;
  /// Samples cut at `limit` tokens.
  [[nodiscard]] SampleLengths cut(std::int64_t limit) const;
  bool operator==(const SampleLengths&) const = default;
};

/// One length a line, or a length and how many samples have it; "#" begins a comment. Throws InputError with
/// "`file`:line".
[[nodiscard]] SampleLengths parse_lengths(std::string_view file, std::string_view text);
/// "mean=512,spread=300,limit=2048": a log-normal distribution of that mean and standard deviation, cut at
/// the limit, in a thousand quantiles. Throws InputError(place, …).
[[nodiscard]] SampleLengths lengths_of_moments(std::string_view place, std::string_view text);

/// A data set and how it is batched.
struct DataLengths {
  SampleLengths lengths;
  Batching batching{Batching::padded};
  std::int64_t limit{};  ///< of a packed row
  bool operator==(const DataLengths&) const = default;

  /// Tokens that each sample of the longest micro-batch has: any order brings it about in the end.
  [[nodiscard]] std::int64_t worst() const {
    return batching == Batching::packed ? limit : lengths.longest();
  }
  /// Returns the tokens that each sample of a micro-batch of `samples` is padded to, on average: in random
  /// order the mean of the longest; for similar lengths that of transformers' LengthGroupedSampler, which
  /// sorts stretches of fifty batches (transformers 5.23 trainer_pt_utils.py get_length_grouped_indices).
  [[nodiscard]] double padded_to(std::int64_t samples) const;
  /// Share of a micro-batch's tokens that are samples': of packed rows all but what no sample fills, taken as
  /// none.
  [[nodiscard]] double useful_share(std::int64_t samples) const;
};

}  // namespace zplan

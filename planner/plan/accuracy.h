#pragma once
// Accuracy of zplan's figures: what they were validated against and how far off they were, for the figures of
// one plan. docs/accuracy.md has more. The numbers are written by docs/generate_accuracy.py from what `zplan
// check` prints.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hardware_profiles/gpu.h"
#include "models/base/names.h"
#include "planner/question/strategy.h"

namespace zplan {

enum class AccuracyOf { memory, host_memory, traffic, step_time, collective_time };
template <>
struct EnumNames<AccuracyOf> {
  static constexpr std::array<std::pair<AccuracyOf, std::string_view>, 5> table{
      {{AccuracyOf::memory, "memory"},
       {AccuracyOf::host_memory, "host_memory"},
       {AccuracyOf::traffic, "traffic"},
       {AccuracyOf::step_time, "step_time"},
       {AccuracyOf::collective_time, "collective_time"}}};
};

/// One kind of figure against measurements of one statistic, of the runs that share a framework, a method and
/// a GPU. Errors are absolute, as fractions of what was measured.
struct Accuracy {
  AccuracyOf of{};
  std::string against;                 ///< "published runs"
  std::string statistic;               ///< "reserved", as `zplan check` names it
  bool on_cards{};                     ///< a real GPU ran it; else a stand-in that launches no kernel
  bool slower_attention{};             ///< its sources ran a slower attention kernel than plans assume
  std::optional<Framework> framework;  ///< absent: any
  std::optional<Method> method;        ///< absent: any
  std::optional<std::string> card;     ///< name of the profile; absent: any, or none
  std::int64_t judged{}, exact{};      ///< measurements; those that are equal
  double median{}, nine_in_ten{}, worst{};
  double too_low{};    ///< share of what was predicted too low by more than 5 %
  std::string anchor;  ///< heading of docs/accuracy.md
};

/// Returns all accuracies; of each kind of figure those of real GPUs first.
[[nodiscard]] const std::vector<Accuracy>& accuracies();

/// Coverage is the part of a plan that decides which measurements count for it.
struct Coverage {
  Framework framework{};
  Method method{};
  std::string card;
};

/// Returns, for each statistic of each kind of measurement, the narrowest group that covers a plan: its
/// framework, method and GPU; else its framework and method; else its framework.
[[nodiscard]] std::vector<Accuracy> accuracies(AccuracyOf of, const Coverage& plan);

/// True if a group covers just the plan's framework, method and GPU.
[[nodiscard]] bool is_of(const Accuracy& accuracy, const Coverage& plan);

/// Volta and Turing; GA100; the smaller Amperes; Ada, GeForce and RTX PRO Blackwell; Hopper, and Blackwell of
/// data centres.
template <>
struct EnumNames<MatrixUnits> {
  static constexpr std::array<std::pair<MatrixUnits, std::string_view>, kMatrixUnits> table{
      {{MatrixUnits::volta, "volta"},
       {MatrixUnits::ampere_large, "ampere-large"},
       {MatrixUnits::ampere_small, "ampere-small"},
       {MatrixUnits::ada, "ada"},
       {MatrixUnits::hopper, "hopper"},
       {MatrixUnits::blackwell, "blackwell"}}};
};

/// Comparable is the part of a plan that decides which measured runs are comparable to it.
struct Comparable {
  Framework framework{};
  Method method{};
  MatrixUnits units{};  ///< the generation of its GPU
  bool offloads{};
  /// Factors of its speed with the slowest and the fastest paths through the host's memory that machines like
  /// its own were measured to have: 1 and 1 where nothing goes that way.
  double slowest_path{1}, fastest_path{1};
};

[[nodiscard]] inline Comparable comparable(Framework framework, Method method, const Gpu& gpu,
                                           const Strategy& strategy) {
  return {
      .framework = framework, .method = method, .units = matrix_units(gpu), .offloads = offloads(strategy)};
}

/// Ends are the two ends of a range.
struct Ends {
  double low{}, high{};
};

/// LikelyRange is the range that held 80 % of comparable runs.
struct LikelyRange {
  static constexpr double kShare = 0.8;
  double low{}, high{};  ///< factors of a predicted speed, or of predicted memory
  [[nodiscard]] Ends around(double predicted) const { return {predicted * low, predicted * high}; }
  /// Returns the range of a time, or of what it costs, by a range of speeds: the faster, the less.
  [[nodiscard]] Ends of_time(double predicted) const { return {predicted / high, predicted / low}; }
  std::int64_t runs{}, sources{};
  /// Properties that the runs share with the plan; absent where too few runs of that kind were measured.
  std::optional<Framework> framework{};
  std::optional<Method> method{};
  std::optional<MatrixUnits> units{};
};
/// Returns the range of the narrowest group with at least eight runs of at least three sources. Ranges of
/// speed come from errors of fits that did not use the run's source, or, where only one source measured the
/// plan's generation of GPUs, did not use its GPU; they reach as far as a path through the host's memory that
/// is not known moves them. Ranges of memory come from errors of peaks that an
/// allocator held or the driver counted. Made by docs/generate_accuracy.py.
[[nodiscard]] LikelyRange likely_range(AccuracyOf of, const Comparable& plan);

/// True if the ranges of two predictions overlap.
[[nodiscard]] bool overlap(double a, const LikelyRange& of_a, double b, const LikelyRange& of_b);

/// Tie says when two speeds cannot be told apart: when they differ by less than `within`.
struct Tie {
  double within{};  ///< half of the predicted speeds in `basis` were further off
  Accuracy basis;
};
/// Returns the tie by predicted speeds of a framework on a GPU. Where fewer than five were measured there
/// with the attention kernels that plans assume, speeds on any GPU count; else those with slower kernels, on
/// that GPU or on any.
[[nodiscard]] Tie speed_tie(Framework framework, const std::string& card);
/// Returns the wider of two frameworks' ties on one GPU.
[[nodiscard]] Tie speed_tie(Framework a, Framework b, const std::string& card);

}  // namespace zplan

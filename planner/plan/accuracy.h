#pragma once
// What zplan's figures were validated against and how far off they were: docs/accuracy.md in short, for the
// figures of one plan. The numbers are written by docs/generate_accuracy.py from what `zplan check` prints.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hardware_profiles/kernel_model.h"
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

/// All there are; of a kind those of real GPUs first.
[[nodiscard]] const std::vector<Accuracy>& accuracies();

/// What of a plan decides which measurements speak for it.
struct Coverage {
  Framework framework{};
  Method method{};
  std::string card;
};

/// Of each statistic of each kind of measurement the narrowest group that covers a plan: its framework,
/// method and GPU; its framework and method; its framework.
[[nodiscard]] std::vector<Accuracy> accuracies(AccuracyOf of, const Coverage& plan);

/// Whether a group is of the plan's own framework, method and GPU.
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
       {MatrixUnits::hopper, "hopper"}}};
};

/// What decides which measured runs are comparable to a plan.
struct Comparable {
  Framework framework{};
  Method method{};
  MatrixUnits units{};  ///< the generation of its GPU
  bool offloads{};
};

[[nodiscard]] inline Comparable comparable(Framework framework, Method method, const Gpu& gpu,
                                           const Strategy& strategy) {
  return {framework, method, matrix_units(gpu), offloads(strategy)};
}

/// The ends of a range.
struct Ends {
  double low{}, high{};
};

/// The range that held 80 % of comparable runs.
struct LikelyRange {
  static constexpr double kShare = 0.8;
  double low{}, high{};  ///< factors of a predicted speed, or of predicted memory
  [[nodiscard]] Ends around(double predicted) const { return {predicted * low, predicted * high}; }
  /// Of a time, or what a time costs, by a range of speeds: the faster, the less.
  [[nodiscard]] Ends of_time(double predicted) const { return {predicted / high, predicted / low}; }
  std::int64_t runs{}, sources{};
  /// What the runs have in common with the plan; absent: nothing of that kind was measured often enough.
  std::optional<Framework> framework{};
  std::optional<Method> method{};
  std::optional<MatrixUnits> units{};
};
/// Of the speed of steps by errors of fits that saw nothing of a run's source, or, where the plan's
/// generation of GPUs was not measured by several, nothing of its GPU; of memory by the errors of peaks that
/// an allocator held or the driver counted. Of the narrowest group with eight runs and more of three sources
/// and more. Made by docs/generate_accuracy.py.
[[nodiscard]] LikelyRange likely_range(AccuracyOf of, const Comparable& plan);

/// Whether the ranges of two predictions overlap.
[[nodiscard]] bool overlap(double a, const LikelyRange& of_a, double b, const LikelyRange& of_b);

/// Two speeds that are closer than `within` are not told apart.
struct Tie {
  double within{};  ///< half of the predicted speeds in `basis` were further off
  Accuracy basis;
};
/// By the predicted speeds of a framework on a GPU; where fewer than five were measured there with the
/// attention kernels that plans assume, on any GPU; else with slower kernels, on that GPU or on any.
[[nodiscard]] Tie speed_tie(Framework framework, const std::string& card);
/// The wider of two frameworks' on one GPU.
[[nodiscard]] Tie speed_tie(Framework a, Framework b, const std::string& card);

}  // namespace zplan

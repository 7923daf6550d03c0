#include "planner/calibration/other_planners.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "hardware_profiles/cluster.h"
#include "planner/question/framework.h"

namespace zplan::check {

namespace {

/// True if all of these planners support the run: full training under DeepSpeed in 16 bits.
bool is_plain(const Setup& setup) {
  return spec(setup.training.framework).reads_ds_config && setup.training.method == Method::full &&
         setup.training.precision != Precision::fp32;
}

double number(Elements count) { return static_cast<double>(count.value); }

/// Elements of the module that holds most in its own parameters: an embedding, or a layer's stacked experts.
double largest_module(const Model& model) {
  double most = 0;
  for_each_tensor(model.inventory,
                  [&](const Tensor& tensor, int) { most = std::max(most, number(tensor.elements())); });
  for (const LayerKind& kind : model.inventory.kinds) {
    double experts = 0;
    for (const Tensor& tensor : kind.tensors)
      if (tensor.role == TensorRole::expert) experts += number(tensor.elements());
    most = std::max(most, experts);
  }
  return most;
}

/// Sizes that closed formulas are written in.
struct Sizes {
  double h, f, L, a, k, V, s, b, T, N, t, dp;
  int zero;
  bool recomputes;
};

Sizes sizes(const Setup& setup) {
  const ModelShape& shape = setup.model.shape;
  const Strategy& strategy = setup.strategy;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  return {.h = real(shape.hidden_size),
          .f = real(shape.intermediate_size),
          .L = real(shape.layers),
          .a = real(shape.attention_heads),
          .k = real(shape.key_value_heads),
          .V = real(shape.vocabulary_size),
          .s = real(setup.training.sequence_length),
          .b = real(strategy.micro_batch_size),
          .T = real(strategy.micro_batch_size * setup.training.sequence_length),
          .N = real(strategy.layout.world()),
          .t = real(strategy.layout.tensor),
          .dp = real(strategy.layout.data_ranks()),
          .zero = strategy.zero_stage,
          .recomputes = strategy.checkpointing == Checkpointing::full};
}

/// Parameters of llm-analysis by how tensor parallelism splits them.
struct AnalysedParameters {
  double split;  ///< embedding, attention, MLP, last norm
  double norms;  ///< of the layers: whole on every rank
};

AnalysedParameters analysed(const Sizes& x, bool gated) {
  const double heads = std::max(x.k / x.t, 1.0) * x.t;
  const double attention = 2 * x.h * x.h + 2 * x.h * x.h * heads / x.a;
  const double mlp = (gated ? 3 : 2) * x.h * x.f;
  return {x.V * x.h + x.L * (attention + mlp) + x.h, x.L * 2 * x.h};
}

double analysed_layer_activations(const Sizes& x, bool flash) {
  if (x.recomputes) return 2 * x.T * x.h / x.t;
  const double kernel = (flash ? 2 * x.T * x.h + 4 * x.a * x.T : 2 * x.a * x.s * x.T) * 2 / x.t;
  const double attention = 2 * (x.T * x.h + 4 * x.T * x.h / x.t) + kernel + x.T * x.h;
  const double mlp = 2 * x.T * x.h + 4 * x.f * x.T / x.t;
  return attention + mlp + 2 * 4 * x.T * x.h;
}

using Key = std::tuple<std::string, std::string, Kind>;

/// zplan's errors of allocated peaks.
std::map<Key, double> judged_errors(const std::vector<Record>& records) {
  std::map<Key, double> errors;
  for (const Record& record : records)
    if (record.statistic == Statistic::allocated && record.judged())
      errors[{record.file, record.id, record.kind}] = *record.error;
  return errors;
}

const Range* allocated_peak(const Case& each) {
  const auto* memory = std::get_if<MeasuredMemory>(&each.measured);
  if (memory == nullptr) return nullptr;
  for (const MeasuredFigure& figure : memory->figures)
    if (figure.statistic == Statistic::allocated) return &figure.range;
  return nullptr;
}

PlannerComparison compare(const OtherPlanner& planner, Kind kind, const std::vector<Case>& cases,
                          const std::map<Key, double>& ours) {
  std::vector<double> errors, zplan;
  for (const Case& each : cases) {
    const Range* range = allocated_peak(each);
    if (range == nullptr || each.kind != kind || !each.setup || each.skip.any()) continue;
    const std::optional<double> predicted = planner.peak(*each.setup);
    if (!predicted) continue;
    errors.push_back(relative_error(*predicted, *range));
    if (const auto own = ours.find({each.file, each.id, each.kind}); own != ours.end())
      zplan.push_back(own->second);
  }
  return {.planner = planner,
          .kind = kind,
          .rows = errors.size(),
          .errors = error_figures(errors),
          .zplan_rows = zplan.size(),
          .zplan_errors = error_figures(zplan)};
}

}  // namespace

std::optional<double> deepspeed_estimator(const Setup& setup) {
  const Strategy& strategy = setup.strategy;
  if (!is_plain(setup) || strategy.zero_stage < 2 || strategy.layout.tensor > 1) return std::nullopt;
  const double psi = number(parameters(setup.model)),
               ranks = static_cast<double>(strategy.layout.data_ranks());
  const bool away = strategy.offload_optimizer != OffloadDevice::none;
  if (strategy.zero_stage == 2) return away ? 2 * psi : 2 * psi + 18 * psi / ranks;
  const double largest = 4 * largest_module(setup.model);
  if (strategy.offload_parameters != OffloadDevice::none) return largest;
  return largest + (away ? 2 : 18) * psi / ranks;
}

std::optional<double> eleutherai_calculator(const Setup& setup) {
  if (!is_plain(setup) || setup.model.shape.experts || offloads(setup.strategy)) return std::nullopt;
  const Sizes x = sizes(setup);
  const double psi =
      2 * x.V * x.h + x.h * x.s + 8 * x.h * x.L + 2 * x.h + 4 * x.L * x.h * x.h + 2 * x.L * x.h * x.f;
  const double weights = 2 * psi / x.t / (x.zero == 3 ? x.N : 1);
  const double gradients = 4 * psi / (x.zero >= 2 ? x.N : 1), states = 12 * psi / (x.zero >= 1 ? x.N : 1);
  const double buckets = x.N == 1 || x.zero == 0 ? 0 : 2 * 5e8 + (x.zero == 3 ? 2 * 1e9 : 0);
  const double activations = x.T * x.h * x.L * (34 + (x.recomputes ? 0 : 5 * x.a * x.s / x.h));
  return weights + gradients + states + buckets + activations;
}

std::optional<double> llm_analysis(const Setup& setup) {
  if (!is_plain(setup) || setup.model.shape.experts || offloads(setup.strategy)) return std::nullopt;
  const Sizes x = sizes(setup);
  const AnalysedParameters psi = analysed(x, setup.model.shape.gated_mlp);
  const double whole = psi.split / x.t + psi.norms;
  const double weights = 2 * whole / (x.zero == 3 ? x.dp : 1);
  const double states = 12 * whole / (x.zero >= 1 ? x.dp : 1);
  const double gradients = 4 * (psi.split + psi.norms) / x.t / (x.zero >= 2 ? x.dp : 1);
  const double ends = 2 * x.T * x.h / x.t + 2 * x.T * x.V / x.t + 4 * x.T * x.h;
  const double kept =
      x.L * analysed_layer_activations(x, setup.training.attention != Attention::eager) + ends;
  const double layer = 2 * (psi.split - x.V * x.h - x.h) / x.t / x.L + 2 * psi.norms / x.L;
  const double prefetched = 2 * layer, loss = 2 * x.T * x.V / x.t;
  return weights + states + std::max(kept, gradients) + std::max(prefetched, loss);
}

std::optional<double> zero_paper_states(const Setup& setup) {
  if (!is_plain(setup) || offloads(setup.strategy)) return std::nullopt;
  const Sizes x = sizes(setup);
  const double psi = number(parameters(setup.model)) / x.t;
  switch (x.zero) {
    case 0: return 16 * psi;
    case 1: return 4 * psi + 12 * psi / x.dp;
    case 2: return 2 * psi + 14 * psi / x.dp;
    default: return 16 * psi / x.dp;
  }
}

const std::vector<OtherPlanner>& other_planners() {
  static const std::vector<OtherPlanner> planners{
      {"DeepSpeed's estimators", "DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py, stage3.py",
       deepspeed_estimator},
      {"EleutherAI's calculator", "EleutherAI/cookbook @069ae2e calc_transformer_mem.py",
       eleutherai_calculator},
      {"llm-analysis", "cli99/llm-analysis @d841e40 analysis.py", llm_analysis},
      {"states by the ZeRO paper", "Rajbhandari et al. 2020, figure 1", zero_paper_states},
  };
  return planners;
}

std::vector<PlannerComparison> compare_planners(const std::vector<Case>& cases,
                                                const std::vector<Record>& records) {
  const std::map<Key, double> ours = judged_errors(records);
  std::vector<PlannerComparison> comparisons;
  for (const Kind kind : {Kind::step, Kind::measurement})
    for (const OtherPlanner& planner : other_planners())
      if (PlannerComparison one = compare(planner, kind, cases, ours); one.rows > 0)
        comparisons.push_back(one);
  return comparisons;
}

}  // namespace zplan::check

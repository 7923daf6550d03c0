#pragma once
// One step as allocations over time. Every byte of a plan is one of the terms below: each has a name, a
// formula and a source, and stands in docs/ under its name.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

enum class Phase { forward, loss, backward, step };
template <>
struct EnumNames<Phase> {
  static constexpr std::array<std::pair<Phase, std::string_view>, 4> table{{{Phase::forward, "forward"},
                                                                            {Phase::loss, "loss"},
                                                                            {Phase::backward, "backward"},
                                                                            {Phase::step, "step"}}};
};

/// What reports group terms into: the keys of "memory" in the JSON report.
enum class MemoryPart {
  parameters,
  gradients,
  optimizer_states,
  activations,
  loss,
  communication_buffers,
  temporaries,
  framework_overhead,
};
inline constexpr std::size_t kMemoryParts = 8;
template <>
struct EnumNames<MemoryPart> {
  static constexpr std::array<std::pair<MemoryPart, std::string_view>, kMemoryParts> table{{
      {MemoryPart::parameters, "parameters"},
      {MemoryPart::gradients, "gradients"},
      {MemoryPart::optimizer_states, "optimizer_states"},
      {MemoryPart::activations, "activations"},
      {MemoryPart::loss, "loss"},
      {MemoryPart::communication_buffers, "communication_buffers"},
      {MemoryPart::temporaries, "temporaries"},
      {MemoryPart::framework_overhead, "framework_overhead"},
  }};
};

/// What a block of memory is for.
enum class Term {
  trained_parameters,
  frozen_parameters,
  persistent_parameters,
  gathered_parameters,
  gathered_experts,
  gradients,
  gradient_partition,
  fp32_gradients,
  master_weights,
  optimizer_moments,
  saved_activations,
  model_inputs,
  layer_working_set,
  logits,
  loss_temporaries,
  head_gradients,
  gradient_bucket,
  bucket_copy,
  offload_staging,
  gradient_copy,
  norm_in_fp64,
  cublas_workspace,
  cuda_context,
  nccl_buffers,
};
inline constexpr std::size_t kTerms = 24;

/// Name, group, formula and source of a term. Formulas use the symbols of docs/symbols.md.
struct TermInfo {
  Term term;
  MemoryPart part;
  std::string_view name;
  std::string_view formula;
  std::string_view source;
};
[[nodiscard]] const TermInfo& info(Term term);

/// Live bytes of every term at one moment.
struct Composition {
  std::array<Bytes, kTerms> terms{};

  [[nodiscard]] Bytes operator[](Term term) const { return terms[static_cast<std::size_t>(term)]; }
  [[nodiscard]] Bytes& operator[](Term term) { return terms[static_cast<std::size_t>(term)]; }
  [[nodiscard]] Bytes total() const;
  [[nodiscard]] Bytes part(MemoryPart wanted) const;
  bool operator==(const Composition&) const = default;
};

/// A moment of the timeline: what was live just after something was allocated or freed.
struct Moment {
  Phase phase{Phase::forward};
  std::string_view at;  ///< what happens: "layer forward", "optimizer step", …
  int layer{-1};
  Bytes live;
  bool operator==(const Moment&) const = default;
};

struct Peak {
  Phase phase{Phase::forward};
  std::string_view at;
  int layer{-1};
  Composition holds;  ///< what was live: adds up to the peak
  [[nodiscard]] Bytes bytes() const { return holds.total(); }
  bool operator==(const Peak&) const = default;
};

/// Plays allocations and frees in order and remembers the worst moment of all.
class Timeline {
 public:
  /// From here on things happen in `phase`, in the step named `at`.
  void enter(Phase phase, std::string_view at, int layer = -1);
  void allocate(Term term, Bytes size);
  void release(Term term, Bytes size);
  void release_all(Term term) { release(term, live_[term]); }
  /// A block that is gone before the next one is made.
  void spike(Term term, Bytes size) { allocate(term, size), release(term, size); }
  /// Several such blocks at once.
  void spike(std::initializer_list<std::pair<Term, Bytes>> blocks);

  [[nodiscard]] const Composition& live() const { return live_; }
  [[nodiscard]] const Peak& peak() const { return peak_; }
  [[nodiscard]] const Peak& peak(Phase phase) const { return phase_peaks_[static_cast<std::size_t>(phase)]; }
  /// The highest point of each `enter`ed step, in order.
  [[nodiscard]] const std::vector<Moment>& moments() const { return moments_; }

 private:
  Phase phase_{Phase::forward};
  std::string_view at_{"between steps"};
  int layer_{-1};
  Composition live_;
  Bytes total_{};
  Peak peak_;
  Bytes peak_bytes_{};
  std::array<Peak, 4> phase_peaks_{};
  std::array<Bytes, 4> phase_bytes_{};
  std::vector<Moment> moments_;
};

}  // namespace zplan

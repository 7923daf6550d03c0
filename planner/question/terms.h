#pragma once
// Terms of device memory. Every byte of a plan counts under one of the terms below; each has a name, a
// formula and a source, and is in docs/ under its name.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

enum class Framework;  // planner/question/strategy.h

/// `loss` is the output head and the loss, forward; `loss_backward` ends where the gradient of the last
/// hidden states is there.
enum class Phase { initialisation, forward, loss, loss_backward, backward, step };
inline constexpr std::size_t kPhases = 6;
template <>
struct EnumNames<Phase> {
  static constexpr std::array<std::pair<Phase, std::string_view>, kPhases> table{
      {{Phase::initialisation, "initialisation"},
       {Phase::forward, "forward"},
       {Phase::loss, "loss"},
       {Phase::loss_backward, "loss_backward"},
       {Phase::backward, "backward"},
       {Phase::step, "step"}}};
};

/// The phase as reports name it: the loss's backward belongs to the loss.
[[nodiscard]] constexpr Phase reported(Phase phase) {
  return phase == Phase::loss_backward ? Phase::loss : phase;
}

/// MemoryPart is a group of terms in reports: a key of "memory" in the JSON report.
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

/// Term is what a block of memory is for.
enum class Term {
  trained_parameters,
  frozen_parameters,
  persistent_parameters,
  gathered_parameters,
  gathered_experts,
  gradients,
  gradient_partition,
  fp32_gradients,
  placeholder_gradients,
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
  allocator_rounding,
  cuda_context,
  nccl_buffers,
  nccl_connections,
  engine,
};
inline constexpr std::size_t kTerms = 28;

/// Name, group, formula and source of a term. Formulas use the symbols of docs/symbols.md.
struct TermInfo {
  Term term;
  MemoryPart part;
  std::string_view name;
  std::string_view formula;
  std::string_view source;
};
[[nodiscard]] const TermInfo& info(Term term);
/// Returns the row of a term under a framework; FSDP2 and plain PyTorch have some of their own. Symbols c, r,
/// q and σ: docs/fsdp.md.
[[nodiscard]] const TermInfo& info(Term term, Framework framework);

/// Live bytes of every term at one moment.
struct Composition {
  std::array<Bytes, kTerms> terms{};

  [[nodiscard]] Bytes operator[](Term term) const { return terms[static_cast<std::size_t>(term)]; }
  [[nodiscard]] Bytes& operator[](Term term) { return terms[static_cast<std::size_t>(term)]; }
  [[nodiscard]] Bytes total() const;
  [[nodiscard]] Bytes part(MemoryPart wanted) const;
  bool operator==(const Composition&) const = default;
};

}  // namespace zplan

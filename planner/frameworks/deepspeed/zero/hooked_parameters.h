#pragma once
// Parameters that ZeRO-3 shards, the modules whose hooks gather them, and the trace of a micro-step that
// DeepSpeed's coordinator looks ahead along.
// Source: DeepSpeed 0.19.8 runtime/zero/parameter_offload.py, partitioned_param_coordinator.py.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/question/strategy.h"

namespace zplan {

/// Returns the element at a 32-bit index.
template <class Vector>
[[nodiscard]] auto& at(Vector& vector, std::int32_t index) {
  return vector[static_cast<std::size_t>(index)];
}
template <class Vector>
[[nodiscard]] std::int32_t size_of(const Vector& vector) {
  return static_cast<std::int32_t>(vector.size());
}

/// A parameter as ZeRO-3 shards it. Parameters go by their number: the order in which they were made
/// (DeepSpeed's ds_id; named_parameters() order for models built at once, adapters behind all others).
struct ShardedParameter {
  Elements elements;
  Bytes element_size{2};
  bool trainable{true};
  bool persistent{};     ///< kept whole between steps: mark_persistent()
  std::int32_t group{};  ///< which of several process groups shares it
  std::int32_t ranks{};  ///< that share it; 0: GatherOptions::data_parallel
  bool operator==(const ShardedParameter&) const = default;
};

/// A module that DeepSpeed hooks: every module of the model, containers included, since each one moves the
/// trace on and may prefetch. Modules below a leaf have no hooks and need not be listed.
struct ShardedModule {
  std::vector<std::int32_t> own;  ///< its direct parameters
  /// All parameters below it, its own included. Read only where the model has leaf modules.
  std::vector<std::int32_t> subtree{};
  bool leaf{};  ///< gathered as one with all below it: DeepSpeed does so for blocks of experts
  bool operator==(const ShardedModule&) const = default;
};

/// An event of a step that concerns parameters.
struct ModuleEvent {
  enum class Kind : std::uint8_t {
    // Hooks of `module`. Recomputation enters and leaves forward inside the backward; where it stops early,
    // the modules it was in are not left.
    enter_forward,
    leave_forward,
    enter_backward,
    leave_backward,
    /// The forward of `module` reads `parameter`, which is another module's. Where that is sharded, DeepSpeed
    /// gathers it at once, and counts it as the module's own from then on: peft reads lora_A.weight.dtype.
    read,
    /// Something refers to the memory of `parameter` from here on, released or not; or does not any more.
    /// Recomputation that is not reentrant saves detached tensors of trained parameters for their backward;
    /// autograd saves the operands of grouped matrix products.
    keep,
    let_go,
  };
  Kind kind{Kind::enter_forward};
  std::int32_t module{-1};
  std::int32_t parameter{-1};
  bool operator==(const ModuleEvent&) const = default;
};

/// True if a module's hook runs before its forward or its backward.
[[nodiscard]] bool enters(const ModuleEvent& event);

/// The forward and backward of one micro-step, as hooks see it; the same for every micro-step.
struct ModuleTape {
  std::vector<ModuleEvent> events;
  std::vector<ShardedModule> modules;
  std::vector<ShardedParameter> parameters;
  /// All parameters as named_parameters() lists them; empty where that is by number. Adapters, which are made
  /// last, are named with what they adapt.
  std::vector<std::int32_t> named{};
  bool operator==(const ModuleTape&) const = default;
};

/// Marks parameters of at most `threshold` elements, as long as they stay within `model_threshold` together.
/// Source: DeepSpeed 0.19.8 parameter_offload.py mark_persistent_parameters.
void mark_persistent(ModuleTape& tape, Elements threshold,
                     Elements model_threshold = Elements(std::numeric_limits<std::int64_t>::max()));

/// Throws InputError if the tape has no events, or names modules or parameters that it does not have.
void check_tape(const ModuleTape& tape);

/// Returns the parameter that named_parameters() lists at `place`.
[[nodiscard]] inline std::size_t named(const ModuleTape& tape, std::size_t place) {
  return tape.named.empty() ? place : static_cast<std::size_t>(tape.named[place]);
}

/// A use of a parameter by the module that is entered at `step`.
struct TracedUse {
  static constexpr std::int32_t kNone = -1;
  std::int32_t parameter{};
  std::int32_t step{};
  std::int32_t next{kNone};  ///< next use of the same parameter
};

/// The modules of a micro-step in the order in which they are entered, and the uses of parameters.
struct Trace {
  std::vector<TracedUse> uses;               ///< by step, then by parameter
  std::vector<std::int32_t> first_use;       ///< by parameter
  std::vector<std::int64_t> traversed;       ///< elements of the modules' own parameters before each step
  std::vector<std::int64_t> traversed_deep;  ///< as traversed, with all parameters below each module
  std::vector<std::vector<std::int32_t>> deep_steps;  ///< by parameter: steps of the modules above it
};

/// Parameters that the hooks of modules gather: the module's own, or all below a leaf; and parameters of
/// other modules that its forward was seen to read.
class HookedParameters {
 public:
  explicit HookedParameters(const ModuleTape& tape);

  [[nodiscard]] std::span<const std::int32_t> of(std::int32_t module) const {
    return std::span(list_).subspan(static_cast<std::size_t>(slot(module)),
                                    static_cast<std::size_t>(at(count_, module)));
  }
  /// Returns the place of the module's first parameter among those of all modules.
  [[nodiscard]] std::int32_t slot(std::int32_t module) const { return at(first_, module); }
  [[nodiscard]] std::size_t slots() const { return list_.size(); }
  /// Returns the parameters of other modules that it reads.
  [[nodiscard]] std::span<const std::int32_t> external(std::int32_t module) const {
    return of(module).subspan(static_cast<std::size_t>(at(own_count_, module)));
  }
  void add(std::int32_t module, std::int32_t parameter);

 private:
  std::vector<std::int32_t> list_, first_, count_, own_count_;
};

/// Returns the trace of a micro-step.
[[nodiscard]] Trace trace_of(const ModuleTape& tape, const HookedParameters& hooked);

}  // namespace zplan

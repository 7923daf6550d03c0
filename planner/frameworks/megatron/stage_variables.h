#pragma once
// StageVariables are what Python variables of the interleaved schedule, and of the model, hold of hidden
// states that a stage received, and of their gradients, when no pass needs them any more. Source:
// Megatron-Core 0.19.2 core/pipeline_parallel/schedules.py forward_backward_pipelining_with_interleaving,
// core/transformer/ transformer_block.py set_input_tensor; compared with recorded steps (docs/megatron.md).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/simulation/device.h"
#include "planner/step/step_schedule.h"

namespace zplan::megatron {

class StageVariables {
 public:
  /// Takes the stage's number of chunks, and the bytes of hidden states.
  StageVariables(Device& device, std::size_t chunks, Bytes size)
      : device_(device), size_(size), of_module_(chunks) {}

  /// The chunk's module keeps what it is given, and lets go what it was given before.
  void begin_forward(const Slot& slot);
  /// A variable of the schedule holds what was received, until the optimizer step.
  void keep(const Slot& slot) { of_schedule_ = pass_of(slot); }
  /// The gradient was sent: the tape frees it and the hidden states, variables may hold both.
  void sent_gradient(const Slot& slot);
  /// A backward had no gradient to send.
  void sent_none() { of_loop_.reset(), release_unheld(); }
  /// The schedule's own variables go.
  void end_schedule() { of_schedule_.reset(), sent_none(); }

 private:
  struct Pass {
    std::int64_t micro_batch{};
    std::size_t chunk{};
    bool operator==(const Pass&) const = default;
  };
  /// Hidden states and their gradient.
  struct Held {
    Pass pass;
    Device::Block hidden{Device::kNone}, gradient{Device::kNone};
  };
  static Pass pass_of(const Slot& slot) { return {slot.micro_batch, slot.tape}; }
  [[nodiscard]] bool holds_hidden(const Pass& pass) const {
    return of_module_[pass.chunk] == pass || of_schedule_ == pass;
  }
  void release_unheld();

  Device& device_;
  Bytes size_;
  std::vector<std::optional<Pass>> of_module_;  ///< by chunk: what its module was given last
  std::optional<Pass> of_schedule_;             ///< hidden states that a variable holds
  std::optional<Pass> of_loop_;                 ///< whose gradient was sent last
  std::vector<Held> held_;
};

}  // namespace zplan::megatron

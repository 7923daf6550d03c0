#pragma once
// TitanRun is a run of torchtitan's Trainer: FSDP2 over its units, the loss in slices, tensor parallelism.
// Source: torchtitan 0.3.0 trainer.py train_step, components/loss.py ChunkedLossWrapper, distributed/{fsdp,
// utils}.py; torch 2.14.1 distributed/fsdp/_fully_shard; compared with recorded steps (docs/torchtitan.md).

#include <vector>

#include "planner/frameworks/torchtitan/units.h"
#include "planner/simulation/rank_state.h"

namespace zplan {

class TitanRun {
 public:
  explicit TitanRun(RankState& state);

  void initialise();
  void begin_forward(const Slot& slot);
  void begin_backward(const Slot& slot);
  void section(int layer, bool backward);
  void phase(Phase phase);
  void gradient(std::size_t tensor, Device::Block block);
  void module(const Event& event, int layer);
  void end_backward(const Slot& slot);
  void reduce(const Slot& slot);
  void transferred(const Slot& slot);
  void reshard(const Slot& slot);
  void begin_weights(const Slot& slot);
  void end_weights(const Slot& slot);
  void step(bool first);

 private:
  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] const TitanOptions& options() const { return *in().strategy.torchtitan; }
  [[nodiscard]] const ParallelLayout& layout() const { return in().strategy.layout; }
  [[nodiscard]] bool has_stages() const { return layout().pipeline > 1; }
  [[nodiscard]] bool slices_loss() const { return options().loss_chunks > 0; }
  [[nodiscard]] bool is_tied() const { return in().model.shape.tied_embeddings; }
  /// A tied weight is one parameter to FSDP.
  [[nodiscard]] bool shares_tied() const { return zplan::shares_tied(options(), layout()); }
  [[nodiscard]] std::size_t layers() const { return in().model.inventory.layers.size(); }
  [[nodiscard]] titan::Unit& head() { return units_.back(); }
  /// Parameters of unit `unit` in the groups that FSDP makes of them: experts that ranks divide are the
  /// second group of their layer.
  [[nodiscard]] std::vector<titan::Unit*> groups_of(std::size_t unit);
  /// Returns the same units in the order of a backward.
  [[nodiscard]] std::vector<titan::Unit*> reversed_groups(std::size_t unit);
  /// The unit that the embedding is in.
  [[nodiscard]] titan::Unit& embedding() { return is_tied() ? head() : units_[layers()]; }

  void add_units();
  [[nodiscard]] titan::Unit& unit_of(const RankTensor& tensor);
  [[nodiscard]] titan::Member member_of(std::size_t tensor) const;
  void begin_step();
  void gather_ahead(std::size_t unit);
  [[nodiscard]] bool is_next(const titan::Member& member) const;
  void make_tables();
  void make_receive_buffers();
  [[nodiscard]] Bytes hidden_size() const;
  [[nodiscard]] std::size_t place_in_pass(const Slot& slot) const;
  void begin_pass(const Slot& slot);
  void keep_passed_hidden(const Slot& slot);
  void add_gradient(const titan::Member& member, Device::Block block);
  [[nodiscard]] std::vector<titan::Unit*> units_of(std::size_t chunk);
  void copy_out_gathered(std::size_t chunk);
  void leave_layer();
  void end_model();
  void begin_loss();
  void end_slice();
  void end_loss();
  void before_backward(std::size_t unit);
  void after_backward(std::size_t unit);
  void agree_on_norm();
  void balance_experts();
  [[nodiscard]] Bytes kept_inputs() const;
  /// Returns the number of the rank's layers that are mixtures of experts.
  [[nodiscard]] std::int64_t mixtures() const;

  RankState& state_;
  Device& device_;
  titan::Units fsdp_;
  std::vector<titan::Unit> units_;    ///< the layers', the embedding's where it is apart, the head's
  std::vector<titan::Unit> experts_;  ///< by layer, where ranks divide experts
  std::vector<OptimizerTensor> optimized_;
  Device::Block inputs_{-1};  ///< of the last micro-batch, which the step's variables keep
  /// Gradients of inputs that backwards in two parts leave until the next pass.
  std::vector<Device::Block> input_gradients_;
  /// By micro-batch of a pass: hidden states that a chunk passed on to another of this rank. While the
  /// chunk's own backward keeps them they count there.
  std::vector<Device::Block> passed_;
  Device::Block added_{-1};  ///< a gradient of weights that was added to another
  std::int64_t pass_{};
  std::int64_t slices_done_{};  ///< of the loss of this micro-batch
  int open_{-1};                ///< layer whose forward or backward runs
  std::size_t running_{};       ///< chunk of layers that runs
  bool in_backward_{};
  bool in_weights_{};  ///< the second part of a backward in two parts runs
  bool begins_step_{true};
};

}  // namespace zplan

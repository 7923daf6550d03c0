#pragma once
// ZeRO 1 and 2: flat 16-bit parameters on every rank, a slice of the optimizer's states on each.
// Source: DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py, runtime/bf16_optimizer.py; compared with allocator
// traces of whole steps (docs/accuracy.md).

#include <optional>
#include <utility>

#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/simulation/rank_state.h"

namespace zplan {

class SlicedRun {
 public:
  explicit SlicedRun(RankState& state);

  void initialise();
  /// Returns the memory of flattening weights, once initialised; nothing where the GPU's size does not decide
  /// where they are flattened.
  [[nodiscard]] const std::optional<Flattening>& flattening() const { return flattening_; }
  void begin_forward(const Slot& /*unused*/) {}
  void begin_backward(const Slot& slot) { last_micro_step_ = slot.last; }
  void gradient(std::size_t tensor, Device::Block block);
  void module(const Event& event, int layer) { (void)event, (void)layer; }
  void end_backward(const Slot& slot);
  void step(bool first);

 private:
  struct Pending {
    std::size_t tensor;
    Elements elements, start;
  };
  /// Elements that go to one owner, among the ranks that share them.
  struct Part {
    Sharing sharing{};
    std::int64_t owner{};
    Elements elements;
  };
  using Parts = std::vector<Part>;

  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] Bytes weight() const { return state_.weight(); }
  [[nodiscard]] bool offloaded() const { return in().strategy.offload_optimizer != OffloadDevice::none; }
  [[nodiscard]] bool is_second_stage() const { return in().strategy.zero_stage == 2; }
  [[nodiscard]] bool accumulates_fp32() const { return in().strategy.zero.fp32_gradient_accumulation; }
  /// Reduced gradients go into a flat fp32 slice, which the step then takes as it is.
  [[nodiscard]] bool keeps_flat_fp32() const;
  [[nodiscard]] bool reduces_in_hooks() const;
  /// True if tensors that all tensor-parallel ranks have are averaged as their gradients are made
  /// (average_replicated).
  [[nodiscard]] bool averages_in_hooks() const;
  [[nodiscard]] Elements bucket_size() const { return in().strategy.zero.reduce_bucket_size; }
  /// True if pending gradients are sent in several parts, which are flattened before.
  [[nodiscard]] bool sends_parts() const;
  [[nodiscard]] bool spans_slices() const;
  [[nodiscard]] const OptimizerGroup& group_of(std::size_t tensor) const {
    return groups_[of_group_[tensor]];
  }
  /// This rank's slice of the group that holds `tensor`.
  [[nodiscard]] const GroupSlice& slice_of(std::size_t tensor) const {
    return in().slice.groups[of_group_[tensor]];
  }
  [[nodiscard]] std::int64_t ranks_of(Sharing sharing) const {
    return zplan::ranks_of(sharing, in().training, in().strategy);
  }
  /// All slices of group `group` together.
  [[nodiscard]] Elements flat_size(std::size_t group) const {
    return in().slice.groups[group].size * ranks_of(groups_[group].sharing);
  }

  void decide_flattening();
  void flatten(std::size_t group);
  void make_master(std::size_t group);
  [[nodiscard]] bool flattens_on_host(Bytes gpu) const;
  void make_buckets();
  /// Elements of the parameter that lie in this rank's slice.
  [[nodiscard]] Elements piece_of(const Pending& each) const;
  void make_partition(std::size_t tensor);
  void keep(const Pending& each);
  /// Zeros in the place of gradients that never came, of parameters that touch this rank's slice. Source:
  /// DeepSpeed 0.19.8 stage_1_and_2.py get_all_grad_tensors.
  void make_missing_gradients();
  void put_in_bucket(std::size_t tensor);
  /// Pending gradients in order, by the ranks that share them. Neighbours of one owner are one part. Sums are
  /// computed when they are first needed.
  struct PendingParts {
    std::vector<Parts> by_sharing;
    std::size_t count{};    ///< of parts
    Sharing latest{};       ///< of the last of them
    std::size_t counted{};  ///< how many of pending_ are in it
  };
  [[nodiscard]] const PendingParts& parts() const;
  void add_parts(const Pending& each) const;
  [[nodiscard]] Elements largest_flattened() const;
  /// Returns the most elements that are cast and sent at once. A part that is sent alone counts, too.
  [[nodiscard]] Elements largest_sent() const;
  /// Returns the bytes of an element of the bucket.
  [[nodiscard]] Bytes bucket_element() const;
  /// True if gradients are sent in another type than the bucket's.
  [[nodiscard]] bool casts_to_send() const;
  [[nodiscard]] Device::Block flattened();
  void flush();
  void send();
  /// A reduction of gradients; without overlap_comm the compute stream waits for it.
  void send(Operation operation, Elements elements, Sharing sharing);
  void send_to_owners(const Parts& parts);
  void send_whole();
  void send_groups();
  void agree_and_gather();
  /// BF16_Optimizer's norm of the experts' gradients, over the ranks that divide a layer's experts.
  void agree_on_expert_norms();
  void release_buckets() { state_.device().release(buckets_); }
  [[nodiscard]] Device::Block copied_gradients(const GroupSlice& slice);
  void step_on_device(bool first);
  void update(std::size_t group, bool first);

  RankState& state_;
  Device& device_;
  std::optional<Flattening> flattening_;
  std::vector<OptimizerGroup> groups_;
  std::vector<Device::Block> flat_partitions_;  ///< of reduced fp32 gradients, by group
  std::vector<std::size_t> of_group_;           ///< of each tensor that trains
  std::vector<Elements> start_;                 ///< of each tensor in its flattened group
  std::vector<Device::Block> buckets_;
  std::vector<Device::Block> accumulators_;         ///< whole fp32 gradients, by tensor
  Device::Block partition_{Device::kNone};          ///< the reduced gradients that this rank keeps
  Device::Block earlier_partition_{Device::kNone};  ///< of the micro-steps before
  std::vector<Device::Block> missing_;              ///< zeros of make_missing_gradients
  std::vector<Pending> pending_;
  mutable PendingParts parts_;
  Instant reduced_;  ///< when the last reduction is through
  Elements open_{};
  bool last_micro_step_{};
};

}  // namespace zplan

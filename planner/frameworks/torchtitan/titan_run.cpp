#include "planner/frameworks/torchtitan/titan_run.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/frameworks/torchtitan/settings.h"
#include "planner/frameworks/torchtitan/shards.h"
#include "planner/sharding/torchtitan_model.h"
#include "planner/step/host_time.h"

namespace zplan {

namespace {

constexpr Bytes kFp32{4}, kNumber{8};

}  // namespace

TitanRun::TitanRun(RankState& state)
    : state_(state),
      device_(state.device()),
      fsdp_(state),
      optimized_(optimizer_tensors(state.in().rank, state.in().training, state.in().strategy)) {
  add_units();
}

titan::Unit& TitanRun::unit_of(const RankTensor& tensor) {
  if (tensor.layer < 0) return tensor.role == TensorRole::token_embedding ? embedding() : head();
  const auto layer = static_cast<std::size_t>(tensor.layer);
  return tensor.role == TensorRole::expert && !experts_.empty() ? experts_[layer] : units_[layer];
}

titan::Member TitanRun::member_of(std::size_t tensor) const {
  const RankTensor& each = state_.tensors()[tensor];
  // Norms between layers are alike on all ranks unless those divide the tokens, or gradients of them.
  const bool divides_tokens = options().sequence_parallel || options().backend == SpmdBackend::full_dtensor;
  const bool is_between = each.role == TensorRole::norm &&
                          (each.layer < 0 || each.elements.value == in().model.shape.hidden_size);
  return {
      .tensor = tensor,
      .elements = each.elements,
      .shard = titan::shard_of(each, layout()),
      .is_head = each.role == TensorRole::head,
      .is_replicated = !each.divided && each.role != TensorRole::expert && (divides_tokens || !is_between),
      .is_by_width = titan::shards_widths(each, layout())};
}

void TitanRun::add_units() {
  units_.resize(layers() + (is_tied() ? 1 : 2));
  if (titan::divides_experts(layout())) experts_.resize(layers());
  const bool reshards = reshards_layers(options(), has_stages());
  for (titan::Unit& each : units_) each.reshards = reshards, each.among = layout().shard_ranks();
  for (titan::Unit& each : experts_) each.reshards = reshards;
  head().chunk = static_cast<std::size_t>(layout().virtual_stages - 1);
  head().reshards = options().resharding == Resharding::always;
  const std::vector<RankTensor>& tensors = state_.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    titan::Unit& unit = unit_of(tensors[i]);
    unit.members.push_back(member_of(i));
    if (tensors[i].layer >= 0) unit.chunk = tensors[i].chunk;
  }
  for (std::size_t i = 0; i < experts_.size(); ++i) {
    if (experts_[i].members.empty()) continue;
    const RankTensor& tensor = tensors[experts_[i].members.front().tensor];
    experts_[i].among = Over(Group::expert_data, titan::shard_ranks(tensor, layout()));
    units_[i].follows = !has_stages();
    experts_[i].follows = has_stages();
  }
  if (!is_tied() || shares_tied()) return;
  titan::Member tied = head().members.front();
  tied.is_head = true;
  head().members.push_back(tied);
}

std::vector<titan::Unit*> TitanRun::groups_of(std::size_t unit) {
  std::vector<titan::Unit*> groups{&units_[unit]};
  if (unit < experts_.size() && !experts_[unit].members.empty()) groups.push_back(&experts_[unit]);
  return groups;
}

std::vector<titan::Unit*> TitanRun::reversed_groups(std::size_t unit) {
  std::vector<titan::Unit*> groups = groups_of(unit);
  std::reverse(groups.begin(), groups.end());
  return groups;
}

void TitanRun::initialise() {
  for (const titan::Unit& each : units_) fsdp_.shard(each);
  for (const titan::Unit& each : experts_) fsdp_.shard(each);
  make_tables();
  make_receive_buffers();
}

Bytes TitanRun::hidden_size() const {
  const std::int64_t ranks = options().sequence_parallel ? layout().tensor : 1;
  return weight_size(in().training) *
         (in().strategy.micro_batch_size * local_tokens(in().training, in().strategy) / ranks *
          in().model.shape.hidden_size);
}

/// Makes a buffer for each micro-batch that other stages send: of hidden states where a chunk of layers is
/// not the model's first, of gradients where it is not the last. What another chunk of the same rank passes
/// on takes a buffer's place. Source: torch 2.14.1 distributed/pipelining/stage.py _create_recv_buffers,
/// set_local_fwd_input, set_local_bwd_input.
void TitanRun::make_receive_buffers() {
  if (!has_stages()) return;
  const std::int64_t parts = layout().pipeline * layout().virtual_stages, stage = state_.inputs().place.stage;
  std::int64_t before = -1;  // the part of the chunk before
  for (std::int64_t chunk = 0; chunk < layout().virtual_stages; ++chunk) {
    const std::int64_t part = part_of_chunk(options(), layout(), stage, chunk);
    for (std::int64_t i = 0; i < titan::micro_batches_of_pass(in().strategy); ++i) {
      if (part > 0) {
        const Device::Block hidden = device_.allocate(Term::layer_working_set, hidden_size());
        if (part == before + 1) passed_.push_back(hidden);
      }
      if (part + 1 < parts) device_.allocate(Term::layer_working_set, hidden_size());
    }
    before = part;
  }
}

std::size_t TitanRun::place_in_pass(const Slot& slot) const {
  return static_cast<std::size_t>(slot.micro_batch % titan::micro_batches_of_pass(in().strategy));
}

/// Releases the gradients of inputs of the pass before. Source: torch 2.14.1 distributed/pipelining/stage.py
/// clear_runtime_states.
void TitanRun::begin_pass(const Slot& slot) {
  const std::int64_t pass = slot.micro_batch / titan::micro_batches_of_pass(in().strategy);
  if (std::exchange(pass_, pass) == pass) return;
  device_.release(input_gradients_);
  input_gradients_.clear();
}

/// A chunk's backward is over: the hidden states that it passed on stay.
void TitanRun::keep_passed_hidden(const Slot& slot) {
  if (passed_.empty() || slot.tape > 0) return;
  passed_[place_in_pass(slot)] = device_.allocate(Term::layer_working_set, hidden_size());
}

std::vector<titan::Unit*> TitanRun::units_of(std::size_t chunk) {
  std::vector<titan::Unit*> units;
  if (!is_tied() && chunk == 0) units.push_back(&embedding());
  for (std::size_t i = 0; i < layers(); ++i)
    if (units_[i].chunk == chunk)
      for (const auto& group : groups_of(i)) units.push_back(group);
  if (head().chunk == chunk) units.push_back(&head());
  return units;
}

/// Copies out what a schedule had gathered ahead.
void TitanRun::copy_out_gathered(std::size_t chunk) {
  if (layout().virtual_stages == 1) return;
  for (titan::Unit* each : units_of(chunk)) fsdp_.copy_out(*each, false);
}

/// Source: torch 2.14.1 distributed/pipelining/schedules.py _PipelineScheduleRuntime._step_microbatches
/// (UNSHARD, RESHARD).
void TitanRun::reshard(const Slot& slot) {
  begin_step();
  for (titan::Unit* each : units_of(slot.tape)) {
    if (slot.kind == Slot::Kind::unshard)
      fsdp_.gather(*each, titan::kCompute);
    else
      fsdp_.release(*each);
  }
}

/// Source: torch 2.14.1 distributed/pipelining/stage.py perform_reduce_grad.
void TitanRun::reduce(const Slot& slot) {
  const std::vector<titan::Unit*> units = units_of(slot.tape);
  for (titan::Unit* each : units) fsdp_.add_gradients(*each), fsdp_.release(*each), fsdp_.reduce(*each);
  fsdp_.end_backward(units);
  if (slot.last) inputs_ = device_.allocate(Term::model_inputs, kept_inputs());
}

/// Every layer has a table of rotations of its own, of all positions: complex numbers of half a head's
/// features (Llama, DeepSeek), or cosines and sines of all (Qwen3). A mixture counts the tokens of its
/// experts and has a bias for each.
void TitanRun::make_tables() {
  const ModelShape& shape = in().model.shape;
  const std::int64_t numbers = shape.latent_attention
                                   ? shape.latent_attention->rope_head_size
                                   : shape.head_size * (has_norms_of_heads(in().model) ? 2 : 1);
  for (std::size_t i = 0; i < layers(); ++i)
    device_.allocate(Term::model_inputs, kFp32 * (in().training.sequence_length * numbers));
  for (std::int64_t i = 0; i < 2 * mixtures(); ++i)
    device_.allocate(Term::model_inputs, kFp32 * shape.experts->experts);
}

std::int64_t TitanRun::mixtures() const {
  return std::ranges::count(state_.tensors(), TensorRole::router, &RankTensor::role);
}

/// Gradients stay until the next step begins, and the last micro-batch's inputs until they are replaced.
void TitanRun::begin_step() {
  if (!std::exchange(begins_step_, false)) return;
  device_.release(inputs_);
  device_.release(input_gradients_);
  input_gradients_.clear();
  pass_ = 0;
  fsdp_.zero_gradients(units_);
  fsdp_.zero_gradients(experts_);
  if (layout().data_ranks() > 1)
    state_.wait(state_.issue(state_.clock().computed(), Operation::all_reduce, Elements(1), kNumber,
                             "tokens of the step", layout().data_ranks(), "int64", layout().token_ranks()));
}

void TitanRun::begin_forward(const Slot& slot) {
  in_backward_ = false, slices_done_ = 0, open_ = -1, running_ = slot.tape;
  begin_step();
  begin_pass(slot);
  copy_out_gathered(slot.tape);
  if (slot.tape > 0) return;
  fsdp_.gather(embedding());
  fsdp_.copy_out(embedding(), true);
  if (!embedding().members.empty()) gather_ahead(0);
}

/// Gathers the next unit ahead where ranks exchange the rows of experts, which the host waits for.
void TitanRun::gather_ahead(std::size_t unit) {
  if (experts_.empty()) return;
  if (unit >= layers()) {
    if (running_ == head().chunk) fsdp_.gather(head());
  } else if (units_[unit].chunk == running_) {
    for (titan::Unit* each : groups_of(unit)) fsdp_.gather(*each);
  }
}

void TitanRun::begin_backward(const Slot& slot) {
  open_ = -1, running_ = slot.tape;
  copy_out_gathered(slot.tape);
}

/// A stage's forward ends before its hidden states are sent. The gradient that the first part of a backward
/// in two parts sends stays with the input, as its `grad`; a buffer of this rank that gets it does so, too.
/// Source: torch 2.14.1 distributed/pipelining/_backward.py stage_backward_input.
void TitanRun::transferred(const Slot& slot) {
  if (slot.kind == Slot::Kind::send_gradient && slot.is_split && !slot.is_local)
    input_gradients_.push_back(device_.allocate(Term::layer_working_set, hidden_size()));
  if (slot.kind != Slot::Kind::send_hidden) return;
  if (slot.is_local) device_.release(passed_[place_in_pass(slot)]);
  leave_layer();
  open_ = -1;
  fsdp_.end_forward();
}

void TitanRun::leave_layer() {
  if (open_ < 0) return;
  const auto unit = static_cast<std::size_t>(open_);
  if (in_backward_) return after_backward(unit);
  for (titan::Unit* each : groups_of(unit))
    if (each->reshards) fsdp_.release(*each);
}

void TitanRun::section(int layer, bool backward) {
  leave_layer();
  const bool is_behind_layers = open_ >= 0 && layer < 0;
  open_ = layer, in_backward_ = backward;
  if (!backward && !is_tied() && layer == 0 && embedding().reshards) fsdp_.release(embedding());
  if (backward && layer + 1 == static_cast<int>(layers())) after_backward(units_.size() - 1);
  if (layer >= 0) {
    if (layout().shard_ranks() > 1)
      state_.clock().host(backward ? host_time::kGroupBackward : host_time::kGroupForward);
    if (backward) return before_backward(static_cast<std::size_t>(layer));
    for (titan::Unit* each : groups_of(static_cast<std::size_t>(layer)))
      fsdp_.gather(*each), fsdp_.copy_out(*each, true);
    return gather_ahead(static_cast<std::size_t>(layer) + 1);
  }
  if (!is_behind_layers) return;
  if (!backward && running_ == head().chunk) {
    fsdp_.gather(head());
    fsdp_.copy_out(head(), true);
  } else if (backward && running_ == 0 && !is_tied()) {
    fsdp_.gather(embedding());
    fsdp_.copy_out(embedding(), false);
  }
}

void TitanRun::phase(Phase phase) {
  if (phase == Phase::loss && slices_loss()) begin_loss();
}

/// The model's forward ends without the head: its unit is resharded, and gathered again for the slices.
/// Source: torch 2.14.1 distributed/fsdp/_fully_shard/_fsdp_state.py _force_complete_incomplete_states.
void TitanRun::begin_loss() {
  end_model();
  fsdp_.gather(head(), titan::kCompute);
  fsdp_.copy_out(head(), false);
}

/// Gradients of all slices but the last are summed up; that one reduces the sum.
void TitanRun::end_slice() {
  const bool is_last = ++slices_done_ == options().loss_chunks;
  if (options().loss_chunks > 1) fsdp_.sum_up(head());
  if (is_last) fsdp_.reduce(head()), end_loss();
}

/// From here on the head's unit is resharded behind each forward.
void TitanRun::end_loss() {
  fsdp_.release(head());
  head().reshards = true;
}

void TitanRun::gradient(std::size_t tensor, Device::Block block) {
  titan::Unit& unit = unit_of(state_.tensors()[tensor]);
  titan::Member* member = nullptr;
  for (titan::Member& each : unit.members)
    if (each.tensor == tensor && (member == nullptr || is_next(each))) member = &each;
  if (has_stages() && member->gradient != Device::kNone) return add_gradient(*member, block);
  if (in_weights_) device_.release(added_);
  member->gradient = block;
  if (slices_loss() && !in_backward_) end_slice();
}

/// A gradient that is added to one that is there is released at once, or, where Python adds it, once the next
/// one is there.
void TitanRun::add_gradient(const titan::Member& member, Device::Block block) {
  state_.clock().move(member.elements * weight_size(in().training) * 3);
  device_.release(added_);
  if (in_weights_)
    added_ = block;
  else
    device_.release(block);
}

/// Source: torch 2.14.1 distributed/pipelining/_backward.py stage_backward_weight. FSDP's hooks do not run.
void TitanRun::begin_weights(const Slot& slot) {
  in_backward_ = in_weights_ = true, running_ = slot.tape, open_ = -1;
  copy_out_gathered(slot.tape);
}

void TitanRun::end_weights(const Slot& slot) {
  in_weights_ = false;
  device_.release(added_);
  keep_passed_hidden(slot);
}

/// Of a tied weight the head has its gradient before the embedding does.
bool TitanRun::is_next(const titan::Member& member) const {
  if (shares_tied() || !member.is_head) return false;
  return slices_loss() ? !in_backward_ : member.gradient == Device::kNone;
}

/// The hook of the head's unit is on its output.
void TitanRun::module(const Event& event, int layer) {
  if (layer >= 0 || event.index != kHeadUnit) return;
  if (event.kind == Event::Kind::leave_module) end_model();
  if (event.kind == Event::Kind::enter_backward) before_backward(units_.size() - 1);
}

void TitanRun::end_model() {
  if (head().reshards) fsdp_.release(head());
  fsdp_.end_forward();
}

/// The unit that ran before this one in the forward is gathered ahead.
void TitanRun::before_backward(std::size_t unit) {
  in_backward_ = true;
  for (titan::Unit* each : groups_of(unit)) fsdp_.gather(*each), fsdp_.copy_out(*each, false);
  const std::size_t before = std::min(unit, layers());
  if (before > 0 && (unit >= layers() || units_[before - 1].chunk == units_[unit].chunk)) {
    for (titan::Unit* each : reversed_groups(before - 1)) fsdp_.gather(*each);
  } else if (unit == 0 && !is_tied()) {
    fsdp_.gather(embedding());
  }
}

void TitanRun::after_backward(std::size_t unit) {
  if (unit >= layers() && is_tied()) return;  // the embedding's gradient is not there yet
  for (titan::Unit* each : reversed_groups(unit)) {
    // Stages keep parameters, and sums of gradients, whole until their last backward is over.
    if (has_stages())
      fsdp_.sum_up(*each);
    else
      fsdp_.release(*each), fsdp_.reduce(*each);
  }
}

void TitanRun::end_backward(const Slot& slot) {
  if (open_ >= 0) leave_layer();
  open_ = -1;
  if (slot.kind != Slot::Kind::input_gradient) keep_passed_hidden(slot);
  if (slot.tape == 0) {
    titan::Unit& last = embedding();
    if (has_stages())
      fsdp_.sum_up(last);
    else
      fsdp_.release(last), fsdp_.reduce(last);
  }
  if (has_stages()) return;
  fsdp_.end_backward(units_of(slot.tape));
  if (slot.last) inputs_ = device_.allocate(Term::model_inputs, kept_inputs());
}

/// Token numbers and positions of the micro-batch, and what FlexAttention's mask reads: the number and the
/// first token of each document. Source: torchtitan 0.3.0 models/common/attention.py
/// get_efficient_causal_mask_mod_for_packed_document.
Bytes TitanRun::kept_inputs() const {
  const std::int64_t length = in().training.sequence_length, tokens = in().strategy.micro_batch_size * length;
  Bytes kept = kNumber * (2 * tokens);
  if (options().attention == TitanAttention::flex)
    kept += Bytes(4) * (tokens + divide_up(length + 1, std::int64_t{128}) * 128);
  return kept;
}

/// Norms of all parameters travel together, over each axis that divides parameters; those of experts that
/// ranks divide travel by themselves. Source: torchtitan 0.3.0 distributed/utils.py clip_grad_norm_.
void TitanRun::agree_on_norm() {
  const auto sum = [&](std::int64_t norms, Over over) {
    if (over.ranks > 1)
      state_.communicate(Operation::all_reduce, Elements(norms), parameter_size(in().training),
                         "gradient norm", over);
  };
  std::int64_t of_experts = 0;
  for (const titan::Unit& each : experts_) of_experts += std::ssize(each.members);
  if (of_experts > 0 && layout().tensor == 1 && layout().replicate == 1) {
    sum(of_experts, layout().shard_ranks());  // one mesh has both of their axes
  } else if (of_experts > 0) {
    const auto with_experts =
        std::ranges::find_if(experts_, [](const titan::Unit& each) { return !each.members.empty(); });
    sum(of_experts, with_experts->among);
    sum(of_experts, Over(Group::expert, layout().expert));
  }
  const std::int64_t others = std::ssize(optimized_) - of_experts;
  sum(others, layout().shard_ranks());
  sum(others, Over(Group::tensor, layout().tensor));
  if (has_stages()) sum(1, Over(Group::pipeline, layout().pipeline));
}

/// Biases of experts follow how many tokens each got. Source: torchtitan 0.3.0
/// components/optimizer/optimizer.py register_moe_load_balancing_hook.
void TitanRun::balance_experts() {
  if (mixtures() == 0) return;
  const Elements counts(mixtures() * in().model.shape.experts->experts);
  const auto sum = [&](Over over) {
    if (over.ranks > 1) state_.communicate(Operation::all_reduce, counts, kFp32, "tokens of experts", over);
  };
  if (titan::divides_experts(layout())) sum(Over(Group::tensor, layout().tensor));
  sum(layout().gradient_ranks());
}

void TitanRun::step(bool first) {
  begins_step_ = true;
  agree_on_norm();
  clip_gradient_norm(device_, optimized_);
  balance_experts();
  optimizer_step(device_, in().training, optimized_, first);
}

}  // namespace zplan

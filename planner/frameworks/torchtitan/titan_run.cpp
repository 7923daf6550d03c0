#include "planner/frameworks/torchtitan/titan_run.h"

#include <utility>

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

void TitanRun::add_units() {
  units_.resize(layers() + (is_tied() ? 1 : 2));
  const bool reshards = reshards_layers(options(), has_stages());
  for (titan::Unit& each : units_) each.reshards = reshards;
  head().chunk = static_cast<std::size_t>(layout().virtual_stages - 1);
  head().reshards = options().resharding == Resharding::always;
  const std::vector<RankTensor>& tensors = state_.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const RankTensor& each = tensors[i];
    titan::Member member{.tensor = i,
                         .elements = each.elements,
                         .shard = fsdp_shard(each, fsdp_.ranks()),
                         .is_head = each.role == TensorRole::head,
                         .is_replicated = each.role == TensorRole::norm};
    // Norms between layers are alike on all ranks unless those divide the tokens.
    const bool is_of_heads = each.layer >= 0 && each.elements.value != in().model.shape.hidden_size;
    member.is_replicated = member.is_replicated && (options().sequence_parallel || is_of_heads);
    if (each.layer >= 0) {
      units_[static_cast<std::size_t>(each.layer)].members.push_back(member);
      units_[static_cast<std::size_t>(each.layer)].chunk = each.chunk;
      continue;
    }
    const bool is_table = each.role == TensorRole::token_embedding;
    (is_table ? embedding() : head()).members.push_back(member);
  }
  if (!is_tied()) return;
  titan::Member tied = head().members.front();
  tied.is_head = true;
  head().members.push_back(tied);
}

void TitanRun::initialise() {
  for (const titan::Unit& each : units_) fsdp_.shard(each);
  make_tables();
  make_receive_buffers();
}

/// Makes a buffer for each micro-batch that other stages send: of hidden states where a chunk of layers is not
/// the model's first, of gradients where it is not the last. Source: torch 2.14.1
/// distributed/pipelining/stage.py _create_recv_buffers.
void TitanRun::make_receive_buffers() {
  if (!has_stages()) return;
  const std::int64_t ranks = options().sequence_parallel ? layout().tensor : 1;
  const Bytes hidden = weight_size(in().training) *
                       (in().strategy.micro_batch_size * local_tokens(in().training, in().strategy) / ranks *
                        in().model.shape.hidden_size);
  const std::int64_t parts = layout().pipeline * layout().virtual_stages;
  for (std::int64_t chunk = 0; chunk < layout().virtual_stages; ++chunk) {
    const std::int64_t part = chunk * layout().pipeline + state_.inputs().place.stage;
    const std::int64_t received = (part > 0 ? 1 : 0) + (part + 1 < parts ? 1 : 0);
    for (std::int64_t i = 0; i < received * in().strategy.gradient_accumulation_steps; ++i)
      device_.allocate(Term::layer_working_set, hidden);
  }
}

std::vector<titan::Unit*> TitanRun::units_of(std::size_t chunk) {
  std::vector<titan::Unit*> units;
  if (!is_tied() && chunk == 0) units.push_back(&embedding());
  for (std::size_t i = 0; i < layers(); ++i)
    if (units_[i].chunk == chunk) units.push_back(&units_[i]);
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
  for (titan::Unit* each : units) fsdp_.release(*each), fsdp_.reduce(*each);
  fsdp_.end_backward(units);
  if (slot.last) inputs_ = device_.allocate(Term::model_inputs, kept_inputs());
}

/// Every layer has a table of rotations of its own, of all positions: complex numbers of half a head's
/// features (Llama), or cosines and sines of all (Qwen3).
void TitanRun::make_tables() {
  const ModelShape& shape = in().model.shape;
  const std::int64_t numbers = shape.head_size * (has_norms_of_heads(in().model) ? 2 : 1);
  for (std::size_t i = 0; i < layers(); ++i)
    device_.allocate(Term::model_inputs, kFp32 * (in().training.sequence_length * numbers));
}

/// Gradients stay until the next step begins, and the last micro-batch's inputs until they are replaced.
void TitanRun::begin_forward(const Slot& slot) {
  in_backward_ = false, slices_done_ = 0, open_ = -1, running_ = slot.tape;
  if (begins_step_) {
    begins_step_ = false;
    device_.release(inputs_);
    fsdp_.zero_gradients(units_);
    if (layout().data_ranks() > 1)
      state_.wait(state_.issue(state_.clock().computed(), Operation::all_reduce, Elements(1), kNumber,
                               "tokens of the step", layout().data_ranks(), "int64", layout().token_ranks()));
  }
  copy_out_gathered(slot.tape);
  if (slot.tape > 0) return;
  fsdp_.gather(embedding());
  fsdp_.copy_out(embedding(), true);
}

void TitanRun::begin_backward(const Slot& slot) {
  open_ = -1, running_ = slot.tape;
  copy_out_gathered(slot.tape);
}

/// A stage's forward ends before its hidden states are sent.
void TitanRun::transferred(const Slot& slot) {
  if (slot.kind != Slot::Kind::send_hidden) return;
  leave_layer();
  open_ = -1;
  fsdp_.end_forward();
}

void TitanRun::leave_layer() {
  if (open_ < 0) return;
  titan::Unit& unit = units_[static_cast<std::size_t>(open_)];
  if (in_backward_)
    after_backward(unit);
  else if (unit.reshards)
    fsdp_.release(unit);
}

void TitanRun::section(int layer, bool backward) {
  leave_layer();
  const bool is_behind_layers = open_ >= 0 && layer < 0;
  open_ = layer, in_backward_ = backward;
  if (!backward && !is_tied() && layer == 0 && embedding().reshards) fsdp_.release(embedding());
  if (backward && layer + 1 == static_cast<int>(layers())) after_backward(head());
  if (layer >= 0) {
    if (fsdp_.ranks() > 1)
      state_.clock().host(backward ? host_time::kGroupBackward : host_time::kGroupForward);
    if (backward) return before_backward(static_cast<std::size_t>(layer));
    titan::Unit& unit = units_[static_cast<std::size_t>(layer)];
    fsdp_.gather(unit);
    return fsdp_.copy_out(unit, true);
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
  const RankTensor& of = state_.tensors()[tensor];
  titan::Unit& unit = of.layer >= 0                            ? units_[static_cast<std::size_t>(of.layer)]
                      : of.role == TensorRole::token_embedding ? embedding()
                                                               : head();
  titan::Member* member = nullptr;
  for (titan::Member& each : unit.members)
    if (each.tensor == tensor && (member == nullptr || is_next(each))) member = &each;
  member->gradient = block;
  if (slices_loss() && !in_backward_) end_slice();
}

/// Of a tied weight the head has its gradient before the embedding does.
bool TitanRun::is_next(const titan::Member& member) const {
  if (!member.is_head) return false;
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
  fsdp_.gather(units_[unit]);
  fsdp_.copy_out(units_[unit], false);
  if (unit >= layers())
    fsdp_.gather(units_[layers() - 1]);
  else if (unit > 0 && units_[unit - 1].chunk == units_[unit].chunk)
    fsdp_.gather(units_[unit - 1]);
  else if (unit == 0 && !is_tied())
    fsdp_.gather(embedding());
}

void TitanRun::after_backward(titan::Unit& unit) {
  if (&unit == &head() && is_tied()) return;  // the embedding's gradient is not there yet
  // Stages keep parameters, and sums of gradients, whole until their last backward is over.
  if (has_stages()) return fsdp_.sum_up(unit);
  fsdp_.release(unit);
  fsdp_.reduce(unit);
}

void TitanRun::end_backward(const Slot& slot) {
  if (open_ >= 0) leave_layer();
  open_ = -1;
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

/// Norms of all parameters travel together, over each axis that divides parameters.
void TitanRun::agree_on_norm() {
  const Elements norms(static_cast<std::int64_t>(optimized_.size()));
  const auto sum = [&](Over over) {
    if (over.ranks > 1)
      state_.communicate(Operation::all_reduce, norms, parameter_size(in().training), "gradient norm", over);
  };
  sum(layout().shard_ranks());
  sum(Over(Group::tensor, layout().tensor));
  if (has_stages())
    state_.communicate(Operation::all_reduce, Elements(1), parameter_size(in().training), "gradient norm",
                       Over(Group::pipeline, layout().pipeline));
}

void TitanRun::step(bool first) {
  begins_step_ = true;
  agree_on_norm();
  clip_gradient_norm(device_, optimized_);
  optimizer_step(device_, in().training, optimized_, first);
}

}  // namespace zplan

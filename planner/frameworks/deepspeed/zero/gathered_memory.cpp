#include "planner/frameworks/deepspeed/zero/gathered_memory.h"

#include <utility>

namespace zplan {

using Use = GatherBlock::Use;

namespace {

/// A call of the optimizer's step that brings a persistent parameter along with the others.
bool joins_persistent(const GatherAction& action, const GatherOptions& options) {
  return action.kind == GatherAction::Kind::gather && action.placement == Placement::own_buffer &&
         action.on_compute_stream && !options.one_by_one;
}

}  // namespace

GatheredMemory::GatheredMemory(const ModuleTape& tape, const GatherOptions& options, StepKind step)
    : tape_(&tape),
      options_(options),
      whole_(tape.parameters.size(), kNone),
      secondary_(tape.parameters.size(), kNone) {
  blocks_ = &held_before_;
  on_compute_stream_ = true;
  hold_before(step);
}

/// Secondary shards are made at initialisation, and those of frozen parameters stay; persistent parameters
/// lie where the step before gathered them.
void GatheredMemory::hold_before(StepKind step) {
  const bool first = step == StepKind::first;
  const bool secondary = options_.secondary_partition > 1 && !options_.offloaded;
  const bool persistent = !first && persistent_placement(*tape_, options_) != Placement::shard;
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(whole_.size()); ++p) {
    const ShardedParameter& parameter = at(tape_->parameters, p);
    if (secondary && (first || !parameter.trainable))
      at(secondary_, p) =
          take(Use::secondary_shard, shard(p, static_cast<std::int32_t>(options_.secondary_partition)));
    const std::int32_t own = parameter.ranks;
    const auto ranks = own > 0 ? own : static_cast<std::int32_t>(options_.data_parallel);
    if (persistent && parameter.persistent) at(whole_, p) = take(Use::parameter, shard(p, ranks) * ranks);
  }
}

// ---- blocks

std::int32_t GatheredMemory::take(Use use, Bytes size, std::int32_t references) {
  const auto name = static_cast<std::int32_t>(storages_.size());
  storages_.push_back({use, on_compute_stream_, references, size});
  blocks_->push_back({use, true, on_compute_stream_, event_, name, size});
  return name;
}

void GatheredMemory::drop(std::int32_t storage) {
  if (storage == kNone) return;
  Storage& it = at(storages_, storage);
  if (--it.references == 0)
    blocks_->push_back({it.use, false, it.on_compute_stream, event_, storage, it.size});
}

Bytes GatheredMemory::whole(std::int32_t parameter) const {
  const ShardedParameter& of = at(tape_->parameters, parameter);
  return of.elements * of.element_size;
}

Bytes GatheredMemory::shard(std::int32_t parameter, std::int32_t ranks) const {
  const ShardedParameter& of = at(tape_->parameters, parameter);
  return share(of.elements, ranks) * of.element_size;
}

/// Shards on the host come to the device for the call.
std::vector<std::int32_t> GatheredMemory::copies_from_host(std::span<const std::int32_t> parameters,
                                                           std::int32_t ranks) {
  std::vector<std::int32_t> copies;
  if (options_.offloaded)
    for (const std::int32_t p : parameters) copies.push_back(take(Use::host_copy, shard(p, ranks)));
  return copies;
}

// ---- actions

void GatheredMemory::play(const GatherPlan& plan, std::vector<GatherBlock>& blocks) {
  blocks_ = &blocks;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const GatherAction& action = plan.actions[i];
    event_ = action.event;
    on_compute_stream_ = action.on_compute_stream || !options_.overlap_comm;
    if (!joins_persistent(action, options_)) {
      act(action, plan.parameters_of(action));
      continue;
    }
    std::size_t count = 1;
    while (i + 1 < plan.actions.size() && joins_persistent(plan.actions[i + 1], options_)) ++i, ++count;
    gather_persistent(std::span(plan.parameters).subspan(static_cast<std::size_t>(action.first), count),
                      action.ranks);
  }
}

void GatheredMemory::act(const GatherAction& action, std::span<const std::int32_t> parameters) {
  using Kind = GatherAction::Kind;
  switch (action.kind) {
    case Kind::gather:
    case Kind::gather_now: gather(action, parameters); break;
    case Kind::wait:
      if (action.quantized)
        wait_for_quantized(action, parameters);
      else if (action.placement == Placement::shared_buffer)
        for (const std::int32_t p : parameters) at(whole_, p) = take(Use::parameter, whole(p));
      break;
    case Kind::drop_buffer:
      drop(std::exchange(at(buffers_, action.call), kNone));
      if (!action.quantized) break;
      drop(std::exchange(at(restored_, action.call), kNone));
      drop(std::exchange(at(scales_, action.call), kNone));
      break;
    case Kind::release:
      for (const std::int32_t p : parameters) drop(std::exchange(at(whole_, p), kNone));
      break;
    case Kind::keep_secondary:
      on_compute_stream_ = true;
      for (const std::int32_t p : parameters)
        if (!options_.offloaded)
          at(secondary_, p) =
              take(Use::secondary_shard, shard(p, static_cast<std::int32_t>(options_.secondary_partition)));
      break;
    case Kind::drop_secondary:
      for (const std::int32_t p : parameters) drop(std::exchange(at(secondary_, p), kNone));
      break;
    case Kind::keep: keep(parameters.front()); break;
    case Kind::let_go: let_go(parameters.front()); break;
  }
}

void GatheredMemory::gather(const GatherAction& action, std::span<const std::int32_t> parameters) {
  Bytes padded{};
  for (const std::int32_t p : parameters) padded += shard(p, action.ranks) * action.ranks;
  const auto bring_shards = [&] {
    for (const std::int32_t copy : copies_from_host(parameters, action.ranks)) drop(copy);
  };
  if (static_cast<std::size_t>(action.call) >= buffers_.size())
    buffers_.resize(static_cast<std::size_t>(action.call) + 1, kNone);
  if (action.quantized) return gather_quantized(action, parameters);
  switch (action.placement) {
    case Placement::own_buffer:
      at(whole_, parameters.front()) = take(Use::parameter, padded);
      bring_shards();
      break;
    case Placement::shared_buffer:
      at(buffers_, action.call) = take(Use::shared_buffer, padded);
      bring_shards();
      break;
    case Placement::views: {
      const std::int32_t all = take(Use::shared_buffer, padded, static_cast<std::int32_t>(parameters.size()));
      for (const std::int32_t p : parameters) at(whole_, p) = all;
      break;
    }
    case Placement::shard: break;
    case Placement::copied_shard:
      for (const std::int32_t p : parameters) at(whole_, p) = take(Use::parameter, whole(p));
      break;
  }
}

/// The buffer of values is made; shards are put together where there are several, cast to fp16 and quantised;
/// then that of scales. Source: DeepSpeed 0.19.8 partition_parameters.py _all_gather_coalesced,
/// _all_gather_sequential, csrc/quantization/pt_binding.cpp quantize_kernel.
void GatheredMemory::gather_quantized(const GatherAction& action, std::span<const std::int32_t> parameters) {
  const Elements part = share(call_elements(parameters, tape_->parameters, action.ranks), action.ranks);
  Bytes widest{};
  for (const std::int32_t p : parameters) widest = std::max(widest, at(tape_->parameters, p).element_size);
  const Bytes scales = Bytes(4) * quantized_groups(part);
  scales_.resize(buffers_.size(), kNone), restored_.resize(buffers_.size(), kNone);
  at(buffers_, action.call) = take(Use::shared_buffer, part * Bytes(1) * action.ranks);
  std::int32_t together = kNone;
  if (parameters.size() > 1) {  // one on the host is cast there
    const std::vector<std::int32_t> copies = copies_from_host(parameters, action.ranks);
    together = take(Use::shared_buffer, part * widest);
    for (const std::int32_t copy : copies) drop(copy);
  }
  // Weights that are fp16 and on the device are quantised in place, without a copy.
  const bool lies_ready = options_.fp16 && widest == Bytes(2) && (together != kNone || !options_.offloaded);
  const std::int32_t half = lies_ready ? kNone : take(Use::shared_buffer, part * Bytes(2));
  if (half != kNone) drop(together);
  const std::int32_t own_scales = take(Use::shared_buffer, scales),
                     own = take(Use::shared_buffer, part * Bytes(1));
  drop(half == kNone ? together : half);
  at(scales_, action.call) = take(Use::shared_buffer, scales * action.ranks);
  drop(own), drop(own_scales);
}

/// Values are fp16 again, of several in one buffer from which each is copied, and cast to each one's type.
void GatheredMemory::wait_for_quantized(const GatherAction& action,
                                        std::span<const std::int32_t> parameters) {
  if (parameters.size() > 1)
    at(restored_, action.call) =
        take(Use::shared_buffer, call_elements(parameters, tape_->parameters, action.ranks) * Bytes(2));
  for (const std::int32_t p : parameters) {
    const ShardedParameter& of = at(tape_->parameters, p);
    const bool casts = !options_.fp16 || of.element_size != Bytes(2);
    const std::int32_t half = casts ? take(Use::shared_buffer, of.elements * Bytes(2)) : kNone;
    at(whole_, p) = take(Use::parameter, whole(p));
    drop(half);
  }
}

/// Shards of all persistent parameters are brought to the device, then buffers made, then calls issued.
void GatheredMemory::gather_persistent(std::span<const std::int32_t> parameters, std::int32_t ranks) {
  const std::vector<std::int32_t> copies = copies_from_host(parameters, ranks);
  for (const std::int32_t p : parameters) at(whole_, p) = take(Use::parameter, shard(p, ranks) * ranks);
  for (const std::int32_t copy : copies) drop(copy);
}

void GatheredMemory::keep(std::int32_t parameter) {
  const std::int32_t storage = at(whole_, parameter);
  if (storage != kNone) ++at(storages_, storage).references;
  kept_.emplace_back(parameter, storage);
}

void GatheredMemory::let_go(std::int32_t parameter) {
  const auto oldest =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& each) { return each.first == parameter; });
  if (oldest == kept_.end()) return;
  drop(oldest->second);
  kept_.erase(oldest);
}

}  // namespace zplan

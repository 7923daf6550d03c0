#include "planner/simulation/device.h"

#include <algorithm>
#include <utility>

namespace zplan {

Device::Device(std::optional<AllocatorOptions> allocator) {
  if (!allocator) return;
  allocator_.emplace(*allocator);
  capacity_ = allocator->capacity;
}

Device::Block Device::allocate(Term term, Bytes size, int stream) {
  if (size.value <= 0 || out_of_memory_) return kNone;
  if (requests_ != nullptr) requests_->push_back({term, size, allocated(), phase_, at_, layer_, module_});
  Held held{term, size, -1};
  if (allocator_) {
    const auto handle = handed_out(size, stream);
    if (!handle) {
      out_of_memory_ = true;
      return kNone;
    }
    held.handle = *handle;
  }
  Block block = kNone;
  if (unused_.empty()) {
    block = static_cast<Block>(blocks_.size());
    blocks_.push_back(held);
  } else {
    block = unused_.back();
    unused_.pop_back();
    blocks_[static_cast<std::size_t>(block)] = held;
  }
  if (trace_) trace_->allocate(block, size, stream);
  count(term, size);
  if (log_) log(term, size, true);
  note();
  return block;
}

std::optional<CachingAllocator::Handle> Device::handed_out(Bytes size, int stream) {
  if (const auto cached = allocator_->allocate_cached(size, stream)) return cached;
  if (watched_ && allocator_->current().reserved + asked_of_device(size) > *watched_) keep_before_more();
  return allocator_->allocate(size, stream);
}

void Device::keep_before_more() {
  watched_.reset();
  std::vector<CachingAllocator::Handle> handles;
  handles.reserve(blocks_.size());
  for (const Held& each : blocks_) handles.push_back(each.handle);
  before_more_.emplace(*allocator_, std::move(handles), trace_->size());
}

void Device::log(Term term, Bytes size, bool made) {
  // Like inputs, what a training loop has of logits grows with the micro-batch.
  if (term == Term::model_inputs || term == Term::logits) {
    const auto units = static_cast<std::int32_t>(size.value / input_unit_.value);
    return log_->inputs(made ? units : -units);
  }
  made ? log_->allocate(size) : log_->release(size);
}

void Device::note() {
  lately_.requested = std::max(lately_.requested, total_);
  lately_.allocated = std::max(lately_.allocated, allocated());
  if (total_ <= peak_total_) return;
  peak_total_ = total_;
  if (!log_) peak_ = {phase_, at_, layer_, live_};
}

/// Adds what happened since the last moment began to that moment.
void Device::note_lately() {
  phases_[static_cast<std::size_t>(phase_)] = peak(phase_);
  peak_allocated_ = peak_allocated();
  if (!moments_.empty()) moments_.back().live = std::max(moments_.back().live, lately_.allocated);
  lately_ = {};
}

PhasePeak Device::peak(Phase phase) const {
  PhasePeak peak = phases_[static_cast<std::size_t>(phase)];
  if (phase != phase_) return peak;
  peak.requested = std::max(peak.requested, lately_.requested);
  peak.allocated = std::max(peak.allocated, lately_.allocated);
  return peak;
}

std::vector<Moment> Device::moments() const {
  std::vector<Moment> all = moments_;
  if (!all.empty()) all.back().live = std::max(all.back().live, lately_.allocated);
  return all;
}

void Device::release(Block& block) {
  if (block == kNone) return;
  Held& held = blocks_[static_cast<std::size_t>(block)];
  count(held.term, Bytes{} - held.size);
  if (log_) log(held.term, held.size, false);
  if (allocator_) allocator_->release(std::exchange(held.handle, CachingAllocator::kNoMemory));
  if (trace_) trace_->release(block);
  unused_.push_back(block);
  block = kNone;
}

void Device::release(std::vector<Block>& blocks) {
  for (Block& each : blocks) release(each);
  blocks.clear();
}

void Device::rename(Block block, Term term) {
  if (block == kNone) return;
  Held& held = blocks_[static_cast<std::size_t>(block)];
  count(held.term, Bytes{} - held.size);
  held.term = term;
  count(term, held.size);
}

void Device::delta(const MemoryDelta& delta, std::int32_t number) {
  if (log_) log_->delta(number);
  const Bytes highest = total_ + delta.highest_total;
  lately_.requested = std::max(lately_.requested, highest);
  lately_.allocated = std::max(lately_.allocated, highest);
  total_ += delta.net_total;
  if (log_) return;
  if (highest > peak_total_) {
    peak_total_ = highest, peak_ = {phase_, at_, layer_, live_};
    for (std::size_t i = 0; i < kTerms; ++i) peak_.holds.terms[i] += delta.highest.terms[i];
  }
  for (std::size_t i = 0; i < kTerms; ++i) live_.terms[i] += delta.net.terms[i];
}

Device::Block Device::adopt(Term term, Bytes size) {
  count(term, Bytes{} - size);
  if (log_) log_->release(size);
  return allocate(term, size);
}

void Device::empty_cache() {
  if (allocator_) allocator_->empty_cache();
  if (trace_) trace_->empty_cache();
}

Device::Layout Device::layout() const {
  Layout layout{.device_calls = allocator_->device_calls(), .blocks = {}};
  layout.blocks.reserve(blocks_.size());
  for (const Held& each : blocks_)
    if (each.handle == CachingAllocator::kNoMemory)
      layout.blocks.emplace_back();
    else
      layout.blocks.push_back({each.term, allocator_->place(each.handle)});
  return layout;
}

void Device::enter(Phase phase, std::string_view at, int layer) {
  note_lately();
  phase_ = phase, at_ = at, layer_ = layer;
  lately_ = {total_, allocated()};
  moments_.push_back({phase, at, layer, lately_.allocated});
}

void Device::begin_step() {
  if (log_) log_->begin_step(total_);
  if (trace_) trace_->begin_step();
  note_lately();
  phases_ = {};
  moments_.clear();
  peak_total_ = {};
  peak_ = {};
}

}  // namespace zplan

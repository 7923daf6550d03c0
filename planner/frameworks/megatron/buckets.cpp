#include "planner/frameworks/megatron/buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace zplan::megatron {

namespace {

constexpr std::int64_t kParameterAlignment = 64, kBucketAlignment = 128;
constexpr std::int64_t kBandwidthAlignment = 65'536;
constexpr std::int64_t kLeastBucket = 40'000'000, kBucketOfRank = 1'000'000;

/// Cuts the buffer while parameters are added.
class Cutter {
 public:
  explicit Cutter(const BufferRules& rules)
      : rules_(rules),
        alignment_(std::lcm(rules.ranks, rules.pads_for_bandwidth ? kBandwidthAlignment : kBucketAlignment)),
        open_{.kind = rules.kind, .parameters = {}} {}

  /// Begins another buffer, which is one bucket.
  void begin_buffer() {
    if (!open_.parameters.empty()) close();
    rules_.bucket_size = {};
  }
  void add(std::size_t tensor, std::int64_t elements, bool alone) {
    if (rules_.divided) next_ = divide_up(next_, kParameterAlignment) * kParameterAlignment;
    if (alone && !open_.parameters.empty()) close();
    const std::int64_t end = next_ + elements;
    open_.parameters.push_back({tensor, next_, end});
    next_ = end;
    const bool is_full = rules_.bucket_size.value > 0 && end - open_.begin >= rules_.bucket_size.value;
    if (is_full || alone) close();
  }
  std::vector<Bucket> take() {
    if (!open_.parameters.empty()) close();
    return std::move(made_);
  }

 private:
  void close() {
    if (rules_.divided) next_ = divide_up(next_, alignment_) * alignment_;
    open_.end = next_;
    made_.push_back(std::exchange(open_, Bucket{.kind = rules_.kind, .begin = next_, .parameters = {}}));
  }

  BufferRules rules_;
  std::int64_t alignment_, next_{};
  Bucket open_;
  std::vector<Bucket> made_;
};

}  // namespace

std::vector<Bucket> buckets(const RankModel& model, const BufferRules& rules,
                            const std::function<bool(const RankTensor&)>& of) {
  Cutter cutter(rules);
  std::size_t chunks = 1;
  for (const RankTensor& each : model.tensors) chunks = std::max(chunks, each.chunk + 1);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk > 0) cutter.begin_buffer();
    for (std::size_t i = model.tensors.size(); i-- > 0;) {
      const RankTensor& each = model.tensors[i];
      if (!each.trainable || each.chunk != chunk || !of(each)) continue;
      for (std::int64_t copy = 0; copy < each.copies; ++copy)
        cutter.add(i, each.elements.value / each.copies, rules.ties_stages && each.tied);
    }
  }
  return cutter.take();
}

bool divides_experts(const Strategy& strategy) {
  return strategy.layout.expert > 1 || strategy.layout.expert_tensor != strategy.layout.tensor;
}

std::int64_t buffer_ranks(const ParallelLayout& layout, BufferKind kind) {
  return kind == BufferKind::dense ? layout.gradient_ranks() : process_group(layout, Group::expert_data).size;
}

std::int64_t dividing_ranks(const Strategy& strategy, BufferKind kind) {
  const std::int64_t ranks = buffer_ranks(strategy.layout, kind);
  return strategy.zero_stage == 1 ? ranks / strategy.megatron->optimizer_instances : ranks;
}

namespace {

/// Returns the elements at which a bucket closes. Source: Megatron-Core 0.19.2 training/training.py
/// resolve_ddp_bucket_size.
Elements bucket_size(const RankModel& model, const Strategy& strategy) {
  const MegatronOptions& options = *strategy.megatron;
  if (options.bucket_count > 0)
    return std::max(Elements(model.trainable.value / options.bucket_count), Elements(1));
  if (options.bucket_size.value > 0) return options.bucket_size;
  return Elements(std::max(kLeastBucket, kBucketOfRank * strategy.layout.gradient_ranks()));
}

}  // namespace

std::vector<Bucket> buckets(const RankModel& model, const Strategy& strategy, bool first_stage) {
  const MegatronOptions& options = *strategy.megatron;
  BufferRules rules{
      .ranks = dividing_ranks(strategy, BufferKind::dense),
      .divided = strategy.zero_stage == 1,
      .bucket_size = options.overlap_grad_reduce && first_stage ? bucket_size(model, strategy) : Elements{},
      .ties_stages = strategy.layout.pipeline > 1,
      .pads_for_bandwidth = options.pads_buckets};
  const bool apart = divides_experts(strategy);
  const auto is_apart = [apart](const RankTensor& each) { return apart && each.role == TensorRole::expert; };
  std::vector<Bucket> all = buckets(model, rules, [&](const RankTensor& each) { return !is_apart(each); });
  rules.kind = BufferKind::experts, rules.ranks = dividing_ranks(strategy, BufferKind::experts);
  for (Bucket& each : buckets(model, rules, is_apart)) all.push_back(std::move(each));
  return all;
}

Elements buffer_size(const std::vector<Bucket>& buckets) {
  Elements sum{};
  for (const Bucket& each : buckets) sum += each.size();
  return sum;
}

std::vector<Piece> owned_pieces(const std::vector<Bucket>& buckets, const Strategy& strategy,
                                std::int64_t slice) {
  const bool is_divided = strategy.zero_stage == 1;
  const ParallelLayout& layout = strategy.layout;
  std::vector<Piece> pieces;
  for (const Bucket& bucket : buckets) {
    const std::int64_t ranks = is_divided ? dividing_ranks(strategy, bucket.kind) : 1;
    const std::int64_t place =
        (bucket.kind == BufferKind::dense ? slice : slice * layout.tensor / layout.expert_ranks()) % ranks;
    const std::int64_t share = (bucket.end - bucket.begin) / ranks;
    const std::int64_t begin = bucket.begin + place * share, end = begin + share;
    for (const Placed& each : bucket.parameters) {
      const std::int64_t own = std::min(each.end, end) - std::max(each.begin, begin);
      if (own > 0) pieces.push_back({each.tensor, Elements(own), bucket.kind});
    }
  }
  return pieces;
}

}  // namespace zplan::megatron

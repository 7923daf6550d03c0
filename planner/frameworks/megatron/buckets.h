#pragma once
// Buckets of Megatron's data-parallel buffer: stretches of gradients that are reduced, and of weights that
// are gathered, by one call each.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/sharding/rank_model.h"

namespace zplan::megatron {

/// Place of one parameter in the buffer, in elements.
struct Placed {
  std::size_t tensor{};  ///< its number in RankModel; parameters that are stacked there share it
  std::int64_t begin{}, end{};
};

/// BufferKind says whose parameters a buffer holds: gradients of experts are averaged over other ranks, and
/// an optimizer of its own updates them.
enum class BufferKind : std::uint8_t { dense, experts };

struct Bucket {
  BufferKind kind{};
  std::int64_t begin{}, end{};  ///< of the buffer, padding included
  std::vector<Placed> parameters;
  [[nodiscard]] Elements size() const { return Elements(end - begin); }
};

/// BufferRules say how a buffer is cut.
struct BufferRules {
  BufferKind kind{};
  std::int64_t ranks{1};  ///< that share a bucket
  bool divided{};         ///< ranks hold a part of each bucket each (the distributed optimizer): it is padded
  Elements bucket_size{};     ///< a bucket closes once it has so many; 0: one bucket holds all
  bool ties_stages{};         ///< the embedding is shared by two stages: it has a bucket of its own
  bool pads_for_bandwidth{};  ///< ends are multiples of 65,536 elements
                              ///< (--ddp-pad-buckets-for-high-nccl-busbw)
};

/// True if experts have a buffer of their own: ranks divide them otherwise than a layer's other tensors.
/// Source: Megatron-Core 0.19.2 core/extensions/transformer_engine.py, use_expert_pgs.
[[nodiscard]] bool divides_experts(const Strategy& strategy);

/// Returns the ranks that divide a buffer's optimizer states: all that share it, or those of one instance.
[[nodiscard]] std::int64_t dividing_ranks(const Strategy& strategy, BufferKind kind);

/// Returns the buckets of a rank's trained parameters, the last parameter first. `of`: the tensors that the
/// buffer holds. Each chunk of layers has a buffer of its own, one behind the other here; those behind the
/// first are one bucket. Source: Megatron-Core 0.19.2 core/distributed/param_and_grad_buffer.py
/// _ParamAndGradBuffer.__init__; compared with recorded buffers (docs/megatron.md).
[[nodiscard]] std::vector<Bucket> buckets(const RankModel& model, const BufferRules& rules,
                                          const std::function<bool(const RankTensor&)>& of);

/// Returns the buckets of a rank as its run cuts them: those of the dense buffer, then those of the experts'.
[[nodiscard]] std::vector<Bucket> buckets(const RankModel& model, const Strategy& strategy, bool first_stage);

/// Returns the ranks that share a buffer.
[[nodiscard]] std::int64_t buffer_ranks(const ParallelLayout& layout, BufferKind kind);

/// Returns the elements of all buffers, padding included.
[[nodiscard]] Elements buffer_size(const std::vector<Bucket>& buckets);

/// Piece is what a rank updates of one parameter.
struct Piece {
  std::size_t tensor{};  ///< the parameter's number in RankModel
  Elements elements;
  BufferKind kind{};  ///< of the buffer that it lies in, which an optimizer of its own updates
};

/// Returns the pieces that the data-parallel rank `slice` updates, in the buffers' order: a part of each
/// bucket under the distributed optimizer, else all. Ranks of the whole data-parallel group follow each other
/// in the groups of experts.
[[nodiscard]] std::vector<Piece> owned_pieces(const std::vector<Bucket>& buckets, const Strategy& strategy,
                                              std::int64_t slice);

}  // namespace zplan::megatron

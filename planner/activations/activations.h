#pragma once
// What one micro-batch keeps for its backward pass, and the temporaries on top, in closed forms per block
// family. Derivation, errors and what is not covered: docs/activations.md.

#include <cstdint>
#include <vector>

#include "planner/sharding/rank_model.h"

namespace zplan {

/// One layer of a kind, for one micro-batch on one rank.
struct LayerActivations {
  Bytes saved;        ///< kept from the layer's forward to its backward, under the chosen checkpointing
  Bytes working_set;  ///< on top of everything kept, while the layer's backward runs
  bool operator==(const LayerActivations&) const = default;
};

/// The output head and the loss.
struct LossActivations {
  Bytes logits;          ///< in the model's precision
  Bytes forward;         ///< on top of the logits, while the loss is computed
  Bytes backward;        ///< cross-entropy's backward: log-softmax and its gradients
  Bytes logit_gradient;  ///< in the head's backward
  Bytes head_gradient;   ///< weight (where it trains) and hidden-state gradients
  bool operator==(const LossActivations&) const = default;
};

struct Activations {
  std::vector<LayerActivations> kinds;  ///< as Inventory::kinds
  Bytes model_inputs;                   ///< what the model keeps outside its layers
  LossActivations loss;
  bool
      measured{};  ///< the block family's form was checked against measurements; otherwise derived by analogy
  bool operator==(const Activations&) const = default;
};

[[nodiscard]] Activations activations(const Model& model, const Training& training, const Strategy& strategy);

/// Bytes per token that one layer of kind `kind` (an index of Inventory::kinds) keeps without checkpointing:
/// S of the formulas. `split` is what lies between a column- and a row-split product and is divided by the
/// tensor-parallel degree.
struct SavedPerToken {
  std::int64_t replicated{};
  std::int64_t split{};
  std::int64_t fixed{};  ///< bytes per layer, whatever the tokens
};
[[nodiscard]] SavedPerToken saved_per_token(const Model& model, const Training& training,
                                            const Strategy& strategy, std::size_t kind);

}  // namespace zplan

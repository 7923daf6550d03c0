#pragma once
// Tape is one micro-step: every tensor that PyTorch allocates and frees in forward, loss and backward, in
// order, with its size; and the moments at which a framework acts (a module needs its parameters, a gradient
// is complete). What the framework does then is up to planner/simulation/ and planner/frameworks/.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/recorded/recorded.h"
#include "planner/model_trace/load.h"
#include "planner/question/terms.h"

namespace zplan {

/// Owner is the part of the model that allocated a block. Tapes of layers are repeated for each layer, so
/// blocks are named relative to that part.
enum class Owner : std::uint8_t {
  here,             ///< this part, or this layer (its forward and backward together)
  model,            ///< what runs before or after the layers
  previous_output,  ///< the hidden states that the layer before returned (or the embedding)
  next_gradient,    ///< the gradient that the next layer (or the head) left for this one
  other_part,       ///< the part that Event::block_part names
};

/// TensorCall is an exchange between ranks within a micro-step: ranks that divide layers' tensors, a sample's
/// tokens, experts or stages.
enum class TensorCall : std::uint8_t {
  row_output,            ///< a row-split layer's partial outputs are summed
  column_input,          ///< gradients of a column-split layer's input are summed
  split_embedding,       ///< rows that other ranks hold are summed in
  logits,                ///< every rank gathers the logits of all
  token_maxima,          ///< vocabulary-parallel loss: maxima of the logits
  token_sums,            ///< vocabulary-parallel loss: sums of exponentials, and logits of the targets
  route_gradients,       ///< experts divided by width: gradients of routing weights are summed
  wide_route_gradients,  ///< the same in fp32
  replicated_gradient,   ///< gradient of a weight that each rank applies to its own heads
  token_exchange,        ///< Ulysses: all tokens of some heads for some tokens of all heads, and back
  positions,             ///< Ulysses: every rank gathers the positions of all tokens
  rank_losses,           ///< Ulysses: the loss of each rank's tokens
  rank_token_counts,     ///< Ulysses: how many of each rank's tokens count
  loss_gradient,         ///< Ulysses: gradient of each rank's loss
  tile_count,            ///< tiled feed-forward: all ranks use the largest number of slices
  gathered_keys,         ///< ring attention: keys and values of all ranks at once
  passed_keys,           ///< ring attention: keys and values to the next rank
  passed_key_gradients,  ///< ring attention: gradients of keys and values to the next rank, in fp32
  expert_counts,         ///< AutoEP: how many rows each rank sends to each expert
  expert_row_counts,     ///< torchtitan: how many rows each rank sends to each expert
  expert_rows,           ///< AutoEP: rows to the ranks that have their experts, and back
  row_counts,            ///< AutoTP with AutoEP: how many rows each tensor-parallel rank has
  combined_rows,         ///< AutoTP with AutoEP: every rank gathers the experts' outputs
  row_places,            ///< AutoTP with AutoEP: tokens of the outputs
  row_weights,           ///< AutoTP with AutoEP: weights of the outputs
  combined_gradients,    ///< AutoTP with AutoEP: gradients of outputs and weights are summed
  averaged_gradients,    ///< AutoTP with AutoEP: gradients of the layer's input are averaged
  gathered_tokens,       ///< sequence parallel (Megatron): every rank gathers the tokens of all
  gathered_again,        ///< the same in the backward, beside the product of the input's gradient
  scattered_tokens,      ///< sequence parallel: ranks' partial sums, each rank gets those of its tokens
  scattered_gradients,   ///< the same of an input's gradient, beside the product of the weight's
  reduced_gradients,     ///< tensor parallel (Megatron): an input's gradient, beside the weight's product
  batch_tokens,          ///< Megatron: a tensor of token numbers of the batch, from the group's first rank
  batch_weights,         ///< Megatron: the batch's loss mask, likewise
  exchanged_heads,      ///< context parallel: all tokens of some heads for some tokens of all heads, and back
  heads_within_part,    ///< the same within a part of the group (a2a+p2p)
  keys_between_parts,   ///< a2a+p2p: keys and values to the next part's rank
  gathered_context,     ///< context parallel: every rank gathers keys or values of all
  scattered_keys,       ///< context parallel: sums of ranks' gradients of keys or values, each gets its own
  gathered_projection,  ///< tensor parallel (Megatron): queries, keys and values of all ranks, of few
                        ///< key-value heads
  scattered_projection,    ///< the sums of their gradients, each rank gets its own
  gathered_inputs,         ///< tensor parallel (Megatron): the divided input of recomputed layers
  expert_loads,            ///< Megatron: how many tokens each expert got, of all ranks of a sample
  gathered_expert_counts,  ///< Megatron: how many rows each rank sends to each expert
  expert_row_weights,      ///< Megatron: weights of rows to the ranks that have their experts
  gathered_rows,           ///< expert tensor parallel: every rank gets the rows of all
  scattered_rows,          ///< the sums of their gradients, each rank its own
  gathered_row_weights,    ///< expert tensor parallel: the rows' weights
  scattered_row_weights,   ///< the sums of their gradients
  scattered_outputs,       ///< expert tensor parallel: sums of ranks' partial outputs, each rank its own rows
  gathered_outputs,        ///< their gradients
  gathered_routes,         ///< all-gather dispatcher: which experts each token chose
  gathered_route_weights,  ///< all-gather dispatcher: the weights of all experts
  scattered_route_weights,   ///< the sums of their gradients
  gathered_expert_tokens,    ///< all-gather dispatcher: hidden states of all ranks
  scattered_expert_tokens,   ///< the sums of their gradients
  scattered_expert_outputs,  ///< all-gather dispatcher: sums of ranks' outputs, each rank its own tokens
  gathered_expert_outputs,   ///< their gradients
  gathered_features,         ///< Megatron's MTP: every rank gathers the features of all
  gathered_maxima,           ///< Megatron's MTP: largest logits of all ranks, for the log
  gathered_predictions,      ///< Megatron's MTP: the tokens that they are of
  stage_sizes,               ///< pipeline: sizes of the hidden states that follow
  stage_output,              ///< pipeline: hidden states to the next stage
  stage_gradient             ///< pipeline: their gradient back to the stage before
};

inline constexpr std::size_t kTensorCalls = static_cast<std::size_t>(TensorCall::stage_gradient) + 1;

struct Event {
  enum class Kind : std::uint8_t {
    allocate,
    release,
    adopt_gradient,   ///< the block is a parameter's gradient from here on: the framework frees it
    add_gradient,     ///< as adopt_gradient, but more of it follows in this backward: no hook runs
    summed_gradient,  ///< the product itself added the gradient of parameter `index` to the framework's sums
    enter_module,     ///< its parameters are needed now
    leave_module,     ///< its parameters are needed no more
    enter_backward,   ///< its parameters are needed for its backward
    leave_backward,
    read_parameter,  ///< parameter `index` is read from outside its module, by module `block`
    keep_parameter,  ///< autograd keeps a view of parameter `index`: the memory it was gathered into stays
    free_parameter,  ///< ends keep_parameter
    end_layers,      ///< every layer frees its `endings[index]`
    workspace,       ///< a library allocates a workspace and keeps it: `index` 0 is cuBLAS, 1 cuBLASLt
    phase,           ///< `index` is a Phase
    communicate,     ///< `index` is a TensorCall, `size` its buffer
    await,           ///< waits for the last TensorCall `index`, which ran beside computation
    compute,         ///< load `index` of the tape begins
    reference,       ///< the reference model's forward: kReferenceBegins, its layer `index`, kReferenceEnds
  };
  Kind kind{Kind::allocate};
  Owner owner{Owner::here};
  Term term{};
  std::int32_t block{-1};  ///< number within the owner
  std::int32_t index{
      -1};  ///< parameter (adopt_gradient) or module (enter, leave): an index into the part's list
  Bytes size{};
  /// The part that parameter or module `index` belongs to and, under Owner::other_part, the block: kOwnPart,
  /// kAroundLayers or another layer, as in RecordedEvent.
  std::int32_t index_part{kOwnPart}, block_part{kOwnPart};
  bool operator==(const Event&) const = default;
};

/// Stands for a module's number: the unit that FSDP2 makes of final norm and head.
inline constexpr std::int32_t kHeadUnit = -1;

/// Stand for a layer's number in events of Event::Kind::reference.
inline constexpr std::int32_t kReferenceBegins = -1, kReferenceEnds = -2;

/// TapeModule is a module that a framework hooks.
struct TapeModule {
  std::string name;                 ///< of a module without parameters of its own
  std::vector<std::int32_t> own{};  ///< the parameters that it holds itself; a leaf holds all below it
  bool leaf{};                      ///< modules below it are not hooked
  bool operator==(const TapeModule&) const = default;
};

/// TapePart is a class of layers, or what runs around the layers.
struct TapePart {
  std::vector<Event> forward;
  std::vector<Event> backward;
  std::vector<Event> weights;  ///< second part of a backward in two parts
  /// Blocks freed when the model's forward is over (0: autocast's cast weights), when the loss and its graph
  /// are dropped (1: attributes of autograd functions), and at the end of a backward's second part (2).
  std::array<std::vector<Event>, 3> endings;
  std::vector<TapeModule> modules;
  std::vector<Bytes> pinned;  ///< tensors that wait in pinned host memory from forward to backward
  std::int32_t blocks{};      ///< number of blocks
  std::int32_t output{-1},
      gradient{-1};  ///< blocks of the hidden states it returns and of the gradient it leaves
  bool operator==(const TapePart&) const = default;
};

/// ReferenceModules lists the modules of a reference model that is not the policy itself, by class of its
/// layers.
struct ReferenceModules {
  std::vector<TapeModule> model;
  std::vector<std::vector<TapeModule>> classes;
  std::vector<std::size_t> layers;  ///< the class of each layer
  bool operator==(const ReferenceModules&) const = default;
};

/// Transfer is an exchange of a pipeline's stage with its neighbours.
enum class Transfer : std::uint8_t { receive_hidden, send_hidden, receive_gradient, send_gradient };
inline constexpr std::size_t kTransfers = 4;

/// A micro-step in two passes. Forward: the model's start (embedding), its layers, its end (head and loss).
/// Backward: the loss and the head, the layers, the embedding. A stage of a pipeline has a start or an end
/// only where its part of the model has them; elsewhere the pass begins or ends with a transfer. Of a
/// backward in two parts the second, gradients of weights, goes through the layers in the order of the model.
struct Tape {
  bool is_split{};                   ///< the backward is in two parts
  TapePart model;                    ///< forward: before the layers; backward: after them
  std::vector<Event> head;           ///< after the layers' forward
  std::vector<Event> head_backward;  ///< before the layers' backward
  /// By Transfer: what is allocated as it is received and freed as it is sent, and the exchange itself. Empty
  /// where the rank has the whole model.
  std::array<std::vector<Event>, kTransfers> transfers;
  std::vector<TapePart> classes;    ///< distinct layers
  std::vector<std::size_t> layers;  ///< the class of each layer
  std::vector<Load> loads;
  std::vector<Bytes> held;  ///< tensors that the training loop keeps while the optimizer steps
  std::optional<ReferenceModules>
      reference;  ///< modules of events between kReferenceBegins and kReferenceEnds
  bool operator==(const Tape&) const = default;
};

}  // namespace zplan

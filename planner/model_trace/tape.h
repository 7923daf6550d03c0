#pragma once
// The tape of one micro-step: every tensor that PyTorch makes and frees while it runs forward, loss and
// backward, in order, with its size; and the moments at which a framework steps in (a module needs its
// parameters, a gradient is ready). What happens then is the framework's: memory/.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/recorded/recorded.h"
#include "planner/model_trace/load.h"
#include "planner/question/terms.h"

namespace zplan {

/// Where in the model's program a block of memory was made: tapes of layers are played once per layer, so
/// blocks are named relative to the part that made them.
enum class Owner : std::uint8_t {
  here,             ///< this part, or this layer (its forward and backward together)
  model,            ///< what stands before or behind the layers
  previous_output,  ///< the hidden states that the layer before returned (or the embedding)
  next_gradient,    ///< the gradient that the layer behind left for this one (or the head)
  other_part,       ///< the part that Event::block_part names
};

/// What ranks exchange within a micro-step: those that divide layers' tensors, and those that divide a
/// sample's tokens.
enum class TensorCall : std::uint8_t {
  row_output,            ///< a row-split layer's partial outputs are summed
  column_input,          ///< gradients of a column-split layer's input are summed
  split_embedding,       ///< rows that other ranks hold are summed in
  logits,                ///< every rank gathers the logits of all
  token_maxima,          ///< of the vocabulary-parallel loss
  token_sums,            ///< the same: sums of exponentials, and logits of the targets
  replicated_gradient,   ///< of a weight that each rank applies to heads of its own
  token_exchange,        ///< Ulysses: all tokens of some heads for some tokens of all heads, and back
  positions,             ///< Ulysses: every rank gathers the positions of all tokens
  rank_losses,           ///< Ulysses: the loss of each rank's tokens
  rank_token_counts,     ///< Ulysses: how many of them count
  loss_gradient,         ///< Ulysses: of each rank's loss
  tile_count,            ///< tiled feed-forward: all ranks take the most slices that one takes
  gathered_keys,         ///< ring attention: keys and values of all ranks at once
  passed_keys,           ///< ring attention: to the next rank
  passed_key_gradients,  ///< ring attention: to the next rank, in fp32
  expert_counts,         ///< AutoEP: how many rows each expert is sent by each rank
  expert_rows,           ///< AutoEP: rows to the ranks that have their experts, and back
  row_counts,            ///< AutoTP with AutoEP: how many rows each tensor-parallel rank has
  combined_rows,         ///< the same: every rank gathers the experts' outputs
  row_places,            ///< the same: whose outputs they are
  row_weights,           ///< the same: what they are weighed by
  combined_gradients,    ///< the same: gradients of the outputs and weights are summed
  averaged_gradients,    ///< the same: gradients of the layer's input are averaged
  stage_output,          ///< pipeline: hidden states to the next stage
  stage_gradient         ///< pipeline: their gradient back to the stage before
};

inline constexpr std::size_t kTensorCalls = static_cast<std::size_t>(TensorCall::stage_gradient) + 1;

struct Event {
  enum class Kind : std::uint8_t {
    allocate,
    release,
    adopt_gradient,  ///< the block is a parameter's gradient from here on: the framework frees it
    add_gradient,    ///< likewise, but more of it follows in this backward: the framework is not told
    enter_module,    ///< its parameters are needed now
    leave_module,    ///< and not any more
    enter_backward,  ///< its parameters are needed for its backward
    leave_backward,
    read_parameter,  ///< parameter `index` is read from outside its module, by module `block`
    keep_parameter,  ///< autograd keeps a view of parameter `index`: the memory it was gathered into stays
    free_parameter,  ///< until here, whatever the framework does with the parameter
    end_layers,      ///< every layer frees what stands in its `endings` under `index`
    workspace,       ///< a library keeps one from here on: `index` 0 is cuBLAS, 1 cuBLASLt
    phase,           ///< `index` is a Phase
    communicate,     ///< `index` is a TensorCall, `size` its buffer
    await,           ///< the last of TensorCall `index`, which ran beside what was computed, is through
    compute,         ///< the stretch that begins here computes load `index` of the tape
    reference,       ///< the reference model's forward: kReferenceBegins, its layer `index`, kReferenceEnds
  };
  Kind kind{Kind::allocate};
  Owner owner{Owner::here};
  Term term{};
  std::int32_t block{-1};  ///< number within the owner
  std::int32_t index{
      -1};  ///< parameter (adopt_gradient) or module (enter, leave): an index into the part's list
  Bytes size{};
  /// Whose parameter or module `index` is, and, under Owner::other_part, whose block: kOwnPart,
  /// kAroundLayers or another layer as RecordedEvent has it.
  std::int32_t index_part{kOwnPart}, block_part{kOwnPart};
  bool operator==(const Event&) const = default;
};

/// In the place of a module's number: the unit that FSDP2 makes of final norm and head.
inline constexpr std::int32_t kHeadUnit = -1;

/// In the place of a layer's number, of Event::Kind::reference.
inline constexpr std::int32_t kReferenceBegins = -1, kReferenceEnds = -2;

/// A module that a framework hooks.
struct TapeModule {
  std::string name;                 ///< of one without parameters of its own, which nothing else tells apart
  std::vector<std::int32_t> own{};  ///< the parameters that it holds itself; of a leaf, all below it
  bool leaf{};                      ///< modules below it are not hooked
  bool operator==(const TapeModule&) const = default;
};

/// One part of the program that stands alone: a class of layers, or what is around them.
struct TapePart {
  std::vector<Event> forward;
  std::vector<Event> backward;
  /// What is freed of it when the model's forward is over (0: autocast's cast weights), and when the loss is
  /// dropped and its graph with it (1: what autograd functions keep as attributes).
  std::array<std::vector<Event>, 2> endings;
  std::vector<TapeModule> modules;
  std::int32_t blocks{};                  ///< how many blocks it names
  std::int32_t output{-1}, gradient{-1};  ///< of them: the hidden states it returns, the gradient it leaves
  bool operator==(const TapePart&) const = default;
};

/// Modules of a reference model that is not the policy itself, by class of its layers.
struct ReferenceModules {
  std::vector<TapeModule> model;
  std::vector<std::vector<TapeModule>> classes;
  std::vector<std::size_t> layers;  ///< the class of each layer
  bool operator==(const ReferenceModules&) const = default;
};

/// What a stage of a pipeline exchanges with its neighbours.
enum class Transfer : std::uint8_t { receive_hidden, send_hidden, receive_gradient, send_gradient };
inline constexpr std::size_t kTransfers = 4;

/// A micro-step in two passes. Forward: the model's start (embedding), its layers, its end (head and loss).
/// Backward: the loss and the head, the layers, the embedding. A stage of a pipeline has a start or an end
/// only where its part of the model has them; elsewhere the pass begins or ends with a transfer.
struct Tape {
  TapePart model;                    ///< forward: before the layers; backward: behind them
  std::vector<Event> head;           ///< behind the layers' forward
  std::vector<Event> head_backward;  ///< before the layers' backward
  /// By Transfer: what is allocated as it is received and freed as it is sent, and the exchange itself. Empty
  /// where the rank has the whole model.
  std::array<std::vector<Event>, kTransfers> transfers;
  std::vector<TapePart> classes;    ///< distinct layers
  std::vector<std::size_t> layers;  ///< the class of each layer
  std::vector<Load> loads;
  std::vector<Bytes> held;  ///< what the training loop's variables have of it while the optimizer steps
  std::optional<ReferenceModules> reference;  ///< what module events name between kReferenceBegins and …Ends
  bool operator==(const Tape&) const = default;
};

}  // namespace zplan

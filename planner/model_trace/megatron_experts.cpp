// Mixtures of experts in Megatron-Core: a router, a dispatcher that takes tokens to the ranks that have their
// experts and back, grouped products over a rank's own experts, and shared experts. Tensors live as long as
// the functions' variables keep them. Source: Megatron-Core 0.19.2
// core/transformer/moe/{moe_layer,router,moe_utils,token_dispatcher,experts, shared_experts}.py,
// core/tensor_parallel/mappings.py, core/fusions/fused_bias_swiglu.py; Transformer Engine 2.20.2
// pytorch/module/grouped_linear.py, pytorch/permutation.py; compared with recorded steps (docs/megatron.md).

#include <functional>
#include <memory>
#include <utility>

#include "planner/model_trace/megatron_layers.h"

namespace zplan::symbolic {

namespace {

using namespace megatron;

/// MixtureCall is the context of one layer with experts.
struct MixtureCall {
  Program& p;
  const Parameters& of;

  [[nodiscard]] Autograd& torch() const { return p.torch; }
  [[nodiscard]] const MixtureOfExperts& about() const { return *p.shape().experts; }
  /// Tokens of this rank.
  [[nodiscard]] std::int64_t tokens() const { return p.sizes.tokens() / p.sizes.u; }
  /// Pairs of a token and one of its experts that this rank sends, and that its experts get.
  [[nodiscard]] std::int64_t sent() const { return p.rows.sent; }
  [[nodiscard]] std::int64_t received() const { return p.rows.received; }
  [[nodiscard]] std::int64_t gathered() const { return received() * tensor_ranks(); }
  [[nodiscard]] std::int64_t ranks() const { return p.strategy.layout.expert; }
  [[nodiscard]] std::int64_t tensor_ranks() const { return p.strategy.layout.expert_tensor; }
  [[nodiscard]] std::int64_t local_experts() const { return about().experts / ranks(); }
  [[nodiscard]] DType router_type() const { return options(p).router_in_fp32 ? DType::fp32 : DType::bf16; }
};

Tensor rows_like(Autograd& torch, const Tensor& x, std::int64_t rows) {
  Dimensions sizes = x.layout.sizes;
  sizes[0] = rows;
  return fresh(torch, std::move(sizes), x.type);
}

// ---- routing ----------------------------------------------------------------------------------------------

/// True if scores are sigmoids of the logits, and a bias of each expert takes part in the choice.
bool scores_by_sigmoid(const ModelShape& shape) {
  const RouterForm form = shape.operators.router;
  return form == RouterForm::deepseek_v3 || form == RouterForm::minimax;
}

/// Routes holds a router's result: weights of all experts, zero but for the chosen ones, and which were
/// chosen.
struct Routes {
  Tensor weights, chosen;
};

/// RouterGatingLinearFunction: products in the router's type. It keeps its input; the gradients are computed
/// in the router's type, too.
Tensor router_logits(const MixtureCall& call, const Tensor& x) {
  Program& p = call.p;
  Autograd& torch = p.torch;
  const Parameter& weight = call.of.get("mlp.router.weight");
  const DType type = call.router_type();
  const auto node = torch.node({&x, &weight.tensor});
  const std::int64_t experts = weight.tensor.size(0), rows = call.tokens(), in = p.sizes.h;
  Tensor result = fresh(torch, {rows, experts}, type);
  torch.compute(product_of(rows, in, experts, DType::bf16));
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x), about = weight.tensor.detached(), type, rows, experts,
                    in](Tensors&) {
    const Tensor held = kept.get();
    Tensors outputs(2);
    Tensor of_input, of_weight;
    {
      const Tensor wide = to(torch, about, type);
      of_input = fresh(torch, held.layout.sizes, type);
      torch.compute(product_of(rows, experts, in, type));
    }
    {
      const Tensor wide = to(torch, held, type);
      of_weight = fresh(torch, about.layout.sizes, type);
      torch.compute(product_of(experts, rows, in, type));
    }
    outputs[0] = to(torch, of_input, held.type);
    of_input.reset();
    outputs[1] = to(torch, of_weight, about.type);
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// torch.zeros_like(logits).scatter(1, indices, weights): keeps the indices.
Tensor scattered_weights(Autograd& torch, const Tensor& weights, const Tensor& indices,
                         const Dimensions& sizes) {
  const auto node = torch.node({&weights});
  const Tensor zeros = fresh(torch, sizes, weights.type);
  Tensor result = fresh(torch, sizes, weights.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(indices)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{fresh(torch, held.layout.sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

/// torch.zeros_like(logits).int().scatter(1, indices, 1).bool().
Tensor chosen_map(Autograd& torch, const Dimensions& sizes, DType type) {
  Tensor marked;
  {
    Tensor wide;
    {
      const Tensor zeros = numbers(torch, sizes, type);
      wide = numbers(torch, sizes, DType::int32);
    }
    marked = numbers(torch, sizes, DType::int32);
  }
  return numbers(torch, sizes, DType::boolean);
}

/// Groups of experts of which some are chosen first; 1: none.
std::int64_t limiting_groups(const ModelShape& shape) {
  const RouterForm form = shape.operators.router;
  const bool has_groups = form == RouterForm::deepseek_v2 || form == RouterForm::deepseek_v3;
  return has_groups ? groups_of(shape) : 1;
}

/// group_limited_topk: experts of the best groups alone take part.
Chosen best_of_groups(const MixtureCall& call, const Tensor& scores) {
  Autograd& torch = call.torch();
  const ModelShape& shape = call.p.shape();
  const std::int64_t tokens = scores.size(0), groups = groups_of(shape), kept = chosen_groups_of(shape);
  const std::int64_t chosen = call.about().experts_per_token, experts = call.about().experts;
  const Tensor grouped = view(torch, scores, {tokens, groups, experts / groups});
  Tensor sums;
  {
    const Tensor best = topk(torch, grouped, chosen / kept).values;
    sums = sum(torch, best, 2, false);
  }
  const Chosen best_groups = topk(torch, sums, kept);
  const Tensor mask = numbers(torch, {tokens, groups}, sums.type);
  const Tensor of_experts = numbers(torch, {tokens, experts}, sums.type);
  Tensor masked;
  {
    const Tensor bits = numbers(torch, {tokens, experts}, DType::boolean);
    const Tensor others = numbers(torch, {tokens, experts}, DType::boolean);
    masked = masked_fill(torch, scores, others);
  }
  return topk(torch, masked, chosen);
}

Chosen best(const MixtureCall& call, const Tensor& scores) {
  if (limiting_groups(call.p.shape()) > 1) return best_of_groups(call, scores);
  return topk(call.torch(), scores, call.about().experts_per_token);
}

/// Weights of the chosen experts [T, K] in fp32, and their numbers.
Chosen weigh(const MixtureCall& call, const Tensor& logits) {
  Autograd& torch = call.torch();
  if (!scores_by_sigmoid(call.p.shape())) {
    if (options(call.p).router_pre_softmax) return best(call, softmax(torch, logits, DType::fp32));
    Chosen chosen = best(call, logits);
    chosen.values = softmax(torch, chosen.values, DType::fp32);
    return chosen;
  }
  const Tensor scores = sigmoid(torch, to(torch, logits, DType::fp32));
  const Tensor corrected = add_number(torch, scores);
  Chosen chosen = best(call, corrected);
  const Tensor of_chosen = gather(torch, scores, chosen.indices);
  const Tensor total = add_number(torch, sum(torch, of_chosen, 1, true));
  chosen.values = scale(torch, div(torch, of_chosen, total));
  return chosen;
}

/// Scores of all experts in fp32, from which the loss that balances the experts is computed.
Tensor balancing_scores(const MixtureCall& call, const Tensor& logits) {
  Autograd& torch = call.torch();
  if (!scores_by_sigmoid(call.p.shape())) return softmax(torch, logits, DType::fp32);
  const Tensor scores = sigmoid(torch, to(torch, logits, DType::fp32));
  const Tensor total = add_number(torch, sum(torch, scores, 1, true));
  return div(torch, scores, total);
}

/// MoEAuxLossAutoScaler: the loss of the scores gets a gradient of its own when that of the weights passes.
Tensor with_loss(Autograd& torch, const Tensor& weights, const Tensor& scores) {
  const auto node = torch.node({&weights, &scores});
  if (!node) return weights;
  node->backward = [scores = scores.layout](Tensors& gradients) {
    Tensor of_scores;  // one number for each expert, alike for all tokens
    of_scores.type = DType::fp32, of_scores.layout = scores;
    return Tensors{gradients[0], of_scores};
  };
  return Autograd::connected(weights.detached(), node);
}

/// The loss that balances the experts over the ranks that divide a sample. It is left out where nothing is
/// kept for a backward.
Tensor balanced(const MixtureCall& call, const Tensor& weights, const Tensor& logits) {
  Autograd& torch = call.torch();
  if (!options(call.p).balancing_loss || !torch.enabled()) return weights;
  const Tensor scores = balancing_scores(call, logits);
  {
    const Chosen chosen = topk(torch, scores.detached(), call.about().experts_per_token);
    const Tensor map = chosen_map(torch, logits.layout.sizes, logits.type);
    const Tensor counts = numbers(torch, {call.about().experts}, DType::int64);
    if (call.p.strategy.layout.tensor * call.p.strategy.layout.context > 1)
      torch.recorder().communicate(TensorCall::expert_loads, counts.bytes());
  }
  return with_loss(torch, weights, scores);
}

Routes routes_of(const MixtureCall& call, const Tensor& x) {
  Autograd& torch = call.torch();
  const Tensor logits = router_logits(call, x);
  Routes routes;
  {
    const Chosen chosen = weigh(call, logits);
    const Tensor narrow = to(torch, chosen.values, logits.type);
    routes.weights = scattered_weights(torch, narrow, chosen.indices, logits.layout.sizes);
    routes.chosen = chosen_map(torch, logits.layout.sizes, logits.type);
  }
  routes.weights = balanced(call, routes.weights, logits);
  return routes;
}

// ---- rows and their weights -------------------------------------------------------------------------------

/// WeighedRows holds token-expert pairs: hidden states [R, h] and weights [R].
struct WeighedRows {
  Tensor states, weights;
};

/// x.index_select(0, places).
Tensor selected_rows(const MixtureCall& call, const Tensor& x, const Tensor& places) {
  Autograd& torch = call.torch();
  const auto node = torch.node({&x});
  Tensor result = rows_like(torch, x, places.elements());
  torch.read_only(result.bytes());
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(places), sizes = x.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{fresh(torch, sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

/// WeighedRows that permute() made, and what unpermute() reads: the token of each row, or, of the fused
/// kernel, the row of each token and expert.
struct PermutedRows {
  WeighedRows rows;
  Tensor places;
};

/// The places as the backward keeps them: in memory that the dispatcher's variable holds, which the run
/// counts (MegatronRun::hold_routes).
Tensor held_by_dispatcher(Tensor places) {
  places.storage.reset();
  return places;
}

/// permute by a stable sort of which token goes to which expert; the sorted places of all pairs stay.
PermutedRows permute_by_sort(const MixtureCall& call, const Tensor& x, const Routes& routes) {
  Autograd& torch = call.torch();
  const std::int64_t pairs = routes.chosen.elements();
  PermutedRows made;
  Tensor sorted;
  {
    const Tensor by_expert = numbers(torch, {pairs}, DType::boolean);
    sorted = sort(torch, by_expert).indices;
  }
  sorted = alias(sorted, Layout::contiguous({call.sent()}));
  const Tensor places = numbers(torch, {call.sent()}, DType::int64);
  made.places = held_by_dispatcher(places);
  {
    const Tensor by_expert = contiguous(torch, transpose(torch, routes.weights, 0, 1));
    made.rows.weights = index(torch, view(torch, by_expert, {pairs}), sorted);
  }
  made.rows.states = selected_rows(call, x, made.places);
  return made;
}

/// TE's moe_permute_with_probs: keeps the row of each token and expert.
PermutedRows permute_fused(const MixtureCall& call, const Tensor& x, const Routes& routes) {
  constexpr std::int64_t kTokensOfBlock = 1024;
  Autograd& torch = call.torch();
  const std::int64_t experts = call.about().experts, tokens = call.tokens();
  const auto node = torch.node({&x, &routes.weights});
  PermutedRows made;
  const Tensor places = fresh(torch, {tokens, 2 * experts + 1}, DType::int32);
  made.places = held_by_dispatcher(places);
  { const Tensor workspace = numbers(torch, {experts, divide_up(tokens, kTokensOfBlock)}, DType::int32); }
  made.rows.states = rows_like(torch, x, call.sent());
  made.rows.weights = fresh(torch, {call.sent()}, routes.weights.type);
  if (!node) return made;
  node->backward = [&torch, kept = torch.save(made.places), sizes = x.layout.sizes,
                    of_weights = routes.weights.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    Tensors outputs(2);
    outputs[0] = fresh(torch, sizes, gradients[0].type);
    outputs[1] = fresh(torch, of_weights, gradients[1].type);
    return outputs;
  };
  Autograd::connect(made.rows.states, node, 0);
  Autograd::connect(made.rows.weights, node, 1);
  return made;
}

PermutedRows permute_rows_of(const MixtureCall& call, const Tensor& x, const Routes& routes) {
  return options(call.p).permute_fusion ? permute_fused(call, x, routes) : permute_by_sort(call, x, routes);
}

/// Sums the rows of each token: torch.zeros(…).scatter_add_(0, places, rows), or TE's moe_unpermute.
Tensor unpermute_rows_of(const MixtureCall& call, const Tensor& rows, const Tensor& places,
                         const Dimensions& sizes) {
  Autograd& torch = call.torch();
  const auto node = torch.node({&rows});
  Tensor result = fresh(torch, sizes, rows.type);
  torch.read(rows);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(places), of = rows.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    const Tensor gradient = contiguous(torch, gradients[0]);
    return Tensors{fresh(torch, of, gradient.type)};
  };
  return Autograd::connected(result, node);
}

/// sort_chunks_by_idxs of one tensor: rows by rank become rows by expert, or back.
Tensor sorted_chunks(Autograd& torch, const Tensor& x) {
  const auto copy = [&torch](const Tensor& of) { return fresh(torch, of.layout.sizes, of.type); };
  return moved(torch, x, copy, copy);
}

/// Sorts rows and weights together by TE's kernel, which keeps the place of each row.
WeighedRows sorted_chunks_fused(Autograd& torch, const WeighedRows& rows) {
  const Tensor& x = rows.states;
  const auto node = torch.node({&x, &rows.weights});
  WeighedRows made;
  const Tensor places = fresh(torch, {x.size(0)}, DType::int32);
  made.states = fresh(torch, x.layout.sizes, x.type);
  if (rows.weights.defined()) made.weights = fresh(torch, rows.weights.layout.sizes, rows.weights.type);
  if (!node) return made;
  node->backward = [&torch, kept = torch.save(places), sizes = x.layout.sizes,
                    weights = rows.weights](Tensors& gradients) {
    const Tensor held = kept.get();
    Tensors outputs(2);
    outputs[0] = fresh(torch, sizes, gradients[0].type);
    if (weights.defined()) outputs[1] = fresh(torch, weights.layout.sizes, weights.type);
    return outputs;
  };
  Autograd::connect(made.states, node, 0);
  if (made.weights.defined()) Autograd::connect(made.weights, node, 1);
  return made;
}

WeighedRows sorted_by_expert(const MixtureCall& call, WeighedRows rows) {
  if (call.local_experts() == 1) return rows;
  if (options(call.p).permute_fusion) return sorted_chunks_fused(call.torch(), rows);
  WeighedRows made;
  made.states = sorted_chunks(call.torch(), rows.states);
  made.weights = sorted_chunks(call.torch(), rows.weights);
  return made;
}

Tensor sorted_by_rank(const MixtureCall& call, const Tensor& rows) {
  if (call.local_experts() == 1) return rows;
  if (!options(call.p).permute_fusion) return sorted_chunks(call.torch(), rows);
  return sorted_chunks_fused(call.torch(), {rows, {}}).states;
}

// ---- exchange ---------------------------------------------------------------------------------------------

/// all_to_all of rows, or of their weights, over the ranks that divide the experts.
Tensor exchanged(const MixtureCall& call, const Tensor& rows, std::int64_t come, TensorCall kind) {
  if (call.ranks() == 1) return rows;
  Autograd& torch = call.torch();
  const auto pass = [&torch, kind](const Tensor& given, std::int64_t received) {
    Tensor result = rows_like(torch, given, received);
    torch.drop_kernel();
    torch.recorder().communicate(kind, given.bytes());
    return result;
  };
  return moved(
      torch, rows, [pass, come](const Tensor& x) { return pass(x, come); },
      [pass, &torch, back = rows.size(0)](const Tensor& x) { return pass(contiguous(torch, x), back); });
}

/// One call that makes `rows` rows of x.
Tensor passed(Autograd& torch, const Tensor& x, std::int64_t rows, TensorCall kind, std::int64_t counted) {
  Tensor result = rows_like(torch, x, rows);
  torch.drop_kernel();
  torch.recorder().communicate(kind, Bytes(x.bytes().value / x.size(0)) * counted);
  return result;
}

/// CallPair names the call of a forward that gathers rows and the one of its backward that sums them, or the
/// other way round.
struct CallPair {
  TensorCall gather, scatter;
};

/// gather_from_sequence_parallel_region: every rank gets the rows of all `ranks`.
Tensor gathered_rows(Autograd& torch, const Tensor& x, std::int64_t ranks, CallPair calls) {
  const std::int64_t own = x.size(0), all = own * ranks;
  return moved(
      torch, x, [&torch, calls, all](const Tensor& of) { return passed(torch, of, all, calls.gather, all); },
      [&torch, calls, own, all](const Tensor& of) { return passed(torch, of, own, calls.scatter, all); });
}

/// reduce_scatter_to_sequence_parallel_region: the sums of all ranks' partial rows, of which each gets its
/// own.
Tensor scattered_rows(Autograd& torch, const Tensor& x, std::int64_t ranks, CallPair calls) {
  const std::int64_t all = x.size(0), own = all / ranks;
  return moved(
      torch, x,
      [&torch, calls, own, all](const Tensor& of) { return passed(torch, of, own, calls.scatter, all); },
      [&torch, calls, all](const Tensor& of) { return passed(torch, of, all, calls.gather, all); });
}

constexpr CallPair kRowsOfTensorRanks{TensorCall::gathered_rows, TensorCall::scattered_rows};
constexpr CallPair kOutputsOfTensorRanks{TensorCall::gathered_outputs, TensorCall::scattered_outputs};
constexpr CallPair kWeightsOfTensorRanks{TensorCall::gathered_row_weights, TensorCall::scattered_row_weights};

/// Gathers how many rows each rank sends to each expert; the host reads the sums.
void gather_counts(const MixtureCall& call) {
  if (call.ranks() * call.tensor_ranks() == 1) return;
  call.torch().recorder().communicate(TensorCall::gathered_expert_counts,
                                      Bytes(8) * call.about().experts * call.ranks() * call.tensor_ranks());
}

// ---- experts ----------------------------------------------------------------------------------------------

/// A product of rows with the rank's stack of experts [E, out, in], row by row with one of them.
Product grouped(const MixtureCall& call, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const std::int64_t experts = call.local_experts();
  return product_of(share(Elements(rows), experts).value, in, out, product_type(call.p), experts);
}

/// Stack holds a rank's weights of one linear layer of all its experts.
struct Stack {
  const Parameter& weight;
  std::int64_t in{}, out{};
};
Stack stack_of(const Parameter& weight) {
  const Linear& linear = *weight.about->linear;
  return {weight, linear.in_features, linear.out_features};
}

/// TE's GroupedLinear. It keeps its input, unless its weights are frozen; `again` computes that again where
/// it was dropped.
Tensor grouped_product(const MixtureCall& call, const Tensor& x, const Stack& stack,
                       const std::function<Tensor()>& again = {}) {
  Autograd& torch = call.torch();
  const auto& [weight, in, out] = stack;
  const auto node = torch.node({&x, &weight.tensor});
  const std::int64_t rows = x.size(0);
  const bool trains = weight.tensor.requires_gradient;
  Tensor result = fresh(torch, {rows, out}, x.type);
  cast_operand(call.p, rows * in);
  torch.compute(grouped(call, rows, in, out));
  if (!node) return result;
  Saved kept;
  if (!again && trains) kept = torch.save(x);
  node->backward = [&p = call.p, &of = call.of, &torch, kept, again, trains, about = weight.tensor.detached(),
                    sizes = x.layout.sizes, rows, in = in, out = out](Tensors& gradients) {
    const MixtureCall same{p, of};
    const Tensor held = !trains ? Tensor{} : again ? again() : kept.get();
    Tensors outputs(2);
    outputs[0] = fresh(torch, sizes, gradients[0].type);
    cast_operand(p, rows * out);
    torch.compute(grouped(same, rows, out, in));
    if (!trains) return outputs;
    outputs[1].type = about.type, outputs[1].layout = about.layout;
    if (!options(p).adds_in_product) outputs[1] = fresh(torch, about.layout.sizes, about.type);
    torch.compute(grouped(same, out, rows, in));
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// The experts' layer `module`, each with its own adapter.
Tensor grouped_linear(const MixtureCall& call, const Tensor& x, const std::string& module,
                      const std::function<Tensor()>& again = {}) {
  const Tensor result = grouped_product(call, x, stack_of(call.of.get(module + ".weight")), again);
  const auto product = [&call](const Parameter& weight, const Tensor& rows) {
    return grouped_product(call, rows, stack_of(weight));
  };
  return adapted(call.p, adapter_of(call.p, call.of, module), x, result, product, product);
}

/// weighted_bias_swiglu_impl: the gate's product with the other half, times the row's weight. `again`: what
/// was computed once more before the backward, and stays until it is over.
Tensor weighted_swiglu(Autograd& torch, const Tensor& x, const Tensor& weights,
                       const std::shared_ptr<Tensor>& again) {
  const auto node = torch.node({&x, &weights});
  Tensor result = fresh(torch, {x.size(0), x.size(1) / 2}, x.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x), kept_weights = torch.save(weights),
                    again](Tensors& gradients) {
    const Tensor held = kept.get(), held_weights = kept_weights.get();
    Tensors outputs(2);
    outputs[0] = fresh(torch, held.layout.sizes, gradients[0].type);
    outputs[1] = fresh(torch, held_weights.layout.sizes, held_weights.type);
    again->reset();
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// Experts one after the other (SequentialMLP): rows are split, whose gradients are joined in new memory.
Tensor split_rows(const MixtureCall& call, const Tensor& x) {
  Autograd& torch = call.torch();
  if (options(call.p).groups_experts || call.local_experts() == 1) return x;
  return moved(
      torch, x, [](const Tensor& of) { return of.detached(); },
      [&torch](const Tensor& of) { return fresh(torch, of.layout.sizes, of.type); });
}
/// Their outputs are joined in new memory.
Tensor joined_rows(const MixtureCall& call, const Tensor& x) {
  Autograd& torch = call.torch();
  if (options(call.p).groups_experts || call.local_experts() == 1) return x;
  return moved(
      torch, x, [&torch](const Tensor& of) { return fresh(torch, of.layout.sizes, of.type); },
      [](const Tensor& of) { return of; });
}

/// Notes that the layer's weights are read: of one with adapters, which alone are gathered, those.
void read_weights(const MixtureCall& call, const std::string& module) {
  const Adapter adapter = adapter_of(call.p, call.of, module);
  const Parameter& read = adapter.down != nullptr ? *adapter.down : call.of.get(module + ".weight");
  call.torch().recorder().read_parameter(-1, read.index);
}

/// TEGroupedMLP. With "moe_act" recomputed the second product's input is dropped, and computed again when the
/// gradient of its output is there; it stays until the activation's backward is over.
Tensor own_experts_of(const MixtureCall& call, const WeighedRows& rows) {
  Autograd& torch = call.torch();
  const std::string first = "mlp.experts.linear_fc1", second = "mlp.experts.linear_fc2";
  read_weights(call, first);
  const auto copy = std::make_shared<Tensor>();
  const Tensor wide = grouped_linear(call, split_rows(call, rows.states), first);
  const Tensor active = weighted_swiglu(torch, wide, rows.weights, copy);
  read_weights(call, second);
  if (!recomputes(call.p, RecomputedModule::moe_act))
    return joined_rows(call, grouped_linear(call, active, second));
  const auto again = [&torch, copy, sizes = active.layout.sizes] {
    *copy = fresh(torch, sizes, DType::bf16);
    return *copy;
  };
  return joined_rows(call, grouped_linear(call, active, second, again));
}

/// The first half of shared experts, which every token passes.
Tensor begun_shared_experts(const MixtureCall& call, const Tensor& x) {
  const Tensor wide = column_linear(call.p, call.of, "mlp.shared_experts.linear_fc1", x);
  return activation(call.p, wide);
}
Tensor ended_shared_experts(const MixtureCall& call, const Tensor& active) {
  return row_linear(call.p, call.of, "mlp.shared_experts.linear_fc2", active);
}

/// The share of shared experts' output that each token takes, where the layer has such a gate.
Tensor gate_of_tokens(const MixtureCall& call, const Tensor& x) {
  const Parameter* weight = call.of.find("mlp.shared_experts.gate_weight");
  if (weight == nullptr) return {};
  return sigmoid(call.torch(), plain_linear(call.torch(), x, weight->tensor));
}

/// The output of shared experts, times a gate of each token where the layer has one: torch's own operators.
/// Source: Megatron-Core 0.19.2 core/transformer/moe/shared_experts.py SharedExpertMLP.forward.
Tensor gated_output(const MixtureCall& call, const Tensor& x, const Tensor& output) {
  const Tensor gate = gate_of_tokens(call, x);
  return gate.defined() ? mul(call.torch(), output, gate) : output;
}

/// A linear layer of shared experts that run beside the exchange of rows: ranks exchange tokens outside of
/// it. It keeps the input of all ranks' tokens.
Tensor product_beside_exchange(Program& p, const Parameter& weight, const Tensor& x) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &weight.tensor});
  const std::int64_t in = weight.tensor.size(1), out = weight.tensor.size(0);
  Tensor result = fresh(torch, of_tokens(p, out), x.type);
  multiply(p, in, out);
  if (!node) return result;
  const bool trains = weight.tensor.requires_gradient;
  node->backward = [&p, &torch, kept = trains ? torch.save(x) : Saved{}, weight = weight.tensor.detached(),
                    trains, sizes = x.layout.sizes, in, out](Tensors& gradients) {
    const Tensor held = trains ? kept.get() : Tensor{};
    Tensors outputs(2);
    outputs[0] = fresh(torch, sizes, gradients[0].type);
    multiply(p, out, in);
    if (trains) outputs[1] = weight_gradient(p, weight, product_type(p));
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor linear_beside_exchange(const MixtureCall& call, const std::string& module, const Tensor& x) {
  Program& p = call.p;
  const auto product = [&p](const Parameter& weight, const Tensor& input) {
    return product_beside_exchange(p, weight, input);
  };
  const Tensor result = product(call.of.get(module + ".weight"), x);
  return adapted(p, adapter_of(p, call.of, module), x, result, product, product);
}

/// SharedBesideExchange holds what shared experts that run beside the exchange of rows have made, and the
/// gate of each token.
struct SharedBesideExchange {
  Tensor active, gate;
};

/// Source: Megatron-Core 0.19.2 core/transformer/moe/shared_experts.py pre_forward_comm,
/// linear_fc1_forward_and_act.
SharedBesideExchange begun_beside_exchange(const MixtureCall& call, const Tensor& x) {
  Program& p = call.p;
  SharedBesideExchange made{.active = {}, .gate = gate_of_tokens(call, x)};
  if (!divides_tensors(p)) {
    made.active = begun_shared_experts(call, x);
    return made;
  }
  const Tensor all =
      divides_tokens(p)
          ? moved(
                p.torch, x, [&p](const Tensor& own) { return gather(p, own, TensorCall::gathered_tokens); },
                [&p](const Tensor& of) { return scatter(p, of, TensorCall::scattered_gradients); })
          : x;
  made.active = activation(p, linear_beside_exchange(call, "mlp.shared_experts.linear_fc1", all));
  return made;
}

/// Source: linear_fc2_forward, post_forward_comm, get_output.
Tensor ended_beside_exchange(const MixtureCall& call, const SharedBesideExchange& begun) {
  Program& p = call.p;
  Tensor output;
  if (!divides_tensors(p)) {
    output = ended_shared_experts(call, begun.active);
  } else {
    const Tensor partial = linear_beside_exchange(call, "mlp.shared_experts.linear_fc2", begun.active);
    output = divides_tokens(p)
                 ? moved(
                       p.torch, partial,
                       [&p](const Tensor& of) { return scatter(p, of, TensorCall::scattered_tokens); },
                       [&p](const Tensor& of) { return gather(p, of, TensorCall::gathered_tokens); })
                 : partial;
  }
  return begun.gate.defined() ? mul(p.torch, output, begun.gate) : output;
}

/// Shared experts in front of the routed ones.
Tensor shared_experts_of_mixture(const MixtureCall& call, const Tensor& x) {
  const auto run = [call](const Tensor& input) {
    const Tensor output = ended_shared_experts(call, begun_shared_experts(call, input));
    return gated_output(call, input, output);
  };
  const bool again = recomputes(call.p, RecomputedModule::shared_experts);
  return again ? call.torch().checkpoint(run, x, CheckpointMethod::reentrant) : run(x);
}

/// True if shared experts run beside the exchange of rows instead.
bool overlaps_shared(const MixtureCall& call) {
  return call.about().shared_intermediate_size > 0 && options(call.p).overlaps_shared_experts;
}

// ---- dispatchers ------------------------------------------------------------------------------------------

/// MoEAlltoAllTokenDispatcher. `input`: x as it came, which shared experts read.
Tensor routed_by_exchange(const MixtureCall& call, const Tensor& x, const Tensor& input) {
  Autograd& torch = call.torch();
  PermutedRows permuted;
  {
    const Routes routes = routes_of(call, x);
    const Tensor counts = numbers(torch, {call.about().experts}, DType::int64);
    gather_counts(call);
    permuted = permute_rows_of(call, x, routes);
  }
  const std::int64_t ranks = call.tensor_ranks();
  WeighedRows dispatched;
  dispatched.states = exchanged(call, permuted.rows.states, call.received(), TensorCall::expert_rows);
  const bool overlaps = overlaps_shared(call);
  SharedBesideExchange begun;
  if (overlaps) begun = begun_beside_exchange(call, input);
  dispatched.weights =
      exchanged(call, permuted.rows.weights, call.received(), TensorCall::expert_row_weights);
  permuted.rows.weights.reset();
  Tensor output;
  {
    WeighedRows rows = dispatched;
    if (ranks > 1) {
      rows.states = gathered_rows(torch, rows.states, ranks, kRowsOfTensorRanks);
      rows.weights = gathered_rows(torch, rows.weights, ranks, kWeightsOfTensorRanks);
    }
    rows = sorted_by_expert(call, std::move(rows));
    const Tensor of_experts = own_experts_of(call, rows);
    output = sorted_by_rank(call, of_experts);
    if (ranks > 1) {
      output = to(torch, output, call.router_type());
      output = scattered_rows(torch, output, ranks, kOutputsOfTensorRanks);
      output = to(torch, output, DType::bf16);
    }
  }
  output = exchanged(call, output, call.sent(), TensorCall::expert_rows);
  Tensor shared;
  if (overlaps) shared = ended_beside_exchange(call, begun);
  begun = {};
  output = unpermute_rows_of(call, output, permuted.places, x.layout.sizes);
  if (overlaps) add_in_place(torch, output, view(torch, shared, x.layout.sizes));
  return output;
}

/// The columns of the rank's own experts, in new memory.
Tensor own_columns(const MixtureCall& call, const Tensor& x) {
  if (call.ranks() == 1) return x;
  Autograd& torch = call.torch();
  const Dimensions own = with_last(x.layout.sizes, call.local_experts());
  return moved(
      torch, x, [&torch, own](const Tensor& of) { return fresh(torch, own, of.type); },
      [&torch, whole = x.layout.sizes](const Tensor& of) { return fresh(torch, whole, of.type); });
}

/// x.T.contiguous().masked_select(mask.T.contiguous()): keeps both copies.
Tensor selected_weights(const MixtureCall& call, const Tensor& x, std::int64_t rows) {
  Autograd& torch = call.torch();
  const Tensor turned = contiguous(torch, transpose(torch, x, 0, 1));
  const Tensor mask = numbers(torch, turned.layout.sizes, DType::boolean);
  const auto node = torch.node({&turned});
  Tensor result = fresh(torch, {rows}, x.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(turned), kept_mask = torch.save(mask)](Tensors& gradients) {
    const Tensor held = kept.get(), held_mask = kept_mask.get();
    return Tensors{fresh(torch, held.layout.sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

constexpr CallPair kWeightsOfExpertRanks{TensorCall::gathered_route_weights,
                                         TensorCall::scattered_route_weights};
constexpr CallPair kOutputsOfExpertRanks{TensorCall::gathered_expert_outputs,
                                         TensorCall::scattered_expert_outputs};

/// The hidden states of all ranks, in the buffer that all such gathers share (MegatronRun::make_workspaces).
Tensor gathered_in_buffer(const MixtureCall& call, const Tensor& x, std::int64_t ranks) {
  Autograd& torch = call.torch();
  const std::int64_t own = x.size(0), all = own * ranks;
  return moved(
      torch, x,
      [&torch, all](const Tensor& of) {
        torch.recorder().communicate(TensorCall::gathered_expert_tokens,
                                     Bytes(of.bytes().value / of.size(0)) * all);
        Tensor result = of.detached();
        result.storage.reset();
        result.layout.sizes[0] = all;
        return result;
      },
      [&torch, own, all](const Tensor& of) {
        return passed(torch, of, own, TensorCall::scattered_expert_tokens, all);
      });
}

/// MoEAllGatherTokenDispatcher: every rank gets the tokens of all and takes those of its own experts.
Tensor routed_by_gather(const MixtureCall& call, const Tensor& x) {
  Autograd& torch = call.torch();
  const std::int64_t ranks = call.ranks() * call.tensor_ranks(), own = call.gathered();
  Routes routes = routes_of(call, x);
  Tensor all = x;
  if (ranks > 1) {
    routes.chosen = passed(torch, routes.chosen, call.tokens() * ranks, TensorCall::gathered_routes,
                           call.tokens() * ranks);
    routes.weights = gathered_rows(torch, routes.weights, ranks, kWeightsOfExpertRanks);
    all = gathered_in_buffer(call, x, ranks);
  }
  const std::int64_t pairs = all.size(0) * call.local_experts();
  Tensor output, places;
  {
    WeighedRows rows;
    {
      const Tensor chosen = numbers(torch, {pairs}, DType::boolean);
      const Tensor of_own = own_columns(call, routes.weights);
      {
        const Tensor sorted = sort(torch, chosen).indices;
        const Tensor taken = numbers(torch, {own}, DType::int64);
        places = held_by_dispatcher(taken);
        rows.states = selected_rows(call, all, places);
      }
      rows.weights = selected_weights(call, of_own, own);
    }
    const Tensor of_experts = own_experts_of(call, rows);
    output = unpermute_rows_of(call, of_experts, places, all.layout.sizes);
  }
  if (ranks == 1) return output;
  output = to(torch, output, call.router_type());
  output = scattered_rows(torch, output, ranks, kOutputsOfExpertRanks);
  return to(torch, output, DType::bf16);
}

}  // namespace

Tensor megatron::mixture_of_experts(Program& p, const Parameters& of, const Tensor& normed) {
  const MixtureCall call{p, of};
  const auto run = [call](const Tensor& input) {
    Program& program = call.p;
    Tensor shared;
    if (call.about().shared_intermediate_size > 0 && !overlaps_shared(call))
      shared = shared_experts_of_mixture(call, input);
    const Tensor flat = view(program.torch, input, {call.tokens(), program.sizes.h});
    Tensor output = options(program).exchanges_rows() ? routed_by_exchange(call, flat, input)
                                                      : routed_by_gather(call, flat);
    output = view(program.torch, output, input.layout.sizes);
    return shared.defined() ? add(program.torch, output, shared) : output;
  };
  const bool again = recomputes(p, RecomputedModule::moe);
  return again ? p.torch.checkpoint(run, normed, CheckpointMethod::reentrant) : run(normed);
}

}  // namespace zplan::symbolic

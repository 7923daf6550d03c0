// Mixtures of experts in torchtitan: a router in fp32, rows sorted by expert and, with expert parallelism,
// exchanged between ranks, grouped products over a rank's own experts, weights applied to their outputs in
// fp32. Tensors live as long as the functions' variables keep them. Source: torchtitan 0.3.0
// models/common/{moe,token_dispatcher,moe_sharding}.py, ops/scatter_add.py; spmd_types 0.2.3
// {_collectives,_local}.py; compared with recorded steps (docs/torchtitan.md).

#include <functional>
#include <utility>

#include "planner/model_trace/torchtitan_layers.h"

namespace zplan::symbolic::titan {

namespace {

/// MixtureLayer is the context of one layer with experts.
struct MixtureLayer {
  Program& p;
  const Parameters& of;

  [[nodiscard]] Autograd& torch() const { return p.torch; }
  [[nodiscard]] const MixtureOfExperts& about() const { return *p.shape().experts; }
  [[nodiscard]] RouterForm form() const { return p.operators().router; }
  [[nodiscard]] std::int64_t ranks() const { return p.strategy.layout.expert; }
  [[nodiscard]] bool exchanges_rows() const { return ranks() > 1; }
  [[nodiscard]] std::int64_t local_experts() const { return about().experts / ranks(); }
  /// Tensor-parallel ranks with whole hidden states exchange rows of a part of the tokens each.
  [[nodiscard]] bool slices_tokens() const {
    return exchanges_rows() && divides_tensors(p) && !divides_tokens(p);
  }
  [[nodiscard]] const Tensor& weight(std::string_view name) const { return of.get(name).tensor; }
  [[nodiscard]] Tensor whole_numbers(std::int64_t count, DType type = DType::int64) const {
    return numbers(torch(), {count}, type);
  }
};

// ---- parts of a sample ------------------------------------------------------------------------------------

/// This rank's part of the tokens that all tensor-parallel ranks have; its gradient is gathered.
Tensor own_part(const MixtureLayer& layer, const Tensor& x) {
  Program& p = layer.p;
  const auto node = p.torch.node({&x});
  const std::int64_t part = x.size(1) / p.strategy.layout.tensor;
  Tensor own = contiguous(p.torch, alias(x, x.layout.narrowed(1, part)).detached());
  if (!node) return own.detached();
  node->backward = [&p](Tensors& gradients) { return Tensors{gathered(p, gradients[0])}; };
  return Autograd::connected(own.detached(), node);
}

/// This rank's tokens among zeros for those of others.
Tensor padded_part(const MixtureLayer& layer, const Tensor& own) {
  Autograd& torch = layer.torch();
  Dimensions sizes = own.layout.sizes;
  sizes[1] *= layer.p.strategy.layout.tensor;
  return moved(
      torch, own,
      [&torch, sizes](const Tensor& x) { return torch.operate({&x}, Layout::contiguous(sizes), x.type); },
      [&torch, part = own.size(1)](const Tensor& x) {
        return contiguous(torch, alias(x, x.layout.narrowed(1, part)));
      });
}

// ---- routing ----------------------------------------------------------------------------------------------

/// A product in fp32 of copies of both operands, which selective checkpointing computes again.
Tensor router_scores(const MixtureLayer& layer, const Tensor& x) {
  Autograd& torch = layer.torch();
  const Tensor weight = to(torch, layer.weight("moe.router.gate.weight"), DType::fp32);
  const Tensor wide = to(torch, x, DType::fp32);
  const auto node = torch.node({&wide, &weight});
  const std::int64_t experts = weight.size(0), in = weight.size(1), rows = wide.elements() / in;
  Saved kept_x, kept_weight;
  if (node) kept_x = torch.save(wide), kept_weight = torch.save(weight);
  Tensor result = fresh(torch, with_last(wide.layout.sizes, experts), DType::fp32);
  torch.multiply(false, product_of(rows, in, experts, DType::fp32));
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_x, kept_weight, rows, in, experts](Tensors&) {
    const Tensor held_weight = kept_weight.get(), held_x = kept_x.get();
    Tensors outputs(2);
    if (itself.needs(1)) {
      outputs[1] = fresh(torch, {experts, in}, DType::fp32);
      torch.multiply(false, product_of(experts, rows, in, DType::fp32));
    }
    if (itself.needs(0)) {
      outputs[0] = fresh(torch, held_x.layout.sizes, DType::fp32);
      torch.multiply(false, product_of(rows, experts, in, DType::fp32));
    }
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// The best of `scores`. Selective checkpointing keeps them, so that the second run chooses alike.
Chosen kept_best(const MixtureLayer& layer, const Tensor& scores, std::int64_t count) {
  Autograd& torch = layer.torch();
  const Dimensions sizes = with_last(scores.layout.sizes, count);
  Chosen best;
  best.values = torch.expensive([&] { return numbers(torch, sizes, scores.type); }).detached();
  best.indices = torch.expensive([&] { return numbers(torch, sizes, DType::int64); }).detached();
  return best;
}

/// Scores of which all but those of the best groups of experts are masked.
Tensor of_best_groups(const MixtureLayer& layer, const Tensor& scores) {
  Autograd& torch = layer.torch();
  const std::int64_t groups = groups_of(layer.p.shape());
  Dimensions grouped = with_last(scores.layout.sizes, groups);
  grouped.push_back(layer.about().experts / groups);
  const Tensor by_group = view(torch, scores.detached(), grouped);
  const Tensor best = kept_best(layer, by_group, 2).values;
  const Tensor sums = sum(torch, best, grouped.size() - 1, false);
  const Chosen chosen = kept_best(layer, sums, chosen_groups_of(layer.p.shape()));
  const Tensor mask = numbers(torch, sums.layout.sizes, DType::boolean);
  return view(torch, numbers(torch, grouped, scores.type), scores.layout.sizes);
}

/// True if the chosen experts' weights are divided by their sum.
bool divides_by_sum(const MixtureLayer& layer) {
  if (layer.form() == RouterForm::qwen) return layer.p.operators().divides_weights;
  return layer.form() == RouterForm::deepseek_v3;
}

/// RoutedTokens holds a router's result for tokens [b, s, h]: the chosen experts of each and their weights
/// [b, s, K], the scores of all experts, and how many rows each expert gets.
struct RoutedTokens {
  Tensor weights, experts, scores;
};

RoutedTokens routed_tokens(const MixtureLayer& layer, const Tensor& given) {
  Autograd& torch = layer.torch();
  const Tensor x = layer.slices_tokens() ? own_part(layer, given) : given;
  RoutedTokens made;
  made.scores = router_scores(layer, x);
  made.scores = layer.form() == RouterForm::deepseek_v3 ? sigmoid(torch, made.scores)
                                                        : softmax(torch, made.scores, DType::fp32);
  Tensor by_choice = add_number(torch, made.scores);  // the bias that balances the experts
  const bool has_groups = layer.form() == RouterForm::deepseek_v2 || layer.form() == RouterForm::deepseek_v3;
  if (has_groups && groups_of(layer.p.shape()) > 1) by_choice = of_best_groups(layer, by_choice);
  const Chosen best = kept_best(layer, by_choice, layer.about().experts_per_token);
  made.experts = best.indices;
  made.weights = gather(torch, made.scores, best.indices);
  Tensor total;
  if (divides_by_sum(layer)) {
    total = add_number(torch, sum(torch, made.weights, 2, true));
    made.weights = div(torch, made.weights, total);
  }
  made.weights = scale(torch, made.weights);
  return made;
}

// ---- rows -------------------------------------------------------------------------------------------------

/// Rows in the order of their experts, and what puts their outputs back: the token and the weight of each.
struct SortedRows {
  Tensor rows, tokens, weights;
};

SortedRows sorted_rows(const MixtureLayer& layer, const Tensor& x, const RoutedTokens& routed) {
  Autograd& torch = layer.torch();
  const std::int64_t pairs = routed.experts.elements(), h = layer.p.sizes.h;
  SortedRows made;
  {
    const Tensor order = sort(torch, view(torch, routed.experts, {pairs})).indices;
    made.weights = index(torch, view(torch, routed.weights, {pairs}), order);
    made.tokens = layer.whole_numbers(pairs);
  }
  made.rows = index(torch, view(torch, x, {x.elements() / h, h}), made.tokens);
  return made;
}

/// Sends `rows` to the ranks that have their experts and receives `come` of them, each rank's in a tensor of
/// its own first.
Tensor exchanged_rows(const MixtureLayer& layer, const Tensor& rows, std::int64_t come) {
  Autograd& torch = layer.torch();
  const auto pass = [&torch, ranks = layer.ranks()](const Tensor& sent, std::int64_t received) {
    const std::int64_t h = sent.size(1), each = received / ranks;
    Tensors parts;
    for (std::int64_t i = 0; i < ranks; ++i)
      parts.push_back(fresh(torch, {i > 0 ? each : received - each * (ranks - 1), h}, sent.type));
    torch.drop_kernel();
    torch.recorder().communicate(TensorCall::expert_rows, sent.bytes());
    return torch.operate({&sent}, Layout::contiguous({received, h}), sent.type);
  };
  return moved(
      torch, rows, [pass, come](const Tensor& x) { return pass(x, come); },
      [pass, &torch, sent = rows.size(0)](const Tensor& x) { return pass(contiguous(torch, x), sent); });
}

/// Ranks tell each other how many rows they send to each expert; the host reads the sums.
void exchange_counts(const MixtureLayer& layer) {
  Autograd& torch = layer.torch();
  Tensors parts;
  for (std::int64_t i = 0; i < layer.ranks(); ++i)
    parts.push_back(layer.whole_numbers(layer.local_experts()));
  torch.recorder().communicate(TensorCall::expert_row_counts, Bytes(8) * layer.about().experts);
  const Tensor received = layer.whole_numbers(layer.about().experts);
  for (int i = 0; i < 2; ++i) const Tensor sums = layer.whole_numbers(layer.ranks());
}

/// The place among the received rows of each row in the order of the rank's own experts.
Tensor places_by_expert(const MixtureLayer& layer) {
  const std::int64_t received = layer.p.rows.received;
  const Tensor segments = layer.whole_numbers(received);
  Tensor sums;
  {
    const Tensor starts = layer.whole_numbers(received), positions = layer.whole_numbers(received);
    sums = layer.whole_numbers(received);
  }
  const Tensor firsts = layer.whole_numbers(received);
  return layer.whole_numbers(received);
}

/// out[places, :] = rows, of which no place is written twice.
Tensor rows_put_back(Autograd& torch, const Tensor& rows, const Tensor& places) {
  const auto node = torch.node({&rows});
  Saved kept;
  if (node) kept = torch.save(places);
  Tensor result = fresh(torch, rows.layout.sizes, rows.type);
  if (!node) return result;
  node->backward = [&torch, kept](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{
        torch.kernel({&gradients[0]}, Layout::contiguous(gradients[0].layout.sizes), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

/// deterministic_scatter_add: sums the rows of each token; keeps the tokens.
Tensor sums_of_tokens(Autograd& torch, const Tensor& zeros, const Tensor& tokens, const Tensor& rows) {
  const auto node = torch.node({&rows});
  Saved kept;
  if (node) kept = torch.save(tokens);
  Tensor result = fresh(torch, zeros.layout.sizes, zeros.type);
  if (!node) return result;
  node->backward = [&torch, kept, sizes = rows.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{torch.kernel({&gradients[0]}, Layout::contiguous(sizes), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

// ---- experts ----------------------------------------------------------------------------------------------

/// GroupedExperts: rows of the rank's own experts, through all three products of each.
Tensor run_own_experts(const MixtureLayer& layer, const Tensor& rows) {
  Autograd& torch = layer.torch();
  const Tensor offsets = cumsum(torch, layer.whole_numbers(layer.local_experts(), DType::int32));
  const auto product = [&](const Tensor& x, const char* name) {
    const Tensor& weight = layer.weight(std::string("moe.routed_experts.inner_experts.") + name);
    return grouped_mm(torch, x, transpose(torch, weight, 1, 2), offsets);
  };
  Tensor hidden = silu(torch, product(rows, "w1_EFD"));
  hidden = mul(torch, hidden, product(rows, "w3_EFD"));
  return product(hidden, "w2_EDF");
}

/// Outputs of experts times their weights, in fp32 and back, summed by token.
Tensor weighed_sums(const MixtureLayer& layer, Tensor outputs, const SortedRows& sorted,
                    std::int64_t tokens) {
  Autograd& torch = layer.torch();
  const Tensor zeros = fresh(torch, {tokens, layer.p.sizes.h}, outputs.type);
  const DType type = outputs.type;
  const Tensor weights = view(torch, sorted.weights, {sorted.weights.elements(), 1});
  Tensor weighed;
  {
    const Tensor wide = to(torch, outputs, DType::fp32);
    weighed = mul(torch, wide, weights);
  }
  outputs = to(torch, weighed, type);
  weighed.reset();
  return sums_of_tokens(torch, zeros, sorted.tokens, outputs);
}

/// AllToAllTokenDispatcher.
Tensor exchanged_experts(const MixtureLayer& layer, const Tensor& x, const RoutedTokens& routed) {
  Autograd& torch = layer.torch();
  SortedRows sorted;
  Tensor own, places, counts;
  {
    sorted = sorted_rows(layer, x, routed);
    exchange_counts(layer);
    own = exchanged_rows(layer, sorted.rows, layer.p.rows.received);
    places = places_by_expert(layer);
    counts = layer.whole_numbers(layer.local_experts());
    own = index(torch, own, places);
    sorted.rows.reset();
  }
  const Tensor outputs = run_own_experts(layer, own);
  Tensor back = rows_put_back(torch, outputs, places);
  back = exchanged_rows(layer, back, layer.p.rows.sent);
  return weighed_sums(layer, std::move(back), sorted, x.elements() / layer.p.sizes.h);
}

/// LocalTokenDispatcher.
Tensor local_experts(const MixtureLayer& layer, const Tensor& x, const RoutedTokens& routed) {
  const SortedRows sorted = sorted_rows(layer, x, routed);
  const Tensor outputs = run_own_experts(layer, sorted.rows);
  return weighed_sums(layer, outputs, sorted, x.elements() / layer.p.sizes.h);
}

/// RoutedExperts, and the exchanges of tensor-parallel ranks around it.
Tensor routed_experts(const MixtureLayer& layer, const Tensor& given, const RoutedTokens& routed) {
  Program& p = layer.p;
  const Tensor x = layer.slices_tokens() ? own_part(layer, given) : given;
  const Tensor sums =
      layer.exchanges_rows() ? exchanged_experts(layer, x, routed) : local_experts(layer, x, routed);
  const Tensor result = view(p.torch, sums, x.layout.sizes);
  if (layer.slices_tokens()) return padded_part(layer, result);
  const bool sums_by_parts = divides_tensors(p) && !layer.exchanges_rows() && divides_tokens(p);
  return sums_by_parts ? row_output(p, result, TensorCall::row_output) : result;
}

/// Experts that every token passes.
Tensor shared_experts(const MixtureLayer& layer, const Tensor& given) {
  Program& p = layer.p;
  const Tensor x = layer.exchanges_rows() ? column_input(p, given) : given;
  const Tensor parts = gated_parts(p, layer.of, "moe.shared_experts", x);
  return divides_tokens(p) ? row_output(p, parts, TensorCall::row_output) : parts;
}

}  // namespace

Tensor mixture(Program& p, const Parameters& of, const Tensor& normed) {
  const MixtureLayer layer{p, of};
  Autograd& torch = p.torch;
  const Tensor x = layer.exchanges_rows() ? normed : column_input(p, normed);
  const RoutedTokens routed = routed_tokens(layer, x);
  const Tensor map = numbers(torch, routed.scores.layout.sizes, DType::boolean);
  const Tensor counts = layer.whole_numbers(layer.about().experts);
  torch.issue(1);  // which are added to the layer's
  Tensor result = routed_experts(layer, x, routed);
  if (layer.about().shared_intermediate_size > 0) result = add(torch, result, shared_experts(layer, x));
  const bool is_partial = divides_tensors(p) && !divides_tokens(p);
  return is_partial ? row_output(p, result, TensorCall::row_output) : result;
}

}  // namespace zplan::symbolic::titan

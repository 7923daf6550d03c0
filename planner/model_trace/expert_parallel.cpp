// Blocks of routed experts as DeepSpeed's AutoEP replaces them: every rank routes its own tokens, sends each
// token-expert pair to the rank that has the expert, runs its own experts on what it got, padded expert by
// expert, and gets the outputs of its pairs back. Tensors live as long as the functions' variables keep them.
// Source: DeepSpeed 0.19.8 module_inject/auto_ep_layer.py, moe/{ep_router,ep_count,ep_kernels,ep_experts,
// ep_tp_dispatch}.py, ops/triton_ops/{group_gemm_triton,swiglu_triton,autoep_fused_token_ops}.py.

#include <algorithm>
#include <utility>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"
#include "planner/question/framework.h"

namespace zplan::symbolic {

namespace {

/// ExpertRouting says how AutoEP's router scores experts, from its presets.
struct ExpertRouting {
  bool sigmoid{};          ///< else softmax
  bool corrects_scores{};  ///< a bias is added to the scores that experts are chosen by
  std::int64_t groups{};   ///< of experts, of which some are chosen first; 0: there are none
  bool sums_best_two{};    ///< a group's score is the sum of its best two, else its best
  bool divides_weights{};
};

/// DeepSeek-V2 without group-limited routing has one group, whose score is V3's.
ExpertRouting routing_of(const ModelShape& shape) {
  const std::int64_t groups = groups_of(shape);
  switch (shape.operators.router) {
    case RouterForm::mixtral: return {.divides_weights = true};
    case RouterForm::deepseek_v2: return {.groups = groups, .sums_best_two = groups == 1};
    case RouterForm::deepseek_v3:
      return {.sigmoid = true,
              .corrects_scores = true,
              .groups = groups,
              .sums_best_two = true,
              .divides_weights = true};
    default: return {.divides_weights = shape.operators.divides_weights};
  }
}

/// ExpertBlock is the context of one layer of experts.
struct ExpertBlock {
  Program& p;
  const Parameters& of;

  [[nodiscard]] Autograd& torch() const { return p.torch; }
  [[nodiscard]] std::int64_t experts() const { return p.shape().experts->experts; }
  [[nodiscard]] std::int64_t chosen() const { return p.shape().experts->experts_per_token; }
  [[nodiscard]] std::int64_t ranks() const { return p.strategy.layout.expert; }
  [[nodiscard]] std::int64_t local_experts() const { return experts() / ranks(); }
  [[nodiscard]] std::int64_t hidden() const { return p.sizes.h; }
  [[nodiscard]] std::int64_t tensor_ranks() const { return p.strategy.layout.tensor; }
  [[nodiscard]] const ExpertParallel& how() const { return p.strategy.experts; }
  [[nodiscard]] Tensor whole_numbers(std::int64_t count, DType type = DType::int64) const {
    return numbers(torch(), {count}, type);
  }
};

// ---- routing ----------------------------------------------------------------------------------------------

/// Weights, chosen experts and rows by expert of each token: TokenChoiceTopKRouter's result.
struct Choice {
  Tensor weights, experts, counts;
};

/// count_tokens_per_expert.
Tensor count_by_expert(const ExpertBlock& block, std::int64_t pairs) {
  Tensor counts = block.whole_numbers(block.experts(), DType::int32);
  { const Tensor ones = block.whole_numbers(pairs, DType::int32); }
  block.torch().issue(1);
  return counts;
}

/// Scores of which all but those of the chosen groups are masked.
Tensor of_best_groups(const ExpertBlock& block, const Tensor& scores) {
  Autograd& torch = block.torch();
  const ExpertRouting routing = routing_of(block.p.shape());
  const std::int64_t tokens = scores.size(0), groups = routing.groups, each = block.experts() / groups;
  const Tensor grouped = view(torch, scores, {tokens, groups, each});
  Tensor of_groups;
  if (routing.sums_best_two) {
    const Tensor best = topk(torch, grouped, 2).values;
    of_groups = sum(torch, best, 2, false);
  } else {
    of_groups = max(torch, grouped).values;
  }
  const Chosen kept = topk(torch, of_groups, chosen_groups_of(block.p.shape()));
  const Tensor mask = numbers(torch, {tokens, groups}, DType::boolean);
  torch.issue(1);  // which the chosen ones are scattered into
  const Tensor masked = masked_fill(torch, grouped, unsqueeze(torch, mask, 2));
  return view(torch, masked, {tokens, block.experts()});
}

Choice route_tokens(const ExpertBlock& block, const Tensor& x) {
  Program& p = block.p;
  Autograd& torch = p.torch;
  const ExpertRouting routing = routing_of(p.shape());
  Tensor scores = linear_layer(p, block.of, block.of.get("router.gate.weight"), x);
  {
    const Tensor wide = to(torch, scores, DType::fp32);
    scores = routing.sigmoid ? sigmoid(torch, wide) : softmax(torch, wide, DType::fp32);
  }
  Tensor by_choice = scores;
  if (routing.corrects_scores) by_choice = add_number(torch, by_choice);
  if (routing.groups > 0) by_choice = of_best_groups(block, by_choice);
  const Chosen best = topk(torch, by_choice, block.chosen());
  Tensor weights = gather(torch, scores, best.indices), denominator;
  if (block.how().route_norm.value_or(routing.divides_weights)) {
    denominator = add_number(torch, sum(torch, weights, 1, true));
    weights = div(torch, weights, denominator);
  }
  weights = scale(torch, weights);
  return {weights, best.indices, count_by_expert(block, weights.elements())};
}

Choice route_hooked(const ExpertBlock& block, const Tensor& x) {
  Choice choice;
  Tensor weights = hooked(block.p, {.name = "router"}, x, [&](const Tensor& input) {
    choice = route_tokens(block, input);
    return std::move(choice.weights);
  });
  choice.weights = std::move(weights);
  return choice;
}

// ---- exchange ---------------------------------------------------------------------------------------------

/// _AllToAllV: sends `rows` and receives `come` rows.
Tensor exchange_rows(const ExpertBlock& block, const Tensor& rows, std::int64_t come) {
  Autograd& torch = block.torch();
  const auto pass = [&torch](const Tensor& sent, std::int64_t received) {
    Tensor result = torch.make(Layout::contiguous({received, sent.size(1)}), sent.type);
    torch.drop_kernel();
    torch.recorder().communicate(TensorCall::expert_rows, sent.bytes());
    return result;
  };
  return moved(
      torch, rows, [pass, come](const Tensor& x) { return pass(x, come); },
      [pass, &torch, sent = rows.size(0)](const Tensor& x) { return pass(contiguous(torch, x), sent); });
}

/// _split_plan_from_expert_counts: every rank tells every other how many rows it sends to each expert; the
/// host reads the sums.
Tensor exchange_counts(const ExpertBlock& block) {
  Autograd& torch = block.torch();
  Tensor received = block.whole_numbers(block.experts(), DType::int32);
  torch.recorder().communicate(TensorCall::expert_counts, received.bytes());
  const Tensor sent_sums = block.whole_numbers(block.ranks()),
               received_sums = block.whole_numbers(block.ranks());
  const Tensor both = block.whole_numbers(2 * block.ranks());
  return received;
}

// ---- rows by expert ---------------------------------------------------------------------------------------

/// inverse_permutation of `places` padded places of `rows` rows.
Tensor inverse_places(const ExpertBlock& block, std::int64_t places, std::int64_t rows) {
  const Tensor positions = block.whole_numbers(places);
  const Tensor indices = block.whole_numbers(places);
  Tensor valid;
  {
    const Tensor from = block.whole_numbers(places, DType::boolean);
    const Tensor until = block.whole_numbers(places, DType::boolean);
    valid = block.whole_numbers(places, DType::boolean);
  }
  Tensor targets;
  {
    const Tensor behind = block.whole_numbers(places);
    targets = block.whole_numbers(places);
  }
  Tensor inverse = block.whole_numbers(rows + places);
  block.torch().issue(2);
  return inverse;
}

/// _PermuteRows and _UnpermuteRows: each other's backward; both keep the places and their inverse.
Tensor moved_rows(Autograd& torch, const Tensor& rows, const Tensor& places, const Tensor& inverse,
                  std::int64_t made) {
  const auto node = torch.node({&rows});
  Saved kept_places, kept_inverse;
  if (node) kept_places = torch.save(places), kept_inverse = torch.save(inverse);
  const auto move = [&torch](const Tensor& of, std::int64_t count) {
    Tensor result = torch.make(Layout::contiguous({count, of.size(1)}), of.type);
    torch.read_only(result.bytes());
    torch.end_kernel();
    return result;
  };
  Tensor result = move(rows, made);
  if (!node) return result;
  node->backward = [&torch, move, kept_places, kept_inverse, count = rows.size(0)](Tensors& gradients) {
    const Tensor held_places = kept_places.get(), held_inverse = kept_inverse.get();
    const Tensor in_order = contiguous(torch, gradients[0]);
    return Tensors{move(in_order, count)};
  };
  return Autograd::connected(result, node);
}

/// Rows in the order of their experts, each expert's padded to eight.
struct Permuted {
  Tensor rows, places, counts;
};

Permuted permute_rows(const ExpertBlock& block, const Tensor& rows) {
  constexpr std::int64_t kAlignment = 8;
  const std::int64_t local = block.local_experts(), count = rows.size(0);
  const std::int64_t padded = divide_up(count + local * kAlignment, kAlignment) * kAlignment;
  Permuted result;
  {
    const Tensor starts = block.whole_numbers(block.experts());
    const Tensor totals = block.whole_numbers(local);
    result.counts = block.whole_numbers(local, DType::int32);
    const Tensor offsets = block.whole_numbers(local), first = block.whole_numbers(local);
    result.places = block.whole_numbers(padded, DType::int32);
  }
  const Tensor inverse = inverse_places(block, padded, count);
  result.rows = moved_rows(block.torch(), rows, result.places, inverse, padded);
  return result;
}

Tensor unpermute_rows(const ExpertBlock& block, const Tensor& rows, const Tensor& places,
                      std::int64_t count) {
  const Tensor inverse = inverse_places(block, places.elements(), count);
  return moved_rows(block.torch(), rows, places, inverse, count);
}

// ---- experts ----------------------------------------------------------------------------------------------

/// group_gemm_triton of x [rows, in] and weights [experts, out, in]: the weight's gradient comes in its own
/// layout.
Tensor triton_grouped_mm(Autograd& torch, const Tensor& x, const Tensor& weights, const Tensor& offsets) {
  const auto node = torch.node({&x, &weights});
  Saved kept_x, kept_weights, kept_offsets;
  if (node) kept_x = torch.save(x), kept_weights = torch.save(weights), kept_offsets = torch.save(offsets);
  const std::int64_t experts = weights.size(0), out = weights.size(1), in = weights.size(2);
  const std::int64_t rows = share(Elements(x.size(0)), experts).value;
  const auto meta = [&torch, experts] {
    const Tensor starts = torch.kernel({}, Layout::contiguous({experts}), DType::int32);
    const Tensor sizes = torch.kernel({}, Layout::contiguous({experts}), DType::int32);
  };
  Tensor result = torch.make(Layout::contiguous({x.size(0), out}), x.type);
  torch.compute(product_of(rows, in, out, x.type, experts));
  meta();
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_x, kept_weights, kept_offsets, meta, experts, out, in,
                    rows](Tensors& gradients) {
    const Tensor held_x = kept_x.get(), held_weights = kept_weights.get(), held_offsets = kept_offsets.get();
    const Tensor gradient = contiguous(torch, gradients[0]);
    Tensors outputs(2);
    if (itself.needs(0)) {
      outputs[0] = torch.make(Layout::contiguous(held_x.layout.sizes), gradient.type);
      torch.compute(product_of(rows, out, in, gradient.type, experts));
      meta();
    }
    if (itself.needs(1)) {
      outputs[1] = torch.make(Layout::contiguous({experts, out, in}), gradient.type);
      torch.compute(product_of(out, rows, in, gradient.type, experts));
      meta();
    }
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// Triton's SwiGLU: keeps both.
Tensor swiglu(Autograd& torch, const Tensor& gate, const Tensor& up) {
  const auto node = torch.node({&gate, &up});
  Tensor result = like(torch, gate);
  torch.end_kernel();
  Saved kept_gate, kept_up;
  if (node) kept_gate = torch.save(gate), kept_up = torch.save(up);
  if (!node) return result;
  node->backward = [&torch, kept_gate, kept_up](Tensors&) {
    const Tensor held_gate = kept_gate.get(), held_up = kept_up.get();
    Tensors outputs(2);
    outputs[0] = like(torch, held_gate);
    outputs[1] = like(torch, held_up);
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// Records silu(gate) · up of gate and up side by side.
Tensor packed_swiglu(Autograd& torch, const Tensor& both) {
  const auto node = torch.node({&both});
  Tensor result = torch.make(Layout::contiguous({both.size(0), both.size(1) / 2}), both.type);
  torch.end_kernel();
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(both)](Tensors&) {
    const Tensor held = kept.get();
    return Tensors{like(torch, held)};
  };
  return Autograd::connected(result, node);
}

Tensor grouped_product(const ExpertBlock& block, const Tensor& x, const Parameter& weight,
                       const Tensor& offsets) {
  Autograd& torch = block.torch();
  if (block.p.triton_products) return triton_grouped_mm(torch, x, weight.tensor, offsets);
  const bool gathers = gathers_at_modules(block.p.training, block.p.strategy);
  return grouped_mm(torch, x, transpose(torch, weight.tensor, 1, 2), offsets,
                    gathers ? std::optional(weight.index) : std::nullopt);
}

Tensor run_own_experts(const ExpertBlock& block, const Tensor& x) {
  Autograd& torch = block.torch();
  const Parameter &w1 = block.of.get("experts.w1"), &w2 = block.of.get("experts.w2"),
                  &w3 = block.of.get("experts.w3");
  const Tensor offsets = cumsum(torch, block.whole_numbers(block.local_experts(), DType::int32));
  if (block.how().fused_gate_up && !block.p.triton_products) {
    const Tensor weights = cat(torch, {w1.tensor, w3.tensor}, 1);
    const Tensor both = grouped_mm(torch, x, transpose(torch, weights, 1, 2), offsets);
    const Tensor product = packed_swiglu(torch, both);
    return grouped_product(block, product, w2, offsets);
  }
  const Tensor gate = grouped_product(block, x, w1, offsets);
  const Tensor up = grouped_product(block, x, w3, offsets);
  const Tensor product = swiglu(torch, gate, up);
  return grouped_product(block, product, w2, offsets);
}

Tensor own_experts(const ExpertBlock& block, const Tensor& x) {
  return hooked(block.p,
                {&block.of.get("experts.w1"), &block.of.get("experts.w2"), &block.of.get("experts.w3")}, x,
                [&](const Tensor& input) { return run_own_experts(block, input); });
}

// ---- combining --------------------------------------------------------------------------------------------

/// output[indices] = rows, of zeros in which every row is set.
Tensor put_rows(Autograd& torch, Tensor into, const Tensor& rows, const Tensor& indices) {
  const auto node = torch.node({&rows});
  torch.change(rows, &rows);
  if (!node) return into;
  node->backward = [&torch, kept = torch.save(indices)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{torch.make(Layout::contiguous(gradients[0].layout.sizes), gradients[0].type)};
  };
  return Autograd::connected(into, node);
}

/// _FusedWeightedRestore.
Tensor fused_restore(const ExpertBlock& block, const Tensor& rows, const Tensor& weights) {
  Autograd& torch = block.torch();
  const Tensor inverse = block.whole_numbers(weights.elements(), DType::int32);
  const auto node = torch.node({&rows, &weights});
  Tensor result = torch.make(Layout::contiguous({weights.size(0), rows.size(1)}), rows.type);
  if (!node) return result;
  node->backward = [&torch, kept_rows = torch.save(rows), kept_weights = torch.save(weights),
                    kept_inverse = torch.save(inverse)](Tensors&) {
    const Tensor held_rows = kept_rows.get(), held_weights = kept_weights.get(),
                 held_inverse = kept_inverse.get();
    Tensors outputs(2);
    outputs[0] = like(torch, held_rows);
    outputs[1] = like(torch, held_weights);
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// combine_from_routed.
Tensor combined(const ExpertBlock& block, const Tensor& rows, const Tensor& weights, const Tensor& order) {
  Autograd& torch = block.torch();
  const std::int64_t tokens = weights.size(0), chosen = block.chosen(), h = block.hidden();
  Tensor output = torch.operate({}, Layout::contiguous({tokens * chosen, h}), rows.type);
  output = put_rows(torch, std::move(output), rows, order);
  output = view(torch, output, {tokens, chosen, h});
  if (block.how().weighs_rows) return sum(torch, output, 1, false);
  if (block.how().combine == ExpertCombine::legacy_bmm) {
    const Tensor left = view(torch, weights, {tokens, 1, 1, chosen});
    const Tensor right = view(torch, to(torch, output, DType::fp32), {tokens, 1, chosen, h});
    const Tensor product = view(torch, matmul(torch, left, right), {tokens, 1, h});
    output = view(torch, to(torch, product, rows.type), {tokens, h});
    return output;
  }
  Tensor summed;
  {
    const Tensor weighed = mul(torch, output, view(torch, weights, {tokens, chosen, 1}));
    summed = sum(torch, weighed, 1, false);
  }
  output = to(torch, summed, rows.type);
  return output;
}

/// (rows.to(fp32) * weights).to(rows' type).
Tensor weighed_rows(Autograd& torch, const Tensor& rows, const Tensor& weights) {
  Tensor product;
  {
    const Tensor wide = to(torch, rows, DType::fp32);
    product = mul(torch, wide, view(torch, weights, {weights.elements(), 1}));
  }
  return to(torch, product, rows.type);
}

// ---- what every token passes ------------------------------------------------------------------------------

/// Returns gate, up and down of the shared experts; empty where there are none.
std::vector<const Parameter*> shared_weights(const ExpertBlock& block) {
  std::vector<const Parameter*> weights;
  for (const Parameter& each : block.of.all())
    if (each.about->role == TensorRole::shared_expert && each.about->module.ends_with("_proj"))
      weights.push_back(&each);
  return weights;
}

/// The experts that every token passes, a module with modules of its own.
Tensor shared_experts_of(const ExpertBlock& block, const Tensor& x) {
  Program& p = block.p;
  const std::vector<const Parameter*> weights = shared_weights(block);
  return hooked(p, {.name = "shared experts"}, x, [&](const Tensor& input) {
    Tensor product;
    {
      Tensor activated;
      {
        const Tensor gate = linear_layer(p, block.of, *weights[0], input);
        activated = activate(p, gate);
      }
      const Tensor up = linear_layer(p, block.of, *weights[1], input);
      product = mul(p.torch, activated, up);
    }
    return linear_layer(p, block.of, *weights[2], product);
  });
}

/// _finalize_output. Qwen 2 weighs its shared expert by a gate of its own.
Tensor with_shared(const ExpertBlock& block, const Tensor& output, const Tensor& rows, const Tensor& given) {
  if (shared_weights(block).empty()) return output;
  Program& p = block.p;
  const Parameter* gate = block.of.find("shared_expert_gate.weight");
  Tensor shared = shared_experts_of(block, gate != nullptr ? rows : given);
  if (gate != nullptr) {
    const Tensor share = sigmoid(p.torch, linear_layer(p, block.of, *gate, rows));
    shared = mul(p.torch, share, shared);
    shared = view(p.torch, shared, output.layout.sizes);
  }
  return add(p.torch, output, shared);
}

// ---- among tensor-parallel ranks --------------------------------------------------------------------------

// Tokens are the same on all of them, so each sends every t-th row of an expert, and gathers what the others
// got.

/// _AverageGradientOverTP.
Tensor with_averaged_gradient(const ExpertBlock& block, const Tensor& x) {
  Autograd& torch = block.torch();
  const auto node = torch.node({&x});
  if (!node) return x;
  Tensor result = alias(x, x.layout);
  node->backward = [&torch](Tensors& gradients) {
    Tensor gradient =
        torch.kernel({&gradients[0]}, Layout::contiguous(gradients[0].layout.sizes), gradients[0].type);
    torch.recorder().communicate(TensorCall::averaged_gradients, gradient.bytes());
    torch.change(gradient);
    return Tensors{gradient};
  };
  return Autograd::connected(result, node);
}

/// x.index_select(0, indices).
Tensor selected(Autograd& torch, const Tensor& x, const Tensor& indices) {
  const auto node = torch.node({&x});
  Dimensions sizes = x.layout.sizes;
  sizes[0] = indices.elements();
  Tensor result = torch.make(Layout::contiguous(sizes), x.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(indices), whole = x.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{torch.make(Layout::contiguous(whole), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

/// RoutedAssignmentPayload of all pairs, and of those that this rank sends.
struct Assignments {
  Tensors of_all, own;
  Tensor of_all_weights, indices, tokens, weights, weights_again;
};

Assignments partition_assignments(const ExpertBlock& block, const Tensor& weights, std::int64_t own) {
  const std::int64_t pairs = weights.elements();
  Assignments result;
  result.of_all_weights = weights;
  const auto all = [&](DType type) { result.of_all.push_back(block.whole_numbers(pairs, type)); };
  all(DType::int64);  // tokens
  {
    const Tensor positions = block.whole_numbers(pairs), starts = block.whole_numbers(pairs);
    const Tensor begins = block.whole_numbers(pairs, DType::boolean);
    all(DType::int64);  // their numbers among those of an expert
  }
  for (const DType type : {DType::int64, DType::boolean, DType::boolean, DType::int64}) all(type);
  {
    const Tensor remainders = block.whole_numbers(pairs);
    const Tensor active = block.whole_numbers(pairs, DType::boolean),
                 kept = block.whole_numbers(pairs, DType::boolean);
    result.indices = block.whole_numbers(own);
  }
  for (const DType type :
       {DType::int64, DType::int64, DType::int64, DType::int64, DType::boolean, DType::boolean, DType::int64})
    result.own.push_back(block.whole_numbers(own, type));
  result.weights = selected(block.torch(), weights, result.indices);
  result.weights_again = selected(block.torch(), weights, result.indices);
  result.tokens = block.whole_numbers(own);
  return result;
}

/// _all_gather_variable_rows: what all tensor-parallel ranks have, one behind the other.
Tensor gathered_from_all(const ExpertBlock& block, const Tensor& own, TensorCall call) {
  Autograd& torch = block.torch();
  const std::int64_t ranks = block.tensor_ranks();
  const auto node = is_floating(own.type) ? torch.node({&own}) : nullptr;
  torch.recorder().communicate(TensorCall::row_counts, Bytes(8) * ranks);
  Tensors parts;
  for (std::int64_t i = 0; i < ranks; ++i)
    parts.push_back(torch.operate({}, Layout::contiguous(own.layout.sizes), own.type));
  torch.recorder().communicate(call, own.bytes() * ranks);
  Dimensions sizes = own.layout.sizes;
  sizes[0] *= ranks;
  Tensor result = torch.operate({&own}, Layout::contiguous(sizes), own.type);
  if (!node) return result;
  node->backward = [&torch, ranks, of = own.layout.sizes](Tensors& gradients) {
    Tensors summed;
    for (std::int64_t i = 0; i < ranks; ++i) {
      summed.push_back(torch.kernel({}, Layout::contiguous(of), gradients[0].type));
      torch.recorder().communicate(TensorCall::combined_gradients, summed.back().bytes());
    }
    return Tensors{summed.front()};
  };
  return Autograd::connected(result, node);
}

/// into.index_add_(0, places, rows): keeps both, the rows for their sizes alone. Source: torch 2.11
/// tools/autograd/derivatives.yaml index_add.
void add_rows(Autograd& torch, Tensor& into, const Tensor& places, const Tensor& rows) {
  const auto node = torch.node({&into, &rows});
  torch.change(rows, &rows);
  if (!node) return;
  const Saved kept = torch.save(places), kept_rows = torch.save(rows);
  node->backward = [&torch, &itself = *node, kept, kept_rows](Tensors& gradients) {
    const Tensor held = kept.get(), held_rows = kept_rows.get();
    Tensors outputs(2);
    outputs[1] = torch.kernel({&gradients[0]}, Layout::contiguous(held_rows.layout.sizes), gradients[0].type);
    if (itself.needs(0)) outputs[0] = gradients[0];
    return outputs;
  };
  Autograd::connect(into, node);
}

/// restore_combined: rows of all tensor-parallel ranks, weighed and added up, one of a token's after the
/// other.
Tensor restored(const ExpertBlock& block, const Tensor& rows, const Assignments& assigned,
                std::int64_t tokens) {
  Autograd& torch = block.torch();
  const std::int64_t own = rows.size(0), pairs = own * block.tensor_ranks();
  const Tensor own_tokens = block.whole_numbers(own), own_slots = block.whole_numbers(own);
  const Tensor own_weights = to(torch, selected(torch, assigned.of_all_weights, assigned.indices), rows.type);
  const Tensor all_rows = gathered_from_all(block, rows, TensorCall::combined_rows);
  const Tensor all_tokens = gathered_from_all(block, own_tokens, TensorCall::row_places);
  const Tensor all_slots = gathered_from_all(block, own_slots, TensorCall::row_places);
  const Tensor all_weights = gathered_from_all(block, own_weights, TensorCall::row_weights);
  Tensor output = torch.operate({}, Layout::contiguous({tokens, block.hidden()}), rows.type);
  const Tensor weighed = mul(torch, all_rows, view(torch, all_weights, {pairs, 1}));
  Tensor chosen, places;
  for (std::int64_t slot = 0; slot < block.chosen(); ++slot) {
    chosen = block.whole_numbers(pairs, DType::boolean);
    places = block.whole_numbers(tokens);
    const Tensor of = block.whole_numbers(tokens);
    add_rows(torch, output, of, index(torch, weighed, places));
  }
  return output;
}

/// _forward.
Tensor expert_block(const ExpertBlock& block, const Tensor& given) {
  Program& p = block.p;
  Autograd& torch = p.torch;
  const bool folds = block.tensor_ranks() > 1;
  const Tensor input = folds ? with_averaged_gradient(block, given) : given;
  const Tensor x = reshape(torch, input, {p.sizes.tokens(), block.hidden()});
  const Choice choice = route_hooked(block, x);
  const std::int64_t pairs = choice.experts.elements();
  torch.issue(1);  // tokens_per_expert.add_
  const Tensor order = sort(torch, view(torch, choice.experts, {pairs})).indices;
  const Tensor sorted_weights = index(torch, view(torch, choice.weights, {pairs}), order);
  const Tensor sorted_experts = block.whole_numbers(pairs);
  Assignments assigned;
  if (folds) assigned = partition_assignments(block, sorted_weights, p.rows.sent);
  Tensor routed;
  {
    const Tensor tokens = block.whole_numbers(p.rows.sent);
    routed = index(torch, x, tokens);
  }
  if (block.how().weighs_rows) routed = weighed_rows(torch, routed, sorted_weights);
  Permuted by_expert;
  Tensor output;
  const std::int64_t received = p.rows.received;
  if (block.ranks() > 1) {
    if (folds) const Tensor own_counts = count_by_expert(block, p.rows.sent);
    const Tensor counts = exchange_counts(block);
    routed = exchange_rows(block, routed, received);
    by_expert = permute_rows(block, routed);
    routed = std::exchange(by_expert.rows, {});
    output = own_experts(block, routed);
    output = unpermute_rows(block, output, by_expert.places, received);
    output = exchange_rows(block, output, p.rows.sent);
  } else {
    by_expert = permute_rows(block, routed);
    output = own_experts(block, by_expert.rows);
    output = unpermute_rows(block, output, by_expert.places, received);
  }
  Tensor result;
  if (folds)
    result = restored(block, output, assigned, x.size(0));
  else if (block.how().combine == ExpertCombine::fused_weighted_sum)
    result = fused_restore(block, output, choice.weights);
  else
    result = combined(block, output, choice.weights, order);
  result = view(torch, result, given.layout.sizes);
  return with_shared(block, result, x, input);
}

}  // namespace

Tensor expert_parallel_feed_forward(Program& p, const Parameters& of, const Tensor& x) {
  return expert_block({p, of}, x);
}

}  // namespace zplan::symbolic

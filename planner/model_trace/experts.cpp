// Routing experts as one grouped product: token-expert pairs are sorted by expert, multiplied, weighed,
// brought back into the order of the tokens and summed. Source: transformers 5.23 integrations/moe.py
// grouped_mm_experts_forward.

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"
#include "planner/question/framework.h"

namespace zplan::symbolic {

namespace {

/// True if stacks of weights are stored as [E, in, out] instead of [E, out, in].
bool is_transposed(const Program& p) { return p.operators().interleaves_experts; }

/// Returns the stacked weights. Tensor parallelism divides each expert's width: every rank has all experts.
Tensor stacked(const Program& p, const Parameter& parameter) {
  Tensor weight = parameter.tensor;
  const std::int64_t experts = p.shape().experts->experts, width = weight.elements() / (experts * p.sizes.h);
  const bool width_last = parameter.about->name.ends_with("down_proj") != is_transposed(p);
  weight.layout = Layout::contiguous(width_last ? Dimensions{experts, p.sizes.h, width}
                                                : Dimensions{experts, width, p.sizes.h});
  return weight;
}

/// Records DTensor.to_local() of a weight: autograd brings its gradient to the parameter at this call's
/// place.
Tensor local_part(Autograd& torch, const Tensor& weight) {
  const auto node = torch.node({&weight});
  if (node) node->backward = [](Tensors& gradients) { return std::move(gradients); };
  return Autograd::connected(weight, node);
}

/// Returns the adapter of a stack. peft wraps a module once per adapted parameter, the wrapper of
/// gate_up_proj inside that of down_proj.
ParameterAdapter stack_adapter(const Program& p, const Parameters& of, const Parameter& stack) {
  const ParameterAdapter inside = parameter_adapter(p, of, "mlp.experts.base_layer", stack);
  return inside.down != nullptr ? inside : parameter_adapter(p, of, "mlp.experts", stack);
}

/// Stack is one stack of experts while they run: as it is, or replaced by its sum with the product of its
/// adapter's factors [E, out, r] and [E, r, in].
class Stack {
 public:
  Stack(Program& p, const Parameters& of, const std::string& name)
      : p_(p), parameter_(of.get("experts." + name)) {
    base_ = stacked(p, parameter_);
    const ParameterAdapter adapter = stack_adapter(p_, of, parameter_);
    if (adapter.down == nullptr) return;
    split(adapter);
    const Tensor checked = baddbmm(p_.torch, base_, left_, right_);
  }

  /// Replaces the weights by the rank's part of a DTensor.
  void take_local_part() { base_ = local_part(p_.torch, base_); }
  /// Returns the parameter whose view a grouped product keeps: ZeRO stage 3 cannot free the memory that it
  /// gathered the parameter into.
  [[nodiscard]] std::optional<std::int32_t> viewed() const {
    const bool gathers = gathers_at_modules(p_.training, p_.strategy);
    if (!gathers || is_transposed(p_) || left_.defined()) return {};
    return parameter_.index;
  }
  /// Returns the weights [E, in, out] of a grouped product. The replacement is made at the first call and
  /// kept.
  [[nodiscard]] Tensor weight() {
    if (left_.defined() && !sum_.defined()) sum_ = baddbmm(p_.torch, base_, left_, right_);
    const Tensor& current = left_.defined() ? sum_ : base_;
    return is_transposed(p_) ? current : transpose(p_.torch, current, 1, 2);
  }

 private:
  void split(const ParameterAdapter& adapter) {
    Autograd& torch = p_.torch;
    const Tensor& a = adapter.down->tensor;
    const Tensor& b = adapter.up->tensor;
    const std::int64_t experts = base_.size(0), rank = a.size(0) / experts;
    right_ = view(torch, a, {experts, rank, a.size(1)});
    left_ = transpose(torch, view(torch, b, {b.size(0), rank, experts}), 0, 2);
    left_ = to(torch, transpose(torch, left_, 1, 2), base_.type);
    right_ = to(torch, right_, base_.type);
  }

  Program& p_;
  const Parameter& parameter_;
  Tensor base_, left_, right_, sum_;
};

/// Records act(gate) * up.
Tensor gated(Program& p, const Tensor& gate_up) {
  const std::int64_t half = gate_up.layout.sizes.back() / 2;
  const Tensors parts = split(p.torch, gate_up, 1, {half, half});
  const Tensor activated = silu(p.torch, parts[0]);
  return mul(p.torch, activated, parts[1]);
}

/// gpt-oss: (up + 1) * (gate * sigmoid(gate * alpha)), gate and up interleaved and clamped.
Tensor gated_gpt_oss(Program& p, const Tensor& gate_up) {
  Autograd& torch = p.torch;
  Tensor gate = strided(torch, gate_up, 2), up = strided(torch, gate_up, 2), glu;
  gate = clamp(torch, gate, 1);
  up = clamp(torch, up, 2);
  {
    Tensor share;
    {
      const Tensor scaled = scale(torch, gate);
      share = sigmoid(torch, scaled);
    }
    glu = mul(torch, gate, share);
  }
  const Tensor shifted = add_number(torch, up);
  return mul(torch, shifted, glu);
}

/// SortedPairs holds token-expert pairs in the order of their experts.
struct SortedPairs {
  Tensor experts, order, states, weights;
  Tensor narrow, counts, offsets;  ///< rows of each expert, then where they end
};

SortedPairs deal(Program& p, const Tensor& x, const Routing& routed) {
  Autograd& torch = p.torch;
  const std::int64_t pairs = routed.indices.elements();
  SortedPairs dealt;
  const Tensor weights = reshape(torch, routed.weights, {pairs});
  const Chosen sorted = sort(torch, reshape(torch, routed.indices, {pairs}));
  dealt.experts = sorted.values, dealt.order = sorted.indices;
  {
    const Tensor tokens = numbers(torch, {pairs}, DType::int64);
    dealt.states = index(torch, x, tokens);
  }
  dealt.weights = index(torch, weights, dealt.order);
  dealt.narrow = numbers(torch, {pairs}, DType::int32);
  dealt.counts = numbers(torch, {p.shape().experts->experts}, DType::int32);
  dealt.offsets = cumsum(torch, dealt.counts);
  return dealt;
}

/// Records x times one stack, plus each expert's bias where it has one. The bias of the previous product
/// lives until then.
Tensor multiply(Program& p, const Parameters& of, const Tensor& x, const std::string& name, Stack& stack,
                const SortedPairs& dealt, Tensor& bias) {
  const Parameter* parameter = of.find("experts." + name + "_bias");
  if (parameter != nullptr) bias = index(p.torch, parameter->tensor, dealt.experts);
  const Tensor weight = stack.weight();
  const Tensor input = to(p.torch, x, weight.type);
  Tensor product = grouped_mm(p.torch, input, weight, dealt.offsets, stack.viewed());
  if (parameter != nullptr) add_in_place(p.torch, product, bias);
  return product;
}

}  // namespace

ParameterAdapter parameter_adapter(const Program& p, const Parameters& of, const std::string& path,
                                   const Parameter& parameter) {
  if (p.adapters_off) return {};
  const ParameterAdapter adapter{of.find(path + ".lora_A.default.weight"),
                                 of.find(path + ".lora_B.default.weight")};
  if (adapter.down == nullptr) return {};
  const Linear &down = *adapter.down->about->linear, &up = *adapter.up->about->linear,
               &base = *parameter.about->linear;
  return down.in_features == base.in_features && up.out_features == base.out_features ? adapter
                                                                                      : ParameterAdapter{};
}

namespace {

Tensor experts_forward(Program& p, const Parameters& of, const Tensor& x, const Routing& routed) {
  Autograd& torch = p.torch;
  Stack down(p, of, "down_proj"), gate_up(p, of, "gate_up_proj");
  if (follows_plan(p)) gate_up.take_local_part(), down.take_local_part();
  const std::int64_t rows = x.size(0), pairs = routed.indices.elements();
  const SortedPairs dealt = deal(p, x, routed);
  Tensor bias;
  Tensor out = multiply(p, of, dealt.states, "gate_up_proj", gate_up, dealt, bias);
  out = is_transposed(p) ? gated_gpt_oss(p, out) : gated(p, out);
  out = multiply(p, of, out, "down_proj", down, dealt, bias);
  Tensor weighed = mul(torch, out, unsqueeze(torch, dealt.weights, 1));
  const Tensor inverse = numbers(torch, {pairs}, DType::int64);
  { const Tensor range = numbers(torch, {pairs}, DType::int64); }
  torch.issue(1);  // which puts the range in place
  weighed = index(torch, weighed, inverse);
  const Tensor summed = sum(torch, view(torch, weighed, {rows, pairs / rows, p.sizes.h}), 1, false);
  return to(torch, summed, x.type);
}

}  // namespace

std::vector<const Parameter*> parameters_under(const Parameters& of, const std::string& path) {
  std::vector<const Parameter*> found;
  for (const Parameter& each : of.all())
    if (each.about->name.find("." + path + ".") != std::string::npos) found.push_back(&each);
  return found;
}

namespace {

/// Records experts whose width tensor-parallel ranks divide, transformers' "moe_tp_experts".
Tensor divided_experts(Program& p, const Parameters& of, const Tensor& x, const Routing& routed) {
  Autograd& torch = p.torch;
  const Tensor input = replicated_input(torch, TensorCall::averaged_gradients, x, true);
  Routing all = routed;
  const bool is_wide = routed.weights.type == DType::fp32;
  const TensorCall call = is_wide ? TensorCall::wide_route_gradients : TensorCall::route_gradients;
  all.weights = replicated_input(torch, call, routed.weights, true);
  return summed_in_place(torch, TensorCall::row_output, experts_forward(p, of, input, all));
}

}  // namespace

Tensor run_experts(Program& p, const Parameters& of, const Tensor& x, const Routing& routed) {
  if (follows_plan(p)) return divided_experts(p, of, x, routed);
  return hooked(p, parameters_under(of, "mlp.experts"), x,
                [&](const Tensor& input) { return experts_forward(p, of, input, routed); });
}

namespace {

Tensor as_rows(const Program& p, const Tensor& x) { return view(p.torch, x, {p.sizes.tokens(), p.sizes.h}); }

/// Records the experts that every token passes: down(act(gate(x)) * up(x)).
Tensor shared_experts(Program& p, const Parameters& of, const Tensor& x) {
  const auto inner = of.linears(TensorRole::shared_expert, TensorParallelSplit::column);
  const auto outer = of.linears(TensorRole::shared_expert, TensorParallelSplit::row);
  Tensor product;
  {
    Tensor activated;
    {
      const Tensor gate = linear_layer(p, of, *inner[0], x);
      activated = silu(p.torch, gate);
    }
    const Tensor up = linear_layer(p, of, *inner[1], x);
    product = mul(p.torch, activated, up);
  }
  return linear_layer(p, of, *outer[0], product);
}

/// Mixtral, Qwen 3, OLMoE, MiniMax, gpt-oss.
Tensor routed_only(Program& p, const Parameters& of, const Tensor& x) {
  const Tensor rows = as_rows(p, x);
  const Routing routed = route(p, of, rows);
  return view(p.torch, run_experts(p, of, rows, routed), x.layout.sizes);
}

/// DeepSeek, GLM-4.5: routed plus shared.
Tensor with_shared_experts(Program& p, const Parameters& of, const Tensor& x) {
  const Routing routed = route(p, of, x);
  const Tensor rows = as_rows(p, x);
  const Tensor chosen = view(p.torch, run_experts(p, of, rows, routed), x.layout.sizes);
  return add(p.torch, chosen, shared_experts(p, of, x));
}

/// Records routed experts and a shared expert weighed by a gate of its own, as in Qwen 2.
Tensor with_gated_shared_expert(Program& p, const Parameters& of, const Parameter& gate, const Tensor& x) {
  const Tensor rows = as_rows(p, x);
  Tensor shared = shared_experts(p, of, rows);
  const Routing routed = route(p, of, rows);
  Tensor chosen = run_experts(p, of, rows, routed);
  {
    const Tensor share = sigmoid(p.torch, linear_layer(p, of, gate, rows));
    shared = mul(p.torch, share, shared);
  }
  chosen = add(p.torch, chosen, shared);
  return view(p.torch, chosen, x.layout.sizes);
}

}  // namespace

Tensor routed_feed_forward(Program& p, const Parameters& of, const Tensor& x) {
  if (const Parameter* gate = of.find("shared_expert_gate.weight"))
    return with_gated_shared_expert(p, of, *gate, x);
  const bool shares = !of.linears(TensorRole::shared_expert, TensorParallelSplit::column).empty();
  return shares ? with_shared_experts(p, of, x) : routed_only(p, of, x);
}

}  // namespace zplan::symbolic

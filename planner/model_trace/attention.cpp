// Projections onto heads, in the forms that architectures have given them.
// Source: transformers 5.23 models/<architecture>/modeling_<architecture>.py; baichuan, chatglm, internlm2
// and qwen: the modeling files beside their weights.

#include "planner/model_trace/attention.h"

#include <array>
#include <stdexcept>
#include <string_view>

#include "planner/model_trace/quantised_linear.h"
#include "planner/model_trace/rare_operators.h"

namespace zplan::symbolic {

namespace {

/// [b, s, heads·d] → [b, s, heads, d].
Tensor by_head(Program& p, const Tensor& x, std::int64_t heads) {
  return view(p.torch, x, {p.sizes.b, p.sizes.s, heads, p.sizes.d});
}

/// [b, s, heads·d] → [b, heads, s, d].
Tensor heads_first(Program& p, const Tensor& x, std::int64_t heads) {
  return transpose(p.torch, by_head(p, x, heads), 1, 2);
}

// ---- separate projections ---------------------------------------------------------------------------------

/// The projection onto queries, keys or values: the weight whose module begins with this letter.
const Parameter& projection(const Parameters& of, char letter) {
  return of.get(std::string(1, letter) + "_proj.weight");
}

/// The norm of queries or keys; empty where there is none.
std::string norm_of(const Program& p, const Parameters& of, char letter) {
  if (letter == 'v') return {};
  const std::string norm(letter == 'q' ? p.modules().query_norm : p.modules().key_norm);
  return of.has_module(norm) || of.has_module(norm + ".norms.0") ? norm : std::string();
}

/// Whether the norm takes all heads' features at once.
bool spans_heads(const Program& p, const Parameters& of, const std::string& norm) {
  const Parameter* weight = of.find(norm + ".weight");
  if (weight == nullptr || weight->about->shape.size() != 1) return false;
  return weight->about->shape[0] != p.sizes.d || p.operators().norms_span_heads;
}

/// The rows that one projection makes, normed where the norm spans heads.
Tensor rows(Program& p, const Parameters& of, char letter, const Tensor& x) {
  Tensor result = linear_layer(p, of, projection(of, letter), x);
  const std::string norm = norm_of(p, of, letter);
  if (spans_heads(p, of, norm)) return normalise(p, of, norm, result);
  return letter == 'q' && p.operators().scales_queries ? scale(p.torch, result) : result;
}

/// StableLM norms each head by a module of its own.
Tensor normed_one_by_one(Program& p, const Parameters& of, const std::string& norm, const Tensor& x) {
  const std::int64_t heads = x.size(1);
  Tensors parts = split(p.torch, x, 1, std::vector<std::int64_t>(static_cast<std::size_t>(heads), 1));
  Tensors normed;
  for (std::size_t i = 0; i < parts.size(); ++i)
    normed.push_back(normalise(p, of, norm + ".norms." + std::to_string(i), parts[i]));
  return cat(p.torch, normed, 1);
}

/// The norm of each head, where there is one.
Tensor head_norm(Program& p, const Parameters& of, char letter, const Tensor& x) {
  const std::string norm = norm_of(p, of, letter);
  if (norm.empty() || spans_heads(p, of, norm)) return x;
  return of.has_module(norm) ? normalise(p, of, norm, x) : normed_one_by_one(p, of, norm, x);
}

void norm_queries_and_keys(Program& p, const Parameters& of, Heads& heads) {
  heads.query = head_norm(p, of, 'q', heads.query);
  heads.key = head_norm(p, of, 'k', heads.key);
}

/// Applies `step`, which takes a tensor and its number of heads, to queries, keys and values.
template <class Step>
void for_all(Program& p, Heads& heads, Step step) {
  heads.query = step(heads.query, p.sizes.a);
  heads.key = step(heads.key, p.sizes.k);
  heads.value = step(heads.value, p.sizes.k);
}

Heads all_rows(Program& p, const Parameters& of, const Tensor& x) {
  return {rows(p, of, 'q', x), rows(p, of, 'k', x), rows(p, of, 'v', x)};
}

Heads views_last(Program& p, const Parameters& of, const Tensor& x) {
  Heads heads = all_rows(p, of, x);
  for_all(p, heads, [&](const Tensor& each, std::int64_t count) { return heads_first(p, each, count); });
  norm_queries_and_keys(p, of, heads);
  return heads;
}

Heads transposes_last(Program& p, const Parameters& of, const Tensor& x) {
  Heads heads{by_head(p, rows(p, of, 'q', x), p.sizes.a), by_head(p, rows(p, of, 'k', x), p.sizes.k),
              by_head(p, rows(p, of, 'v', x), p.sizes.k)};
  norm_queries_and_keys(p, of, heads);
  for_all(p, heads, [&](const Tensor& each, std::int64_t) { return transpose(p.torch, each, 1, 2); });
  return heads;
}

/// One projection, its heads, and its norm where that comes between view and transpose.
Tensor projected(Program& p, const Parameters& of, char letter, std::int64_t heads, const Tensor& x) {
  Tensor result = by_head(p, rows(p, of, letter, x), heads);
  const bool norms = letter != 'v' && p.operators().views == HeadViews::one_by_one;
  if (norms) result = head_norm(p, of, letter, result);
  return transpose(p.torch, result, 1, 2);
}

Heads separate(Program& p, const Parameters& of, const Tensor& x) {
  const HeadViews order = p.operators().views;
  if (order == HeadViews::all_last) return views_last(p, of, x);
  if (order == HeadViews::transposes_last) return transposes_last(p, of, x);
  Heads heads;
  heads.query = projected(p, of, 'q', p.sizes.a, x);
  heads.key = projected(p, of, 'k', p.sizes.k, x);
  heads.value = projected(p, of, 'v', p.sizes.k, x);
  if (order == HeadViews::norms_last) norm_queries_and_keys(p, of, heads);
  return heads;
}

// ---- one projection of what the checkpoint keeps apart ----------------------------------------------------

/// The adapter of one of the three, on its slice of the product.
struct SliceAdapter {
  const Parameter *down{}, *up{};
};

std::vector<SliceAdapter> slice_adapters(const Parameters& of) {
  std::vector<SliceAdapter> found;
  for (const char letter : {'q', 'k', 'v'}) {
    const std::string module = std::string(1, letter) + "_proj";
    const Parameter* down = of.find(module + ".lora_A.default.weight");
    if (down != nullptr) found.push_back({down, of.find(module + ".lora_B.default.weight")});
  }
  return found;
}

/// Queries, keys and values of all heads in one memory.
Tensor joint_product(Program& p, const Parameters& of, const Tensor& x) {
  const std::array weights{&projection(of, 'q'), &projection(of, 'k'), &projection(of, 'v')};
  std::int64_t width = 0;
  for (const Parameter* each : weights) width += each->tensor.size(0);
  if (p.training.method == Method::qlora && is_nf4(p.training.quantization)) {
    const bool biased = of.find("q_proj.bias") != nullptr;
    return packed_joint_linear(p, x, *weights[0], width, biased);
  }
  if (p.training.method == Method::qlora) {
    Tensors parts;
    for (const Parameter* each : weights) parts.push_back(base_linear_layer(p, of, *each, x));
    return cat(p.torch, parts, 2);
  }
  std::vector<const Tensor*> inputs{&x};
  for (const Parameter* each : weights) inputs.push_back(&each->tensor);
  const auto node = p.torch.node(inputs);
  Tensor result = p.torch.make(Layout::contiguous({p.sizes.b, p.sizes.s, width}), x.type);
  const std::int64_t tokens = p.sizes.tokens(), in = x.layout.sizes.back();
  p.torch.compute(product_of(tokens, in, width, x.type));
  if (!node) return result;
  const bool trains = weights[0]->tensor.requires_gradient;
  std::vector<Tensor> shapes;
  for (const Tensor* each : inputs) shapes.push_back(each->detached()), shapes.back().storage.reset();
  node->backward = [&torch = p.torch, trains, needs = x.requires_gradient, shapes = std::move(shapes),
                    kept = trains ? p.torch.save(x) : Saved{}, tokens, in, width](Tensors&) {
    Tensors gradients(shapes.size());
    const auto make = [&](std::size_t i) { return torch.make(shapes[i].layout, shapes[i].type); };
    if (needs) gradients[0] = make(0);
    for (std::size_t i = 1; trains && i < shapes.size(); ++i) gradients[i] = make(i);
    if (needs) torch.compute(product_of(tokens, width, in, shapes[0].type));
    if (trains) torch.compute(product_of(in, tokens, width, shapes[0].type));
    return gradients;
  };
  p.torch.connect(result, node);
  return result;
}

/// Zeros with the adapted slices copied in. Keeps what was copied.
Tensor padded_with_zeros(Program& p, const Tensor& slices, std::int64_t width) {
  const auto node = p.torch.node({&slices});
  Tensor result = p.torch.kernel({}, Layout::contiguous({p.sizes.b, p.sizes.s, width}), slices.type);
  p.torch.copy(slices);
  if (!node) return result;
  node->backward = [&torch = p.torch, kept = p.torch.save(slices)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{torch.make(Layout::contiguous(held.layout.sizes), gradients[0].type)};
  };
  p.torch.connect(result, node);
  return result;
}

/// Adapters of slices: one dropout for all. Source: litgpt 0.5 lora.py LoRAQKVLinear.forward.
Tensor low_rank_slices(Program& p, const std::vector<SliceAdapter>& adapters, const Tensor& x,
                       std::int64_t width) {
  Tensor slices;
  {
    const Tensor dropped = p.training.lora_dropout > 0 ? dropout(p.torch, x) : x;
    Tensors parts;
    for (const SliceAdapter& each : adapters) {
      const Tensor down = linear(p.torch, dropped, each.down->tensor);
      parts.push_back(linear(p.torch, down, each.up->tensor));
    }
    slices = parts.size() > 1 ? cat(p.torch, parts, 2) : parts[0];
  }
  if (adapters.size() < 3) slices = padded_with_zeros(p, slices, width);
  return scale(p.torch, slices);
}

/// Every head of keys and values once per query that shares it, in memory of its own.
Tensor expanded(Program& p, const Tensor& x) {
  const std::int64_t groups = p.sizes.k, each = p.sizes.a / p.sizes.k;
  const Tensor wide = expand(p.torch, x, {p.sizes.b, groups, each, p.sizes.s, p.sizes.d});
  return reshape(p.torch, wide, {p.sizes.b, p.sizes.a, p.sizes.s, p.sizes.d});
}

/// By groups of heads that share keys and values. Source: litgpt 0.5 model.py CausalSelfAttention.forward.
Heads joint(Program& p, const Parameters& of, const Tensor& x) {
  Tensor both = joint_product(p, of, x);
  const std::int64_t width = both.layout.sizes.back();
  if (const auto adapters = slice_adapters(of); !adapters.empty())
    both = add(p.torch, both, low_rank_slices(p, adapters, x, width));
  const std::int64_t groups = p.sizes.k, share = p.sizes.a / groups;
  const Tensor grouped = transpose(
      p.torch,
      transpose(p.torch, view(p.torch, both, {p.sizes.b, p.sizes.s, groups, share + 2, p.sizes.d}), 1, 2), 2,
      3);
  const Tensors parts = split(p.torch, grouped, 2, {share, 1, 1});
  const bool repeats = share > 1;
  Heads heads;
  heads.query = reshape(p.torch, parts[0], {p.sizes.b, p.sizes.a, p.sizes.s, p.sizes.d});
  for (Tensor* each : {&heads.key, &heads.value}) {
    const Tensor& part = parts[each == &heads.key ? 1 : 2];
    *each =
        repeats ? expanded(p, part) : reshape(p.torch, part, {p.sizes.b, p.sizes.a, p.sizes.s, p.sizes.d});
  }
  norm_queries_and_keys(p, of, heads);
  return heads;
}

// ---- one projection ---------------------------------------------------------------------------------------

Tensor fused(Program& p, const Parameters& of, const Tensor& x) {
  return linear_layer(p, of, attention_input(p, of), x);
}

/// GPT-2, MPT, Qwen 1: torch.split into all queries, all keys, all values.
Heads split_whole(Program& p, const Tensor& both) {
  const std::int64_t d = p.sizes.d;
  const Tensors parts = split(p.torch, both, 2, {p.sizes.a * d, p.sizes.k * d, p.sizes.k * d});
  return {heads_first(p, parts[0], p.sizes.a), heads_first(p, parts[1], p.sizes.k),
          heads_first(p, parts[2], p.sizes.k)};
}

/// Phi-3, Baichuan: the same by three slices.
Heads sliced(Program& p, const Tensor& both) {
  const std::int64_t d = p.sizes.d;
  const Tensor query = slice(p.torch, both, 2, p.sizes.a * d);
  const Tensor key = slice(p.torch, both, 2, p.sizes.k * d);
  const Tensor value = slice(p.torch, both, 2, p.sizes.k * d);
  return {heads_first(p, query, p.sizes.a), heads_first(p, key, p.sizes.k), heads_first(p, value, p.sizes.k)};
}

/// GPT-NeoX, GPT-BigCode with all heads: each head holds its query, key and value.
Heads split_heads(Program& p, const Tensor& both) {
  const std::int64_t d = p.sizes.d;
  const Tensor heads =
      transpose(p.torch, view(p.torch, both, {p.sizes.b, p.sizes.s, p.sizes.a, 3 * d}), 1, 2);
  const Tensors parts = split(p.torch, heads, 3, {d, d, d});
  return {parts[0], parts[1], parts[2]};
}

/// GPT-BigCode with one key-value head.
Heads split_multi_query(Program& p, const Tensor& both) {
  const std::int64_t d = p.sizes.d;
  const Tensors parts = split(p.torch, unsqueeze(p.torch, both, 1), 3, {p.sizes.a * d, d, d});
  return {heads_first(p, parts[0], p.sizes.a), parts[1], parts[2]};
}

Heads one_projection(Program& p, const Parameters& of, const Tensor& x) {
  const Tensor both = fused(p, of, x);
  switch (p.operators().joint_heads) {
    case JointHeads::split: return split_whole(p, both);
    case JointHeads::sliced: return sliced(p, both);
    case JointHeads::each_head: return split_heads(p, both);
    case JointHeads::each_head_or_split:
      return p.sizes.k == 1 ? split_multi_query(p, both) : split_heads(p, both);
  }
  return {};
}

bool is_projection(const Parameter& parameter) {
  return parameter.about->role == TensorRole::attention && parameter.about->linear &&
         parameter.about->name.find("lora_") == std::string::npos;
}

}  // namespace

const Parameter& attention_input(const Program& p, const Parameters& of) {
  for (const Parameter& each : of.all())
    if (is_projection(each) && each.about->module != p.modules().attention_output) return each;
  throw std::logic_error("an attention without a projection");
}

const Parameter& attention_output(const Program& p, const Parameters& of) {
  for (const Parameter& each : of.all())
    if (is_projection(each) && each.about->module == p.modules().attention_output) return each;
  throw std::logic_error("an attention without an output projection");
}

namespace {

Tensor attention_forward(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  if (auto own = own_attention(p, of, x, sliding)) return *std::move(own);
  Heads heads = p.shape().latent_attention                  ? latent_heads(p, of, x)
                : p.shape().fused_query_key_value           ? one_projection(p, of, x)
                : spec(p.training.modules).joint_projection ? joint(p, of, x)
                                                            : separate(p, of, x);
  if (!p.shape().latent_attention) rotate(p, heads);
  keep_in_cache(p, heads, sliding);
  Tensor output = attend(p, of, heads.query, heads.key, heads.value);
  output = linear_layer(p, of, attention_output(p, of), output);
  const bool drops = p.shape().dropout > 0 && p.operators().drops_inside;
  return drops ? dropout(p.torch, output) : output;
}

}  // namespace

Tensor attention(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  if (of.find("linear_attn.A_log") != nullptr) return delta_net(p, of, x);
  return hooked(p, {.name = "attention", .by_keyword = true}, x,
                [&](const Tensor& input) { return attention_forward(p, of, input, sliding); });
}

}  // namespace zplan::symbolic

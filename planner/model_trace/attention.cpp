// Projections onto heads, in the forms that architectures have given them.
// Source: transformers 5.23 models/<architecture>/modeling_<architecture>.py; baichuan, chatglm, internlm2
// and qwen: the modeling files beside their weights.

#include "planner/model_trace/attention.h"

#include <stdexcept>
#include <string_view>

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

}  // namespace

const Parameter& projection(const Parameters& of, char letter) {
  return of.get(std::string(1, letter) + "_proj.weight");
}

namespace {

/// The norm of queries or keys; empty where there is none.
std::string norm_of(const Program& p, const Parameters& of, char letter) {
  if (letter == 'v') return {};
  const std::string norm(letter == 'q' ? p.names().query_norm : p.names().key_norm);
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

}  // namespace

void norm_queries_and_keys(Program& p, const Parameters& of, Heads& heads) {
  heads.query = head_norm(p, of, 'q', heads.query);
  heads.key = head_norm(p, of, 'k', heads.key);
}

namespace {

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
    if (is_projection(each) && each.about->module != p.names().attention_output) return each;
  throw std::logic_error("an attention without a projection");
}

const Parameter& attention_output(const Program& p, const Parameters& of) {
  for (const Parameter& each : of.all())
    if (is_projection(each) && each.about->module == p.names().attention_output) return each;
  throw std::logic_error("an attention without an output projection");
}

Tensor attention_of_transformers(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  if (auto own = own_attention(p, of, x, sliding)) return *std::move(own);
  const auto projections = p.modules().projections != nullptr ? p.modules().projections : separate;
  Heads heads = p.shape().latent_attention        ? latent_heads(p, of, x)
                : p.shape().fused_query_key_value ? one_projection(p, of, x)
                                                  : projections(p, of, x);
  if (!p.shape().latent_attention) rotate(p, heads);
  keep_in_cache(p, heads, sliding);
  Tensor output = attend(p, of, heads.query, heads.key, heads.value);
  output = linear_layer(p, of, attention_output(p, of), output);
  const bool drops = p.shape().dropout > 0 && p.operators().drops_inside;
  return drops ? dropout(p.torch, output) : output;
}

Tensor attention(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  if (of.find("linear_attn.A_log") != nullptr) return delta_net(p, of, x);
  const auto own = p.modules().attention != nullptr ? p.modules().attention : attention_of_transformers;
  return hooked(p, {.name = "attention", .by_keyword = true}, x,
                [&](const Tensor& input) { return own(p, of, input, sliding); });
}

}  // namespace zplan::symbolic

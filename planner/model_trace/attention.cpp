// Projections onto heads, in the forms that architectures have given them, and multi-head latent attention.
// Source: transformers 5.23 models/<architecture>/modeling_<architecture>.py; baichuan, chatglm, internlm2
// and qwen: the modeling files beside their weights.

#include "planner/model_trace/attention.h"

#include <stdexcept>
#include <string_view>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

Tensor queries(Program& p, const Parameters& of, const Tensor& x) {
  Tensor rows = x;
  if (const Parameter* down = of.find("q_a_proj.weight")) {
    const Tensor narrow = linear_layer(p, of, *down, x);
    rows = normalise(p, of, "q_a_layernorm", narrow);
  }
  const Parameter& up =
      p.shape().latent_attention->query_rank > 0 ? of.get("q_b_proj.weight") : of.get("q_proj.weight");
  rows = linear_layer(p, of, up, rows);
  return transpose(p.torch, view(p.torch, rows, {p.sizes.b, p.sizes.s, p.sizes.a, p.sizes.d}), 1, 2);
}

/// Rotates pairs of neighbours as complex numbers, by one multiplication in fp32.
Tensor turned_as_complex(Program& p, const Tensor& wide, DType type) {
  const Tensor product = multiply_complex(p.torch, wide, p.given.cosines);
  return to(p.torch, product, type);
}

void turn_as_complex(Program& p, Tensor& query, Tensor& key) {
  const DType type = query.type;
  const Tensor wide_query = to(p.torch, query, DType::fp32);
  const Tensor wide_key = to(p.torch, key, DType::fp32);
  Tensor turned_query = turned_as_complex(p, wide_query, type);
  Tensor turned_key = turned_as_complex(p, wide_key, type);
  query = std::move(turned_query), key = std::move(turned_key);
}

/// Returns the even and the odd features.
Pairs neighbours(Program& p, const Tensor& x) {
  Tensor first = strided(p.torch, x, 2);
  return {std::move(first), strided(p.torch, x, 2)};
}

void turn_neighbours(Program& p, Tensor& query, Tensor& key) {
  const auto half = [&p](const Tensor& table) {
    return unsqueeze(p.torch, slice(p.torch, table, 2, table.size(2) / 2), 1);
  };
  const Tensor cosines = half(p.given.cosines), sines = half(p.given.sines);
  const Pairs of_query = neighbours(p, query), of_key = neighbours(p, key);
  Tensor turned_query = turned_pairs(p, of_query, cosines, sines);
  Tensor turned_key = turned_pairs(p, of_key, cosines, sines);
  query = std::move(turned_query), key = std::move(turned_key);
}

/// Records keys and values of all heads from their common latent.
void expand(Program& p, const Parameters& of, const Tensor& latent, const Tensor& turned, Heads& heads) {
  const LatentAttention& sizes = *p.shape().latent_attention;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, a = p.sizes.a;
  const Tensor both = linear_layer(p, of, of.get("kv_b_proj.weight"), latent);
  const Tensor by_head =
      transpose(p.torch, view(p.torch, both, {b, s, a, sizes.nope_head_size + sizes.value_head_size}), 1, 2);
  const Tensors parts = split(p.torch, by_head, 3, {sizes.nope_head_size, sizes.value_head_size});
  const Tensor shared = expand(p.torch, turned, {b, a, s, sizes.rope_head_size});
  heads.key = fill(p.torch, {parts[0], shared}, 3);
  heads.value = parts[1];
}

}  // namespace

Heads latent_heads(Program& p, const Parameters& of, const Tensor& x) {
  const LatentAttention& sizes = *p.shape().latent_attention;
  const std::int64_t b = p.sizes.b, s = p.sizes.s;
  Heads heads;
  const Tensor query = queries(p, of, x);
  const Tensors query_parts = split(p.torch, query, 3, {sizes.nope_head_size, sizes.rope_head_size});
  const Tensor compressed = linear_layer(p, of, of.get("kv_a_proj_with_mqa.weight"), x);
  const Tensors parts = split(p.torch, compressed, 2, {sizes.key_value_rank, sizes.rope_head_size});
  const Tensor normed = normalise(p, of, "kv_a_layernorm", parts[0]);
  const Tensor latent = view(p.torch, normed, {b, 1, s, sizes.key_value_rank});
  Tensor turned_query = query_parts[1];
  Tensor turned_key = view(p.torch, parts[1], {b, 1, s, sizes.rope_head_size});
  if (p.operators().rotary == Rotary::deepseek_v2)
    turn_as_complex(p, turned_query, turned_key);
  else
    turn_neighbours(p, turned_query, turned_key);
  heads.query = cat(p.torch, {query_parts[0], turned_query}, 3);
  expand(p, of, latent, turned_key, heads);
  heads.locals = {query, turned_query, compressed, turned_key, latent};
  return heads;
}

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

/// Returns the name of the norm of queries or keys; empty where there is none.
std::string norm_of(const Program& p, const Parameters& of, char letter) {
  if (letter == 'v') return {};
  const std::string norm(letter == 'q' ? p.names().query_norm : p.names().key_norm);
  return of.has_module(norm) || of.has_module(norm + ".norms.0") ? norm : std::string();
}

/// True if the norm takes all heads' features at once.
bool spans_heads(const Program& p, const Parameters& of, const std::string& norm) {
  const Parameter* weight = of.find(norm + ".weight");
  if (weight == nullptr || weight->about->shape.size() != 1) return false;
  return weight->about->shape[0] != p.sizes.d || p.operators().norms_span_heads;
}

/// Records one projection, normalised where the norm spans heads.
Tensor rows(Program& p, const Parameters& of, char letter, const Tensor& x) {
  Tensor result = linear_layer(p, of, projection(of, letter), x);
  const std::string norm = norm_of(p, of, letter);
  if (spans_heads(p, of, norm)) return normalise(p, of, norm, result);
  return letter == 'q' && p.operators().scales_queries ? scale(p.torch, result) : result;
}

/// Records a norm module for each head, as StableLM does.
Tensor normed_one_by_one(Program& p, const Parameters& of, const std::string& norm, const Tensor& x) {
  const std::int64_t heads = x.size(1);
  Tensors parts = split(p.torch, x, 1, std::vector<std::int64_t>(static_cast<std::size_t>(heads), 1));
  Tensors normed;
  for (std::size_t i = 0; i < parts.size(); ++i)
    normed.push_back(normalise(p, of, norm + ".norms." + std::to_string(i), parts[i]));
  return cat(p.torch, normed, 1);
}

/// Records the norm of each head, where there is one.
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

/// Records one projection, its division into heads, and its norm where that runs between view and transpose.
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

}  // namespace

// GPT-2, MPT, Qwen 1.
Heads split_whole(Program& p, const Tensor& both) {
  const std::int64_t d = p.sizes.d;
  const Tensors parts = split(p.torch, both, 2, {p.sizes.a * d, p.sizes.k * d, p.sizes.k * d});
  return {heads_first(p, parts[0], p.sizes.a), heads_first(p, parts[1], p.sizes.k),
          heads_first(p, parts[2], p.sizes.k)};
}

namespace {

/// Phi-3, Baichuan: three slices for queries, keys and values.
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

// Rotary tables, which the model makes once, and the rotation of queries and keys.

#include <functional>
#include <utility>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

std::int64_t rotary_features(const Program& p) {
  const ModelShape& shape = p.shape();
  if (shape.latent_attention) return shape.latent_attention->rope_head_size;
  return static_cast<std::int64_t>(static_cast<double>(p.sizes.d) * p.operators().rotary_share);
}

Tensor rotate_neighbours(Program& p, const Tensor& x) {
  const Tensor first = strided(p.torch, x, 2);
  const Tensor second = strided(p.torch, x, 2);
  const Tensor negative = neg(p.torch, second);
  return interleave(p.torch, negative, first);
}

Tensor turned_pairs(Program& p, const Pairs& x, const Tensor& cosines, const Tensor& sines) {
  Autograd& torch = p.torch;
  Tensor real, imaginary;
  {
    const Tensor a = mul(torch, x.first, cosines), b = mul(torch, x.second, sines);
    real = sub(torch, a, b);
  }
  {
    const Tensor a = mul(torch, x.second, cosines), b = mul(torch, x.first, sines);
    imaginary = add(torch, a, b);
  }
  return cat(torch, {real, imaginary}, 3);
}

namespace {

/// Records (−second half, first half).
Tensor rotate_half(Program& p, const Tensor& x) {
  const std::int64_t half = x.layout.sizes.back() / 2;
  const std::size_t last = x.layout.rank() - 1;
  const Tensor first = slice(p.torch, x, last, half);
  const Tensor second = slice(p.torch, x, last, half);
  const Tensor negative = neg(p.torch, second);
  return cat(p.torch, {negative, first}, last);
}

/// x·cos + across(x)·sin, with `across` either of the two above.
template <class Across>
Tensor turned(Program& p, const Tensor& x, const Tensor& cosines, const Tensor& sines, Across across) {
  const Tensor straight = mul(p.torch, x, cosines);
  Tensor crossed;
  {
    const Tensor moved = across(p, x);
    crossed = mul(p.torch, moved, sines);
  }
  return add(p.torch, straight, crossed);
}

Tensor turned(Program& p, const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  return turned(p, x, cosines, sines, rotate_half);
}

}  // namespace

Tensor turned_halves(Program& p, const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  return turned(p, x, cosines, sines);
}

namespace {

struct Tables {
  Tensor cosines, sines;
};

/// Returns the tables with a dimension for heads.
Tables tables(Program& p) {
  return {unsqueeze(p.torch, p.given.cosines, 1), unsqueeze(p.torch, p.given.sines, 1)};
}

/// Parts holds the features that are rotated, and the rest.
struct Parts {
  Tensor turning, rest;
};

Parts parts(Program& p, const Tensor& x) {
  const std::int64_t width = rotary_features(p);
  return {slice(p.torch, x, 3, width), slice(p.torch, x, 3, x.size(3) - width)};
}

void rotate_llama(Program& p, Heads& heads) {
  const auto [cosines, sines] = tables(p);
  Tensor query = turned(p, heads.query, cosines, sines);
  Tensor key = turned(p, heads.key, cosines, sines);
  heads.query = std::move(query), heads.key = std::move(key);
}

void rotate_neox(Program& p, Heads& heads) {
  const auto [cosines, sines] = tables(p);
  const Parts queries = parts(p, heads.query), keys = parts(p, heads.key);
  Tensor query = turned(p, queries.turning, cosines, sines);
  Tensor key = turned(p, keys.turning, cosines, sines);
  query = cat(p.torch, {query, queries.rest}, 3);
  key = cat(p.torch, {key, keys.rest}, 3);
  heads.query = std::move(query), heads.key = std::move(key);
}

void rotate_nemotron(Program& p, Heads& heads) {
  const auto [cosines, sines] = tables(p);
  const Parts queries = parts(p, heads.query), keys = parts(p, heads.key);
  const Tensor query = turned(p, queries.turning, cosines, sines);
  const Tensor key = turned(p, keys.turning, cosines, sines);
  const Tensor whole_query = cat(p.torch, {query, queries.rest}, 3);
  const Tensor whole_key = cat(p.torch, {key, keys.rest}, 3);
  heads.query = whole_query, heads.key = whole_key;
}

Tensor turned_and_joined(Program& p, const Parts& of, const Tables& by) {
  const Tensor part = turned(p, of.turning, by.cosines, by.sines);
  return cat(p.torch, {part, of.rest}, 3);
}

void rotate_phi3(Program& p, Heads& heads) {
  const Tables by = tables(p);
  const Parts queries = parts(p, heads.query), keys = parts(p, heads.key);
  Tensor query = turned_and_joined(p, queries, by);
  Tensor key = turned_and_joined(p, keys, by);
  heads.query = std::move(query), heads.key = std::move(key);
}

/// Rotates as Phi and StableLM, which keep both parts in variables.
void rotate_phi(Program& p, Heads& heads) {
  const Parts queries = parts(p, heads.query), keys = parts(p, heads.key);
  Heads part{queries.turning, keys.turning, {}};
  rotate_llama(p, part);
  heads.locals = {queries.rest, keys.rest, part.query, part.key};
  heads.query = cat(p.torch, {part.query, queries.rest}, 3);
  heads.key = cat(p.torch, {part.key, keys.rest}, 3);
}

/// Rotates with fp32 tables and casts the fp32 results back, as OLMo.
void rotate_olmo(Program& p, Heads& heads) {
  const DType type = heads.query.type;
  Heads wide = heads;
  rotate_llama(p, wide);
  Tensor query = to(p.torch, wide.query, type);
  Tensor key = to(p.torch, wide.key, type);
  heads.query = std::move(query), heads.key = std::move(key);
}

/// Rotates two halves with tables of half their width, as gpt-oss.
void rotate_gpt_oss(Program& p, Heads& heads) {
  const Tables by = tables(p);
  const auto turn = [&](const Tensor& x) {
    const std::int64_t half = x.size(3) / 2;
    const Tensors halves = split(p.torch, x, 3, {half, half});
    return turned_pairs(p, {halves[0], halves[1]}, by.cosines, by.sines);
  };
  Tensor query = turn(heads.query);
  Tensor key = turn(heads.key);
  heads.query = std::move(query), heads.key = std::move(key);
}

/// Returns tables that hold each entry of the first half twice, for neighbours.
Tables tables_of_neighbours(Program& p) {
  const auto repeated = [&p](const Tensor& table) {
    p.torch.issue(3);  // views
    return p.torch.operate({&table}, table.layout, table.type);
  };
  const Tables by = tables(p);
  Tensor cosines = repeated(by.cosines);
  return {std::move(cosines), repeated(by.sines)};
}

void rotate_glm(Program& p, Heads& heads) {
  const auto [cosines, sines] = tables_of_neighbours(p);
  const Parts queries = parts(p, heads.query), keys = parts(p, heads.key);
  Tensor query = turned(p, queries.turning, cosines, sines, rotate_neighbours);
  Tensor key = turned(p, keys.turning, cosines, sines, rotate_neighbours);
  query = cat(p.torch, {query, queries.rest}, 3);
  key = cat(p.torch, {key, keys.rest}, 3);
  heads.query = std::move(query), heads.key = std::move(key);
}

/// Rotates in fp32, as ERNIE.
Tensor turned_in_fp32(Program& p, const Tensor& x, const Tables& by) {
  Tensor straight;
  {
    const Tensor wide = to(p.torch, x, DType::fp32);
    straight = mul(p.torch, wide, by.cosines);
  }
  Tensor crossed;
  {
    Tensor moved = rotate_neighbours(p, x);
    moved = to(p.torch, moved, DType::fp32);
    crossed = mul(p.torch, moved, by.sines);
  }
  return add(p.torch, straight, crossed);
}

void rotate_ernie(Program& p, Heads& heads) {
  const DType type = heads.query.type;
  const Tables by = tables_of_neighbours(p);
  const Tensor wide_query = turned_in_fp32(p, heads.query, by);
  const Tensor wide_key = turned_in_fp32(p, heads.key, by);
  Tensor query = to(p.torch, wide_query, type);
  Tensor key = to(p.torch, wide_key, type);
  heads.query = std::move(query), heads.key = std::move(key);
}

/// Rotates widened queries and keys, as Cohere.
void rotate_cohere(Program& p, Heads& heads) {
  const DType type = heads.query.type;
  const Tensor wide_query = to(p.torch, heads.query, DType::fp32);
  const Tensor wide_key = to(p.torch, heads.key, DType::fp32);
  const auto [cosines, sines] = tables(p);
  const Tensor turned_query = turned(p, wide_query, cosines, sines, rotate_neighbours);
  const Tensor turned_key = turned(p, wide_key, cosines, sines, rotate_neighbours);
  Tensor query = to(p.torch, turned_query, type);
  Tensor key = to(p.torch, turned_key, type);
  heads.query = std::move(query), heads.key = std::move(key);
}

}  // namespace

namespace {

/// Records one table of complex numbers, kept in place of the cosines.
void complex_table(Program& p) {
  const std::int64_t s = p.sizes.s, half = rotary_features(p) / 2;
  const auto table = [&](std::int64_t width) {
    return p.torch.operate({}, Layout::contiguous({1, s, width}), DType::fp32);
  };
  Tensor frequencies;
  {
    const Tensor floats = to(p.torch, p.given.positions, DType::fp32);
    frequencies = table(half);
  }
  Tensor polar;
  {
    const Tensor ones = table(half);
    polar = table(2 * half);
  }
  p.given.cosines = unsqueeze(p.torch, table(2 * half), 1);
}

}  // namespace

namespace {

/// Records angles of time, rows and columns; each pair of features uses one of them.
void tables_of_three_axes(Program& p) {
  Autograd& torch = p.torch;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, d = rotary_features(p);
  const auto table = [&](const Dimensions& sizes) {
    return torch.operate({}, Layout::contiguous(sizes), DType::fp32);
  };
  const Dimensions all{3, b, s, d / 2};
  Tensor sines, cosines, angles;
  {
    const Tensor floats = table({3, b, s, 1});
    angles = table(all);
  }
  for (Tensor* each : {&cosines, &sines}) {
    const Tensor unscaled = table(all);
    *each = table(all);
  }
  for (Tensor* each : {&sines, &cosines}) {
    torch.issue(4);  // two slices copied in place
    *each = table({b, s, d});
  }
  p.given.cosines = to(torch, cosines, p.weights);
  p.given.sines = to(torch, sines, p.weights);
}

void cosines_and_sines(Program& p) {
  if (p.operators().three_axes) return tables_of_three_axes(p);
  const Rotary rotary = p.operators().rotary;
  Autograd& torch = p.torch;
  const std::int64_t s = p.sizes.s, d = rotary_features(p);
  Tensor frequencies;
  {
    const Tensor floats = to(torch, p.given.positions, DType::fp32);
    frequencies = torch.operate({&floats}, Layout::contiguous({1, s, d / 2}), DType::fp32);
    torch.issue(1);
  }
  const bool halved = rotary == Rotary::gpt_oss;
  const auto table = [&](const Tensor& of) {
    return torch.operate({&of}, Layout::contiguous({1, s, halved ? d / 2 : d}), DType::fp32);
  };
  Tensor cosines, sines;
  const Tensor angles = halved ? frequencies : table(frequencies);
  {
    const Tensor unscaled = table(angles);
    cosines = table(unscaled);
  }
  {
    const Tensor unscaled = table(angles);
    sines = table(unscaled);
  }
  const bool wide = rotary == Rotary::olmo || rotary == Rotary::ernie;
  p.given.cosines = wide ? cosines : to(torch, cosines, p.weights);
  p.given.sines = wide ? sines : to(torch, sines, p.weights);
  frequencies.reset();
}

}  // namespace

void rotary_tables(Program& p) {
  const Rotary rotary = p.operators().rotary;
  if (rotary == Rotary::none || rotary == Rotary::gptj) return;
  (void)hooked(p, {.name = "rotary", .by_keyword = true}, {}, [&](const Tensor&) {
    rotary == Rotary::deepseek_v2 ? complex_table(p) : cosines_and_sines(p);
    return Tensor{};
  });
}

void rotate_in_one_kernel(Program& p, Heads& heads, std::function<Tensors(Tensors&)> backward) {
  if (p.operators().rotary == Rotary::none) return;
  Autograd& torch = p.torch;
  const auto node = torch.node({&heads.query, &heads.key});
  Tensor query = torch.operate({&heads.query}, heads.query.layout, heads.query.type);
  Tensor key = torch.operate({&heads.key}, heads.key.layout, heads.key.type);
  if (node) {
    node->backward = std::move(backward);
    Autograd::connect(query, node, 0), Autograd::connect(key, node, 1);
  }
  heads.query = std::move(query), heads.key = std::move(key);
}

void rotate_as_transformers(Program& p, Heads& heads) {
  switch (p.operators().rotary) {
    case Rotary::none: return;
    case Rotary::neox: return rotate_neox(p, heads);
    case Rotary::nemotron: return rotate_nemotron(p, heads);
    case Rotary::phi3: return rotate_phi3(p, heads);
    case Rotary::phi: return rotate_phi(p, heads);
    case Rotary::olmo: return rotate_olmo(p, heads);
    case Rotary::glm: return rotate_glm(p, heads);
    case Rotary::gpt_oss: return rotate_gpt_oss(p, heads);
    case Rotary::ernie: return rotate_ernie(p, heads);
    case Rotary::cohere: return rotate_cohere(p, heads);
    default: return rotate_llama(p, heads);
  }
}

void rotate(Program& p, Heads& heads) {
  if (!p.rotates) return;
  // A fused kernel turns queries and keys where they are, and their gradients.
  const Bytes moved = (heads.query.bytes() + heads.key.bytes()) * 2;
  const bool fused = fuses_kernels(p) && p.operators().rotary != Rotary::none;
  const auto own = kernels_of(p).rotation;
  p.torch.fused(fused, moved, moved,
                [&] { own != nullptr ? own(p, heads) : rotate_as_transformers(p, heads); });
}

}  // namespace zplan::symbolic

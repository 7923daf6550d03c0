// Prediction of several tokens in Megatron-Core (MTP): layers behind the decoder, each of which joins the
// hidden states of the layer before with the embedding of the next token, and a loss of the head's for each.
// Source: Megatron-Core 0.19.2 core/transformer/multi_token_prediction.py, core/models/gpt/gpt_model.py;
// compared with recorded steps (docs/megatron.md).

#include <string>
#include <utility>

#include "planner/model_trace/megatron_layers.h"

namespace zplan::symbolic {

namespace {

using namespace megatron;

/// The parameters of prediction layer `depth`.
Parameters of_depth(const Parameters& of, std::int64_t depth) {
  const std::string path = "mtp.layers." + std::to_string(depth) + ".";
  Parameters own;
  for (const Parameter& each : of.all())
    if (each.about->name.starts_with(path)) own.add(each);
  return own;
}

/// torch.roll of token numbers, and its end set to zero.
Tensor rolled(Autograd& torch, const Tensor& x) { return torch.operate({&x}, x.layout, x.type); }

/// gather_from_tensor_model_parallel_region: all ranks' features of all tokens; the backward takes its own.
Tensor gathered_features(Program& p, const Tensor& x) {
  if (!divides_tensors(p)) return x;
  Autograd& torch = p.torch;
  const auto node = torch.node({&x});
  const Dimensions own = x.layout.sizes;
  const Dimensions whole = with_last(own, own.back() * p.strategy.layout.tensor);
  Tensor all;
  {
    const Tensor by_rank = fresh(torch, whole, x.type);
    torch.drop_kernel();
    torch.recorder().communicate(TensorCall::gathered_features, by_rank.bytes());
    all = fresh(torch, whole, x.type);
  }
  if (!node) return all;
  node->backward = [&torch, own](Tensors& gradients) {
    return Tensors{fresh(torch, own, gradients[0].type)};
  };
  return Autograd::connected(all, node);
}

/// scatter_to_sequence_parallel_region: this rank's tokens, a view; the backward gathers those of all.
Tensor own_part(Program& p, const Tensor& x) {
  if (!divides_tokens(p)) return x;
  const auto node = p.torch.node({&x});
  Tensor own = alias(x.detached(), Layout::contiguous(hidden_sizes(p)));
  if (!node) return own;
  node->backward = [&p](Tensors& gradients) {
    return Tensors{gather(p, gradients[0], TensorCall::gathered_tokens)};
  };
  return Autograd::connected(own, node);
}

/// MultiTokenPredictionLayer.
Tensor prediction_layer(Program& p, const Parameters& around, const Parameters& of, const Tensor& ids,
                        const Tensor& hidden) {
  Autograd& torch = p.torch;
  Tensor joined;
  {
    const Tensor next = norm(p, of, "enorm.", embedded(p, around, ids));
    const Tensor before = norm(p, of, "hnorm.", hidden);
    joined = cat(torch, {next, before}, 2);
  }
  Tensor projected = column_linear(p, of, "eh_proj", joined);
  joined.reset();
  projected = gathered_features(p, projected);
  projected = own_part(p, projected);
  const Tensor output = transformer_layer(p, of, projected);
  return norm(p, of, "final_layernorm.", output);
}

/// Counts how many predictions were right, for the log.
void count_right(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const Dimensions tokens{p.sizes.b, p.sizes.s};
  const Tensor numbers_of = numbers(torch, tokens, DType::int64);
  if (!divides_tensors(p)) return;
  const Tensor largest = numbers(torch, tokens, logits.type);
  torch.recorder().communicate(TensorCall::gathered_maxima, largest.bytes() * p.strategy.layout.tensor);
  torch.recorder().communicate(TensorCall::gathered_predictions,
                               numbers_of.bytes() * p.strategy.layout.tensor);
}

/// MTPLossAutoScaler: the loss gets a gradient of its own when that of the hidden states passes.
Tensor with_prediction_loss(Autograd& torch, const Tensor& hidden, const Tensor& losses) {
  const auto node = torch.node({&hidden, &losses});
  if (!node) return hidden;
  node->backward = [&torch, sizes = losses.layout.sizes](Tensors& gradients) {
    return Tensors{gradients[0], fresh(torch, sizes, DType::fp32)};
  };
  return Autograd::connected(hidden.detached(), node);
}

}  // namespace

Tensor megatron::with_predictions(Program& p, const Parameters& of, const Parameter& head_weight,
                                  const Tensor& hidden) {
  Autograd& torch = p.torch;
  const std::int64_t depths = options(p).predictions;
  const Dimensions tokens{p.sizes.b, p.sizes.s};
  Tensors parts;
  {
    Tensors outputs{hidden};
    Tensor ids = of_batch(tokens, DType::int64);
    for (std::int64_t depth = 0; depth < depths; ++depth) {
      ids = rolled(torch, ids);
      outputs.push_back(prediction_layer(p, of, of_depth(of, depth), ids, outputs.back()));
    }
    const Tensor joined = cat(torch, outputs, 1);
    outputs.clear();
    parts = split(torch, joined, 1,
                  std::vector<std::int64_t>(static_cast<std::size_t>(depths) + 1, hidden.size(1)));
  }
  Tensor result = parts[0];
  Tensor labels = numbers(torch, tokens, DType::int64), mask = of_batch(tokens, DType::fp32), logits;
  for (std::int64_t depth = 0; depth < depths; ++depth) {
    torch.recorder().take_for(Term::logits);
    logits = head(p, head_weight, parts[static_cast<std::size_t>(depth) + 1]);
    labels = rolled(torch, labels), mask = rolled(torch, mask);
    torch.recorder().take_for(Term::loss_temporaries);
    const Tensor losses = mul(torch, token_losses(p, logits), mask);
    count_right(p, logits);
    result = with_prediction_loss(torch, result, scale(torch, losses));
  }
  return result;
}

}  // namespace zplan::symbolic

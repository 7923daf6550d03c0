#include "planner/check/readers/split_projections.h"

#include <utility>

namespace zplan::check {

namespace {

struct Slice {
  std::string module;
  std::int64_t rows{};
};

std::vector<Slice> attention_slices(const ModelShape& shape) {
  const std::int64_t keys = shape.key_value_heads * shape.head_size;
  return {{"q_proj", shape.attention_heads * shape.head_size}, {"k_proj", keys}, {"v_proj", keys}};
}

std::vector<Slice> gate_slices(const ModelShape& shape) {
  return {{"gate_proj", shape.intermediate_size}, {"up_proj", shape.intermediate_size}};
}

/// A slice of the rows, under its own name.
Tensor part_of(const Tensor& whole, const Slice& slice) {
  Tensor part = whole;
  const std::size_t at = whole.name.rfind(whole.module + ".");
  part.name.replace(at, whole.module.size(), slice.module);
  part.module = slice.module;
  part.shape.front() = slice.rows;
  if (part.linear) part.linear->out_features = slice.rows;
  return part;
}

/// The weight, or the bias, of the projection that `slices` are of.
bool is_whole(const Tensor& tensor, TensorRole role, const std::vector<Slice>& slices) {
  std::int64_t rows = 0;
  for (const Slice& each : slices) rows += each.rows;
  return tensor.role == role && !tensor.shape.empty() && tensor.shape.front() == rows;
}

void split(std::vector<Tensor>& tensors, TensorRole role, const std::vector<Slice>& slices) {
  std::vector<Tensor> parts;
  for (Tensor& each : tensors) {
    if (!is_whole(each, role, slices)) {
      parts.push_back(std::move(each));
      continue;
    }
    for (const Slice& slice : slices) parts.push_back(part_of(each, slice));
  }
  tensors = std::move(parts);
}

/// What its own code does around attention and feed-forward.
Operators plain_operators(const Operators& own) {
  Operators plain;
  plain.norm = own.norm, plain.activation = own.activation;
  plain.scales_embedding = own.scales_embedding;
  plain.rotary = own.rotary_share < 1 ? Rotary::phi3 : Rotary::llama;
  plain.rotary_share = own.rotary_share;
  return plain;
}

}  // namespace

Model with_split_projections(Model model) {
  ModelShape& shape = model.shape;
  if (!shape.fused_query_key_value) return model;
  for (LayerKind& kind : model.inventory.kinds) {
    split(kind.tensors, TensorRole::attention, attention_slices(shape));
    if (shape.fused_gate_up) split(kind.tensors, TensorRole::mlp, gate_slices(shape));
  }
  shape.fused_query_key_value = shape.fused_gate_up = false;
  shape.operators = plain_operators(shape.operators);
  return model;
}

}  // namespace zplan::check

// GPT-2 and those that kept its names, and OPT. Source: transformers 5.23 configuration_<family>.py,
// modeling_<family>.py.
#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"

namespace zplan::architectures {

namespace {

/// n_embd and its kin; Hugging Face takes the usual names too (attribute_map).
SizeRules gpt_rules(bool tied) {
  return {.layers = {"n_layer", "num_hidden_layers"},
          .hidden_size = {"n_embd", "hidden_size"},
          .attention_heads = {"n_head", "num_attention_heads"},
          .key_value_heads = {},
          .head_size = {},
          .positions = {"n_positions", "max_position_embeddings"},
          .intermediate = {"n_inner"},
          .default_intermediate = 4,
          .default_tied = tied};
}

/// transformers' Conv1D keeps its weight as [in, out].
Tensors as_conv1d(Tensors tensors) {
  for (Tensor& tensor : tensors)
    if (tensor.linear) std::swap(tensor.shape[0], tensor.shape[1]);
  return tensors;
}

Tensors learned_positions(const ModelShape& shape, const std::string& path, std::int64_t rows) {
  return {plain(path + ".weight", {rows, shape.hidden_size}, TensorRole::position_embedding)};
}

/// wte and wpe; both sizes are needed where positions are learned.
Tensors gpt_embeddings(const JsonReader& config, const ModelShape& shape) {
  const std::int64_t rows = size_or(config, {"n_positions", "max_position_embeddings"}, 1024, kMostPositions);
  return join({token_embedding(shape, "transformer.wte"), learned_positions(shape, "transformer.wpe", rows)});
}

Tensors gpt_block(const ModelShape& shape) {
  const TwoLayers layers{
      .up = "mlp.c_fc", .down = "mlp.c_proj", .width = shape.intermediate_size, .bias = true};
  const Biases biases{.input = true, .output = true};
  return join({fused_attention(shape, biases, "attn.c_attn", "attn.c_proj"),
               norm("ln_2", shape.hidden_size, true), mlp(shape, layers)});
}

Model gpt_model(const JsonReader& config, const ModelShape& shape, const Tensors& block) {
  return assemble(shape, {.prefix = "transformer.h.{}.",
                          .before = gpt_embeddings(config, shape),
                          .kinds = {{"decoder", join({norm("ln_1", shape.hidden_size, true), block})}},
                          .layers = all_alike(shape),
                          .after = join({norm("transformer.ln_f", shape.hidden_size, true), head(shape)})});
}

struct OptRules {
  bool bias{}, norms{};
  std::int64_t embedding_width{};
};

OptRules opt_rules(const JsonReader& config, const ModelShape& shape) {
  return {.bias = config.boolean_or("enable_bias", true),
          .norms = config.boolean_or("layer_norm_elementwise_affine", true),
          .embedding_width = size_or(config, {"word_embed_proj_dim"}, shape.hidden_size, kWidest)};
}

Tensors opt_norm(const ModelShape& shape, const OptRules& rules, const std::string& path) {
  return rules.norms ? norm(path, shape.hidden_size, true) : Tensors{};
}

/// AutoTP takes OPT's feed-forward for attention, because "mlp" is not in its name, and deals it out by
/// heads. Source: DeepSpeed 0.19.8 module_inject/tp_shard.py get_shard_size.
Tensors opt_mlp(const ModelShape& shape, const OptRules& rules) {
  Tensors tensors =
      mlp(shape, {.up = "fc1", .down = "fc2", .width = shape.intermediate_size, .bias = rules.bias});
  for (Tensor& tensor : tensors)
    if (tensor.split != TensorParallelSplit::replicated)
      tensor.split_units = attention_units(shape, shape.intermediate_size);
  return tensors;
}

Tensors opt_layer(const ModelShape& shape, const OptRules& rules) {
  const AttentionNames names{.inputs = {"k_proj", "v_proj", "q_proj"}};
  return join({attention(shape, {.input = rules.bias, .output = rules.bias}, names),
               opt_norm(shape, rules, "self_attn_layer_norm"), opt_mlp(shape, rules),
               opt_norm(shape, rules, "final_layer_norm")});
}

/// Returns the linear layers that widen an embedding narrower than the model, and narrow the head's input.
Tensors opt_projections(const ModelShape& shape, const OptRules& rules) {
  if (rules.embedding_width == shape.hidden_size) return {};
  return join(
      {linear({.path = "model.decoder.project_out", .in = shape.hidden_size, .out = rules.embedding_width}),
       linear({.path = "model.decoder.project_in", .in = rules.embedding_width, .out = shape.hidden_size})});
}

Tensors opt_before(const JsonReader& config, const ModelShape& shape, const OptRules& rules) {
  ModelShape narrow = shape;
  narrow.hidden_size = rules.embedding_width;
  // OPT keeps two rows in front of its positions.
  const std::int64_t rows = size_or(config, {"max_position_embeddings"}, 2048, kMostPositions) + 2;
  const bool final_norm = config.boolean_or("do_layer_norm_before", true) &&
                          !config.boolean_or("_remove_final_layer_norm", false);
  return join({token_embedding(narrow, "model.decoder.embed_tokens"),
               learned_positions(shape, "model.decoder.embed_positions", rows), opt_projections(shape, rules),
               final_norm ? opt_norm(shape, rules, "model.decoder.final_layer_norm") : Tensors{}});
}

Model gpt2(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  return gpt_model(config, shape, as_conv1d(gpt_block(shape)));
}

Model gpt_bigcode(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  if (config.boolean_or("multi_query", true)) shape.key_value_heads = 1;
  Model model = gpt_model(config, shape, gpt_block(shape));
  model.inventory.buffers = Bytes(shape.max_positions) * shape.max_positions;  // which positions see which
  return model;
}

Model gptj(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  const AttentionNames names{.path = "attn", .inputs = {"k_proj", "v_proj", "q_proj"}};
  const TwoLayers layers{
      .up = "mlp.fc_in", .down = "mlp.fc_out", .width = shape.intermediate_size, .bias = true};
  Model model = gpt_model(config, shape, join({attention(shape, {}, names), mlp(shape, layers)}));
  model.inventory.before = token_embedding(shape, "transformer.wte");  // its positions are rotary
  model.inventory.after =
      join({norm("transformer.ln_f", shape.hidden_size, true), head(shape, "lm_head", true)});
  return model;
}

Model opt(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  const OptRules rules = opt_rules(config, shape);
  ModelShape narrow = shape;
  narrow.hidden_size = rules.embedding_width;
  return assemble(shape, {.prefix = "model.decoder.layers.{}.",
                          .before = opt_before(config, shape, rules),
                          .kinds = {{"decoder", opt_layer(shape, rules)}},
                          .layers = all_alike(shape),
                          .after = head(narrow)});
}

}  // namespace

Descriptors gpt() {
  return {
      {.model_type = "gpt2",
       .causal_lm_class = "GPT2LMHeadModel",
       .read = gpt2,
       .sizes = gpt_rules(true),
       .feed_forward = FeedForward::plain,
       .fused_query_key_value = true,
       .dropout = {"resid_pdrop", 0.1},
       .embedding_dropout = DropoutRule{"embd_pdrop", 0.1},
       .attention_dropout = DropoutRule{"attn_pdrop", 0.1},
       .modules = {.norm_before_attention = "ln_1",
                   .norm_before_feed_forward = "ln_2",
                   .final_norm = "ln_f",
                   .attention_output = "c_proj"},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::sum,
                     .linear = LinearForm::conv1d,
                     .activation = Activation::gelu_by_parts,
                     .softmax = Softmax::as_scores,
                     .attention_dropout = true,
                     .rotary = Rotary::none,
                     .names_branches = true,
                     .embedding_dropout = true,
                     .drops_inside = true,
                     .measured = true},
       .libraries = {.autotp_refuses = true}},
      {.model_type = "gpt_bigcode",
       .causal_lm_class = "GPTBigCodeForCausalLM",
       .read = gpt_bigcode,
       .sizes = gpt_rules(true),
       .feed_forward = FeedForward::plain,
       .fused_query_key_value = true,
       .dropout = {"resid_pdrop", 0.1},
       .embedding_dropout = DropoutRule{"embd_pdrop", 0.1},
       .attention_dropout = DropoutRule{"attn_pdrop", 0.1},
       .modules = {.norm_before_attention = "ln_1",
                   .norm_before_feed_forward = "ln_2",
                   .final_norm = "ln_f",
                   .attention_output = "c_proj"},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::sum,
                     .activation = Activation::gelu,
                     .joint_heads = JointHeads::each_head_or_split,
                     .attention_dropout = true,
                     .rotary = Rotary::none,
                     .positions = LearnedPositions::behind_masks,
                     .names_branches = true,
                     .embedding_dropout = true,
                     .drops_inside = true,
                     .measured = true}},
      {.model_type = "gptj",
       .causal_lm_class = "GPTJForCausalLM",
       .read = gptj,
       .sizes = gpt_rules(false),
       .feed_forward = FeedForward::plain,
       .parallel = {.otherwise = true},
       .dropout = {"resid_pdrop"},
       .embedding_dropout = DropoutRule{"embd_pdrop"},
       .attention_dropout = DropoutRule{"attn_pdrop"},
       .rotary = {.features = "rotary_dim"},
       .modules = {.norm_before_attention = "ln_1",
                   .norm_before_feed_forward = {},
                   .final_norm = "ln_f",
                   .attention_output = "out_proj"},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::layer,
                     .activation = Activation::gelu_by_parts,
                     .attention = AttentionForm::gptj,
                     .kernels = AttentionKernels::no_sdpa,
                     .softmax = Softmax::as_scores,
                     .attention_dropout = true,
                     .wide_scores = true,
                     .rotary = Rotary::gptj,
                     .rotary_share = 0.25,
                     .names_branches = true,
                     .embedding_dropout = true,
                     .drops_inside = true,
                     .measured = true}},
      {.model_type = "opt",
       .causal_lm_class = "OPTForCausalLM",
       .read = opt,
       .sizes = {.key_value_heads = {}, .head_size = {}, .intermediate = {"ffn_dim"}, .default_tied = true},
       .feed_forward = FeedForward::plain,
       .dropout = {"dropout", 0.1},
       .modules = {.norm_before_attention = "self_attn_layer_norm",
                   .norm_before_feed_forward = "final_layer_norm",
                   .final_norm = "final_layer_norm",
                   .attention_output = "out_proj"},
       .left_whole = {TensorRole::token_embedding},
       .operators = {.norm = NormForm::layer,
                     .activation = Activation::relu,
                     .scales_queries = true,
                     .rotary = Rotary::none,
                     .positions = LearnedPositions::summed,
                     .layer = LayerForm::opt,
                     .measured = true}},
  };
}

}  // namespace zplan::architectures

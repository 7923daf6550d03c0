#include "planner/model_trace/style.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace zplan::symbolic {

namespace {

using Entry = std::pair<std::string_view, Style>;

/// Those that run as Llama does are left out. baichuan, chatglm, internlm2 and qwen: the modeling files
/// beside their weights.
const std::vector<Entry>& styles() {
  static const std::vector<Entry> table{
      {"arcee", {.activation = Activation::relu_squared}},
      {"bloom",
       {.activation = Activation::gelu_bloom, .rotary = Rotary::none, .norm_life = NormLife::next_norm}},
      {"chatglm", {.rotary = Rotary::chatglm, .rotary_share = 0.5}},
      {"cohere",
       {.rotary = Rotary::cohere,
        .views = HeadViews::transposes_last,
        .sum = ParallelSum::input_first,
        .norm_life = NormLife::layer,
        .names_branches = true,
        .scales_logits = true}},
      {"cohere2",
       {.rotary = Rotary::cohere,
        .views = HeadViews::transposes_last,
        .sum = ParallelSum::input_first,
        .norm_life = NormLife::layer,
        .names_branches = true,
        .scales_logits = true}},
      {"deepseek_v2", {.rotary = Rotary::deepseek_v2}},
      {"deepseek_v3", {.rotary = Rotary::deepseek_v3}},
      {"ernie4_5", {.rotary = Rotary::ernie}},
      {"exaone4", {.views = HeadViews::norms_last}},
      {"falcon",
       {.activation = Activation::gelu,
        .sum = ParallelSum::in_place,
        .norm_life = NormLife::layer,
        .names_branches = true}},
      {"gemma", {.activation = Activation::gelu}},
      {"gemma2", {.activation = Activation::gelu}},
      {"gemma3", {.activation = Activation::gelu, .views = HeadViews::norms_last}},
      {"gemma3_text", {.activation = Activation::gelu, .views = HeadViews::norms_last}},
      {"glm", {.rotary = Rotary::glm, .rotary_share = 0.5}},
      {"glm4", {.rotary = Rotary::glm, .rotary_share = 0.5}},
      {"glm4_moe", {.rotary = Rotary::neox, .rotary_share = 0.5, .views = HeadViews::transposes_last}},
      {"gpt2",
       {.activation = Activation::gelu_by_parts,
        .rotary = Rotary::none,
        .norm_life = NormLife::sum,
        .names_branches = true,
        .embedding_dropout = true,
        .drops_inside = true,
        .attention_dropout = true}},
      {"gpt_bigcode",
       {.activation = Activation::gelu,
        .rotary = Rotary::none,
        .norm_life = NormLife::sum,
        .names_branches = true,
        .embedding_dropout = true,
        .drops_inside = true,
        .attention_dropout = true}},
      {"gpt_neox",
       {.activation = Activation::gelu,
        .rotary = Rotary::neox,
        .rotary_share = 0.25,
        .names_branches = true}},
      {"gpt_oss", {.rotary = Rotary::gpt_oss}},
      {"gptj",
       {.activation = Activation::gelu_by_parts,
        .rotary = Rotary::gptj,
        .rotary_share = 0.25,
        .norm_life = NormLife::layer,
        .names_branches = true,
        .embedding_dropout = true,
        .drops_inside = true,
        .attention_dropout = true}},
      {"granite", {.scales_residual = true, .scales_logits = true}},
      {"minimax_m2", {.rotary = Rotary::neox, .rotary_share = 0.5, .views = HeadViews::all_last}},
      {"mpt",
       {.activation = Activation::gelu,
        .rotary = Rotary::none,
        .norm_life = NormLife::next_norm,
        .names_branches = true}},
      {"nemotron", {.activation = Activation::relu_squared, .rotary = Rotary::nemotron, .rotary_share = 0.5}},
      {"olmo", {.rotary = Rotary::olmo, .views = HeadViews::all_last}},
      {"olmo2", {.rotary = Rotary::olmo, .views = HeadViews::all_last}},
      {"olmo3", {.rotary = Rotary::olmo, .views = HeadViews::all_last}},
      {"olmoe", {.views = HeadViews::all_last}},
      {"opt", {.activation = Activation::relu, .rotary = Rotary::none}},
      {"phi",
       {.activation = Activation::gelu_by_parts,
        .rotary = Rotary::phi,
        .rotary_share = 0.5,
        .views = HeadViews::norms_last,
        .norm_life = NormLife::layer,
        .names_branches = true,
        .embedding_dropout = true}},
      {"phi3", {.rotary = Rotary::phi3}},
      {"seed_oss", {.drops_inside = true, .attention_dropout = true}},
      {"stablelm",
       {.rotary = Rotary::phi,
        .rotary_share = 0.25,
        .views = HeadViews::all_last,
        .sum = ParallelSum::input_first,
        .norm_life = NormLife::first_in_layer,
        .names_branches = true}},
      {"starcoder2",
       {.activation = Activation::gelu,
        .embedding_dropout = true,
        .drops_inside = true,
        .attention_dropout = true}},
  };
  return table;
}

}  // namespace

const Style& style_of(const ModelShape& shape) {
  static const Style llama;
  const auto found = std::find_if(styles().begin(), styles().end(),
                                  [&](const Entry& each) { return each.first == shape.architecture; });
  return found == styles().end() ? llama : found->second;
}

bool drops_attention(const ModelShape& shape) {
  return shape.dropout > 0 && style_of(shape).attention_dropout;
}

}  // namespace zplan::symbolic

"""Writes <family>.json: what transformers and peft list for small models of one family. See README.md.

    python generate.py [family …]

Models are built on the meta device, so nothing is allocated.
"""
import json
import pathlib
import sys

import peft
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
BASE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=160)
DENSE = dict(BASE, intermediate_size=96)
MANY_HEADS = dict(DENSE, num_attention_heads=32)
GROUPED = dict(DENSE, num_key_value_heads=2)
MLA = dict(kv_lora_rank=24, q_lora_rank=40, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12)
LATENT = dict(DENSE, **MLA, num_hidden_layers=3, moe_intermediate_size=20, n_routed_experts=8, n_shared_experts=2,
              num_experts_per_tok=2, first_k_dense_replace=1, n_group=2, topk_group=1)
NET = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12, linear_value_head_dim=20,
           linear_conv_kernel_dim=3, head_dim=24)
WIDE_HEAD = dict(GROUPED, head_dim=24)

# Families: a list of configs; the first of each leaves optional fields out, so that defaults are seen too.
FAMILIES = {
    "llama": [DENSE, WIDE_HEAD, dict(GROUPED, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)],
    "mistral": [MANY_HEADS, WIDE_HEAD, dict(GROUPED, head_dim=None, sliding_window=None)],
    "ministral3": [WIDE_HEAD, dict(WIDE_HEAD, tie_word_embeddings=True)],
    "mixtral": [MANY_HEADS, dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, head_dim=20)],
    "qwen2": [MANY_HEADS, dict(GROUPED, tie_word_embeddings=True)],
    "qwen2_moe": [dict(DENSE, num_attention_heads=16),
                  dict(GROUPED, num_hidden_layers=4, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
                       shared_expert_intermediate_size=28, decoder_sparse_step=2, mlp_only_layers=[3]),
                  dict(GROUPED, qkv_bias=False, num_experts=4)],
    "qwen3": [MANY_HEADS, WIDE_HEAD,
              dict(GROUPED, head_dim=16, tie_word_embeddings=True, attention_bias=True)],
    "qwen3_moe": [DENSE, dict(GROUPED, head_dim=24, num_hidden_layers=4, num_experts=6, num_experts_per_tok=2,
                                    moe_intermediate_size=20, decoder_sparse_step=2, mlp_only_layers=[1]),
                  dict(GROUPED, num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, mlp_only_layers=[1],
                       num_experts_per_tok=2, attention_bias=True)],
    "gemma": [dict(DENSE, num_attention_heads=16), dict(GROUPED, head_dim=24, tie_word_embeddings=False),
              dict(GROUPED, attention_bias=True)],
    "gemma2": [DENSE, dict(GROUPED, head_dim=24, attention_bias=True)],
    "gemma3_text": [DENSE, dict(GROUPED, head_dim=24, attention_bias=True, tie_word_embeddings=False)],
    "phi": [DENSE, dict(GROUPED, qk_layernorm=True, tie_word_embeddings=True)],
    "phi3": [dict(DENSE, pad_token_id=0), dict(GROUPED, pad_token_id=0, tie_word_embeddings=True)],
    "gpt2": [dict(n_embd=64, n_layer=2, n_head=4, vocab_size=160, n_positions=32),
             dict(n_embd=64, n_layer=2, n_head=4, vocab_size=160, n_positions=32, n_inner=96,
                  tie_word_embeddings=False)],
    "gpt_neox": [DENSE, dict(DENSE, attention_bias=False, tie_word_embeddings=True)],
    "opt": [dict(BASE, ffn_dim=96, max_position_embeddings=32),
            dict(BASE, ffn_dim=96, max_position_embeddings=32, word_embed_proj_dim=24, do_layer_norm_before=False),
            dict(BASE, ffn_dim=96, max_position_embeddings=32, enable_bias=False, layer_norm_elementwise_affine=False,
                 tie_word_embeddings=False),
            dict(BASE, ffn_dim=96, max_position_embeddings=32, _remove_final_layer_norm=True)],
    "falcon": [BASE, dict(BASE, new_decoder_architecture=True, num_kv_heads=2, bias=True, ffn_hidden_size=96),
               dict(BASE, multi_query=False, parallel_attn=False, alibi=True, bias=True, tie_word_embeddings=False),
               dict(BASE, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1)],
    "bloom": [dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=160)],
    "mpt": [dict(d_model=64, n_layers=2, n_heads=4, vocab_size=160, max_seq_len=32),
            dict(d_model=64, n_layers=2, n_heads=4, vocab_size=160, max_seq_len=32, expansion_ratio=3,
                 tie_word_embeddings=False)],
    "deepseek_v2": [LATENT, dict(LATENT, q_lora_rank=None, attention_bias=True, n_shared_experts=1),
                    dict(LATENT, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)],
    "deepseek_v3": [LATENT, dict(LATENT, q_lora_rank=None, attention_bias=True, n_shared_experts=1)],
    "glm": [dict(MANY_HEADS, pad_token_id=0),
            dict(GROUPED, head_dim=24, attention_bias=True, tie_word_embeddings=True, pad_token_id=0)],
    "glm4": [dict(MANY_HEADS, pad_token_id=0),
             dict(GROUPED, head_dim=24, attention_bias=True, pad_token_id=0)],
    "gpt_oss": [dict(DENSE, num_attention_heads=16), dict(GROUPED, head_dim=24, num_local_experts=4, num_experts_per_tok=2)],
    "olmo": [DENSE, dict(GROUPED, attention_bias=True, tie_word_embeddings=True)],
    "olmo2": [DENSE, dict(GROUPED, attention_bias=True, head_dim=16)],
    "olmo3": [DENSE, GROUPED],
    "olmoe": [DENSE, dict(GROUPED, num_experts=4, num_experts_per_tok=2, attention_bias=True)],
    "smollm3": [dict(DENSE, pad_token_id=0), dict(GROUPED, pad_token_id=0, tie_word_embeddings=False, attention_bias=True)],
    "stablelm": [MANY_HEADS, dict(GROUPED, use_qkv_bias=True, qk_layernorm=True),
                 dict(GROUPED, use_parallel_residual=True, tie_word_embeddings=True)],
    "starcoder2": [DENSE, dict(GROUPED, use_bias=False, tie_word_embeddings=False)],
    "cohere": [DENSE, dict(GROUPED, attention_bias=True, use_qk_norm=True)],
    "cohere2": [DENSE, dict(GROUPED, attention_bias=True, head_dim=24)],
    "granite": [DENSE, dict(GROUPED, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)],
    "qwen3_next": [dict(DENSE, num_hidden_layers=4), dict(GROUPED, **NET, num_hidden_layers=5, full_attention_interval=3, num_experts=6, num_experts_per_tok=2,
                               moe_intermediate_size=20, shared_expert_intermediate_size=28, mlp_only_layers=[1, 2]),
                   dict(GROUPED, num_experts=4, num_experts_per_tok=2, attention_bias=True, decoder_sparse_step=2,
                        layer_types=["full_attention", "linear_attention"], tie_word_embeddings=True)],
    "qwen3_5_text": [dict(DENSE, num_hidden_layers=4), dict(GROUPED, **NET, num_hidden_layers=4, tie_word_embeddings=True, attention_bias=True)],
    "qwen3_5_moe_text": [dict(BASE, num_hidden_layers=4), dict(BASE, **NET, num_key_value_heads=2, num_hidden_layers=4, num_experts=6,
                                    num_experts_per_tok=2, moe_intermediate_size=20,
                                    shared_expert_intermediate_size=28)],
    "glm4_moe": [dict(GROUPED, num_hidden_layers=3, moe_intermediate_size=20),
                 dict(GROUPED, num_hidden_layers=3, moe_intermediate_size=20, n_routed_experts=4, num_experts_per_tok=2, head_dim=24,
                      n_shared_experts=2, first_k_dense_replace=2, use_qk_norm=True, attention_bias=True)],
    "seed_oss": [MANY_HEADS, dict(GROUPED, head_dim=24, attention_bias=False, attention_out_bias=True, mlp_bias=True)],
    "ernie4_5": [DENSE, dict(GROUPED, head_dim=24, use_bias=True, tie_word_embeddings=False)],
    "exaone4": [MANY_HEADS, dict(GROUPED, head_dim=24)],
    "minimax_m2": [MANY_HEADS, dict(GROUPED, head_dim=24, num_local_experts=4, num_experts_per_tok=2)],
    "gpt_bigcode": [dict(n_embd=64, n_layer=2, n_head=4, vocab_size=160, n_positions=32),
                    dict(n_embd=64, n_layer=2, n_head=4, vocab_size=160, n_positions=32, multi_query=False,
                         n_inner=96)],
    "gptj": [dict(n_embd=64, n_layer=2, n_head=4, vocab_size=160, rotary_dim=8)],
    "nemotron": [GROUPED, dict(GROUPED, head_dim=24, attention_bias=True, mlp_bias=True)],
    "arcee": [DENSE, dict(GROUPED, mlp_bias=True, attention_bias=True)],
}

# Modules that "q_v" means, per family; where absent q_proj and v_proj.
QUERY_VALUE = {
    "gpt2": ["c_attn"], "gpt_bigcode": ["c_attn"], "gpt_neox": ["query_key_value"], "falcon": ["query_key_value"],
    "bloom": ["query_key_value"], "phi3": ["qkv_proj"], "mpt": ["Wqkv"],
}


def build(config):
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def tensors(model, trained=False):
    return [[name, list(tensor.shape)] for name, tensor in model.named_parameters() if tensor.requires_grad or not trained]


def query_value(family, given):
    if family in ("deepseek_v2", "deepseek_v3"):
        return ["q_proj" if given.get("q_lora_rank", 0) is None else "q_b_proj", "kv_b_proj"]
    return QUERY_VALUE.get(family, ["q_proj", "v_proj"])


def adapters(config, targets):
    lora = peft.LoraConfig(r=4, target_modules=targets, task_type="CAUSAL_LM")
    with torch.device("meta"):
        return tensors(peft.get_peft_model(build(config), lora), trained=True)


def record(family, given):
    config = AutoConfig.for_model(family, **given)
    return {"config": dict(given, model_type=family), "parameters": tensors(build(config)),
            "lora_r4": {"all-linear": adapters(config, "all-linear"),
                        "q_v": adapters(config, query_value(family, given))}}


def lines(rows):
    return "[\n" + ",\n".join("    " + json.dumps(row) for row in rows) + "]"


def text(family, records):
    parts = []
    for each in records:
        lora = ",\n   ".join(f"{json.dumps(name)}: {lines(rows)}" for name, rows in each["lora_r4"].items())
        parts.append(f'  {{"config": {json.dumps(each["config"])},\n   "parameters": {lines(each["parameters"])},\n'
                     f'   "lora_r4": {{\n   {lora}}}}}')
    versions = {"transformers": transformers.__version__, "peft": peft.__version__, "torch": torch.__version__}
    return f'{{"family": "{family}", "versions": {json.dumps(versions)}, "models": [\n' + ",\n".join(parts) + "\n]}\n"


def main():
    for family in sys.argv[1:] or FAMILIES:
        records = [record(family, given) for given in FAMILIES[family]]
        (HERE / f"{family}.json").write_text(text(family, records))
        print(family, [len(each["parameters"]) for each in records])


if __name__ == "__main__":
    main()

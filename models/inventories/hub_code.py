#!/usr/bin/env python3
"""Writes files/ARCHITECTURE.json of architectures by hand of their published modeling files: those whose code lies beside
their weights on the Hub, which have no class in transformers of which generate.py could make models, and DeepSeek-V4, whose
sizes follow from a table by kind of layer."""

import json
from pathlib import Path

HERE = Path(__file__).parent / "files"


def tensor(name, shape, role, when=None, linear=True):
    made = {"name": name, "shape": shape, "role": role}
    if linear and len(shape) == 2 and role != "token_embedding":
        made["linear"] = True
    if when is not None:
        made["when"] = when
    return made


def both(a, b):
    return ["if", a, b, False]


def times(*factors):
    made = factors[0]
    for each in factors[1:]:
        made = ["*", made, each]
    return made


def model(embedding, path, layer, norm, depth="num_hidden_layers"):
    prefix = path + ".{}."
    return [
        tensor(embedding + ".weight", ["vocab_size", "hidden_size"], "token_embedding"),
        {"list": path, "count": depth, "items": [{**each, "name": prefix + each["name"]} for each in layer]},
        tensor(norm + ".weight", ["hidden_size"], "norm"),
        tensor("lm_head.weight", ["vocab_size", "hidden_size"], "head", ["not", ["on", "tie_word_embeddings"]]),
    ]


def gated(path, width, when=None, names=("gate_proj", "up_proj", "down_proj"), role="mlp"):
    sizes = ([width, "hidden_size"], [width, "hidden_size"], ["hidden_size", width])
    return [tensor(f"{path}.{name}.weight", size, role, when) for name, size in zip(names, sizes)]


def norm(name, size="hidden_size", when=None):
    return tensor(name + ".weight", [size], "norm", when)


HEAD = {"else": ["//", "hidden_size", "num_attention_heads"]}
KEY_VALUE_HEADS = {"else": "num_attention_heads"}
UNTIED = {"default": False}
QUERIES, KEYS = times("num_attention_heads", "head_dim"), times("num_key_value_heads", "head_dim")


def nemotron_nas():
    """modeling_decilm.py, block_config.py of nvidia/Llama-3_1-Nemotron-51B-Instruct: each layer's attention and
    feed-forward may be another size, one product, or left out."""
    block = ["at", "block_configs", "#0"]
    off = lambda part: ["on", ["get", block, part + ".no_op"]]
    product = lambda part: ["on", ["get", block, part + ".replace_with_linear"]]
    whole = lambda part: ["if", off(part), False, ["not", product(part)]]
    share = ["//", "num_attention_heads", ["get", block, "attention.n_heads_in_group"]]
    multiple = ["/", times(2, ["get", block, "ffn.ffn_mult"], "hidden_size"), 3]
    width = times(256, ["//", ["+", ["floor", multiple], 255], 256])
    given = ["get", block, "ffn.intermediate_size"]
    attention, feed_forward = whole("attention"), whole("ffn")
    layer = [
        tensor("self_attn.q_proj.weight", [QUERIES, "hidden_size"], "attention", attention),
        tensor("self_attn.k_proj.weight", [times(share, "head_dim"), "hidden_size"], "attention", attention),
        tensor("self_attn.v_proj.weight", [times(share, "head_dim"), "hidden_size"], "attention", attention),
        tensor("self_attn.o_proj.weight", ["hidden_size", QUERIES], "attention", attention),
        tensor("self_attn.linear_attn.weight", ["hidden_size", "hidden_size"], "attention", ["if", off("attention"), False, product("attention")]),
        *gated("mlp", ["if", ["null", given], width, given], feed_forward),
        tensor("mlp.linear_mlp.weight", ["hidden_size", "hidden_size"], "mlp", ["if", off("ffn"), False, product("ffn")]),
        norm("input_layernorm", when=["not", off("attention")]),
        norm("post_attention_layernorm", when=["not", off("ffn")]),
    ]
    return "DeciLMForCausalLM", "model.layers", {"head_dim": HEAD, "tie_word_embeddings": UNTIED}, model("model.embed_tokens", "model.layers", layer, "model.norm")


def bailing_moe():
    """modeling_bailing_moe.py, modeling_bailing_moe_v2.py of inclusionAI/Ling-lite, Ling-mini-2.0. Experts stand in
    stacks, as transformers has them elsewhere."""
    dense, routed = ["<", "#0", "first_k_dense_replace"], ["not", ["<", "#0", "first_k_dense_replace"]]
    width = "moe_intermediate_size"
    joint = ["+", QUERIES, times(2, KEYS)]
    layer = [
        tensor("attention.query_key_value.weight", [joint, "hidden_size"], "attention"),
        tensor("attention.query_key_value.bias", [joint], "attention", ["on", "use_qkv_bias"]),
        norm("attention.query_layernorm", "head_dim", ["on", "use_qk_norm"]),
        norm("attention.key_layernorm", "head_dim", ["on", "use_qk_norm"]),
        tensor("attention.dense.weight", ["hidden_size", QUERIES], "attention"),
        tensor("attention.dense.bias", ["hidden_size"], "attention", ["on", "use_bias"]),
        *gated("mlp", "intermediate_size", dense),
        tensor("mlp.experts.gate_up_proj", ["num_experts", times(2, width), "hidden_size"], "expert", routed),
        tensor("mlp.experts.down_proj", ["num_experts", "hidden_size", width], "expert", routed),
        tensor("mlp.gate.weight", ["num_experts", "hidden_size"], "router", routed),
        tensor("mlp.gate.expert_bias", ["num_experts"], "router", both(routed, ["on", "moe_router_enable_expert_bias"])),
        *gated("mlp.shared_experts", times("num_shared_experts", width), both(routed, ["<", 0, "num_shared_experts"]), role="shared_expert"),
        norm("input_layernorm"),
        norm("post_attention_layernorm"),
    ]
    fields = {
        "head_dim": HEAD,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "first_k_dense_replace": {"default": 0},
        "num_shared_experts": {"default": 0},
        "use_qkv_bias": {"default": False},
        "use_bias": {"default": False},
        "use_qk_norm": {"default": False},
        "moe_router_enable_expert_bias": {"default": False},
        "tie_word_embeddings": UNTIED,
    }
    return "BailingMoeV2ForCausalLM", "model.layers", fields, model("model.word_embeddings", "model.layers", layer, "model.norm")


def internlm():
    """modeling_internlm.py of internlm/internlm-7b: Llama's, with biases of the attention's products."""
    layer = []
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        layer.append(tensor(f"self_attn.{name}.weight", [QUERIES, "hidden_size"] if name != "o_proj" else ["hidden_size", QUERIES], "attention"))
        layer.append(tensor(f"self_attn.{name}.bias", [QUERIES if name != "o_proj" else "hidden_size"], "attention", ["on", "bias"]))
    layer += [*gated("mlp", "intermediate_size"), norm("input_layernorm"), norm("post_attention_layernorm")]
    fields = {"head_dim": HEAD, "bias": {"default": True}, "tie_word_embeddings": UNTIED}
    return "InternLMForCausalLM", "model.layers", fields, model("model.embed_tokens", "model.layers", layer, "model.norm")


def exaone():
    """modeling_exaone.py of LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct: Llama's under other names."""
    path = "attn.attention."
    layer = [
        norm("ln_1"),
        tensor(path + "q_proj.weight", [QUERIES, "hidden_size"], "attention"),
        tensor(path + "k_proj.weight", [KEYS, "hidden_size"], "attention"),
        tensor(path + "v_proj.weight", [KEYS, "hidden_size"], "attention"),
        tensor(path + "out_proj.weight", ["hidden_size", QUERIES], "attention"),
        norm("ln_2"),
        *gated("mlp", "intermediate_size", names=("c_fc_0", "c_fc_1", "c_proj")),
    ]
    fields = {"head_dim": HEAD, "num_key_value_heads": KEY_VALUE_HEADS, "tie_word_embeddings": UNTIED, "num_layers": {"default": 32}}
    return "ExaoneForCausalLM", "transformer.h", fields, model("transformer.wte", "transformer.h", layer, "transformer.ln_f", "num_layers")


def minicpm():
    """modeling_minicpm.py of openbmb/MiniCPM-2B-sft-bf16 and MiniCPM-MoE-8x2B: Llama's, or Mixtral's."""
    routed, path = ["<", 0, "num_experts"], "mlp.experts.{}."
    experts = [
        tensor(path + "w1.weight", ["intermediate_size", "hidden_size"], "expert"),
        tensor(path + "w2.weight", ["hidden_size", "intermediate_size"], "expert"),
        tensor(path + "w3.weight", ["intermediate_size", "hidden_size"], "expert"),
    ]
    prefix = "model.layers.{}."
    layer = [
        tensor("self_attn.q_proj.weight", [QUERIES, "hidden_size"], "attention"),
        tensor("self_attn.k_proj.weight", [KEYS, "hidden_size"], "attention"),
        tensor("self_attn.v_proj.weight", [KEYS, "hidden_size"], "attention"),
        tensor("self_attn.o_proj.weight", ["hidden_size", QUERIES], "attention"),
        *gated("mlp", "intermediate_size", ["not", routed]),
        tensor("mlp.gate.weight", ["num_experts", "hidden_size"], "router", routed),
        norm("input_layernorm"),
        norm("post_attention_layernorm"),
    ]
    fields = {"head_dim": HEAD, "num_key_value_heads": KEY_VALUE_HEADS, "num_experts": {"default": 0}, "tie_word_embeddings": {"default": True}}
    items = model("model.embed_tokens", "model.layers", layer, "model.norm")
    items[1]["items"].insert(8, {"list": prefix + "mlp.experts", "count": "num_experts", "items": [{**each, "name": prefix + each["name"]} for each in experts]})
    return "MiniCPMForCausalLM", "model.layers", fields, items


def attention(bias=None, output_bias=False):
    """Products of queries, keys and values, and the output's, under Llama's names; `bias`: when they have biases."""
    rows = []
    for name, out, into in (("q", QUERIES, "hidden_size"), ("k", KEYS, "hidden_size"), ("v", KEYS, "hidden_size"), ("o", "hidden_size", QUERIES)):
        rows.append(tensor(f"self_attn.{name}_proj.weight", [out, into], "attention"))
        if bias is not None and (output_bias or name != "o"):
            rows.append(tensor(f"self_attn.{name}_proj.bias", [out], "attention", bias))
    return rows


def deepseek():
    """modeling_deepseek.py of deepseek-ai/deepseek-moe-16b-base: Llama's attention, experts as DeepSeek-V2 has them.
    Experts stand in stacks, as transformers has them elsewhere."""
    dense, routed = ["<", "#0", "first_k_dense_replace"], ["not", ["<", "#0", "first_k_dense_replace"]]
    width = "moe_intermediate_size"
    layer = [
        *attention(["on", "attention_bias"], output_bias=True),
        *gated("mlp", "intermediate_size", dense),
        tensor("mlp.experts.gate_up_proj", ["n_routed_experts", times(2, width), "hidden_size"], "expert", routed),
        tensor("mlp.experts.down_proj", ["n_routed_experts", "hidden_size", width], "expert", routed),
        tensor("mlp.gate.weight", ["n_routed_experts", "hidden_size"], "router", routed),
        *gated("mlp.shared_experts", times("n_shared_experts", width), both(routed, ["<", 0, "n_shared_experts"]), role="shared_expert"),
        norm("input_layernorm"),
        norm("post_attention_layernorm"),
    ]
    fields = {
        "head_dim": HEAD,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "first_k_dense_replace": {"default": 0},
        "n_shared_experts": {"default": 0},
        "attention_bias": {"default": False},
        "tie_word_embeddings": UNTIED,
    }
    return "DeepseekForCausalLM", "model.layers", fields, model("model.embed_tokens", "model.layers", layer, "model.norm")


def mimo():
    """modeling_mimo.py of XiaomiMiMo/MiMo-7B-Base: Qwen 2's, and layers that predict more tokens."""
    layer = [*attention(["on", "attention_bias"]), *gated("mlp", "intermediate_size"), norm("input_layernorm"), norm("post_attention_layernorm")]
    more = [norm("token_layernorm"), norm("hidden_layernorm"), tensor("input_proj.weight", ["hidden_size", times(2, "hidden_size")], "other"), norm("final_layernorm"), *layer]
    fields = {
        "head_dim": HEAD,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "attention_bias": {"default": True},
        "num_nextn_predict_layers": {"default": 0},
        "tie_word_embeddings": UNTIED,
    }
    items = model("model.embed_tokens", "model.layers", layer, "model.norm")
    path = "model.mtp_layers"
    items.insert(3, {"list": path, "count": "num_nextn_predict_layers", "items": [{**each, "name": path + ".{}." + each["name"]} for each in more]})
    return "MiMoForCausalLM", "model.layers", fields, items


def orion():
    """modeling_orion.py of OrionStarAI/Orion-14B-Base: Llama's, with layer norms that have biases."""
    norms = []
    for name in ("input_layernorm", "post_attention_layernorm"):
        norms += [norm(name), tensor(name + ".bias", ["hidden_size"], "norm")]
    fields = {"head_dim": HEAD, "num_key_value_heads": KEY_VALUE_HEADS, "tie_word_embeddings": UNTIED}
    items = model("model.embed_tokens", "model.layers", [*attention(), *gated("mlp", "intermediate_size"), *norms], "model.norm")
    items.insert(3, tensor("model.norm.bias", ["hidden_size"], "norm"))
    return "OrionForCausalLM", "model.layers", fields, items


def deepseek_v4():
    """models/deepseek_v4/modeling_deepseek_v4.py of transformers 5.23.0: shared keys and values, kept whole near a token and
    compressed by 4 (with an indexer) or 128 further away, and streams between layers."""
    ratio, kind = ["at", "compress_ratios", "#0"], ["at", "layer_types", "#0"]
    sparse, heavy, any_ = ["==", ratio, 4], ["==", ratio, 128], ["<", 0, ratio]
    rank, streams, width = "q_lora_rank", times("hc_mult", "hidden_size"), "moe_intermediate_size"
    mixed = times(["+", 2, "hc_mult"], "hc_mult")

    def compressor(path, size, when, doubled):
        wide = ["if", doubled, times(2, size), size]
        return [
            tensor(path + "position_bias", [ratio, wide], "attention", when, linear=False),
            tensor(path + "kv_proj.weight", [wide, "hidden_size"], "attention", when),
            tensor(path + "gate_proj.weight", [wide, "hidden_size"], "attention", when),
            norm(path + "kv_norm", size, when),
        ]

    layer = [
        tensor("self_attn.sinks", ["num_attention_heads"], "attention"),
        tensor("self_attn.q_a_proj.weight", [rank, "hidden_size"], "attention"),
        norm("self_attn.q_a_norm", rank),
        tensor("self_attn.q_b_proj.weight", [QUERIES, rank], "attention"),
        tensor("self_attn.kv_proj.weight", ["head_dim", "hidden_size"], "attention"),
        norm("self_attn.kv_norm", "head_dim"),
        tensor("self_attn.o_a_proj.weight", [times("o_groups", "o_lora_rank"), ["//", QUERIES, "o_groups"]], "attention"),
        tensor("self_attn.o_b_proj.weight", ["hidden_size", times("o_groups", "o_lora_rank")], "attention"),
        *compressor("self_attn.compressor.", "head_dim", any_, sparse),
        *compressor("self_attn.compressor.indexer.", "index_head_dim", sparse, True),
        tensor("self_attn.compressor.indexer.q_b_proj.weight", [times("index_n_heads", "index_head_dim"), rank], "attention", sparse),
        tensor("self_attn.compressor.indexer.scorer.weights_proj.weight", ["index_n_heads", "hidden_size"], "attention", sparse),
        tensor("mlp.gate.weight", ["n_routed_experts", "hidden_size"], "router"),
        tensor("mlp.experts.gate_up_proj", ["n_routed_experts", times(2, width), "hidden_size"], "expert"),
        tensor("mlp.experts.down_proj", ["n_routed_experts", "hidden_size", width], "expert"),
        *gated("mlp.shared_experts", width, role="shared_expert"),
        norm("input_layernorm"),
        norm("post_attention_layernorm"),
    ]
    for part in ("attn_hc", "ffn_hc"):
        layer += [
            tensor(part + ".fn", [mixed, streams], "other", linear=False),
            tensor(part + ".base", [mixed], "other"),
            tensor(part + ".scale", [3], "other"),
        ]
    interleaved = ["if", ["<", "#0", 2], 128, ["if", ["==", ["%", "#0", 2], 1], 4, 128]]
    by_kind = ["if", ["is", kind, "compressed_sparse_attention"], 4, ["if", ["is", kind, "heavily_compressed_attention"], 128, 0]]
    fields = {
        "head_dim": {"default": 512},
        "hc_mult": {"default": 4},
        "index_head_dim": {"default": 128},
        "index_n_heads": {"default": 64},
        "o_groups": {"default": 8},
        "o_lora_rank": {"default": 1024},
        "q_lora_rank": {"default": 1024},
        "moe_intermediate_size": {"default": 2048},
        "n_routed_experts": {"default": 256},
        "compress_ratios": {"count": "num_hidden_layers", "each": ["if", ["null", kind], interleaved, by_kind]},
        "tie_word_embeddings": UNTIED,
    }
    items = model("model.embed_tokens", "model.layers", layer, "model.norm")
    head = [
        tensor("model.hc_head.hc_fn", ["hc_mult", streams], "other", linear=False),
        tensor("model.hc_head.hc_base", ["hc_mult"], "other"),
        tensor("model.hc_head.hc_scale", [1], "other"),
    ]
    return "DeepseekV4ForCausalLM", "model.layers", fields, items[:3] + head + items[3:]


MAKERS = {
    "nemotron-nas": nemotron_nas,
    "bailing_moe": bailing_moe,
    "deepseek": deepseek,
    "deepseek_v4": deepseek_v4,
    "internlm": internlm,
    "exaone": exaone,
    "mimo": mimo,
    "minicpm": minicpm,
    "orion": orion,
}


def main():
    for architecture, make in MAKERS.items():
        name, layers, fields, items = make()
        made = {
            "format": "zplan.inventory/1",
            "architecture": architecture,
            "class": name,
            "made_with": {"source": " ".join(make.__doc__.split())},
            "layers": layers,
            "fields": fields,
            "aliases": {"num_hidden_layers": "num_layers"} if architecture == "exaone" else {},
            "items": items,
        }
        (HERE / f"{architecture}.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

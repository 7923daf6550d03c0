#!/usr/bin/env python3
"""Writes files/ARCHITECTURE.json of architectures whose code lies beside their weights on the Hub, by hand of their
published modeling files: there is no class in transformers of which generate.py could make models."""

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


def main():
    for architecture, make in {"nemotron-nas": nemotron_nas, "bailing_moe": bailing_moe, "internlm": internlm, "exaone": exaone, "minicpm": minicpm}.items():
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

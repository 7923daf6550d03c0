#!/usr/bin/env python3
"""Writes inventories of towers (models/vision/towers/) that are told by kind, without PyTorch.

    python models/vision/describe_towers.py models/vision/towers

Tensors stand in the order of named_parameters(); derive_towers.py makes the same files of instantiated models.
Source: transformers 5.23 models/{clip,siglip,pixtral,idefics2,llama4,mllama,voxtral,qwen2_5_omni,llava_next,…}/
modeling_*.py; modeling_intern_vit.py and modeling_internvl_chat.py of InternVL's published repositories; modeling_kimi_vl.py of moonshotai/Kimi-VL-A3B-Instruct; visual.py of Qwen/Qwen-VL.
"""

import json
import os
import sys


def f(name):
    return ["f", name]


def v(name):
    return f("vision_config." + name)


def a(name):
    return f("audio_config." + name)


TEXT = f("text_config.hidden_size")
IMAGE = ["//", v("image_size"), v("patch_size")]
PATCHES = ["*", IMAGE, IMAGE]
PLACES = ["+", PATCHES, 1]


def linear(name, out, into, bias=True):
    rows = [[name + ".weight", [out, into], "linear"]]
    if isinstance(bias, str):
        return rows + [{"when": bias, "is": True, "tensors": [[name + ".bias", [out]]]}]
    return rows + [[name + ".bias", [out]]] if bias else rows


def norm(name, size, bias=True):
    return [[name + ".weight", [size]]] + ([[name + ".bias", [size]]] if bias else [])


def loop(prefix, count, rows):
    return [{"loop": prefix, "count": count, "tensors": rows}]


def under(prefix, rows):
    made = []
    for row in rows:
        if isinstance(row, list):
            made.append([prefix + row[0], *row[1:]])
        elif "loop" in row:
            made.append({**row, "loop": prefix + row["loop"]})
        else:
            made.append({**row, "tensors": under(prefix, row["tensors"])})
    return made


def attention(h, order="kvq", out="self_attn.out_proj", bias=True):
    rows = []
    for letter in order:
        rows += linear(f"self_attn.{letter}_proj", h, h, bias)
    return rows + linear(out, h, h, bias)


def patches(h, name, bias):
    rows = [[name + ".weight", [h, v("num_channels"), v("patch_size"), v("patch_size")]]]
    return rows + [[name + ".bias", [h]]] if bias else rows


def two_layers(h, i):
    return linear("mlp.fc1", i, h) + linear("mlp.fc2", h, i)


def clip():
    h, i = v("hidden_size"), v("intermediate_size")
    block = attention(h) + norm("layer_norm1", h) + two_layers(h, i) + norm("layer_norm2", h)
    return (
        [["embeddings.class_embedding", [h]]]
        + patches(h, "embeddings.patch_embedding", False)
        + [["embeddings.position_embedding.weight", [PLACES, h]]]
        + norm("pre_layrnorm", h)
        + loop("encoder.layers.", v("num_hidden_layers"), block)
        + norm("post_layernorm", h)
    )


CLIP = {
    "vision_config.hidden_size": 768,
    "vision_config.intermediate_size": 3072,
    "vision_config.num_hidden_layers": 12,
    "vision_config.num_channels": 3,
    "vision_config.image_size": 224,
    "vision_config.patch_size": 32,
}
LLAVA_CLIP = {
    **CLIP,
    "vision_config.hidden_size": 1024,
    "vision_config.intermediate_size": 4096,
    "vision_config.num_hidden_layers": 24,
    "vision_config.image_size": 336,
    "vision_config.patch_size": 14,
}


def siglip():
    h, i = v("hidden_size"), v("intermediate_size")
    block = norm("layer_norm1", h) + attention(h) + norm("layer_norm2", h) + two_layers(h, i)
    head = (
        [["head.probe", [1, 1, h]]]
        + [["head.attention.in_proj_weight", [["*", 3, h], h]], ["head.attention.in_proj_bias", [["*", 3, h]]]]
        + linear("head.attention.out_proj", h, h)
        + norm("head.layernorm", h)
        + under("head.", two_layers(h, i))
    )
    return (
        patches(h, "embeddings.patch_embedding", True)
        + [["embeddings.position_embedding.weight", [PATCHES, h]]]
        + loop("encoder.layers.", v("num_hidden_layers"), block)
        + norm("post_layernorm", h)
        + [{"when": "vision_config.vision_use_head", "is": True, "tensors": head}]
    )


SIGLIP = {**CLIP, "vision_config.patch_size": 16, "vision_config.vision_use_head": True}


def pixtral():
    h, i = v("hidden_size"), v("intermediate_size")
    block = (
        norm("attention_norm", h, False)
        + linear("feed_forward.gate_proj", i, h, False)
        + linear("feed_forward.up_proj", i, h, False)
        + linear("feed_forward.down_proj", h, i, False)
        + under("attention.", [[r[0].replace("self_attn.", ""), *r[1:]] for r in attention(h, out="self_attn.o_proj", bias=False)])
        + norm("ffn_norm", h, False)
    )
    return (
        patches(h, "patch_conv", False)
        + norm("ln_pre", h, False)
        + loop("transformer.layers.", v("num_hidden_layers"), block)
    )


PIXTRAL = {**LLAVA_CLIP, "vision_config.image_size": 1024, "vision_config.patch_size": 16}


def idefics2():
    h, i, t = v("hidden_size"), v("intermediate_size"), TEXT
    block = attention(h) + norm("layer_norm1", h) + two_layers(h, i) + norm("layer_norm2", h)
    tower = (
        patches(h, "embeddings.patch_embedding", True)
        + [["embeddings.position_embedding.weight", [PATCHES, h]]]
        + loop("encoder.layers.", v("num_hidden_layers"), block)
        + norm("post_layernorm", h)
    )

    def gated(name, into, middle, out):
        return (
            linear(f"{name}.gate_proj", middle, into, False)
            + linear(f"{name}.up_proj", middle, into, False)
            + linear(f"{name}.down_proj", out, middle, False)
        )

    heads, size = f("perceiver_config.resampler_n_heads"), f("perceiver_config.resampler_head_dim")
    keys = ["*", f("perceiver_config.num_key_value_heads"), size]
    layer = (
        norm("input_latents_norm", t, False)
        + norm("input_context_norm", t, False)
        + linear("self_attn.q_proj", ["*", heads, size], t, False)
        + linear("self_attn.k_proj", keys, t, False)
        + linear("self_attn.v_proj", keys, t, False)
        + linear("self_attn.o_proj", t, ["*", heads, size], False)
        + norm("post_attention_layernorm", t, False)
        + gated("mlp", t, ["*", 4, t], t)
    )
    resampler = (
        [["latents", [f("perceiver_config.resampler_n_latents"), t]]]
        + loop("layers.", f("perceiver_config.resampler_depth"), layer)
        + norm("norm", t, False)
    )
    connector = gated("modality_projection", h, f("text_config.intermediate_size"), t) + under("perceiver_resampler.", resampler)
    return under("model.vision_model.", tower) + under("model.connector.", connector)


def whisper(h, i, out_norm, layers, positions):
    block = (
        linear("self_attn.k_proj", h, h, False)
        + linear("self_attn.v_proj", h, h)
        + linear("self_attn.q_proj", h, h)
        + linear("self_attn.out_proj", h, h)
        + norm("self_attn_layer_norm", h)
        + linear("fc1", i, h)
        + linear("fc2", h, i)
        + norm("final_layer_norm", h)
    )
    return (
        [["conv1.weight", [h, a("num_mel_bins"), 3]], ["conv1.bias", [h]], ["conv2.weight", [h, h, 3]], ["conv2.bias", [h]]]
        + positions
        + loop("layers.", layers, block)
        + norm(out_norm, h)
    )


def qwen_omni():
    d, out = a("d_model"), a("output_dim")
    audio = whisper(d, a("encoder_ffn_dim"), "ln_post", a("encoder_layers"), [["audio_bos_eos_token.weight", [2, out]]])
    audio += linear("proj", out, d)
    h, i = v("hidden_size"), v("intermediate_size")
    wide = ["*", h, v("spatial_merge_size"), v("spatial_merge_size")]
    block = norm("norm1", h, False) + norm("norm2", h, False)
    for name in ("q", "k", "v", "proj"):
        block += linear("attn." + name, h, h)
    block += linear("mlp.gate_proj", i, h) + linear("mlp.up_proj", i, h) + linear("mlp.down_proj", h, i)
    visual = (
        [["patch_embed.proj.weight", [h, v("in_channels"), v("temporal_patch_size"), v("patch_size"), v("patch_size")]]]
        + loop("blocks.", v("depth"), block)
        + norm("merger.ln_q", h, False)
        + linear("merger.mlp.0", wide, wide)
        + linear("merger.mlp.2", v("out_hidden_size"), wide)
    )
    return under("model.audio_tower.", audio) + under("model.visual.", visual)


def llama4():
    h, i = v("hidden_size"), v("intermediate_size")
    block = (
        attention(h, "qkv", "self_attn.o_proj")
        + two_layers(h, i)
        + norm("input_layernorm", h)
        + norm("post_attention_layernorm", h)
    )
    tower = (
        [["class_embedding", [h]], ["positional_embedding_vlm", [PLACES, h]]]
        + linear("patch_embedding.linear", h, ["*", v("num_channels"), v("patch_size"), v("patch_size")], False)
        + norm("layernorm_pre", h)
        + norm("layernorm_post", h)
        + loop("model.layers.", v("num_hidden_layers"), block)
        + linear("vision_adapter.mlp.fc1", v("projector_input_dim"), i, False)
        + linear("vision_adapter.mlp.fc2", v("projector_output_dim"), v("projector_output_dim"), False)
    )
    return under("vision_model.", tower) + linear("multi_modal_projector.linear_1", TEXT, v("vision_output_dim"), False)


def mllama():
    h, i = v("hidden_size"), v("intermediate_size")
    ratios = ["+", f("#vision_config.supported_aspect_ratios"), 1]
    tiles = v("max_num_tiles")
    block = (
        attention(h, "qkv", "self_attn.o_proj", False)
        + two_layers(h, i)
        + norm("input_layernorm", h)
        + norm("post_attention_layernorm", h)
    )
    gates = [["gate_attn", [1]], ["gate_ffn", [1]]]

    def of_tiles(name):
        return [[f"{name}.gate", [1]], [f"{name}.embedding.weight", [ratios, ["*", tiles, h]]]]

    tower = (
        [["class_embedding", [h]]]
        + patches(h, "patch_embedding", False)
        + [["gated_positional_embedding.gate", [1]], ["gated_positional_embedding.embedding", [PLACES, h]]]
        + [["gated_positional_embedding.tile_embedding.weight", [ratios, ["*", tiles, PLACES, h]]]]
        + of_tiles("pre_tile_positional_embedding")
        + of_tiles("post_tile_positional_embedding")
        + norm("layernorm_pre", h)
        + norm("layernorm_post", h)
        + loop("transformer.layers.", v("num_hidden_layers"), block)
        + loop("global_transformer.layers.", v("num_global_layers"), gates + block)
    )
    return under("model.vision_model.", tower)


def internvl_chat(norm_bias):
    h, i = v("hidden_size"), v("intermediate_size")
    wide = ["*", 4, h]
    heads = [["attn.q_norm.weight", [h]], ["attn.k_norm.weight", [h]]]
    block = (
        [["ls1", [h]], ["ls2", [h]]]
        + linear("attn.qkv", ["*", 3, h], h, "vision_config.qkv_bias")
        + [{"when": "vision_config.qk_normalization", "is": True, "tensors": heads}]
        + linear("attn.proj", h, h)
        + two_layers(h, i)
        + norm("norm1", h, norm_bias)
        + norm("norm2", h, norm_bias)
    )
    tower = (
        [["class_embedding", [1, 1, h]], ["position_embedding", [1, PLACES, h]]]
        + [["patch_embedding.weight", [h, 3, v("patch_size"), v("patch_size")]], ["patch_embedding.bias", [h]]]
    )
    return (
        under("vision_model.embeddings.", tower)
        + loop("vision_model.encoder.layers.", v("num_hidden_layers"), block)
        + [["<text>", []]]
        + norm("mlp1.0", wide)
        + linear("mlp1.1", TEXT, wide)
        + linear("mlp1.3", TEXT, TEXT)
    )


def kimi_vl():
    h, side = v("hidden_size"), ["f", "vision_config.merge_kernel_size"]
    wide = ["*", h, side, side]
    block = norm("norm0", h) + norm("norm1", h) + linear("mlp.fc0", v("intermediate_size"), h) + linear("mlp.fc1", h, v("intermediate_size"))
    block += linear("wqkv", ["*", 3, h], h) + linear("wo", h, h)
    rows = [["patch_embed.proj.weight", [h, 3, v("patch_size"), v("patch_size")]], ["patch_embed.proj.bias", [h]]]
    rows += [["patch_embed.pos_emb.weight", [v("init_pos_emb_height"), v("init_pos_emb_width"), h]]]
    rows += loop("encoder.blocks.", v("num_hidden_layers"), block) + norm("encoder.final_layernorm", h)
    projector = norm("pre_norm", h) + linear("linear_1", wide, wide) + linear("linear_2", TEXT, wide)
    return under("vision_tower.", rows) + under("multi_modal_projector.", projector)


def qwen_visual():
    """A ViT of its own and a resampler to 256 tokens, both inside the language model."""
    h, out, queries = f("visual.width"), f("visual.output_dim"), 256
    wide = ["*", h, f("visual.mlp_ratio")]
    attention = [["attn.in_proj.weight", [["*", 3, h], h], "linear"], ["attn.in_proj.bias", [["*", 3, h]]]] + linear("attn.out_proj", h, h)
    block = norm("ln_1", h) + norm("ln_2", h) + attention + linear("mlp.c_fc", wide, h) + linear("mlp.c_proj", h, wide)
    rows = [["positional_embedding", [256, h]], ["proj", [out, out]], ["conv1.weight", [h, 3, f("visual.patch_size"), f("visual.patch_size")]]]
    rows += norm("ln_pre", h) + loop("transformer.resblocks.", f("visual.layers"), block)
    pool = [["pos_embed", [queries, out]], ["query", [queries, out]], ["kv_proj.weight", [out, h], "linear"]]
    pool += [["attn.in_proj_weight", [["*", 3, out], out], "linear"], ["attn.in_proj_bias", [["*", 3, out]]]] + linear("attn.out_proj", out, out)
    rows += under("attn_pool.", pool + norm("ln_q", out) + norm("ln_kv", out)) + norm("ln_post", out)
    return [["<text>", []]] + under("transformer.visual.", rows)


def document(architecture, tensors, defaults, tower=None, text="model.language_model", **more):
    if not any(row == ["<text>", []] for row in tensors):
        tensors = tensors + [["<text>", []]]
    return {
        "architecture": architecture,
        "tower": tower,
        "tied": None,
        "head_is_the_texts": False,
        "text_defaults": {"model_type": "llama"},
        "aliases": {},
        "text": text,
        "defaults": defaults,
        "fixed": {},
        "tensors": tensors,
        **more,
    }


BIAS = "multimodal_projector_bias"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}


def projector(into=None):
    path = "model.multi_modal_projector.linear_"
    return linear(path + "1", TEXT, into or v("hidden_size"), BIAS) + linear(path + "2", TEXT, TEXT, BIAS)


def documents():
    tower, newline = "model.vision_tower.", [["model.image_newline", [TEXT]]]
    clip_llava = {**LLAVA_CLIP, BIAS: True}
    siglip_llava = {**SIGLIP, BIAS: True}
    found = {}
    for name in ("llava_next", "llava_next_video", "llava_onevision"):
        rows = newline + under(tower, clip()) + projector()
        found[name] = document(name, rows, clip_llava, "clip_vision_model", text_defaults=LLAMA, tied=False)
        rows = newline + under(tower, siglip()) + projector()
        found[name + "@siglip_vision_model"] = document(
            name, rows, siglip_llava, "siglip_vision_model", text_defaults=LLAMA, tied=False
        )
    found["llava@siglip_vision_model"] = document(
        "llava", under(tower, siglip()) + projector(), siglip_llava, "siglip_vision_model", text_defaults=LLAMA
    )
    found["llava@pixtral"] = document(
        "llava", under(tower, pixtral()) + projector(), {**PIXTRAL, BIAS: True}, "pixtral", text_defaults=LLAMA
    )
    rows = under("model.video_tower.", clip()) + under("model.image_tower.", clip()) + projector()
    found["video_llava"] = document(
        "video_llava", rows, {**clip_llava, "vision_config.image_size": 224}, "clip_vision_model", text_defaults=LLAMA
    )
    rows = under(tower, siglip()) + linear("model.multi_modal_projector.linear", f("projection_dim"), v("hidden_size"))
    found["paligemma"] = document(
        "paligemma", rows, {**SIGLIP, "projection_dim": 2048}, "siglip_vision_model", text_defaults={"model_type": "gemma"}, tied=True
    )
    h, merge = v("hidden_size"), f("spatial_merge_size")
    rows = (
        under(tower, pixtral())
        + norm("model.multi_modal_projector.norm", h, False)
        + linear("model.multi_modal_projector.patch_merger.merging_layer", h, ["*", h, merge, merge], False)
        + projector()
    )
    found["mistral3"] = document(
        "mistral3", rows, {**PIXTRAL, BIAS: False, "spatial_merge_size": 2}, "pixtral", text_defaults={"model_type": "mistral"}
    )
    found["idefics2"] = document(
        "idefics2",
        idefics2(),
        {
            **CLIP,
            "perceiver_config.resampler_n_heads": 16,
            "perceiver_config.resampler_head_dim": 96,
            "perceiver_config.num_key_value_heads": 4,
            "perceiver_config.resampler_n_latents": 64,
            "perceiver_config.resampler_depth": 3,
        },
        "idefics2_vision",
        text="model.text_model",
        text_defaults={"model_type": "mistral"},
        tied=False,
    )
    d = a("hidden_size")
    positions = [["embed_positions.weight", [a("max_source_positions"), d]]]
    encoder = whisper(d, a("intermediate_size"), "layer_norm", a("num_hidden_layers"), positions)
    path = "model.multi_modal_projector.linear_"
    rows = (
        under("model.audio_tower.", encoder)
        + [["<text>", []]]
        + linear(path + "1", TEXT, a("intermediate_size"), False)
        + linear(path + "2", TEXT, TEXT, False)
    )
    whisper_large = {
        "audio_config.hidden_size": 1280,
        "audio_config.intermediate_size": 5120,
        "audio_config.num_hidden_layers": 32,
        "audio_config.num_mel_bins": 128,
        "audio_config.max_source_positions": 1500,
    }
    other = {
        "audio_config.d_model": "audio_config.hidden_size",
        "audio_config.encoder_layers": "audio_config.num_hidden_layers",
        "audio_config.encoder_ffn_dim": "audio_config.intermediate_size",
    }
    found["voxtral"] = document("voxtral", rows, whisper_large, aliases=other)
    encoder = whisper(d, a("intermediate_size"), "layer_norm", a("num_hidden_layers"), positions)
    rows = under("model.audio_tower.", encoder) + linear("model.multi_modal_projector.linear", TEXT, d)
    found["qwen2_audio"] = document(
        "qwen2_audio", rows, whisper_large, aliases=other, text_defaults={"model_type": "qwen2"}, tied=False
    )
    found["qwen2_5_omni_thinker"] = document(
        "qwen2_5_omni_thinker",
        qwen_omni(),
        {
            "audio_config.d_model": 1280,
            "audio_config.encoder_ffn_dim": 5120,
            "audio_config.encoder_layers": 32,
            "audio_config.num_mel_bins": 128,
            "audio_config.output_dim": 3584,
            "vision_config.depth": 32,
            "vision_config.hidden_size": 3584,
            "vision_config.intermediate_size": 3420,
            "vision_config.in_channels": 3,
            "vision_config.out_hidden_size": 3584,
            "vision_config.patch_size": 14,
            "vision_config.spatial_merge_size": 2,
            "vision_config.temporal_patch_size": 2,
        },
        "qwen2_5_omni_vision_encoder",
        text_type="qwen2",
        tied=False,
    )
    found["llama4"] = document(
        "llama4",
        llama4(),
        {
            "vision_config.hidden_size": 768,
            "vision_config.intermediate_size": 5632,
            "vision_config.num_hidden_layers": 34,
            "vision_config.num_channels": 3,
            "vision_config.image_size": 448,
            "vision_config.patch_size": 14,
            "vision_config.projector_input_dim": 4096,
            "vision_config.projector_output_dim": 4096,
            "vision_config.vision_output_dim": 7680,
        },
        "llama4_vision_model",
        text="language_model.model",
        text_defaults={"model_type": "llama4_text"},
        tied=False,
    )
    rows = mllama() + [["<text>", []]] + linear("model.multi_modal_projector", TEXT, v("vision_output_dim"))
    found["mllama"] = document(
        "mllama",
        rows,
        {
            "vision_config.hidden_size": 1280,
            "vision_config.intermediate_size": 5120,
            "vision_config.num_hidden_layers": 32,
            "vision_config.num_global_layers": 8,
            "vision_config.num_channels": 3,
            "vision_config.image_size": 448,
            "vision_config.patch_size": 14,
            "vision_config.max_num_tiles": 4,
            "vision_config.vision_output_dim": 7680,
            "#vision_config.supported_aspect_ratios": 8,
        },
        "mllama_vision_model",
        text_defaults={"model_type": "mllama_text_model"},
        text_type="llama",
        tied=False,
    )
    vit = {
        "vision_config.hidden_size": 3200,
        "vision_config.intermediate_size": 12800,
        "vision_config.num_hidden_layers": 48,
        "vision_config.image_size": 224,
        "vision_config.patch_size": 14,
        "vision_config.qkv_bias": False,
        "vision_config.qk_normalization": True,
    }
    for kind, suffix in (("rms_norm", ""), ("layer_norm", "@layer_norm")):
        found["internvl_chat" + suffix] = document(
            "internvl_chat",
            internvl_chat(kind == "layer_norm"),
            vit,
            "intern_vit_6b",
            text="language_model.model",
            head_is_the_texts=True,
            fixed={"vision_config.norm_type": kind, "downsample_ratio": 0.5},
        )
    found["kimi_vl"] = document(
        "kimi_vl",
        kimi_vl(),
        {
            "vision_config.hidden_size": 1152,
            "vision_config.intermediate_size": 4304,
            "vision_config.num_hidden_layers": 27,
            "vision_config.patch_size": 14,
            "vision_config.init_pos_emb_height": 64,
            "vision_config.init_pos_emb_width": 64,
            "vision_config.merge_kernel_size": 2,
        },
        text="language_model.model",
        text_type="deepseek_v3",
        tied=False,
    )
    found["qwen@visual"] = document(
        "qwen",
        qwen_visual(),
        {
            "visual.width": 1664,
            "visual.output_dim": 4096,
            "visual.mlp_ratio": 4.9231,
            "visual.layers": 48,
            "visual.patch_size": 14,
        },
        text="model",
        inside="visual",
    )
    return found


def main():
    for name, made in documents().items():
        with open(os.path.join(sys.argv[1], name + ".json"), "w", encoding="utf-8") as file:
            json.dump(made, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()

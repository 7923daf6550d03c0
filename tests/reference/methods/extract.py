"""Condenses recorded steps (methods, trainers, rollouts, distillation, compiled, unsloth): the last step of every run.
usage: extract.py STEPS, a JSON list or a line for each step; writes steps.json"""
import json
import sys

PEAKS = ("requested_before", "allocated_before", "peak_requested", "peak_allocated", "peak_reserved", "peak_phase")
HOST = ("pinned", "pageable", "pageable_peak")
SHAPE = ("model_type", "n_embd", "n_layer", "n_head", "n_positions", "resid_pdrop", "embd_pdrop", "attn_pdrop",
         "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "num_key_value_heads", "vocab_size", "tie_word_embeddings", "head_dim", "max_position_embeddings")


def steady(measured):
    last = max(measured, key=int)
    step = measured[last]
    phases = {name: {k: phase[k] for k in ("peak_requested", "peak_allocated")} for name, phase in step["phases"].items()}
    return {last: {**{k: step[k] for k in PEAKS}, "phases": phases}}


def read(path):
    text = open(path).read()
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def shape(config):
    return {k: config[k] for k in SHAPE if config.get(k) is not None}


rows = [{
    "id": row["id"],
    "model": row["model"],
    "config": shape(row["config"]),
    **({"teacher_config": shape(row["teacher_config"])} if "teacher_config" in row else {}),
    "options": {k: v for k, v in row["options"].items() if v is not None},
    **({"ds_config": row["ds_config"]} if row.get("ds_config") else {}),
    **({"ds_config_reference": row["ds_config_reference"]} if row.get("ds_config_reference") else {}),
    **({"host_bytes": {k: row["host_bytes"][k] for k in HOST}} if "host_bytes" in row else {}),
    "parameters": row["parameters"],
    "trainable": row["trainable"],
    "measured": steady(row["measured"]),
} for row in read(sys.argv[1])]
with open("steps.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")

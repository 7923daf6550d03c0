#!/usr/bin/env python3
"""Reduces recorded steps and parameter counts to what tests read: extract.py STEPS COUNTS."""

import json
import sys

ROW = ("id", "model", "options", "ds_config", "parameters", "trainable", "parameters_without_gradient")
SIZES = ("model_type", "hidden_size", "num_hidden_layers", "num_experts", "num_local_experts", "moe_num_experts", "vocab_size")


WHOLE = ("gpt_oss", "minimax_m2", "olmo3", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")  # architectures with a descriptor, which reads the whole config


def sizes(config):
    """Enough of a config to tell it from others of its architecture."""
    if config.get("model_type") in WHOLE:
        return {key: value for key, value in config.items() if key not in ("id2label", "label2id") and value is not None}
    told = {key: config[key] for key in SIZES if config.get(key) is not None}
    if "vision_config" in config:
        told["vision_config"] = sizes(config["vision_config"])
    if "text_config" in config:
        told["text_config"] = sizes(config["text_config"])
    return told


def step(row):
    last = max(row["measured"], key=int)
    keep = ("peak_allocated", "peak_requested", "peak_reserved", "peak_phase")
    made = {key: row[key] for key in ROW if key in row}
    made["config"] = sizes(row["config"])
    made["measured"] = {last: {key: row["measured"][last][key] for key in keep}}
    return made


def write(path, rows):
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def main():
    with open(sys.argv[1]) as file:
        write("steps.json", [step(row) for row in json.load(file)])
    with open(sys.argv[2]) as file:
        counts = json.load(file)
    write("counts.json", [{k: row[k] for k in ("model_type", "class", "parameters", "tensors")} for row in counts])


main()

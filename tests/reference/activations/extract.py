"""Condenses measured activation rows into saved_per_layer.json: what one decoder layer keeps for its backward.
usage: extract.py ACTIVATIONS_JSON > saved_per_layer.json"""
import json
import sys

chosen = {}
for row in json.load(open(sys.argv[1])):
    if row["dtype"] != "bf16" or row["variant"] not in ("", "lora_bf16") or "requested_per_layer_saved" not in row:
        continue
    key = (row["model"], row["attn"], row["variant"], row["lora"], row["ckpt"])
    chosen.setdefault(key, {})[(row["b"], row["s"])] = row
rows = []
for key, points in sorted(chosen.items()):
    # The smallest, the middle and the largest of the shapes measured.
    shapes = sorted(points, key=lambda p: p[0] * p[1])
    for shape in sorted({shapes[0], shapes[len(shapes) // 2], shapes[-1]}):
        row = points[shape]
        rows.append({"model": row["model"], "shape": row["shape"], "attention": row["attn"], "adapters": row["lora"],
                     "bf16_adapters": row["variant"] == "lora_bf16", "checkpointing": row["ckpt"], "batch": row["b"],
                     "sequence": row["s"], "saved": row["requested_per_layer_saved"]})
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

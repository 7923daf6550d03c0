"""Condenses measured activation rows: of every model, attention, dtype, variant, adapters and checkpointing the deepest cut,
at the smallest, the middle and the largest of the shapes measured.
usage: extract.py ACTIVATIONS_JSON > activations.json"""
import json
import sys

KEEP = ("model", "shape", "attn", "dtype", "variant", "b", "s", "ckpt", "lora", "saved_after_forward_bytes", "peaks_above_base",
        "requested_saved_after_forward_bytes", "requested_peaks_above_base")
# The sweep ran in two processes, in the order of the rows; a process keeps the workspaces, and with them the segments, of what
# it began with.
SECOND_PROCESS = ("Phi-3-mini", "Gemma-3-1B", "Mistral-7B-v0.1", "Mixtral-8x7B")
groups = {}
for row in json.load(open(sys.argv[1])):
    key = tuple(str(row[k]) for k in ("model", "attn", "dtype", "variant", "lora", "ckpt"))
    groups.setdefault(key, []).append(row)
rows = []
for key in sorted(groups):
    deepest = max(row["shape"]["layers_used"] for row in groups[key])
    shapes = sorted((r for r in groups[key] if r["shape"]["layers_used"] == deepest), key=lambda r: (r["b"] * r["s"], r["s"]))
    for index in sorted({0, len(shapes) // 2, len(shapes) - 1}):
        row = {k: shapes[index][k] for k in KEEP}
        rows.append({**row, "first": "Phi-3-mini" if row["model"] in SECOND_PROCESS else "Llama-3-8B"})
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

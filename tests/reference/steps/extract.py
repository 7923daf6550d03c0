"""Condenses whole training steps measured on PyTorch's allocator into steps.json: DeepSpeed rows, third step.
usage: extract.py STEPS_JSON > steps.json"""
import json
import sys

rows = []
for row in json.load(open(sys.argv[1])):
    options, measured = row["options"], row["measured"].get("3")
    if options["framework"] != "deepspeed" or measured is None:
        continue
    rows.append({
        "id": row["id"],
        "config": row["config"],
        "options": {k: v for k, v in options.items() if v is not None and k != "framework"},
        "zero": row["ds_config"].get("zero_optimization", {}),
        "held": measured["requested_before"],
        "peak_requested": measured["peak_requested"],
        "peak_allocated": measured["peak_allocated"],
        "peak_phase": measured["peak_phase"],
        **({"host": {k: row["host_bytes"][k] for k in ("pinned", "pageable")}}
           if row.get("host_bytes") and "pin=False" not in row["id"] else {}),
        "phases": {name: phase["peak_requested"] for name, phase in measured["phases"].items()},
    })
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

"""Condenses whole training steps measured on PyTorch's allocator: the last step (steady state) of every run, in the
fields of the measurements themselves.
usage: extract.py STEPS_JSON > steps.json"""
import json
import sys

PEAKS = ("requested_before", "allocated_before", "peak_requested", "peak_allocated", "peak_reserved", "peak_phase")


def steady(measured):
    last = max(measured, key=int)
    step = measured[last]
    phases = {name: {k: phase[k] for k in ("peak_requested", "peak_allocated")} for name, phase in step["phases"].items()}
    return {last: {**{k: step[k] for k in PEAKS}, "phases": phases}}


rows = []
for row in json.load(open(sys.argv[1])):
    rows.append({
        "id": row["id"],
        "model": row["model"],
        "config": row["config"],
        "options": {k: v for k, v in row["options"].items() if v is not None},
        **({"ds_config": row["ds_config"]} if "ds_config" in row else {}),
        "parameters": row["parameters"],
        "measured": steady(row["measured"]),
        # Blocks of pageable memory were not counted apart where pinning was switched off.
        **({"host_bytes": {k: row["host_bytes"][k] for k in ("pinned", "pageable")}}
           if row.get("host_bytes") and "pin=False" not in row["id"] else {}),
    })
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

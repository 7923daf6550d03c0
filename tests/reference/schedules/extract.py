"""Condenses recorded schedules of real models: the question and the calls by operation, dtype, group and phase.
usage: extract.py SCHEDULES_JSON > schedules.json"""
import json
import sys

SEQUENCE = ("op", "dtype", "group", "n_in", "n_out", "phase", "times")

rows = []
for row in json.load(open(sys.argv[1])):
    rows.append({
        "id": row["id"],
        "model": row["model"],
        "config": row["config"],
        "options": {k: v for k, v in row["options"].items() if v is not None},
        **({"ds_config": row["ds_config"]} if row.get("ds_config") else {}),
        "collectives": row["collectives"],
        "sequence": [{k: call[k] for k in SEQUENCE if k in call} for call in row["sequence"]],
    })
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

"""Condenses bisected training runs: the question and the bracket of the smallest device.
usage: extract.py CAPACITY_JSON > capacity.json"""
import json
import sys

KEEP = ("id", "model", "config", "ds_config", "parameters", "peak_allocated", "peak_reserved_unlimited", "init_peak", "runs_with", "fails_with")
rows = []
for row in json.load(open(sys.argv[1])):
    rows.append({**{k: row[k] for k in KEEP}, "options": {k: v for k, v in row["options"].items() if v is not None}})
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

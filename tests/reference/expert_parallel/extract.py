"""Condenses recorded steps, schedules and answers of DeepSpeed's AutoEP: the last step of every run, the calls by kind, and
their order where a model is small.
usage: extract.py STEPS_JSON SCHEDULES_JSON CONSTRAINTS_JSON, writes steps.json, schedules.json and constraints.json"""
import json
import sys

PEAKS = ("requested_before", "allocated_before", "peak_requested", "peak_allocated", "peak_reserved", "peak_phase")
CALL = ("op", "dtype", "group", "n_in", "n_out", "phase", "times")
KIND = ("op", "dtype", "group", "phase", "count", "elements_in", "elements_out")
MOST_LISTED = 120  # entries of a sequence that is kept
OF_THE_MACHINE = {"quantized_weights_zero3"}  # an op that is not built for CPUs


def steady(measured):
    last = max(measured, key=int)
    return {last: {k: measured[last][k] for k in PEAKS}}


def question(row):
    return {
        "id": row["id"],
        "config": row["config"],
        "options": {k: v for k, v in row["options"].items() if v is not None},
        **({"ds_config": row["ds_config"]} if row.get("ds_config") else {}),
        **({"backend": row["backend"]} if row.get("backend") else {}),
    }


def listed(sequence):
    return [{k: call[k] for k in CALL if k in call} for call in sequence]


def write(path, rows):
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


steps, schedules, answers = (json.load(open(path)) for path in sys.argv[1:4])
write("steps.json", [{**question(row), "measured": steady(row["measured"]), "states": row["states"]} for row in steps])
rows = []
for row in schedules:
    short = len(row["sequence"]) <= MOST_LISTED
    rows.append({
        **question(row),
        **({"collectives": [{k: call[k] for k in KIND} for call in row["collectives"]]} if "collectives" in row else {}),
        **({"sequence": listed(row["sequence"])} if short or "backend" in row else {}),
    })
write("schedules.json", rows)
kept = {name: {"case": row["case"], "accepted": row["accepted"],
               **({"layers": row["layers"]} if row["accepted"] else {"error": row["error"]})}
        for name, row in answers.items() if name not in OF_THE_MACHINE}
with open("constraints.json", "w") as file:
    file.write("{\n" + ",\n".join(json.dumps(name) + ": " + json.dumps(row) for name, row in kept.items()) + "\n}\n")

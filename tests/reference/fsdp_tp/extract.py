"""Condenses recorded steps of FSDP2 with tensor parallelism: the last step of every run, its calls by kind and their order.
usage: extract.py RECORDED_JSONL..., writes steps.json and schedules.json"""
import json
import sys

PEAKS = ("requested_before", "allocated_before", "peak_requested", "peak_allocated", "peak_reserved", "peak_phase")
KIND = ("op", "dtype", "group_kind", "group", "phase")
DTYPES = {"BFloat16": "bfloat16", "Float": "float32", "Long": "int64"}


def steady(measured):
    last = max(measured, key=int)
    step = measured[last]
    phases = {name: {k: phase[k] for k in ("peak_requested", "peak_allocated")} for name, phase in step["phases"].items()}
    return {last: {**{k: step[k] for k in PEAKS}, "phases": phases}}


def question(row):
    return {"id": row["id"], "model": row["model"], "config": row["config"],
            "options": {k: v for k, v in row["options"].items() if v is not None}}


def named(call):
    out = {k: call[k] for k in ("op", "dtype", "group_kind", "group", "n_in", "n_out", "phase", "times")}
    if out["op"].endswith("_coalesced"):  # one tensor: DTensor's all-gather
        out["op"] = out["op"].removesuffix("_coalesced")
    out["dtype"] = DTYPES[out["dtype"]]
    return out


def folded(calls):
    out = []
    for call in calls:
        times = call.pop("times")
        if out and {k: v for k, v in out[-1].items() if k != "times"} == call:
            out[-1]["times"] += times
        else:
            out.append({**call, "times": times})
    return out


def by_kind(sequence):
    kinds = {}
    for call in sequence:
        kind = kinds.setdefault(tuple(call[k] for k in KIND), {**{k: call[k] for k in KIND}, "count": 0, "elements_in": 0, "elements_out": 0})
        kind["count"] += call["times"]
        kind["elements_in"] += call["n_in"] * call["times"]
        kind["elements_out"] += call["n_out"] * call["times"]
    return list(kinds.values())


def write(path, rows):
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


steps, schedules = [], []
for path in sys.argv[1:]:
    for line in open(path):
        row, schedule = json.loads(line)
        steps.append({**question(row), "parameters": row["parameters"], "measured": steady(row["measured"])})
        sequence = folded([named(call) for call in schedule["sequence"]])
        schedules.append({**question(row), "collectives": by_kind(sequence), "sequence": sequence})
write("steps.json", steps)
write("schedules.json", schedules)

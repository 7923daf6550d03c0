"""Condenses recorded steps and schedules with sequence and context parallelism: the last step of every run, the calls by
kind, and their order where a model is small.
usage: extract.py STEPS_JSON SCHEDULES_JSON REFUSED_JSON, writes steps.json, schedules.json and refused.json"""
import json
import sys

PEAKS = ("requested_before", "allocated_before", "peak_requested", "peak_allocated", "peak_reserved", "peak_phase")
CALL = ("op", "dtype", "group", "n_in", "n_out", "phase", "times")
KIND = ("op", "dtype", "group", "phase", "count", "elements_in", "elements_out")
MOST_LISTED = 200  # entries of a sequence that is kept


def steady(measured):
    last = max(measured, key=int)
    step = measured[last]
    phases = {name: {k: phase[k] for k in ("peak_requested", "peak_allocated")} for name, phase in step["phases"].items()}
    return {last: {**{k: step[k] for k in PEAKS}, "phases": phases}}


def question(row):
    return {
        "id": row["id"],
        "model": row["model"],
        "config": row["config"],
        "options": {k: v for k, v in row["options"].items() if v is not None},
        **({"ds_config": row["ds_config"]} if row.get("ds_config") else {}),
    }


def folded(calls):
    out = []
    for call in calls:
        call = {k: call[k] for k in CALL if k in call}
        times = call.pop("times", 1)
        if out and {k: v for k, v in out[-1].items() if k != "times"} == call:
            out[-1]["times"] += times
        else:
            out.append({**call, "times": times})
    return out


def write(path, rows):
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


steps, schedules, refused = (json.load(open(path)) for path in sys.argv[1:4])
write("steps.json", [{
    **question(row),
    "parameters": row["parameters"],
    "measured": steady(row["measured"]),
    **({"host_bytes": {k: row["host_bytes"][k] for k in ("pinned", "pageable", "pageable_peak")}}
       if row.get("host_bytes") else {}),
} for row in steps])
rows = []
for row in schedules:
    sequence = folded(row["sequence"])
    rows.append({
        **question(row),
        "collectives": [{k: call[k] for k in KIND} for call in row["collectives"]],
        **({"sequence": sequence} if len(sequence) <= MOST_LISTED else {}),
    })
write("schedules.json", rows)
configs = {row["model"]: row["config"] for row in steps}
write("refused.json", [{"id": row["id"], "config": configs[row["spec"]["model"]], "spec": row["spec"], "error": row["error"]}
                       for row in refused])

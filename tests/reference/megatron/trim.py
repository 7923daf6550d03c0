"""Keeps of the recorded steps and schedules those that zplan plans, with the fields that it reads.

usage: python3 trim.py STEPS SCHEDULES IDS [PREFIX]   (IDS: a file with the ids to keep, one a line; PREFIX: of the
names of the files that are written)"""
import json
import sys


def kept(row, more):
    options = {key: row["options"][key] for key in ("tag", "args", "vocab", "seq", "mbs", "rank", "lora")
               if key in row["options"]}
    base = {key: row[key] for key in ("id", "model", "sizes", "coordinates", "microbatches")}
    effective = {key: True for key in ("variable_seq_lengths",) if row["effective"].get(key)}
    return {**base, "options": options, "effective": effective, **more}


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def main():
    steps, schedules, wanted, *prefix = sys.argv[1:]
    prefix = prefix[0] if prefix else ""
    wanted = set(open(wanted, encoding="utf-8").read().split("\n"))
    ran, kept_steps, kept_schedules = {}, [], []
    for row in json.load(open(steps, encoding="utf-8")):
        ran[row["id"]] = {key: row[key] for key in ("options", "effective")}
        last = row["measured"][max(row["measured"])]
        figures = {key: last[key] for key in ("requested_before", "peak_requested", "peak_phase")}
        if row["id"] in wanted:
            kept_steps.append(kept(row, {"measured": {max(row["measured"]): figures}}))
    for row in json.load(open(schedules, encoding="utf-8")):
        if row["id"] in wanted:
            kept_schedules.append(kept({**row, **ran[row["id"]]},
                                       {key: row[key] for key in ("collectives", "patterns", "order")}))
    write(prefix + "steps.json", kept_steps)
    write(prefix + "schedules.json", kept_schedules)


main()

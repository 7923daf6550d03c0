#!/usr/bin/env python3
"""Measures a GPU for zplan and compares the predictions with it: one command, unattended.

    python3 harness/card/measure.py --out results [--parts memory,verdicts] [--budget 9m]

Writes results as they come (a run that is cut short has what it measured) and summary.json last; a second run with the
same folder goes on where the first ended. Exit status: 0 all within what is demanded, 1 something is not or failed,
2 bad usage. docs/measuring-a-card.md has the files, their fields, and what is demanded.
"""
import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import one_rank, row_of, several_ranks, verdict_runs  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("collectives", "memory", "efficiency", "verdicts")
ISSUED = ("id", "model", "config", "options", "ds_config", "parameters")  # of a row whose collectives were recorded
MARGINS = (1.02, 0.98)  # of the memory that zplan predicts, for verdicts
PACKAGES = ("torch", "transformers", "deepspeed", "peft", "nvidia-nccl-cu13")


class Clock:
    """Tells how much of the budget is left, so that a run ends in time to write its results."""

    def __init__(self, seconds):
        self.end = time.time() + seconds

    def left(self):
        return self.end - time.time()

    def over(self, needed=0):
        return self.left() < needed


def seconds_of(text):
    match = re.fullmatch(r"(\d+)(s|m|h)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: a time like 90s, 9m, 1h")
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def arguments():
    parser = argparse.ArgumentParser(description="Measures a GPU for zplan and compares the predictions with it.")
    parser.add_argument("--zplan", default=str(ROOT / "zplan"), help="the program [./zplan of this checkout, which builds what is missing]")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of %(default)s")
    parser.add_argument("--budget", type=seconds_of, default="1h", help="end after so long: 9m [1h]")
    parser.add_argument("--rehearse", action="store_true", help="on a stand-in for CUDA's runtime: one process plays all ranks, MPI "
                        "stands for NCCL; figures of the device and times mean nothing")
    parser.add_argument("--only", default="", help="measure runs whose id contains this")
    given = parser.parse_args()
    given.parts = given.parts.split(",")
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"--parts: {', '.join(sorted(unknown))}; accepted: {', '.join(PARTS)}")
    if not Path(given.zplan).is_file():
        parser.error(f"--zplan: {given.zplan}: no such file; needed: a built zplan (docs/building.md)")
    given.zplan = str(Path(given.zplan).resolve())
    return given


def lines_of(value):
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n " + ",\n ".join(json.dumps(each) for each in value) + "\n]"


def build(given):
    """Builds zplan and zplan-bench if needed, before the budget starts. Ends the command if that fails."""
    for asked in (["--version"], *([["bench", "--version"]] if "collectives" in given.parts else [])):
        if subprocess.run([given.zplan, *asked], stdin=subprocess.DEVNULL, check=False).returncode != 0:
            sys.exit(2)


def write(path, document):
    """Writes the document whole or not at all, each element of a list on a line."""
    text = lines_of(document) if isinstance(document, list) else (
        "{" + ",\n".join(f"{json.dumps(key)}: {lines_of(value)}" for key, value in document.items()) + "}")
    part = path.with_suffix(".part")
    part.write_text(text + "\n")
    os.replace(part, path)


def versions():
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    driver = Path("/proc/driver/nvidia/version")
    if driver.exists():
        found["driver"] = driver.read_text().splitlines()[0]
    return found


def before(path, head):
    """Returns the document that an earlier run wrote, or an empty one."""
    if path.exists():
        return json.loads(path.read_text()) | {"failed": []}  # what failed is tried again
    return {"schema": "zplan.runs/1", **head, "rows": [], "failed": []}


def keep(document, row):
    (document["rows"] if row["outcome"] != "failed" else document["failed"]).append(row)
    measured = row.get("measured", {})
    last = measured[max(measured, key=int)] if measured else {}
    print(f"{row['id']}: {row['outcome']} in {row['wall_seconds']} s"
          + (f", {last['peak_allocated'] / 2**30:.2f} GiB allocated, {last['device_bytes'] / 2**30:.2f} of the device, "
             f"{last['seconds']:.3f} s a step" if last else f" in {row['failed_in']}: {last_line(row['message'])}"), flush=True)


def last_line(text):
    return (text.strip().splitlines() or [""])[-1][:120]


def rest(document, clock, needed):
    """Returns why the document of rows is incomplete, or None."""
    why = [f"{len(document['failed'])} runs failed"] if document["failed"] else []
    if clock.over(needed):
        why.append("the time was over")
    return "; ".join(why) or None


def wanted(given, runs, log):
    """Returns the runs that this machine can do: a rehearsal computes nothing, and DeepSpeed's CPU optimizer needs a compiler."""
    import ranks
    asked = [run for run in runs if given.only in run.id]
    offloaded = [run for run in asked if run.optimizer == "ds_cpu"]
    if offloaded and (given.rehearse or (why := ranks.build_cpu_adam(log))):
        print(f"without {len(offloaded)} runs that offload" + ("" if given.rehearse else f": {why}"), flush=True)
        return [run for run in asked if run not in offloaded]
    return asked


def measure_memory(given, head, watcher, log, clock):
    import device
    import ranks
    path = given.out / "runs.json"
    document = before(path, head)
    issued = json.loads((given.out / "schedules.json").read_text()) if document["rows"] and (given.out / "schedules.json").exists() else []
    if "overheads" not in document:
        document["overheads"] = device.measure_overheads(watcher, log, fake=given.rehearse)
        write(path, document)
    done = {row["id"] for row in document["rows"]}
    for run in wanted(given, one_rank() + several_ranks(), log):
        if run.id in done:
            continue
        if clock.over(10):
            break
        row = ranks.measure(run, watcher, log, fake=given.rehearse, limit=min(150, clock.left()))
        calls = {key: row.pop(key) for key in ("collectives", "sequence") if key in row}
        keep(document, row)
        if calls:
            issued.append({key: row[key] for key in ISSUED if key in row} | calls)
            write(given.out / "schedules.json", issued)
        write(path, document)
    return rest(document, clock, 10)


def required_bytes(zplan, runs, card):
    """Returns the device memory that zplan predicts for each run, context included, by the run's id."""
    rows = [row_of(run) | {"outcome": "out_of_memory", "available_bytes": 1} for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.json"
        path.write_text(json.dumps({"schema": "zplan.runs/1", "card": card, "rows": rows}))
        answer = subprocess.run([zplan, "check", str(path), "--json"], capture_output=True, text=True, check=False)
    if not answer.stdout:
        raise RuntimeError(answer.stderr.strip())
    records = json.loads(answer.stdout)["records"]
    return {record["id"]: record["predicted"] for record in records if record["statistic"] == "required" and record["predicted"]}


def verdict_rows(zplan, runs, card, watcher, log, *, fake=False, stop=lambda: False):
    """Yields a row for each run and margin: the run on a GPU made a little larger or smaller than zplan says it needs. Leaves out
    runs that need more memory than is free."""
    import ranks
    needed = required_bytes(zplan, runs, card)
    room = watcher.free()
    for run in runs:
        for margin in MARGINS:
            leave = int(needed.get(run.id, 0) * margin)
            if stop() or not 0 < leave <= room:
                continue
            # A rehearsal's processes do not see each other's memory: its GPUs are all as large.
            row = ranks.measure(run, watcher, log, fake=fake, leave=None if fake else leave)
            yield row | {"id": f"{run.id}|margin={margin}", "required_bytes": needed[run.id]}


def measure_verdicts(given, head, watcher, log, clock):
    path = given.out / "verdicts.json"
    document = before(path, head)
    done = {row["id"].rsplit("|margin=", 1)[0] for row in document["rows"]}
    left = [run for run in wanted(given, verdict_runs(), log) if run.id not in done]
    for row in verdict_rows(given.zplan, left, head["card"], watcher, log, fake=given.rehearse, stop=lambda: clock.over(15)):
        keep(document, row)
        write(path, document)
    return rest(document, clock, 15)


def measure_efficiency(given, head, watcher, log, clock):
    import device
    import ranks
    end = time.time() + max(20, clock.left() - 20)
    answers, _ = ranks.run_ranks(lambda place, phases: device.measure_efficiency(place, phases, end), 1, watcher, log,
                                 fake=given.rehearse, limit=max(60, clock.left()))
    write(given.out / "efficiency.json", {"schema": "zplan.efficiency/1", **head, **answers[0]})
    return None if answers[0]["outcome"] == "ran" and answers[0]["complete"] else answers[0].get("message", "the time was over")


def measure_collectives(given, head, log, clock):
    import collectives
    backend = "mpi" if given.rehearse else "nccl"
    gpu = head["card"]["name"] if not given.rehearse else "H100-SXM-80GB"
    missed = collectives.measure(given.zplan, given.out, gpu, backend, log, max(60, clock.left() / len(given.parts)))
    return "; ".join(missed) or None


def demanded(check):
    """Yields (requirement, measured text, True if met) for each accuracy requirement."""
    groups = {(g["kind"], g["statistic"]): g for g in check["groups"] if g["judged"]}
    limits = [("measurement", "allocated", 0.01, 0.04), ("measurement", "reserved", 0.03, None), ("measurement", "device", 0.03, None),
              ("speed", "tokens_per_second", 0.08, None), ("collectives", "sent", 0.01, 0.01)]
    for kind, statistic, median, worst in limits:
        if group := groups.get((kind, statistic)):
            seen = f"median {group['median_error']:.2%}, worst {group['worst_error']:.2%} of {group['judged']}"
            right = group["median_error"] <= median and (worst is None or abs(group["worst_error"]) <= worst)
            yield f"{statistic}: median within {median:.0%}" + (f", worst within {worst:.0%}" if worst else ""), seen, right
    replayed = [r for r in check["records"] if r["statistic"] == "schedule" and not r["skipped"]]
    if replayed:
        equal = sum(record["exact"] for record in replayed)
        yield "schedules: counts and bytes equal", f"{equal} of {len(replayed)} kinds of call", equal == len(replayed)
    fits = check["fits"]
    if fits["ran"] + fits["failed"]:
        yield ("verdicts: no run that was predicted to fit ran out of memory",
               f"{fits['failed_and_fits']} of {fits['failed']} that failed were predicted to fit, {fits['ran_and_fits']} of {fits['ran']} that ran",
               fits["failed_and_fits"] == 0)
    yield "nothing contradicts itself", f"{len(check['failures'])} failures", not check["failures"]


def summarise(given, head, trouble):
    answer = subprocess.run([given.zplan, "check", str(given.out), "--json"], capture_output=True, text=True, check=False)
    summary = {"schema": "zplan.card/1", **head, "trouble": trouble, "demanded": []}
    if answer.stdout:
        check = json.loads(answer.stdout)
        write(given.out / "check.json", check)
        summary["demanded"] = [{"what": what, "seen": seen, "within": right} for what, seen, right in demanded(check)]
    else:
        trouble["check"] = answer.stderr.strip()
    write(given.out / "summary.json", summary)
    for row in summary["demanded"]:
        print(f"{'yes' if row['within'] else 'NO ':3} {row['what']}: {row['seen']}")
    for part, why in trouble.items():
        print(f"not done: {part}: {why}")
    return 0 if summary["demanded"] and all(row["within"] for row in summary["demanded"]) and not trouble else 1


def main():
    given = arguments()
    build(given)
    given.out.mkdir(parents=True, exist_ok=True)
    clock = Clock(given.budget)
    import ranks
    ranks.warm()
    head = {"card": ranks.check_fork(), "versions": versions()}
    print(json.dumps(head), flush=True)
    trouble = {}
    with open(given.out / "log.txt", "a", encoding="utf-8") as log:
        watcher = ranks.Watcher()
        for part in given.parts:
            work = globals()[f"measure_{part}"]
            try:
                why = work(given, head, log, clock) if part == "collectives" else work(given, head, watcher, log, clock)
            except (RuntimeError, OSError, ValueError, KeyError) as error:
                why = f"{type(error).__name__}: {error}"
            if why:
                trouble[part] = why
        watcher.close()
    return summarise(given, head, trouble)


if __name__ == "__main__":
    sys.exit(main())

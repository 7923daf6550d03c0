"""Prints how far off speeds are that no fit has seen: every published run by a fit of the kernel model without any run of its source.

usage: left_out_speeds.py ZPLAN|FIT.json

ZPLAN is the program; FIT.json is what `zplan check tests/reference/published/speed.json tests/reference/published/fresh_speed.json
--fit-efficiency --json` printed. Errors are of tokens per second, signed: positive is predicted too fast. A run counts for every kind of
machine and every regime that it belongs to. The last table has NCCL's collectives through host memory, of at least 16 MiB, by log;
nothing is fitted to them."""

import collections
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "tests/reference/published"
SPEEDS = [PUBLISHED / "speed.json", PUBLISHED / "fresh_speed.json"]
COLLECTIVES = PUBLISHED / "collectives.json"
LONG_MESSAGE = 16 * 2**20
FEW_TOKENS = 1024
SHORT_SAMPLE = 512


def check(program, files, options=()):
    command = [program, "check", *map(str, files), *options, "--json"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def is_flagship(run):
    return run["gpu"].startswith(("A100-SXM", "H100-SXM"))


def through_host(row):
    return "through the host" in (row["options"].get("interconnect") or "")


def has_experts(row):
    return any(key in row["config"] for key in ("num_experts", "num_local_experts", "n_routed_experts"))


def tokens_of_micro_step(row):
    return row["options"]["micro_batch"] * row["options"]["seq"]


# Name, and whether a run belongs to it, by its errors and by its row.
REGIMES = [
    ("A100 and H100 (SXM)", lambda run, row: is_flagship(run)),
    ("other cards", lambda run, row: not is_flagship(run)),
    ("PCIe without peer-to-peer", lambda run, row: through_host(row)),
    ("offload", lambda run, row: run["offloads"]),
    ("under 1,024 tokens a micro-step", lambda run, row: tokens_of_micro_step(row) < FEW_TOKENS),
    ("samples under 512 tokens", lambda run, row: row["options"]["seq"] < SHORT_SAMPLE),
    ("mixtures", lambda run, row: has_experts(row)),
    ("several nodes", lambda run, row: (row["options"].get("nodes") or 1) > 1),
]


def nine_in_ten(errors):
    ordered = sorted(map(abs, errors))
    return ordered[-(-9 * len(ordered) // 10) - 1]


def line(name, errors):
    if not errors:
        return f"| {name} | 0 | – | – | – | – |"
    return (f"| {name} | {len(errors)} | {100 * statistics.median(errors):+.1f} % | {100 * statistics.median(map(abs, errors)):.1f} % | "
            f"{100 * nine_in_ten(errors):.1f} % | {100 * max(errors, key=abs):+.1f} % |")


def table(title, groups):
    heading = f"| {title} | runs | median signed | median | nine in ten | furthest |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    return "\n".join([heading, *(line(name, errors) for name, errors in groups)]) + "\n"


def rows_by_id(files):
    return {row["id"]: row for file in files for row in json.loads(file.read_text(encoding="utf-8"))}


def by_regime(fit):
    rows = rows_by_id(SPEEDS)
    runs = [(run, rows[run["id"]]) for run in fit["held_out"]]
    return [(name, [run["without_source_error"] for run, row in runs if belongs(run, row)]) for name, belongs in REGIMES]


def by_source(fit):
    groups = collections.defaultdict(list)
    for run in fit["held_out"]:
        kind = "A100, H100" if is_flagship(run) else run["gpu"]
        groups[f"{run['source']}, {kind}{', offload' if run['offloads'] else ''}"].append(run["without_source_error"])
    return sorted(groups.items())


def through_host_logs(report):
    rows = rows_by_id([COLLECTIVES])
    groups = collections.defaultdict(list)
    for record in report["records"]:
        if record["error"] is None or record["statistic"] != "seconds":
            continue
        log, _, size, _ = record["id"].split()
        if int(size) < LONG_MESSAGE:
            continue
        if "through the host" in rows[log]["interconnect"]:
            groups[f"{log}: {rows[log]['hardware']}, {rows[log]['operation']}"].append(-record["error"] / (1 + record["error"]))
    return sorted(groups.items())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    given = pathlib.Path(sys.argv[1])
    is_fit = given.suffix == ".json"
    fit = json.loads(given.read_text(encoding="utf-8")) if is_fit else check(given.resolve(), SPEEDS, ["--fit-efficiency"])
    print(table("regime", by_regime(fit)))
    print(table("source", by_source(fit)))
    if not is_fit:
        print(table("log, its speed through the host", through_host_logs(check(given.resolve(), [COLLECTIVES]))))


if __name__ == "__main__":
    main()

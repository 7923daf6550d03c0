"""Writes docs/accuracy.md and planner/plan/accuracy.json from what `zplan check` prints over the measurements in tests/reference/, and the
figures that README.md and the other pages quote; or the site's page in FOLDER.

usage: generate_accuracy.py [--check | --site FOLDER] ZPLAN

docs/accuracy.in.md is the page with a line {{name}} where figures go (generated.py says which parts of it go where). docs/accuracy_explanations.json says, per section and
record, why the prediction is off; it is kept by hand and survives regeneration. planner/plan/accuracy.json is what the program itself says
of its figures, by kind, statistic, framework, method and GPU. In pages a figure stands between <!--acc WHAT--> and <!--/acc-->, where
WHAT is as quoted() reads it. docs/accuracy_bounds.json is kept by hand too: what no figure may exceed, whether or not pages are
written. --check writes nothing and fails where a file is not what would be written, where a bound does not hold or is missing, or
where an explanation is of a record that is not shown."""

import collections
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

import generated
import left_out_speeds

DOCS = pathlib.Path(__file__).resolve().parent
ROOT = DOCS.parent
REFERENCE = "tests/reference/"

# name in the page: (measurements, how many of the worst are shown at least)
SECTIONS = {
    "steps": ("steps/steps.json", 8),
    "one_card": ("steps/one_card.json", 4),
    "qlora": ("qlora/steps.json", 6),
    "capacity": ("capacity/capacity.json", 6),
    "activations": ("activations/activations.json", 8),
    "held": ("deepspeed_runs/runs.json", 6),
    "schedules": ("schedules/schedules.json", 6),
    "memory": ("published/memory.json", 12),
    "fresh_memory": ("published/fresh_memory.json", 12),
    "speed": ("published/speed.json", 8),
    "fresh": ("published/fresh_speed.json", 40),
    "collectives": ("published/collectives.json", 6),
}
# Speeds that the kernel model is fitted to, and by which it is judged.
SPEEDS = ("speed", "fresh")
# Beyond this a row is shown whatever its rank, where it is too low: that is what ends a run.
SHOWN_WHEN_TOO_LOW = 0.10
# Published peaks that are too low by more than this say why.
TOO_LOW = 0.05
PUBLISHED_MEMORY = ("memory", "fresh_memory")
MOST_SHOWN = 25
# Of tokens per second; and up to where it matters little that a planner knows no flash attention.
TOO_FAST = 0.20
SHORT_SAMPLE = 4096


# What `zplan check` reads beside the sections of the page.
BESIDE = {
    "one_card_schedules": "schedules/one_card.json",
    "sharded_runs": "sharding_options/runs.json",
    "sharded_fsdp": "sharding_options/fsdp.json",
    "sharded_schedules": "sharding_options/schedules.json",
    "sharded_steps": "sharding_options/steps.json",
}

# Peaks whose source says what was counted, and that are known from both sides. `unknown` is judged at the nearest of several
# predictions, and `required` of a run that ended out of memory from one side only: neither says how far off a prediction is.
NAMED = ("allocated", "active", "reserved", "device")
STEPS = {"steps": ("allocated", "reserved"), "one_card": ("allocated", "reserved"), "qlora": ("allocated", "reserved")}
PUBLISHED, RECORDED = True, False
# Kind of figure, what it is validated against, statistics by section, whether on real GPUs, whether with a slower attention kernel
# (None: either), heading of the page. Of a kind real GPUs come first.
FAMILIES = [
    ("memory", "published runs", {"memory": NAMED, "fresh_memory": NAMED}, PUBLISHED, None, "what-others-measured-and-published"),
    ("memory", "recorded steps", STEPS, RECORDED, None, "whole-training-steps"),
    ("memory", "smallest devices of recorded steps", {"capacity": ("required",)}, RECORDED, None, "the-smallest-device"),
    ("memory", "recorded runs, states and buffers", {"held": ("held",)}, RECORDED, None, "recorded-steps-of-deepspeed"),
    ("host_memory", "recorded steps with offload", {section: ("host_pinned", "host_pageable") for section in ("steps", "sharded_steps")}, RECORDED, None, "whole-training-steps"),
    ("traffic", "recorded steps, call for call", {"held": ("schedule",), "schedules": ("schedule",)}, RECORDED, None, "recorded-steps-of-deepspeed"),
    ("step_time", "published runs", {section: ("tokens_per_second",) for section in SPEEDS}, PUBLISHED, False, "speed"),
    ("step_time", "published runs with a slower attention kernel", {section: ("tokens_per_second",) for section in SPEEDS}, PUBLISHED, True, "speed"),
    ("collective_time", "published timings", {"collectives": ("seconds",)}, PUBLISHED, None, "speed"),
]
TOO_LOW = 0.05


def run_check(program, files, options=()):
    paths = [REFERENCE + file for file in files]
    result = subprocess.run([program, "check", *paths, *options, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"zplan check {' '.join(files)}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def percent(value):
    return "–" if value is None else f"{100 * value:.2f} %"


def signed(value):
    return f"{100 * value:+.1f} %"


def figure(value, statistic):
    if value is None:
        return "–"
    if statistic in ("seconds", "seconds_by_model"):
        return f"{value * 1e6:.4g} µs" if value < 1e-3 else f"{value * 1e3:.4g} ms"
    if statistic == "tokens_per_second":
        return f"{value:.0f} tok/s"
    if statistic == "schedule":
        return f"{value} calls"
    return f"{value / 2**30:.3g} GiB" if value >= 2**28 else f"{value / 2**20:.4g} MiB"


def measured(record):
    low = figure(record["measured_low"], record["statistic"])
    if record["measured_high"] is None:
        return f"at least {low}"
    high = figure(record["measured_high"], record["statistic"])
    return low if low == high else f"{low} to {high}"


def table(headings, rows):
    if not rows:
        return ""
    align = ["---" if left else "---:" for _, left in headings]
    lines = ["| " + " | ".join(name for name, _ in headings) + " |", "| " + " | ".join(align) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def summary(report):
    phases = any(group["phase_right"] is not None for group in report["groups"])
    headings = [("statistic", True), ("records", False), ("judged", False), ("median", False), ("nine in ten", False), ("worst", False),
                ("too low by more than 5 %", False), ("not too low", False), ("equal", False)] + ([("phase right", False)] if phases else [])
    rows = []
    for group in report["groups"]:
        row = [group["statistic"].replace("_", " "), group["records"], group["judged"], percent(group["median_error"]),
               percent(group["p90_error"]), percent(group["worst_error"]), percent(group["under_predicted"]),
               percent(group["cautious"]), group["exact"]]
        rows.append(row + ([percent(group["phase_right"])] if phases else []))
    return table(headings, rows)


def key_of(section, record):
    return f"{section}/{record['statistic']}/{record['id']}"


def shown(report, most):
    # What NCCL's model says by itself is summarised; a plan takes it only where no curve is.
    judged = sorted((r for r in report["records"] if r["error"] and r["statistic"] != "seconds_by_model"), key=lambda r: -abs(r["error"]))
    picked = judged[:most]
    picked += [r for r in judged[most:] if r["error"] < -SHOWN_WHEN_TOO_LOW][:MOST_SHOWN - most]
    return picked


def worst(section, report, most, explanations, used):
    rows = []
    for record in shown(report, most):
        key = key_of(section, record)
        used.add(key)
        why = explanations.get(key, "")
        if record["part"]:
            why = f"{record['part']}{': ' if why else ''}{why}"
        rows.append([f"`{record['id']}`", record["statistic"].replace("_", " "), figure(record["predicted"], record["statistic"]),
                     measured(record), signed(record["error"]), why])
    if not rows:
        return "Nothing is off.\n"
    return table([("furthest off", True), ("statistic", True), ("predicted", False), ("measured", False), ("error", False), ("why", True)], rows)


def why_too_low(reports, explanations, used):
    """Every published peak of either file that is too low by more than TOO_LOW, by its cause; every one has an entry."""
    causes, bare = {}, []
    for section in PUBLISHED_MEMORY:
        for record in reports[section]["records"]:
            if not record["error"] or record["error"] >= -TOO_LOW:
                continue
            key = key_of(section, record)
            used.add(key)
            if key not in explanations:
                bare.append(key)
            causes.setdefault((record["statistic"], explanations.get(key, "")), []).append(f"`{record['id']}` {signed(record['error'])}")
    if bare:
        sys.exit("docs/accuracy_explanations.json: too low, and nothing says why: " + ", ".join(bare))
    rows = [[", ".join(rows), statistic, why] for (statistic, why), rows in sorted(causes.items(), key=lambda each: (each[0][0], -len(each[1])))]
    return table([("rows", True), ("statistic", True), ("why", True)], rows)


def skips(report):
    reasons = {}
    for group in report["groups"]:
        for reason, count in group["skip_reasons"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    if not reasons:
        return "Nothing is skipped.\n"
    rows = [[reason, count] for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))]
    return table([("not modelled", True), ("records", False)], rows)


def subsets(report):
    """Pooled over what PyTorch or the driver counted: a median of each."""
    rows = []
    for each in report["subsets"]:
        if each["statistic"] is None and each["judged"]:
            rows.append([each["name"], each["judged"], percent(each["median_error"]), percent(each["p90_error"]), percent(each["worst_error"]),
                         percent(each["under_predicted"])])
    return table([("rows", True), ("judged", False), ("median", False), ("nine in ten", False), ("worst", False), ("too low by more than 5 %", False)],
                 rows)


def parts(report):
    """Subsets of each statistic by itself."""
    rows = [[each["statistic"].replace("_", " "), each["name"], each["judged"], percent(each["median_error"]), percent(each["p90_error"]),
             percent(each["worst_error"]), percent(each["under_predicted"])]
            for each in report["subsets"] if each["statistic"] is not None and each["judged"]]
    return table([("statistic", True), ("rows", True), ("judged", False), ("median", False), ("nine in ten", False), ("worst", False),
                  ("too low by more than 5 %", False)], rows)


def slopes(report):
    rows = [[each["variable"].replace("_", " "), f"`{each['from']}`", f"`{each['to']}`", figure(each["predicted"], each["statistic"]),
             figure(each["measured"], each["statistic"]), signed(each["error"])] for each in report["slopes"]]
    return table([("sweep of", True), ("from", True), ("to", True), ("predicted per unit", False), ("measured per unit", False), ("error", False)], rows)


def fits(report):
    tally = report["fits"]
    return (f"Of {tally['ran']} runs that ran on a card that is known, {tally['ran_and_fits']} are predicted to fit; of {tally['failed']} that "
            f"ended out of memory, {tally['failed'] - tally['failed_and_fits']} are predicted not to.\n")


# Of every GPU a plan leaves free what a recommendation does: the default of --headroom.
HEADROOM = 0.10
# Where a prediction has to hold whatever others did: recorded here, not published by others.
OWN = ("steps", "qlora", "capacity")


def recommended(reports):
    """Whether a run needed more than the smallest GPU on which its plan would be recommended."""
    rows = []
    for section in (*OWN, "memory"):
        for statistic in ("allocated", "reserved", "device", "unknown", "required"):
            # A run that ended out of memory only says that its GPU was too small; m606 is one that a plan without headroom would
            # have let through.
            records = [each for each in reports[section]["records"] if each["statistic"] == statistic and each["predicted"]
                       and not each["skipped"] and each["measured_low"]]
            beyond = [each["id"] for each in records if each["measured_low"] > each["predicted"] / (1 - HEADROOM)]
            failed = [each for each in records if each["ran"] is False]
            for each in failed:
                assert each["predicted"] > each["measured_low"] * (1 - HEADROOM), f"{each['id']} ended out of memory and is recommended"
            if failed:
                beyond = []
            if beyond and section in OWN and statistic in ("allocated", "required"):
                sys.exit(f"{section}: {beyond} need more than the card on which they are recommended")
            if records:
                rows.append([section, statistic, str(len(records)), str(len(beyond)), ", ".join(f"`{each}`" for each in beyond) or "–"])
    return table([("runs", True), ("statistic", True), ("rows", False), ("beyond", False), ("which", True)], rows)


def planners(report):
    rows = []
    for each in report["other_planners"]:
        own = each["zplan"]
        rows.append([each["planner"], each["judged"], percent(each["median_error"]), percent(each["p90_error"]), percent(each["under_predicted"]),
                     percent(own["median_error"]), percent(own["under_predicted"]), each["source"]])
    return table([("planner", True), ("runs", False), ("median", False), ("nine in ten", False), ("too low by more than 5 %", False),
                  ("zplan on these: median", False), ("too low by more than 5 %", False), ("source", True)], rows)


def check_kernel_model(fit):
    """What the fit says of all GPUs must be what the program has: hardware_profiles/gpu.h."""
    for name, value in fit["kernel_model"]["built_in"].items():
        fitted = fit["kernel_model"]["fitted"][name]
        if abs(fitted / value - 1) > 0.02:
            sys.exit(f"gpu.h: {name} is {value:.4g}, and the fit says {fitted:.4g}")


def figures_of(errors):
    too_fast = sum(error > TOO_FAST for error in errors) / len(errors)
    return [percent(each) for each in (statistics.median(map(abs, errors)), nine_in_ten(errors), max(map(abs, errors)), too_fast)]


def read_reference(file):
    return json.loads((ROOT / REFERENCE / file).read_text(encoding="utf-8"))


def speed_planners(report):
    """What other planners predicted was recorded; zplan's are of the same runs."""
    runs = {run["id"]: run for run in read_reference("published/speed.json")}
    own = {record["id"]: record["error"] for record in report["records"] if record["error"] is not None}
    errors = {}
    for each in read_reference("other_planners/speed.json"):
        if each["id"] in own and "skipped" not in each:
            measured_speed = runs[each["id"]]["measured"]["tokens_per_second_per_gpu"]
            errors.setdefault(each["planner"], {})[each["id"]] = each["tokens_per_second_per_gpu"] / measured_speed - 1
    rows = []
    kinds = {"all": lambda options: True, f"to {SHORT_SAMPLE} tokens": lambda options: options["seq"] <= SHORT_SAMPLE,
             "recomputed": lambda options: options["checkpointing"] == "full"}
    for planner, theirs in errors.items():
        for kind, belongs in kinds.items():
            names = [name for name in theirs if belongs(runs[name]["options"])]
            rows.append([planner, kind, len(names), *figures_of([theirs[name] for name in names]), *figures_of([own[name] for name in names])])
    figures = ["median", "nine in ten", "worst", "too fast by more than 20 %"]
    headings = [("planner", True), ("which", True), ("runs", False), *((name, False) for name in figures)]
    return table(headings + [(("zplan on these: " if name == "median" else "") + name, False) for name in figures], rows)


def nine_in_ten(errors):
    absolute = sorted(map(abs, errors))
    return absolute[(len(absolute) * 9 + 9) // 10 - 1]


def too_low(errors):
    return sum(error < -TOO_LOW for error in errors) / len(errors)


def judged(reports, sections, statistics_of):
    return [record for section in sections for record in reports[section]["records"]
            if record["statistic"] in statistics_of and record["error"] is not None]


def levels(record, on_cards):
    """What a record counts for: its own framework, method and GPU, and with some of them left open."""
    framework, method, card = record["framework"], record["method"], record["card"]
    every = [(framework, method, card), (framework, method, None), (framework, None, None)]
    # Ties are by framework and GPU.
    every += [(framework, None, card)] if record["statistic"] == "tokens_per_second" else []
    return {level for level in every if level[2] is None or on_cards}


def accuracy_group(kind, against, anchor, on_cards, slower, statistic, level, records):
    errors = [record["error"] for record in records]
    return {"kind": kind, "against": against, "statistic": statistic, "on_cards": on_cards, "slower_attention": bool(slower),
            "framework": level[0], "method": level[1], "card": level[2], "judged": len(records),
            "exact": sum(record["exact"] for record in records),
            "median_error": round(statistics.median(map(abs, errors)), 4), "p90_error": round(nine_in_ten(errors), 4),
            "worst_error": round(max(map(abs, errors)), 4), "under_predicted": round(too_low(errors), 4), "anchor": anchor}


def accuracy(reports):
    groups = []
    for kind, against, sections, on_cards, slower, anchor in FAMILIES:
        cells = collections.defaultdict(list)
        for section, statistics_of in sections.items():
            for record in judged(reports, [section], statistics_of):
                if slower is not None and record["slower_attention"] != slower:
                    continue
                for level in levels(record, on_cards):
                    cells[(record["statistic"], level)].append(record)
        for (statistic, level), records in sorted(cells.items(), key=lambda item: (item[0][0], [name or "" for name in item[0][1]])):
            groups.append(accuracy_group(kind, against, anchor, on_cards, slower, statistic, level, records))
    return groups


def accuracy_text(groups, ranges_made):
    def lines(entries):
        return ",\n".join("  " + json.dumps(entry) for entry in entries)
    return (f'{{\n "schema": "zplan.accuracy/2",\n "page": "docs/accuracy.md",\n "groups": [\n{lines(groups)}\n ],\n'
            f' "ranges": [\n{lines(ranges_made)}\n ]\n}}\n')


# ---- ranges

# What a range holds, and what a group needs to have one.
RANGE_SHARE = 0.8
FEWEST_RUNS, FEWEST_SOURCES = 8, 3
# What runs have in common with a plan, narrowest first. Where the generation of GPUs is not among it, nobody measured it often enough:
# errors are those of fits that saw nothing of a run's GPU.
RANGE_LEVELS = [("framework", "method", "units"), ("framework", "units"), ("units",), ("framework", "method"), ("framework",), ()]

# As planner/plan/accuracy.h names them.
GENERATIONS = ("ada", "ampere-large", "ampere-small", "hopper", "volta")


def quantile(weighted, share):
    """The weighted quantile."""
    ordered = sorted(weighted)
    left = share * sum(weight for _, weight in ordered)
    for value, weight in ordered:
        left -= weight
        if left <= 1e-12:
            return value
    return ordered[-1][0]


# The 90 % quantile of Student's t by degrees of freedom, and of the normal distribution: the last one's beyond.
STUDENT = [3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356]
NORMAL = 1.2816


def widening(sources):
    """What is predicted for a source that is not among so many is less certain than those are: the prediction interval of Student's t
    beside the normal one."""
    return STUDENT[min(sources - 1, len(STUDENT)) - 1] * math.sqrt(1 + 1 / sources) / NORMAL if sources > 1 else STUDENT[0] * math.sqrt(2) / NORMAL


def ratio(run, error="without_source"):
    """The logarithm of measured over predicted."""
    return -math.log1p(run.get("error", run.get(f"{error}_error")))


def likeness(runs):
    """How much runs of one source and generation of GPUs are alike beyond all others: the intraclass correlation of a one-way analysis of
    variance, 0 to 1."""
    by_stack = collections.defaultdict(list)
    for run in runs:
        by_stack[run["source"], run["units"]].append(ratio(run))
    count, stacks = len(runs), len(by_stack)
    if stacks < 2 or count == stacks:
        return 1.0
    mean = statistics.fmean(ratio(run) for run in runs)
    between = sum(len(own) * (statistics.fmean(own) - mean) ** 2 for own in by_stack.values()) / (stacks - 1)
    within = sum((each - statistics.fmean(own)) ** 2 for own in by_stack.values() for each in own) / (count - stacks)
    size = (count - sum(len(own) ** 2 for own in by_stack.values()) / count) / (stacks - 1)
    return min(1.0, max(0.0, (between - within) / (between + (size - 1) * within)))


def range_of(runs, level, alike):
    """n runs of one stack that are `alike` count as n / (1 + (n - 1) · alike): many say little more about another stack than one does
    where they are off together (speeds), and n times as much where each is off by itself (memory)."""
    error = "without_source" if "units" in level or "error" in runs[0] else "without_gpu"
    stacks = collections.Counter((run["source"], run["units"]) for run in runs)
    weighted = [(ratio(run, error), 1 / (1 + (stacks[run["source"], run["units"]] - 1) * alike)) for run in runs]
    sources = len({run["source"] for run in runs})
    middle = quantile(weighted, 0.5)
    low, high = (math.exp(middle + (quantile(weighted, share) - middle) * widening(sources)) for share in ((1 - RANGE_SHARE) / 2, (1 + RANGE_SHARE) / 2))
    return {"runs": len(runs), "sources": sources, "low": round(low, 4), "high": round(high, 4)}


def enough(runs):
    return len(runs) >= FEWEST_RUNS and len({run["source"] for run in runs}) >= FEWEST_SOURCES


def comparable_runs(runs, offloads):
    """With offload all runs where too few offload."""
    of_kind = [run for run in runs if run["offloads"] == offloads]
    return runs if offloads and not enough(of_kind) else of_kind


def ranges_of(kind, runs, levels):
    made = []
    alike = likeness(runs)
    for offloads in (False, True):
        of_kind = comparable_runs(runs, offloads)
        for level in levels:
            by_key = collections.defaultdict(list)
            for run in of_kind:
                by_key[tuple(run[name] for name in level)].append(run)
            for key, members in sorted(by_key.items()):
                if not level or enough(members):
                    made.append(named_range(kind, offloads, dict(zip(level, key)), range_of(members, level, alike)))
            if level == ("units",):
                made += ranges_of_few(kind, offloads, by_key, alike)
    return made


def named_range(kind, offloads, names, figures):
    return {"kind": kind, "offloads": offloads, **{name: names.get(name) for name in ("framework", "method", "units")}, **figures}


def ranges_of_few(kind, offloads, by_units, alike):
    """Generations of GPUs that too few measured share a range: each is less like those that many measured than like another one."""
    few = {units for units in GENERATIONS if not enough(by_units.get((units,), []))}
    members = [run for units in few for run in by_units.get((units,), [])]
    if not enough(members) or len(few) == len(GENERATIONS):
        return []
    figures = range_of(members, ("units",), alike)
    return [named_range(kind, offloads, {"units": units}, figures) for units in sorted(few)]


def covering(made, run):
    return next(each for each in made if each["offloads"] == run["offloads"] and
                all(each[name] in (None, run[name]) for name in ("framework", "method", "units")))


def speed_runs(fit):
    return fit["held_out"]


# A plan's range is of what a GPU needs: of what the allocator holds, or the driver counts. What is allocated follows from the code to the
# byte and says nothing of caching, which is what such predictions are off by.
HELD = ("reserved", "device")


def memory_runs(reports):
    runs = []
    for section in ("memory", "fresh_memory"):
        rows = {row["id"]: row for row in read_reference(SECTIONS[section][0])}
        runs += [{"source": rows[record["id"]]["source"], "framework": record["framework"], "method": record["method"], "units": "",
                  "offloads": rows[record["id"]]["options"]["offload"] != "none", "error": record["error"], "id": record["id"]}
                 for record in judged(reports, [section], HELD)]
    return runs


MEMORY_LEVELS = [level for level in RANGE_LEVELS if "units" not in level]


def are_held(kind, runs, levels):
    """Of each run, by id, whether the ranges that the other sources make hold it; of those that they say something of."""
    held = {}
    for source in {run["source"] for run in runs}:
        made = ranges_of(kind, [run for run in runs if run["source"] != source], levels)
        for run in runs:
            if run["source"] == source and any(each["offloads"] == run["offloads"] for each in made):
                chosen = covering(made, run)
                held[run["id"]] = chosen["low"] <= math.exp(ratio(run)) <= chosen["high"]
    return held


def held_by_ranges(kind, runs, levels):
    """Runs of each source by the ranges that the others make: how many they hold."""
    held = are_held(kind, runs, levels)
    by_source = {source: (sum(held.get(run["id"], False) for run in runs if run["source"] == source), sum(run["source"] == source for run in runs))
                 for source in sorted({run["source"] for run in runs})}
    return sum(held.values()), len(held), by_source


def regimes_table(fit):
    """Left-out speeds by kind of machine and regime, and how many of them the ranges of other sources hold."""
    rows = left_out_speeds.rows_by_id(left_out_speeds.SPEEDS)
    held = are_held("step_time", speed_runs(fit), RANGE_LEVELS)
    cells_of = []
    for name, belongs in left_out_speeds.REGIMES:
        runs = [run for run in fit["held_out"] if belongs(run, rows[run["id"]])]
        errors = [run["without_source_error"] for run in runs]
        if runs:
            cells_of.append([name, len(runs), signed(statistics.median(errors)), percent(statistics.median(map(abs, errors))), percent(nine_in_ten(errors)),
                             percent(sum(held[run["id"]] for run in runs) / len(runs))])
    return table([("regime", True), ("runs", False), ("median signed", False), ("median", False), ("nine in ten", False), ("within ranges", False)], cells_of)


def ranges_table(fit, reports):
    rows = []
    for kind, runs, levels in (("tokens per second", speed_runs(fit), RANGE_LEVELS), ("counted peak", memory_runs(reports), MEMORY_LEVELS)):
        held, count, by_source = held_by_ranges(kind, runs, levels)
        rows.append([kind, count, held, percent(held / count), "; ".join(f"{source} {inside} of {of}" for source, (inside, of) in by_source.items())])
    return table([("figure", True), ("runs", False), ("within the ranges that other sources make", False), ("share", False), ("by source", True)], rows)


def gpus_table(fit):
    """Every GPU by a fit that saw none of its runs."""
    rows = [[each["gpu"], each["runs"], *(percent(each[share]) for share in ("matrix_products", "attention", "memory_bandwidth")),
             *(percent(each[error]) for error in ("median_error", "p90_error", "held_out_median_error", "held_out_p90_error")),
             signed(each["held_out_median_signed_error"])] for each in fit["efficiencies"]]
    for name, belongs in (("A100 and H100 (SXM)", lambda gpu: gpu.startswith(("A100-SXM", "H100-SXM"))),
                          ("all others", lambda gpu: not gpu.startswith(("A100-SXM", "H100-SXM")))):
        errors = [run["without_gpu_error"] for run in fit["held_out"] if belongs(run["gpu"])]
        rows.append([name, len(errors), "", "", "", "", "", percent(statistics.median(map(abs, errors))), percent(nine_in_ten(errors)),
                     signed(statistics.median(errors))])
    return table([("GPU", True), ("runs", False), ("products", False), ("attention", False), ("memory", False), ("median", False),
                  ("nine in ten", False), ("held out: median", False), ("nine in ten", False), ("median signed", False)], rows)


def cells(groups, kind, on_cards=True):
    """Of published runs every framework, method and GPU by itself."""
    rows = [[each["framework"], each["method"], each["card"], each["statistic"].replace("_", " ") +
             (", slower attention kernel" if each["slower_attention"] else ""), each["judged"], percent(each["median_error"]),
             percent(each["p90_error"]), percent(each["worst_error"]), percent(each["under_predicted"])]
            for each in groups if each["kind"] == kind and each["on_cards"] == on_cards and each["method"] and each["card"]]
    return table([("framework", True), ("method", True), ("card", True), ("statistic", True), ("judged", False), ("median", False),
                  ("nine in ten", False), ("worst", False), ("too low by more than 5 %", False)], sorted(rows, key=lambda row: row[:4]))


# ---- figures that pages quote

def rounded(fraction, upwards):
    """Two digits below one percent, else one behind the point; what nothing exceeds is rounded up, and a trace of an error to 0.01 %."""
    value = 100 * fraction
    scale = 100 if value < 1 else 10
    value = (math.ceil(value * scale - 1e-9) if upwards else round(value * scale)) / scale
    return f"{value:.{2 if scale == 100 else 1}f} %"


# Sections that pages quote together.
TOGETHER = {
    "every_step": "steps+one_card+qlora",
    "every_offload": "steps+sharded_steps",
    "real_models": "schedules+one_card_schedules+sharded_schedules",
    "every_schedule": "held+sharded_runs+sharded_fsdp+schedules+one_card_schedules+sharded_schedules",
}
QUOTES = {
    "count": lambda records, errors: str(len(records)),
    "equal": lambda records, errors: str(sum(record["exact"] for record in records)),
    "ordered": lambda records, errors: str(sum(record["part"] != "issued in another order" for record in records)),
    "disordered": lambda records, errors: str(sum(record["part"] == "issued in another order" for record in records)),
    "median": lambda records, errors: rounded(statistics.median(map(abs, errors)), False),
    "p90": lambda records, errors: rounded(nine_in_ten(errors), True),
    "worst": lambda records, errors: rounded(max(map(abs, errors)), True),
    "low": lambda records, errors: rounded(too_low(errors), False),
}


def selected(reports, words):
    """Judged records by "SECTION[+SECTION…] STATISTIC [KEY=VALUE…]"."""
    sections = TOGETHER.get(words[0], words[0]).split("+")
    records = judged(reports, sections, [words[1]])
    for pair in words[2:]:
        key, value = pair.split("=")
        records = [record for record in records if str(record[key]).lower() == value]
    if not records:
        sys.exit("nothing measured is: " + " ".join(words))
    return records


# What README shows of real GPUs.
ON_CARDS = [
    ("allocated peak", "memory allocated"),
    ("reserved peak", "memory reserved"),
    ("tokens per second, DeepSpeed", "speed+fresh tokens_per_second framework=deepspeed slower_attention=false"),
    ("tokens per second, plain PyTorch", "speed+fresh tokens_per_second framework=torch slower_attention=false"),
    ("tokens per second, FSDP", "speed+fresh tokens_per_second framework=fsdp slower_attention=false"),
    ("tokens per second, FSDP, with a slower attention kernel than plans assume",
     "speed tokens_per_second framework=fsdp slower_attention=true"),
]


def on_cards_table(reports):
    rows = []
    for name, what in ON_CARDS:
        records = selected(reports, what.split())
        errors = [record["error"] for record in records]
        rows.append([name, *(QUOTES[figure](records, errors) for figure in ("count", "median", "p90", "worst", "low"))])
    return "\n" + table([("on real GPUs", True), ("published runs", False), ("median", False), ("nine in ten within", False), ("all within", False),
                         ("too low by more than 5 %", False)], rows)


def quoted(reports, what):
    """"FIGURE SECTION[+SECTION…] STATISTIC [KEY=VALUE…]": one of QUOTES over the judged records that are so; "fits FIGURE": of the runs whose GPU is
    known; "on_cards": a table."""
    words = what.split()
    if words[0] == "on_cards":
        return on_cards_table(reports)
    if words[0] == "fits":
        tally = reports["memory"]["fits"]
        return str(tally["failed"] - tally["failed_and_fits"] if words[1] == "failed_and_not" else tally[words[1]])
    records = selected(reports, words[1:])
    return QUOTES[words[0]](records, [record["error"] for record in records])


def with_quotes(reports, text):
    return re.sub(r"<!--acc (.+?)-->.*?<!--/acc-->", lambda at: f"<!--acc {at[1]}-->{quoted(reports, at[1])}<!--/acc-->", text, flags=re.S)


def quoting_pages():
    pages = (page for page in DOCS.glob("*.md") if page.name != "accuracy.md" and not page.name.endswith(".in.md"))
    return [ROOT / "README.md", *sorted(pages)]


# ---- bounds

SPEED_KEYS = ("statistic", "grade", "card", "method", "slower_attention")
BOUND_KEYS = {"memory": ("statistic", "grade", "card", "method"), "fresh_memory": ("statistic", "grade", "card", "method"), "speed": SPEED_KEYS, "fresh": SPEED_KEYS}


def bounded_cells(section, report):
    cells_of = collections.defaultdict(list)
    for record in report["records"]:
        if record["error"] is not None:
            cells_of[tuple(record[key] for key in BOUND_KEYS.get(section, ("statistic",)))].append(record["error"])
    return cells_of


def fails_of_bound(where, bound, errors):
    figures = {"median": statistics.median(map(abs, errors)), "p90": nine_in_ten(errors), "worst": max(map(abs, errors)),
               "lowest": max(0, -min(errors))}
    if len(errors) != bound["judged"]:
        yield f"{where}: {len(errors)} judged, not {bound['judged']}"
    for name, value in figures.items():
        if value > bound[name]:
            yield f"{where}: {name} {100 * value:.3f} %, at most {100 * bound[name]:.3f} %"


def check_bounds(reports):
    """Of what was measured, every cell has a bound and keeps it; no bound is of a cell that is not there."""
    bounds = json.loads((DOCS / "accuracy_bounds.json").read_text(encoding="utf-8"))
    fails = []
    for section, report in reports.items():
        keys = BOUND_KEYS.get(section, ("statistic",))
        of_section = {tuple(bound.get(key) for key in keys): bound for bound in bounds.get(section, [])}
        measured_cells = bounded_cells(section, report)
        for cell in sorted(set(of_section) ^ set(measured_cells), key=str):
            fails.append(f"{section} {cell}: " + ("nothing measured" if cell in of_section else "no bound"))
        for cell in sorted(set(of_section) & set(measured_cells), key=str):
            fails += fails_of_bound(f"{section} {cell}", of_section[cell], measured_cells[cell])
    if fails:
        sys.exit("docs/accuracy_bounds.json:\n" + "\n".join(fails))


def written(program, explanations, used):
    """Returns the page, and the text of each file that quotes figures."""
    text = generated.template("accuracy")
    reports = {name: run_check(program, [file]) for name, file in BESIDE.items()}
    fit = run_check(program, [SECTIONS[section][0] for section in SPEEDS], ["--fit-efficiency"])
    check_kernel_model(fit)
    for section, (file, most) in SECTIONS.items():
        report = reports[section] = run_check(program, [file])
        others = speed_planners if section == "speed" else planners
        made = {"summary": summary(report), "worst": worst(section, report, most, explanations, used), "skipped": skips(report),
                "planners": others(report), "subsets": subsets(report), "parts": parts(report),
                "slopes": slopes(report), "fits": fits(report)}
        for name, part in made.items():
            text = text.replace("{{" + f"{section} {name}" + "}}\n", part)
    groups = accuracy(reports)
    text = text.replace("{{too low}}\n", why_too_low(reports, explanations, used))
    text = text.replace("{{recommended}}\n", recommended(reports)).replace("{{gpus held out}}\n", gpus_table(fit))
    text = text.replace("{{ranges}}\n", ranges_table(fit, reports)).replace("{{regimes}}\n", regimes_table(fit))
    made = ranges_of("step_time", speed_runs(fit), RANGE_LEVELS) + ranges_of("memory", memory_runs(reports), MEMORY_LEVELS)
    text = text.replace("{{memory cells}}\n", cells(groups, "memory")).replace("{{speed cells}}\n", cells(groups, "step_time"))
    if "{{" in text:
        sys.exit("accuracy.in.md: nothing to put for " + text[text.index("{{"):text.index("}}") + 2])
    check_bounds(reports)
    files = {page: with_quotes(reports, page.read_text(encoding="utf-8")) for page in quoting_pages()}
    return with_quotes(reports, text), files | {ROOT / "planner" / "plan" / "accuracy.json": accuracy_text(groups, made)}


def main():
    check, folder, programs = generated.arguments()
    if len(programs) != 1:
        sys.exit(__doc__)
    explanations = json.loads((DOCS / "accuracy_explanations.json").read_text(encoding="utf-8"))
    used = set()
    page, files = written(programs[0], explanations, used)
    generated.finish("accuracy", page, check, folder)
    if folder:
        return
    stale = sorted(set(explanations) - used)
    if not check:
        for target, text in files.items():
            target.write_text(text, encoding="utf-8")
        print("\n".join(f"not shown any more: {key}" for key in stale))
        return
    if stale:
        sys.exit("explanations of records that are not shown: " + ", ".join(stale))
    for target, text in files.items():
        if target.read_text(encoding="utf-8") != text:
            sys.exit(f"{target.relative_to(ROOT)} is not what zplan check prints: run docs/generate_accuracy.py")


main()

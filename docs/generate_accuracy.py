"""Writes docs/accuracy.md and cli/accuracy.json from what `zplan check` prints over the measurements in tests/reference/.

usage: generate_accuracy.py [--check] ZPLAN

docs/accuracy.in.md is the page with a line {{name}} where figures go. docs/accuracy_explanations.json says, per section and
record, why the prediction is off; it is kept by hand and survives regeneration. cli/accuracy.json is what the program itself says of
its figures, by kind and framework. --check writes nothing and fails where one of the two is not what would be written, or where an
explanation is of a record that is not shown."""

import json
import pathlib
import statistics
import subprocess
import sys

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
    "speed": ("published/speed.json", 8),
    "collectives": ("published/collectives.json", 6),
}
# What a section asks for beside the check.
OPTIONS = {"speed": ["--fit-efficiency"]}
# Beyond this a row is shown whatever its rank, where it is too low: that is what ends a run.
SHOWN_WHEN_TOO_LOW = 0.10
MOST_SHOWN = 25
# Of tokens per second; and up to where it matters little that a planner knows no flash attention.
TOO_FAST = 0.20
SHORT_SAMPLE = 4096


# What the program says of its figures: kind of figure, what it was held against, statistics by section, heading of the page. Of a kind
# the first group is the one that is shown where there is room for one.
COUNTED = ("allocated", "reserved", "required", "device", "unknown")
GROUPS = [
    ("memory", "published runs", {"memory": COUNTED}, "what-others-measured-and-published"),
    ("memory", "recorded steps, allocated", {"steps": ("allocated",), "one_card": ("allocated",), "qlora": ("allocated",)}, "whole-training-steps"),
    ("memory", "recorded steps, reserved", {"steps": ("reserved",), "one_card": ("reserved",), "qlora": ("reserved",)}, "whole-training-steps"),
    ("memory", "smallest devices", {"capacity": ("required",)}, "the-smallest-device"),
    ("memory", "recorded steps, states and buffers held", {"held": ("held",)}, "recorded-steps-of-deepspeed"),
    ("traffic", "recorded steps, call for call", {"held": ("schedule",), "schedules": ("schedule",)}, "recorded-steps-of-deepspeed"),
    ("step_time", "published runs, tokens per second", {"speed": ("tokens_per_second",)}, "speed"),
    ("collective_time", "published timings", {"collectives": ("seconds",)}, "speed"),
]
# As measurements call them, and as zplan does.
FRAMEWORKS = {"deepspeed": "deepspeed", "fsdp": "fsdp", "single": "torch"}
TOO_LOW = 0.05


def run_check(program, file, options):
    result = subprocess.run([program, "check", REFERENCE + file, *options, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"zplan check {file}: {result.stderr.strip()}")
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
    return (f"Of {tally['ran']} runs that ran on a card that is known, {tally['ran_and_fits']} are foretold to fit; of {tally['failed']} that "
            f"ended out of memory, {tally['failed'] - tally['failed_and_fits']} are foretold not to.\n")


# Of every card a plan leaves free what a recommendation does: the default of --headroom.
HEADROOM = 0.10
# Where a prediction has to hold whatever others did: recorded here, not published by others.
OWN = ("steps", "qlora", "capacity")


def recommended(reports):
    """Whether a run needed more than the smallest card on which its plan would be recommended."""
    rows = []
    for section in (*OWN, "memory"):
        for statistic in ("allocated", "reserved", "device", "unknown", "required"):
            # A run that ended out of memory only says that its card was too small; m606 is one that a plan without headroom would
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


def check_profile(fit):
    """What the profile of a fitted card has must be what the fit says."""
    profiles = (json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "hardware_profiles" / "gpus").glob("*.json"))
    profile = next(each for each in profiles if each["name"] == fit["gpu"])
    for ours, theirs in (("matrix_efficiency", "matrix_products"), ("attention_efficiency", "attention"), ("memory_efficiency", "memory_bandwidth")):
        if abs(profile[ours] - fit[theirs]) > 0.005:
            sys.exit(f"{fit['gpu']}: {ours} is {profile[ours]}, and the fit says {fit[theirs]:.3f}")


def efficiencies(report):
    """What a fit to these very runs says of each card, and what fits without a model say of its runs."""
    rows = []
    for each in report["efficiencies"]:
        check_profile(each)
        rows.append([each["gpu"], *(percent(each[share]) for share in ("matrix_products", "attention", "memory_bandwidth")), each["runs"],
                     *(percent(each[error]) for error in ("median_error", "p90_error", "held_out_median_error", "held_out_p90_error"))])
    return table([("card", True), ("products", False), ("attention", False), ("memory", False), ("runs", False), ("median", False),
                  ("nine in ten", False), ("held out: median", False), ("nine in ten", False)], rows)


def figures_of(errors):
    absolute = sorted(abs(error) for error in errors)
    nine_in_ten = absolute[(len(absolute) * 9 + 9) // 10 - 1]
    too_fast = sum(error > TOO_FAST for error in errors) / len(errors)
    return [percent(each) for each in (statistics.median(absolute), nine_in_ten, absolute[-1], too_fast)]


def read_reference(file):
    return json.loads((ROOT / REFERENCE / file).read_text(encoding="utf-8"))


def speed_planners(report):
    """What other planners foretold was recorded; zplan's are of the same runs."""
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


def framework_of(section):
    """Of each record of a section; none where a section is of links alone."""
    if section == "collectives":
        return lambda record: None
    if section in ("held", "capacity"):
        return lambda record: "deepspeed"
    runs = {run["id"]: FRAMEWORKS.get(run["options"]["framework"]) for run in read_reference(SECTIONS[section][0])}
    return lambda record: runs[record["id"]]


def accuracy_group(name, against, anchor, framework, errors):
    absolute = sorted(abs(error) for error in errors)
    return {"kind": name, "against": against, "framework": framework, "judged": len(errors),
            "exact": sum(error == 0 for error in errors),
            "median_error": round(statistics.median(absolute), 4), "p90_error": round(absolute[(len(absolute) * 9 + 9) // 10 - 1], 4),
            "under_predicted": round(sum(error < -TOO_LOW for error in errors) / len(errors), 4), "anchor": anchor}


def host_group():
    """HostMemory holds the program to them: pinned blocks equal, states that are not pinned within 0.01 %."""
    measured_runs = [run for run in read_reference(SECTIONS["steps"][0]) if "host" in json.dumps(run)]
    return {"kind": "host_memory", "against": "recorded steps with offload, blocks of 4 MiB and more", "framework": "deepspeed",
            "judged": len(measured_runs), "exact": 0, "median_error": 0, "p90_error": 0.0001, "under_predicted": 0, "anchor": "equal"}


def accuracy(reports):
    groups = []
    for name, against, sections, anchor in GROUPS:
        errors = {}
        for section, statistics_of in sections.items():
            framework = framework_of(section)
            for record in reports[section]["records"]:
                if record["statistic"] in statistics_of and record["error"] is not None:
                    errors.setdefault(framework(record), []).append(record["error"])
        judged = sum(group["judged"] for section, statistics_of in sections.items() for group in reports[section]["groups"]
                     if group["statistic"] in statistics_of)
        assert sum(map(len, errors.values())) == judged, (name, against, judged)
        groups += [accuracy_group(name, against, anchor, framework, errors[framework]) for framework in sorted(errors, key=str)]
    groups.append(host_group())
    return json.dumps({"schema": "zplan.accuracy/1", "page": "docs/accuracy.md", "groups": groups}, indent=1) + "\n"


def written(program, explanations, used):
    """The text of each file."""
    text = (DOCS / "accuracy.in.md").read_text(encoding="utf-8")
    reports = {}
    for section, (file, most) in SECTIONS.items():
        report = reports[section] = run_check(program, file, OPTIONS.get(section, []))
        others = speed_planners if section == "speed" else planners
        made = {"summary": summary(report), "worst": worst(section, report, most, explanations, used), "skipped": skips(report),
                "planners": others(report), "subsets": subsets(report), "parts": parts(report),
                "slopes": slopes(report), "fits": fits(report), "efficiencies": efficiencies(report)}
        for name, part in made.items():
            text = text.replace("{{" + f"{section} {name}" + "}}\n", part)
    text = text.replace("{{recommended}}\n", recommended(reports))
    if "{{" in text:
        sys.exit("accuracy.in.md: nothing to put for " + text[text.index("{{"):text.index("}}") + 2])
    return {DOCS / "accuracy.md": text, ROOT / "cli" / "accuracy.json": accuracy(reports)}


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    programs = [each for each in arguments if each != "--check"]
    if len(programs) != 1:
        sys.exit(__doc__)
    explanations = json.loads((DOCS / "accuracy_explanations.json").read_text(encoding="utf-8"))
    used = set()
    files = written(programs[0], explanations, used)
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

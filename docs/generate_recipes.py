"""Writes docs/recipes.md, or the site's page in FOLDER, from what zplan answers.

usage: generate_recipes.py [--check | --site FOLDER] ZPLAN

docs/recipes.in.md is the page, with lines {{ARGUMENTS}} of zplan: lines that follow each other become their commands and a table with a
row for each, a line of `hardware compare` one with a row for each GPU or offer. --check writes nothing and fails where the page is not what would be written."""

import json
import re
import subprocess
import sys

import generated

GIB = 2**30


def report(program, arguments):
    result = subprocess.run([program, *arguments.split(), "--json"], capture_output=True, text=True, check=False, cwd=generated.DOCS.parent)
    if result.returncode not in (0, 1):
        sys.exit(f"{arguments}: {result.stderr}")
    return json.loads(result.stdout)


def seconds(value):
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if value >= 2 * length:
            return f"{value / length:.1f} {unit}"
    return f"{value:.2f} s"


def plan_of(report):
    """The recommended plan, an alternative that fits, or the nearest miss; with its description."""
    if report["recommended"]:
        return report["plans"][0], "fits"
    if report["alternative"]:
        other = report["alternative"]
        change = f" with `{other['change']}`" if other["change"] else ""
        return other["plan"], f"not as asked (`{report['plans'][0]['id']}`); this fits{change}"
    short = report["plans"][0]
    lacking = short["memory"]["required"] - report["cluster"]["available_memory_bytes"]
    if lacking <= 0:
        return short, "does not fit: host memory"
    return short, f"does not fit: {lacking / GIB:.1f} GiB short"


def row(label, answer):
    plan, verdict = plan_of(answer)
    strategy, time = plan["strategy"], plan["time"]
    batch = f"{strategy['micro_batch_size']} × {strategy['gradient_accumulation_steps']}"
    cells = [label, f"`{plan['id']}`", batch, f"{plan['memory']['required'] / GIB:.1f} of {answer['cluster']['available_memory_bytes'] / GIB:.1f}",
             seconds(time["step"]), f"{time['tokens_per_second']:.0f}", verdict]
    run = plan.get("run")
    if run:
        cells.append(seconds(run["wall_seconds"]) + (f", {run['cost']:.{2 if run['cost'] < 100 else 0}f}" if run["cost"] is not None else ""))
    return cells


def compared(program, line):
    head = ["", "strategy", "batch × accumulation", "needs, GiB", "step", "tokens/s", "", "run, cost", "a million tokens"]
    rows = [row(f"`{each['name']}`", each["report"]) + [f"{each['cost_per_million_tokens']:.2f}"] for each in report(program, line)["hardware"]]
    return head, rows


def asked(program, lines):
    label = (lambda i: str(i + 1)) if len(lines) > 1 else (lambda i: "")
    rows = [row(label(i), report(program, line)) for i, line in enumerate(lines)]
    head = ["", "strategy", "batch × accumulation", "needs, GiB", "step", "tokens/s", "", "run, cost"][:max(map(len, rows))]
    return (head, rows) if len(lines) > 1 else (head[1:], [each[1:] for each in rows])


def block(program, lines):
    text = [f"    zplan {line}" for line in lines] + [""]
    head, rows = compared(program, lines[0]) if lines[0].startswith("hardware compare") else asked(program, lines)
    text += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return text + ["| " + " | ".join(each) + " |" for each in rows]


def page(program):
    text, lines = [], []
    for line in [*generated.template("recipes").splitlines(), None]:
        found = re.fullmatch(r"\{\{(.*)\}\}", line) if line is not None else None
        if found:
            lines.append(found[1])
            continue
        if lines:
            text += block(program, lines)
            lines = []
        if line is not None:
            text.append(line)
    return "\n".join(text) + "\n"


def main():
    check, folder, (program,) = generated.arguments()
    generated.finish("recipes", page(program), check, folder)


main()

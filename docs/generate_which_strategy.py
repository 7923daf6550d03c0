"""Writes docs/which-strategy.md, or the site's page in FOLDER, from what `zplan compare` says.

usage: generate_which_strategy.py [--check | --site FOLDER] ZPLAN

docs/which-strategy.in.md is the page, with lines {{kind WORDS | WORDS | …}}: the first WORDS are what every command has, each of the
others makes one command of it. `table` prints the commands and a row per strategy, `crossings` the bandwidths at which the two
trade places: rows are what stands before ‖, columns what stands behind it. --check writes nothing and fails where the page is
not what would be written."""

import json
import re
import subprocess
import sys

import generated



def compare(program, words):
    result = subprocess.run([program, "compare", *words.split(), "--json"], capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit(f"zplan compare {words}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def label(words):
    return " ".join(word for word in words.split() if not word.startswith("--"))


def row(name, plan):
    time, sent = plan["time"], plan["communication"]
    seconds = [f"{time[key]:.2f}" for key in ("communication", "exposed_communication", "compute", "launching", "offload", "step")]
    cells = [f"{name}: {plan['id']}", f"{plan['memory']['required'] / 2**30:.1f}", "fits" if plan["fits"] else "does not fit",
             f"{(sent['inside_bytes_per_gpu'] + sent['outside_bytes_per_gpu']) / 1e9:.1f}", *seconds,
             f"{time['tokens_per_second']:.0f}", f"{100 * time['mfu']:.0f} %"]
    return "| " + " | ".join(cells) + " |"


def table(program, common, variants):
    lines = [f"    zplan compare {common} {variant}" for variant in variants]
    lines += ["", "| run, strategy | needs, GiB | | sent, GB | communication, s | exposed, s | compute, s | launches, s | offload, s | step, s "
              "| tokens/s | MFU |", "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for variant in variants:
        lines += [row(label(variant), plan) for plan in compare(program, f"{common} {variant}")["plans"]]
    return lines


def rate(value):
    gigabytes = value / 1e9
    return f"{gigabytes:.0f}" if gigabytes >= 100 else f"{gigabytes:.3g}"


def crossing(report):
    comparison = report["comparison"]
    crossover, link = comparison.get("crossover"), comparison["link"]
    if crossover is None:
        return f"{comparison['faster']} at any, {rate(link['lowest_tried'])} to {rate(link['highest_tried'])} GB/s"
    return f"{crossover['faster_below']} below {rate(crossover['bytes_per_second'])} GB/s, {crossover['faster_above']} above"


def crossings(program, common, variants):
    split = variants.index("‖")
    rows, columns = variants[:split], variants[split + 1:]
    lines = [f"    zplan compare {common} {columns[0]} {rows[0]}", "",
             "| | " + " | ".join(label(column) for column in columns) + " |", "| --- |" + " --- |" * len(columns)]
    for each in rows:
        cells = [crossing(compare(program, f"{common} {column} {each}")) for column in columns]
        lines.append(f"| {each} | " + " | ".join(cells) + " |")
    return lines


def page(program):
    lines = []
    for line in generated.template("which-strategy").splitlines():
        found = re.fullmatch(r"\{\{(table|crossings) (.*)\}\}", line)
        if not found:
            lines.append(line)
            continue
        common, *variants = [part.strip() for part in found.group(2).split("|")]
        lines += (table if found.group(1) == "table" else crossings)(program, common, variants)
    return "\n".join(lines) + "\n"


def main():
    check, folder, (program,) = generated.arguments()
    generated.finish("which-strategy", page(program), check, folder)


main()

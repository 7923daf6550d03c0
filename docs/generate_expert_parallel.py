"""Writes docs/expert-parallel.md, or the site's page in FOLDER, from what `zplan compare` says.

usage: generate_expert_parallel.py [--check | --site FOLDER] ZPLAN

docs/expert-parallel.in.md is the page, with lines {{MODEL | STRATEGY STRATEGY … | GPUS GPUS … | OPTIONS}}: a row per number of
GPUs and strategy. --check writes nothing and fails where the page is not what would be written."""

import json
import re
import subprocess
import sys

import generated

PER_NODE = 8


def plans(program, model, strategies, gpus, options):
    """Plan by strategy; those that cannot be trained are not in it. zplan compares at least two."""
    words = f"--model {model} --gpus {gpus} --nodes {max(1, gpus // PER_NODE)} {options} --json"
    while len(strategies) > 1:
        result = subprocess.run([program, "compare", *strategies, *words.split()], capture_output=True, text=True, check=False)
        if result.returncode in (0, 1) and result.stdout:
            return {each["id"]: each for each in json.loads(result.stdout)["plans"]}
        refused = re.search(r'strategy "([^"]*)"', result.stderr)
        if not refused or refused[1] not in strategies:
            sys.exit(f"{model} on {gpus}: {result.stderr}")
        strategies = [each for each in strategies if each != refused[1]]
    sys.exit(f"{model} on {gpus}: fewer than two strategies can be trained")


def row(gpus, strategy, found):
    if not found:
        return f"| {gpus} | {strategy} | – | refused | – | – |"
    memory, time = found["memory"], found["time"]
    return "| " + " | ".join([
        str(gpus), strategy, f"{memory['required'] / 2**30:.1f}", "fits" if found["fits"] else "does not fit",
        f"{time['step']:.2f}", f"{time['tokens_per_second'] / gpus:.0f}"]) + " |"


def table(program, line):
    model, strategies, counts, options = (part.strip() for part in line.split("|"))
    nodes = f" --nodes N/{PER_NODE}" if max(map(int, counts.split())) > PER_NODE else ""
    lines = [f"    zplan compare STRATEGY… --model {model} --gpus N{nodes} {options}", "",
             "| GPUs | strategy | needs, GiB | | step, s | tokens/s per GPU |", "| ---: | --- | ---: | --- | ---: | ---: |"]
    for gpus in map(int, counts.split()):
        found = plans(program, model, strategies.split(), gpus, options)
        lines += [row(gpus, each, found.get(each)) for each in strategies.split()]
    return lines


def page(program):
    text = []
    for line in generated.template("expert-parallel").splitlines():
        found = re.fullmatch(r"\{\{(.*)\}\}", line)
        text += table(program, found[1]) if found else [line]
    return "\n".join(text) + "\n"


def main():
    check, folder, (program,) = generated.arguments()
    generated.finish("expert-parallel", page(program), check, folder)


main()

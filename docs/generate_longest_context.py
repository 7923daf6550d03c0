"""Writes docs/longest-context.md, or the site's page in FOLDER, from what `zplan fit` says.

usage: generate_longest_context.py [--check | --site FOLDER] ZPLAN

docs/longest-context.in.md is the page; {{table}} stands for a row per card. --check writes nothing and fails where the page is not what
would be written."""

import json
import subprocess
import sys

import generated

QUESTION = "--model meta-llama/Llama-3.1-8B --gpus 1 --method qlora --lora-rank 32 --headroom 0 --solve sequence --json"
UNSLOTH = "--trainer unsloth"
TRL = "--trainer trl --framework torch --optimizer adamw8bit"

# Card in GiB: with Unsloth, with Hugging Face and FlashAttention 2. None: nothing fits.
# Source: unsloth.ai docs/basics/unsloth-benchmarks, "Llama 3.1 (8B) max. context length".
PUBLISHED = {8: (2972, None), 12: (21848, 932), 16: (40724, 2551), 24: (78475, 5789), 40: (153977, 12264), 48: (191728, 15502),
             80: (342733, 28454)}


def longest(program, memory, words):
    command = [program, "fit", *QUESTION.split(), "--mem", str(memory), *words.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: {result.stderr.strip()}")
    return json.loads(result.stdout)["questions"][0]["answer"]


def tokens(value):
    return "nothing fits" if not value else f"{value:,}"


def table(program):
    lines = ["| card, GiB | Unsloth, published | Unsloth, planned | Hugging Face, published | TRL 1.16, planned |",
             "| ---: | ---: | ---: | ---: | ---: |"]
    for memory, (with_unsloth, without) in PUBLISHED.items():
        cells = [str(memory), tokens(with_unsloth), tokens(longest(program, memory, UNSLOTH)), tokens(without),
                 tokens(longest(program, memory, TRL))]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main():
    check, folder, (program,) = generated.arguments()
    text = generated.template("longest-context").replace("{{table}}", "\n".join(table(program)))
    generated.finish("longest-context", text, check, folder)


main()

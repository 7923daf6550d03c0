"""Writes docs/which-framework.md and its chart, or the site's page in FOLDER, from what `zplan compare` says.

usage: generate_which_framework.py [--check | --site FOLDER] ZPLAN

docs/which-framework.in.md is the page: {{command}} becomes the command, {{table}} a row for each strategy. The chart,
docs/images/which-framework.svg, has the same rows. --check writes nothing and fails where page or chart is not what would be written."""

import json
import subprocess
import sys

import generated

# Of each framework the fastest that fits, as `zplan --framework NAME` recommends it, and strategies that the text explains beside it.
STRATEGIES = {"zero3": "DeepSpeed", "fsdp": "FSDP2, accelerate", "titan": "torchtitan", "tp4+pp4+titan": "torchtitan",
              "tp4+pp2+distopt": "Megatron-Core", "tp8+distopt": "Megatron-Core"}
QUESTION = ("--model meta-llama/Llama-3.1-70B --gpus 64 --nodes 8 --gpu H100-SXM-80GB --host-mem 3072 --seq 8k --global-batch 64 "
            "--checkpointing full")
CHART = generated.DOCS / "images" / "which-framework.svg"
GIB = 2**30
PARTS = {"parameters": "#4477aa", "gradients": "#66ccee", "optimizer states": "#228833", "activations, loss, buffers": "#ccbb44",
         "overhead": "#bbbbbb"}
TIMES = {"compute": "#4477aa", "communication and waiting": "#ee6677", "optimizer": "#228833"}


def compare(program):
    words = [program, "compare", *STRATEGIES, *QUESTION.split(), "--json"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit(f"{' '.join(words)}: {result.stderr.strip()}")
    report = json.loads(result.stdout)
    plans = {plan["id"]: plan for plan in report["plans"]}
    return [plans[name] for name in STRATEGIES]


def table(plans):
    lines = ["| framework | strategy | needs, GiB | sent inside a node, GB | out of it, GB | compute, s | communication and waiting, s | step, s | "
             "tokens/s | MFU |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for plan in plans:
        time, sent = plan["time"], plan["communication"]
        needs = f"{plan['memory']['required'] / GIB:.1f}{'' if plan['fits'] else ', does not fit'}"
        cells = [STRATEGIES[plan["id"]], f"`{plan['id']}`", needs, f"{sent['inside_bytes_per_gpu'] / 1e9:.0f}",
                 f"{sent['outside_bytes_per_gpu'] / 1e9:.0f}", f"{time['compute']:.2f}", f"{time['exposed_communication']:.2f}",
                 f"{time['step']:.2f}", f"{time['tokens_per_second']:,.0f}", f"{100 * time['mfu']:.0f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def memory_parts(plan):
    memory = plan["memory"]
    named = [memory["parameters"], memory["gradients"], memory["optimizer_states"]]
    beside = memory["framework_overhead"]
    sizes = [*named, memory["required"] - sum(named) - beside, beside]
    return [size / GIB for size in sizes]


def time_parts(plan):
    time = plan["time"]
    return [time["compute"], time["exposed_communication"], time["step"] - time["compute"] - time["exposed_communication"]]


def panel(plans, title, colours, parts, unit, left):
    """Returns a panel of stacked bars as lines of SVG; it is 400 wide."""
    sums = [sum(parts(plan)) for plan in plans]
    scale = 330 / max(sums)
    lines = [f'<text x="{left}" y="20" class="title">{title}</text>']
    for i, plan in enumerate(plans):
        x, y = float(left), 36 + 30 * i
        for value, colour in zip(parts(plan), colours.values()):
            lines.append(f'<rect x="{x:.1f}" y="{y}" width="{value * scale:.1f}" height="20" fill="{colour}"/>')
            x += value * scale
        lines.append(f'<text x="{x + 6:.1f}" y="{y + 15}">{sums[i]:.1f} {unit}</text>')
    y, x = 36 + 30 * len(plans) + 8, left
    for name, colour in colours.items():
        if x + 24 + 6.2 * len(name) > left + 400:
            x, y = left, y + 20
        lines += [f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>', f'<text x="{x + 17}" y="{y + 10}">{name}</text>']
        x += int(32 + 6.2 * len(name))
    return lines


def chart(plans):
    height = 36 + 30 * len(plans) + 52
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1050 {height}" role="img" aria-label="Memory and step time of six strategies">',
             "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.name{text-anchor:end}</style>",
             f'<rect width="1050" height="{height}" fill="#fff"/>']
    for i, plan in enumerate(plans):
        lines.append(f'<text x="190" y="{36 + 30 * i + 15}" class="name">{STRATEGIES[plan["id"]].split(",")[0]} {plan["id"]}</text>')
    lines += panel(plans, "Memory of the GPU that needs most", PARTS, memory_parts, "GiB", 200)
    lines += panel(plans, "Time of a step", TIMES, time_parts, "s", 630)
    return "\n".join([*lines, "</svg>", ""])


def page(plans):
    ids = " ".join(STRATEGIES)
    words = QUESTION.split(" --host-mem")
    command = [f"    zplan compare {ids} \\", f"      {words[0]} \\", f"      --host-mem{words[1]}"]
    lines = []
    for line in generated.template("which-framework").splitlines():
        lines += {"{{command}}": command, "{{table}}": table(plans)}.get(line, [line])
    return "\n".join(lines) + "\n"


def main():
    check, folder, (program,) = generated.arguments()
    plans = compare(program)
    generated.finish("which-framework", page(plans), check, folder)
    if folder:
        return
    if not check:
        CHART.write_text(chart(plans), encoding="utf-8")
    elif CHART.read_text(encoding="utf-8") != chart(plans):
        sys.exit("docs/images/which-framework.svg is not what generate_which_framework.py writes")


main()

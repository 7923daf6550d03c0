"""Writes docs/advice.md or docs/what-fits.md, or the site's page in FOLDER, from what zplan says.

usage: generate_advice.py [--check | --site FOLDER] PAGE ZPLAN
       generate_advice.py --exhaustive ZPLAN     searches under every set of levers, and writes docs/levers.json

docs/PAGE.in.md is the page (generated.py says which parts of it go where). What stands in it between {{ and }}, on a line of its own:

    table NAME: WORDS | WORDS | …    runs `zplan` with the first WORDS and each of the others; the commands, and a row per strategy of a
                                     comparison, or the recommended one of a plan (the nearest miss where nothing fits)
    fewest NAME: WORDS | WORDS | …   the same of `zplan fit --solve gpus`: a row per strategy and its fewest GPUs
    let NAME: WORDS | WORDS | …      runs, and prints nothing
    card NAME: WORDS                 a table of all models, methods and numbers of GPUs on one card
    levers NAME: FILE                a table of the questions of docs/FILE: what is recommended as asked, what is advised, and the
                                     fastest of searches under every set of levers
    claim EXPRESSION                 nothing; where it does not hold the page is not written

and within a line EXPRESSION:FORMAT, a figure. Every sentence that draws a conclusion has its claim beside it, so that figures which no
longer bear it out stop the page rather than leave it false. --check writes nothing and fails where docs/PAGE.md is not what would be
written."""

import concurrent.futures
import itertools
import json
import re
import subprocess
import sys

import generated

GIB = 2**30
NEAR = 0.05
PROCESSES = 2
COUNTS = (1, 2, 4, 8)
METHODS = ("full", "lora", "qlora")
MODELS = {"1B": "meta-llama/Llama-3.2-1B", "3B": "meta-llama/Llama-3.2-3B", "7B": "meta-llama/Llama-2-7b-hf", "8B": "Qwen/Qwen3-8B",
          "13B": "meta-llama/Llama-2-13b-hf", "14B": "Qwen/Qwen3-14B", "30B": "Qwen/Qwen3-30B-A3B", "32B": "Qwen/Qwen3-32B",
          "70B": "meta-llama/Llama-3.1-70B"}


class Plan:
    """One strategy of a report, in the units of the tables: GiB, seconds, tokens per second and GPU."""

    def __init__(self, plan, available):
        memory, time = plan["memory"], plan["time"]
        self.id, self.fits, self.fits_device, self.fits_host = (plan[key] for key in ("id", "fits", "fits_device", "fits_host"))
        self.needs, self.low, self.high = (memory[key] / GIB for key in ("required", "required_low", "required_high"))
        self.live, self.parameters, self.host, self.nvme = (memory[key] / GIB for key in ("peak", "parameters", "host", "nvme"))
        self.phase = memory["peak_phase"]
        self.spare, self.near = available - self.needs, 0 <= available - self.needs < NEAR * available
        self.step, self.launching, self.rate = time["step"], time["launching"], time["tokens_per_second_per_gpu"]
        self.accumulation = plan["strategy"]["gradient_accumulation_steps"]
        self.stage = plan["strategy"]["zero_stage"]
        self.offloads = plan["strategy"]["offload_optimizer"] != "none"
        self.tensor_parallel = plan["strategy"]["tensor_parallel"]

    def verdict(self):
        if self.fits:
            return "fits, near the edge" if self.near else "fits"
        return "short of the GPU" if not self.fits_device else "short of host memory"

    def row(self, name):
        host = f"{self.host:.0f}" + (f" + {self.nvme:.0f} NVMe" if self.nvme else "")
        return [name, f"`{self.id}`", f"{self.needs:.1f} ({self.low:.1f} to {self.high:.1f})", f"{self.spare:+.1f}",
                host if self.host or self.nvme else "-", f"{self.step:.2f}", f"{self.rate:.0f}", self.verdict()]


class Report:
    """What `zplan plan` or `compare` prints: plans by name, and the one to show."""

    def __init__(self, report):
        self.available = report["cluster"]["available_memory_bytes"] / GIB
        self.plans = [Plan(plan, self.available) for plan in report["plans"]]
        self.best, self.fits = self.plans[0], report["recommended"] is not None
        self.alternative = report["alternative"] and report["alternative"]["change"]
        self.parameters, self.trainable = report["model"]["parameters"], report["model"]["trainable_parameters"]

    def __getitem__(self, name):
        return next(plan for plan in self.plans if plan.id == name)


class Fewest:
    """A strategy's fewest GPUs, as `zplan fit --solve gpus` prints it; none where not even 1024 do."""

    def __init__(self, solution):
        self.id, self.gpus, self.next, self.reason = solution["strategy"], solution["value"], solution["next"], solution["reason"]
        self.needs, self.host = solution["required"] / GIB, (solution["host"] or 0) / GIB
        self.rate = solution["tokens_per_second"] / (self.gpus or 1024)

    def row(self, name):
        return [name, f"`{self.id}`", f"{self.gpus}" if self.gpus else "more than 1024", f"{self.needs:.1f}",
                f"{self.host:.0f}" if self.host else "-", f"{self.rate:.0f}", self.reason]


class Solutions:
    def __init__(self, report):
        self.plans = [Fewest(solution) for solution in report["questions"][0]["solutions"]]
        self.gpus = report["questions"][0]["answer"]

    def __getitem__(self, name):
        return next(plan for plan in self.plans if plan.id == name)


class Missing:
    """A cell in which nothing fits: whether the host is what lacks, and the fewest GPUs of this kind that do."""

    fits = near = False

    def __init__(self, nearest, fewest):
        self.host, self.fewest = nearest.fits_device and not nearest.fits_host, fewest


class Refusal:
    """What `zplan` says to bad input: exit status 2 and one line."""

    def __init__(self, message):
        self.message, self.plans = message.removeprefix("zplan: "), []

    def __contains__(self, words):
        return words in self.message


class Zplan:
    """Runs the program, each command once, a few at a time."""

    def __init__(self, program):
        self.program, self.answers = program, {}

    def __call__(self, words):
        if words not in self.answers:
            self.answers[words] = self.run(words)
        return self.answers[words]

    def run(self, words):
        no_advice = [] if words.startswith(("compare", "fit")) else ["--no-advice"]
        result = subprocess.run([self.program, *words.split(), *no_advice, "--json"], capture_output=True, text=True, check=False)
        if result.returncode not in (0, 1):
            return Refusal(result.stderr.strip())
        report = json.loads(result.stdout)
        return Solutions(report) if report["schema"].startswith("zplan.fit") else Report(report)

    def pick(self, words, probably_without):
        """The fastest plan without offload, where none of those fits the fastest with. The guess only decides the order of the questions."""
        report = self(f"{words} --offload none") if probably_without else None
        if not (report and report.fits):
            report = self(words)
        return next((plan for plan in report.plans if plan.fits and not plan.offloads), report.best)

    def cells(self, words, model, method):
        """By number of GPUs what to take, or what is missing. Below the fewest GPUs nothing is planned: the whole row lacks the same."""
        common = f"--model {model} {words} --method {method} --tp 1"
        last = self.pick(f"{common} --gpus {COUNTS[-1]}", True)
        fewest = 1 if last.fits else self(f"fit --solve gpus {common}").gpus
        if not fewest or fewest > COUNTS[-1]:
            return dict.fromkeys(COUNTS, Missing(last, fewest))
        plans = {COUNTS[-1]: last}
        for count in COUNTS[-2::-1]:
            plans[count] = self.pick(f"{common} --gpus {count}", last.fits and not last.offloads)
            last = plans[count]
        fewest = self.fewest(common, [count for count in COUNTS if plans[count].fits])
        return {count: plan if plan.fits else Missing(plan, fewest) for count, plan in plans.items()}

    def fewest(self, common, fitting):
        between = range(max([count for count in COUNTS if count < fitting[0]], default=0) + 1, fitting[0])
        return next((count for count in between if self.pick(f"{common} --gpus {count}", False).fits), fitting[0])


def lines_of(rows, head, align):
    return ["| " + " | ".join(each) + " |" for each in [head, align, *rows]]


def commands(words, variants):
    return [" ".join(f"{words} {variant}".split()) for variant in variants] or [words]


def variants_of(words):
    common, *variants = [part.strip() for part in words.split("|")]
    return common, variants


def label(variant):
    """A row's name: what tells its run from the others, without the strategies, which have a column."""
    return " ".join(word for word in variant.replace("--", "").split() if not re.match(r"zero\d|.*\+", word)) or "as above"


def table(reports, run, variants):
    shown = ["    zplan " + each for each in run] + [""]
    names = [label(variant) for variant in variants] or [""]
    rows = [plan.row(name) for name, report, command in zip(names, reports, run)
            for plan in (report.plans if command.startswith("compare") else [report.best])]
    head = ["run", "strategy", "needs, GiB per GPU", "to spare, GiB", "host, GiB per node", "step, s", "tokens/s per GPU", ""]
    return shown + lines_of(rows, head, ["---", "---", "---:", "---:", "---:", "---:", "---:", "---"])


def fewest(reports, run, variants):
    shown = ["    zplan " + each for each in run] + [""]
    rows = [plan.row(label(variant)) for variant, report in zip(variants, reports) for plan in report.plans]
    head = ["run", "strategy", "fewest GPUs", "needs, GiB per GPU", "host, GiB per node", "tokens/s per GPU", "because"]
    return shown + lines_of(rows, head, ["---", "---", "---:", "---:", "---:", "---:", "---"])


def cell(value, count):
    if not value.fits:
        more = f" ({value.fewest})" if value.fewest and value.fewest > count else ""
        return ("- host" if value.host else "-") + more
    short = value.id.replace("offload-optimizer", "opt").replace("offload-all", "all")
    return f"{short} {value.needs:.1f}{'~' if value.near else ''}, {value.rate:.0f}"


def card(cells, name):
    rows = [[f"{size} {method}"] + [cell(cells[name, size, method][count], count) for count in COUNTS]
            for size in MODELS for method in METHODS]
    return lines_of(rows, ["model, method"] + [f"{count} GPU{'s' if count > 1 else ''}" for count in COUNTS], ["---"] * (1 + len(COUNTS)))


class Lever:
    """What `zplan` advises for a question of docs/levers.json, beside what it recommends as asked and the fastest under any set of levers."""

    def __init__(self, program, words, most):
        report = json.loads(subprocess.run([program, *words.split(), "--json"], capture_output=True, text=True, check=False).stdout)
        asked, best = report["plans"][0], report["advice"]["best"]
        self.words, self.most = words, most
        self.asked = asked["time"]["tokens_per_second"] if report["recommended"] else None
        self.asked_id = asked["id"] if report["recommended"] else "nothing fits"
        self.best = best["plan"]["tokens_per_second"] if best else None
        self.best_id = best["plan"]["id"] if best else "nothing fits"
        self.levers = ", ".join(each["option"] for each in best["levers"]) if best else ""

    def is_near(self):
        """Within 5 % of the fastest under any set of levers, or nothing fits under any."""
        return self.best >= 0.95 * self.most if self.best else not self.most

    def row(self):
        gain = f"{self.best / self.asked:.2f}" if self.best and self.asked else "-"
        share = f"{100 * self.best / self.most:.1f} %" if self.best else "-"
        return [f"`{self.words}`", f"`{self.asked_id}`", f"{self.asked:.0f}" if self.asked else "-", f"`{self.best_id}`",
                f"`{self.levers}`" if self.levers else "", f"{self.best:.0f}" if self.best else "-", gain, share]


def levers(program, file):
    stored = json.loads((generated.DOCS / file).read_text(encoding="utf-8"))
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda each: Lever(program, each["question"], each["most"]), stored))


def lever_table(rows):
    head = ["question", "as asked", "tokens/s", "advised", "levers", "tokens/s", "times as fast", "of the fastest"]
    return lines_of([each.row() for each in rows], head, ["---", "---", "---:", "---", "---", "---:", "---:", "---:"])


LEVERS = ("--expandable-segments", "--fused-loss --kernels liger", "--fused-loss", "--quant-storage bf16")


def applies(lever, words):
    """Liger has one argument for the models that it patches, of which GPT-2 is none; packed weights are divided among several GPUs."""
    if lever == "--quant-storage bf16":
        return "qlora" in words and "--gpus 1 " not in words
    return "--fused-loss" not in lever or (lever == "--fused-loss") == ("gpt2" in words)


def exhaustive(program):
    """Searches each question under every set of levers."""
    target = generated.DOCS / "levers.json"
    stored = json.loads(target.read_text(encoding="utf-8"))

    def most(words):
        fastest = 0.0
        for size in range(len(LEVERS) + 1):
            for pulled in itertools.combinations(LEVERS, size):
                if not all(applies(each, words) for each in pulled):
                    continue
                result = subprocess.run([program, "search", *words.split(), *" ".join(pulled).split(), "--json"], capture_output=True,
                                        text=True, check=False)
                best = json.loads(result.stdout)["search"]["best"] if result.returncode == 0 else []
                fastest = max([fastest] + [each["tokens_per_second"] for each in best])
        return round(fastest, 1)

    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        for each, fastest in zip(stored, pool.map(lambda one: most(one["question"]), stored)):
            each["most"] = fastest
    lines = ",\n".join("  " + json.dumps(each) for each in stored)
    target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def prepare(zplan, text):
    """Runs all that the page asks for, so that rendering only looks it up; the cells of its cards."""
    wanted, cells = [], {}
    for kind, _, words in re.findall(r"^\{\{(table|fewest|let) (\w+): (.*)\}\}$", text, re.MULTILINE):
        common, variants = variants_of(words)
        wanted += commands(("fit --solve gpus " if kind == "fewest" else "") + common, variants)
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        rows = {(name, size, method): pool.submit(zplan.cells, words, model, method)
                for name, words in re.findall(r"^\{\{card (\w+): (.*)\}\}$", text, re.MULTILINE)
                for size, model in MODELS.items() for method in METHODS}
        list(pool.map(zplan, dict.fromkeys(wanted)))
        cells.update({key: row.result() for key, row in rows.items()})
    return cells


def figure(expression, names):
    body, _, form = expression.rpartition(":")
    return format(eval(body, names), form) if body else str(eval(form, names))  # the page is ours


def vocabulary(cells):
    """What expressions of a page with cards may say."""
    def plain(name, size, method, count):
        return cells[name, size, method][count].fits and not cells[name, size, method][count].offloads

    return {"models": MODELS, "plain": plain, "at": lambda *key, count: cells[key][count],
            "largest": lambda name, method: [size for size in MODELS if size != "30B" and plain(name, size, method, 1)][-1]}


def rendered(zplan, text):
    cells = prepare(zplan, text)
    names, lines = vocabulary(cells), []
    for line in text.splitlines():
        found = re.fullmatch(r"\{\{(table|fewest|let|card|levers|claim) (.*)\}\}", line)
        if not found:
            lines.append(re.sub(r"\{\{(.*?)\}\}", lambda each: figure(each.group(1), names), line))
            continue
        kind, rest = found.groups()
        if kind == "claim":
            if not eval(rest, names):
                sys.exit(f"no longer true: {rest}")
            continue
        name, _, words = rest.partition(": ")
        if kind == "card":
            lines += card(cells, name)
            continue
        if kind == "levers":
            names[name] = levers(zplan.program, words)
            lines += lever_table(names[name])
            continue
        common, variants = variants_of(words)
        run = commands(("fit --solve gpus " if kind == "fewest" else "") + common, variants)
        names[name] = [zplan(each) for each in run]
        if kind != "let":
            lines += (table if kind == "table" else fewest)(names[name], run, variants)
    return "\n".join(lines) + "\n"


def main():
    if "--exhaustive" in sys.argv:
        return exhaustive(sys.argv[-1])
    check, folder, (page, program) = generated.arguments()
    generated.finish(page, rendered(Zplan(program), generated.template(page)), check, folder)


main()

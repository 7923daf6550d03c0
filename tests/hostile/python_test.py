"""The same attacks through the Python package, in one interpreter: each refusal is an InputError with the command line's sentence.

usage: python_test.py [PART OF A NAME]
"""
import os
import resource
import shlex
import signal
import stat
import sys
import tempfile
import time

import attack
import extremes
import formats
import inputs
import names
import writing
import zplan
from zplan import _engine, watching

EVERY = os.environ.get("ZPLAN_ATTACKS") == "all"
CARDS = {"gpus": 8, "gpu": "A100-SXM-80GB"}
LIMITS = attack.Limits(_engine._library._name)
LARGEST = 1 << 20  # bytes of an attack's files, without ZPLAN_ATTACKS=all: reading more takes seconds


def engine(words):
    """What the package's own command line answers, in this process."""
    status, _, messages = _engine.ask(words)
    if status == _engine.BAD_INPUT:
        raise zplan.InputError(messages)


def asked(words):
    """The package's call for a row's command line, or nothing where the package has none for it."""
    words = shlex.split(words.replace("$CARDS", attack.CARDS))
    if words == ["--model", "m", *attack.CARDS.split()]:
        return lambda: zplan.plan("m", **CARDS)
    if words[0].startswith("--") or words[0] == "compare":
        return lambda: engine([*words, "--json"])
    if words == ["lint", "d.json"]:
        return lambda: zplan.lint("d.json")
    if words[0] == "check" and words[1] in ("s.pickle", "t.log"):
        return lambda: zplan.check(words[1], model="8B", gpus=8, zero=0, tp=1, offload="none")
    return None


def is_short(row):
    return row.seconds <= 2 and not row.long and sum(len(each) for each in row.files.values()) <= LARGEST


class Folder:
    """The folder of a row, which is the working folder meanwhile."""

    def __init__(self, row):
        self.row, self.around = row, tempfile.TemporaryDirectory()

    def __enter__(self):
        folder = self.around.name
        os.mkdir(os.path.join(folder, "home"))
        attack.lay_out(self.row, folder)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(attack.environment_of(self.row, folder))
        return folder

    def __exit__(self, *_):
        os.chdir("/")
        self.around.cleanup()


def tried(row):
    """What is wrong where the package's own functions answer; None where it has none for the row."""
    call = asked(row.words)
    if call is None or row.during or row.as_nobody or not (EVERY or is_short(row)):
        return None
    with Folder(row) as folder:
        before = attack.contents(folder)
        try:
            call()
            said = "" if row.status != (attack.BAD_INPUT,) else "no error"
        except zplan.InputError as error:
            said = "" if attack.BAD_INPUT in row.status and not attack.CONTROL.search(str(error)) else f"refused: {error}"
        if attack.contents(folder) != before:
            said += "files changed"
        return said


def as_typed(row):
    """Returns what is wrong with the answer to the words of a row, which ask for its form and its file, too."""
    if row.as_nobody or not (EVERY or is_short(row)):
        return None
    with Folder(row) as folder:
        before, begin = attack.contents(folder), time.process_time()
        status, out, messages = _engine.ask(shlex.split(row.words.replace("$CARDS", attack.CARDS)))
        err = f"zplan: {messages}\n" if status == _engine.BAD_INPUT else messages
        done = attack.Done(status, out.decode("utf-8", "replace"), err, time.process_time() - begin, 0, False)
        return "; ".join(attack.faults(row, done, LIMITS, folder, before))


def cells(report):
    """What the package makes of a report for notebooks."""
    return report._repr_html_() + report.best._repr_html_()


def wrong_names():
    """A model's name in a notebook, in a page and on a terminal."""
    for name in (names.ESCAPES, names.HTML, "</script>" + names.HTML, names.FORMULA, "n" * (1 << 20)):
        with Folder(names.named("", name)) as folder:
            report = zplan.plan("m", **CARDS)
            text, html, page = repr(report), cells(report), report.page()
            if found := attack.CONTROL.search(text + html + page):
                yield f"shows {found.group()!r} of {name[:30]!r}"
            if "<img" in html + page:
                yield f"an element of {name[:30]!r}"
            if len(text) > 1000 or len(html) > 100000:
                yield f"{len(text)} characters and a cell of {len(html)} of a long name"
            report.save("r.json")
            report.save("r.html")
            if found := attack.contents(folder).keys() - {"home", "m", os.path.join("m", "config.json"), "r.json", "r.html"}:
                yield f"writes {found}"


OLD = "MINE " * 1000
CARD = {"name": "A100", "compute_capability": [8, 0], "total_bytes": 1}
RUNS = '{"schema":"zplan.runs/1","card":{"name":"A100","compute_capability":[8,0],"total_bytes":1},"versions":{},"rows":[]}'


def add_row(path):
    watching.append_row(path, CARD, {}, {"id": "a"})


def small():
    """A disk that takes no more than some bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))


# What is written, to which file, what is there before, and whether it is refused.
WRITTEN = {
    "a secret page stays secret": ("save", "r.html", {"r.html": OLD}, writing.mode("r.html", 0o600), False),
    "a report on a read-only file": ("save", "r.json", {"r.json": OLD}, writing.mode("r.json", 0o444), True),
    "a report through a link within the folder": ("save", "l.json", {"r.json": OLD}, writing.linked("l.json", "r.json"), False),
    "a report through a link out of the folder": ("save", "a/l.json", {"victim": OLD, "a/x": ""}, writing.linked("a/l.json", "../victim"), True),
    "a report on a full device": ("save", "/dev/full", {}, None, True),
    "a report on a disk that is full": ("save", "r.json", {"r.json": OLD}, lambda _folder: small(), True),
    "a report at a pipe that nobody reads": ("save", "p", {}, lambda folder: os.mkfifo(f"{folder}/p"), True),
    "a report in a folder's place": ("save", "a", {"a/x": ""}, None, True),
    "a report in no folder": ("save", "no/r.json", {}, None, True),
    "a name with a NUL": ("save", "r.json\0.html", {}, None, True),
    "rows of a secret file": ("add", "r.json", {"r.json": RUNS}, writing.mode("r.json", 0o600), False),
    "rows beside broken ones": ("add", "r.json", {"r.json": RUNS[:-9]}, None, True),
    "rows in a file of something else": ("add", "r.json", {"r.json": "[1, 2]"}, None, True),
    "rows in a file of something else with its schema": ("add", "r.json", {"r.json": RUNS.replace("[]", "7")}, None, True),
    "rows at a pipe": ("add", "r.json", {}, lambda folder: os.mkfifo(f"{folder}/r.json"), True),
    "rows on a disk that is full": ("add", "r.json", {"r.json": RUNS}, lambda _folder: small(), True),
    "rows through a link out of the folder": ("add", "a/l.json", {"r.json": RUNS, "a/x": ""}, writing.linked("a/l.json", "../r.json"), True),
}


def wrong_writing():
    report = zplan.plan("8B", **CARDS)
    for name, (what, path, files, made, is_refused) in WRITTEN.items():
        with Folder(attack.Attack("", "", files, made=made)) as folder:
            before = attack.contents(folder)
            try:
                report.save(path) if what == "save" else add_row(path)
                said = "no error" if is_refused else ""
            except zplan.InputError as error:
                said = "" if is_refused else f"refused: {error}"
            except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
                said = f"{type(error).__name__}: {error}"
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            after = attack.contents(folder)
            changed = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
            if changed - (set() if is_refused else {path, os.path.join(os.path.dirname(path), "r.json")}):
                said += f"; changed {changed}"
            if not is_refused and path in before and stat.S_IMODE(before[path][0]) != stat.S_IMODE(after[path][0]):
                said += f"; mode {stat.S_IMODE(after[path][0]):o}"
            if said:
                yield f"{name}: {said}"


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def itself():
    value = {"train_batch_size": 8}
    value["x"] = value
    return value


# Values at bounds and beyond, and objects that no file could hold.
EXTREME = {
    "a GPU for each of 10^30": {"gpus": 10**30},
    "10^30 tokens": {"seq": 10**30},
    "a million degrees": {"tp": range(1, 1000001)},
    "a negative batch": {"micro_batch": -1},
    "a rank of 10^18": {"method": "lora", "lora_rank": 10**18},
    "an infinite device": {"mem": float("inf")},
    "a config of 100,000 levels": {"ds_config": nested(100000)},
    "a config that holds itself": {"ds_config": itself()},
    "a model of 100,000 levels": {"model": nested(100000)},
    "a model of numbers beyond 64 bits": {"model": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 10**30}},
    "a model of infinities": {"model": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": float("inf")}},
    "a model whose name is a megabyte": {"model": {"_name_or_path": "n" * (1 << 20), "model_type": "llama"}},
    "a model whose name has escapes and a NUL": {"model": {"_name_or_path": names.ESCAPES + "\0\ud800", "model_type": "llama"}},
    "a model whose name is a path": {"model": {"_name_or_path": "../../etc/passwd", "model_type": "llama"}},
    "every number at its bound": {"gpus": 1000000, "seq": 16777216, "micro_batch": 65536, "grad_accum": 65536, "zero": 3, "method": "lora",
                                  "lora_rank": 65536},
}


def wrong_extremes():
    for name, given in EXTREME.items():
        begin = time.process_time()
        try:
            with Folder(attack.Attack("", "")):
                zplan.plan(given.get("model", "8B"), **{**CARDS, **{key: value for key, value in given.items() if key != "model"}})
        except zplan.InputError as error:
            if len(str(error)) > attack.MOST_SHOWN or attack.CONTROL.search(str(error)):
                yield f"{name}: {error}"
        except (RecursionError, TypeError, ValueError, RuntimeError) as error:
            yield f"{name}: {type(error).__name__}: {str(error)[:200]}"
        if time.process_time() - begin > 20 * LIMITS.slower:
            yield f"{name}: {time.process_time() - begin:.0f} s"


def wrong_values():
    """Values that no command line could be given."""
    for name, given in {"gpus": True, "gpu": "\ud800", "seq": float("nan"), "mem": "80\0", "zero": [[]]}.items():
        try:
            zplan.plan("8B", **{**CARDS, name: given})
            yield f"{name}: no error"
        except zplan.InputError as error:
            if name not in str(error).replace("-", "_"):
                yield f"{name}: does not name it: {error}"
        except (TypeError, ValueError, RuntimeError) as error:
            yield f"{name}: {type(error).__name__}: {error}"


def main():
    count, failed, part = 0, 0, " ".join(sys.argv[1:])
    rows = [(tried, each) for group in (*inputs.GROUPS.values(), *formats.GROUPS.values()) for each in group]
    rows += [(as_typed, each) for each in (*names.NAMES, *writing.WRITING, *extremes.EXTREMES)]
    for how, row in rows:
        said = how(row) if part in row.name else None
        count += said is not None
        if said:
            failed += 1
            print(f"{row.name}: {said[:300]}", flush=True)
    for wrong, tries in ((wrong_values, 5), (wrong_names, 5), (wrong_writing, len(WRITTEN)), (wrong_extremes, len(EXTREME))):
        said = [] if part else list(wrong())
        count, failed = count + (0 if part else tries), failed + len(said)
        for each in said:
            print(f"{wrong.__name__}: {each}", flush=True)
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(1 if failed or not count else 0)


main()

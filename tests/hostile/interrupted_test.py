"""Writing that is interrupted, meets another run, or a full disk: the old file or the new one, whole, and nothing beside.

usage: interrupted_test.py ZPLAN
"""
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
PLAN = ["--model", "8B", "--gpus", "8", "--gpu", "A100-SXM-80GB", "--offload", "none", "--zero"]
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "ASAN_OPTIONS": "detect_leaks=0"}
OLD = "MINE " * 1000


def listens():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def started(folder, *words, before=listens):
    return subprocess.Popen([PROGRAM, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=ENVIRONMENT, preexec_fn=before)


def text_of(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def written(stage, *names):
    """What a run that is left alone writes, and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        started(folder, *PLAN, stage, "--emit", "d.json", "--html", "p.html").communicate()
        return [text_of(folder, each) for each in names], time.monotonic() - begin


def interrupted(which):
    """Each run ends at another moment of its last tenths of a second."""
    (config, page), seconds = written("3", "d.json", "p.html")
    chance = random.Random(17)
    for _ in range(12):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("d.json", "p.html"):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(OLD)
            process = started(folder, *PLAN, "3", "--emit", "d.json", "--html", "p.html")
            time.sleep(seconds * chance.uniform(0.3, 1.05))
            process.send_signal(which)
            process.communicate()
            if sorted(os.listdir(folder)) != ["d.json", "p.html"]:
                return f"leaves {sorted(os.listdir(folder))}"
            if text_of(folder, "d.json") not in (OLD, config) or text_of(folder, "p.html") not in (OLD, page):
                return "leaves a part of a file"
    return None


def together():
    (first,), _ = written("1", "d.json")
    (second,), _ = written("3", "d.json")
    with tempfile.TemporaryDirectory() as folder:
        running = [started(folder, *PLAN, stage, "--emit", "d.json") for stage in ("1", "3") * 4]
        for each in running:
            each.communicate()
        if os.listdir(folder) != ["d.json"]:
            return f"leaves {sorted(os.listdir(folder))}"
        return None if text_of(folder, "d.json") in (first, second) else "a mixture of two files"


def repaired_together():
    broken = '{"train_bach_size": 8}\n'
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "d.json"), "w", encoding="utf-8") as file:
            file.write(broken)
        for each in [started(folder, "lint", "d.json", "--fix") for _ in range(6)]:
            each.communicate()
        if text_of(folder, "d.json") != broken.replace("bach", "batch"):
            return f"d.json holds {text_of(folder, 'd.json')!r}"
        return None if text_of(folder, "d.json.orig") == broken else "the original is lost"


def full():
    """A file that may have no more than some bytes, as on a disk that is full."""
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "d.json"), "w", encoding="utf-8") as file:
            file.write(OLD)
        process = started(folder, *PLAN, "3", "--emit", "d.json", before=limited)
        _, err = process.communicate()
        if process.returncode != 2 or b"d.json" not in err:
            return f"status {process.returncode}: {err!r}"
        if os.listdir(folder) != ["d.json"] or text_of(folder, "d.json") != OLD:
            return f"leaves {sorted(os.listdir(folder))}"
    return None


RECIPE = ("model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\ndataset: alpaca\ntemplate: qwen3\n"
          "per_device_train_batch_size: 1\ncutoff_len: 2048\noutput_dir: out\n")
BROKEN = '{"train_bach_size": 8}\n'
WITH_RECIPE = ["--recipe", "r.yaml", "--gpus", "8", "--gpu", "A100-SXM-80GB", "--zero", "3", "--offload", "none"]
WRITERS = {
    "a config": [*PLAN, "3", "--emit", "d.json"],
    "a page": [*PLAN, "3", "--html", "d.json"],
    "a trace": [*PLAN, "3", "--trace", "d.json"],
    "a snapshot": [*PLAN, "3", "--snapshot", "d.json"],
    "a recipe and its config": [*WITH_RECIPE, "--recipe-out", "new.yaml"],
    "a recipe in its place": [*WITH_RECIPE, "--recipe-out", "r.yaml"],
    "a repair": ["lint", "d.json", "--fix"],
    "a repair elsewhere": ["lint", "d.json", "--emit", "x.json"],
}


def with_files(folder):
    """Every writer finds a config that can be repaired, and a recipe."""
    old = {"d.json": BROKEN + " " * 4000, "r.yaml": RECIPE}
    for name, text in old.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    return old


def full_disk():
    """A disk without a page to spare, where this process may mount one: every writer says so, and leaves what was there."""
    for what, words in WRITERS.items():
        with tempfile.TemporaryDirectory() as folder:
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", folder], check=False, capture_output=True)
            if mounted.returncode != 0:
                return None
            try:
                old = with_files(folder)
                process = started(folder, *words)
                _, err = process.communicate()
                if process.returncode != 2 or b"No space left" not in err:
                    return f"{what}: status {process.returncode}: {err!r}"
                if (now := {each: text_of(folder, each) for each in os.listdir(folder)}) != old:
                    return f"{what}: leaves {sorted(now)}"
            finally:
                subprocess.run(["umount", folder], check=False)
    return None


def ended_anywhere():
    """Writers that are killed at any time, which nothing can clean up behind: files are whole, and the originals are there."""
    chance = random.Random(29)
    for what in ("a recipe and its config", "a recipe in its place", "a repair"):
        with tempfile.TemporaryDirectory() as folder:
            with_files(folder)
            begin = time.monotonic()
            started(folder, *WRITERS[what]).communicate()
            seconds = time.monotonic() - begin
            new = {each: text_of(folder, each) for each in os.listdir(folder)}
        for _ in range(6):
            with tempfile.TemporaryDirectory() as folder:
                old = with_files(folder)
                process = started(folder, *WRITERS[what])
                time.sleep(seconds * chance.uniform(0.2, 1.05))
                process.kill()
                process.communicate()
                for name in os.listdir(folder):
                    if not name.endswith(".tmp") and text_of(folder, name) not in (old.get(name), new.get(name)):
                        return f"{what}: a part of {name}"
                if missing := old.keys() - set(os.listdir(folder)):
                    return f"{what}: {missing} is gone"
                repaired = text_of(folder, "d.json") != old["d.json"]
                if repaired and text_of(folder, "d.json.orig") != old["d.json"]:
                    return f"{what}: repaired without its original"
    return None


def closed_streams():
    """Where stdout or stderr is closed, the file that is opened next has its number: what is printed must not end in it."""
    (config,), _ = written("3", "d.json")
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        with tempfile.TemporaryDirectory() as folder:
            words = " ".join([PROGRAM, *PLAN, "3", "--emit", "d.json", "--html", "p.html", closed])
            status = subprocess.run(["sh", "-c", words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    env=ENVIRONMENT, check=False).returncode
            if status != (2 if " >&-" in " " + closed else 0) or text_of(folder, "d.json") != config:
                return f"{closed}: status {status}, {text_of(folder, 'd.json')[-80:]!r}"
    return None


CASES = {
    "Ctrl-C leaves the old or the new": lambda: interrupted(signal.SIGINT),
    "an end by SIGTERM leaves the old or the new": lambda: interrupted(signal.SIGTERM),
    "runs at once leave one whole file": together,
    "repairs at once leave the original": repaired_together,
    "a file that cannot grow leaves the old": full,
    "a full disk leaves the old": full_disk,
    "an end at any time leaves whole files": ended_anywhere,
    "closed streams leave files alone": closed_streams,
}


def main():
    wrong = {name: said for name, case in CASES.items() if (said := case())}
    for name, said in wrong.items():
        print(f"{name}: {said}")
    print(f"{len(CASES) - len(wrong)} of {len(CASES)} hold")
    sys.exit(1 if wrong else 0)


main()

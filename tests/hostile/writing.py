"""What is written: beside and renamed, with its permissions, through no link out of the folder, whole or not at all."""
import os
import stat

from attack import BAD_INPUT, FITS, PLANNED, Attack
from inputs import DS

BROKEN = '{"train_bach_size": 8}\n'
PLAN = "--model 8B $CARDS --zero 3 --offload none"
FACTORY = ("model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\ndataset: alpaca\ntemplate: qwen3\n"
           "per_device_train_batch_size: 1\ncutoff_len: 2048\noutput_dir: out\n")


def mode(name, bits):
    return lambda folder: os.chmod(os.path.join(folder, name), bits)


def has_mode(name, bits, *others):
    def check(folder, _done):
        for each in (name, *others):
            found = stat.S_IMODE(os.stat(os.path.join(folder, each)).st_mode)
            if found != bits:
                return f"{each} has mode {found:o}"
        return None
    return check


def holds(name, text):
    def check(folder, _done):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return None if text in file.read() else f"{name} does not hold {text!r}"
    return check


def linked(name, target):
    return lambda folder: os.symlink(target, os.path.join(folder, name))


WRITING = [
    Attack("a secret file stays secret", PLAN + " --emit d.json", {"d.json": DS}, made=mode("d.json", 0o600), status=PLANNED, changes=("d.json",),
           check=has_mode("d.json", 0o600)),
    Attack("a secret file that is repaired, and its original", "lint d.json --fix", {"d.json": BROKEN}, made=mode("d.json", 0o600), status=(0, 1),
           changes=("d.json", "d.json.orig"), check=has_mode("d.json", 0o600, "d.json.orig")),
    Attack("a read-only file", PLAN + " --emit d.json", {"d.json": DS}, made=mode("d.json", 0o444), says="read-only"),
    Attack("a read-only file that would be repaired", "lint d.json --fix", {"d.json": BROKEN}, made=mode("d.json", 0o444), says="read-only",
           changes=("d.json.orig",)),
    Attack("a link within the folder", PLAN + " --emit l.json", {"d.json": DS}, made=linked("l.json", "d.json"), status=PLANNED, changes=("d.json",)),
    Attack("a link out of the folder", PLAN + " --emit a/l.json", {"victim": "MINE", "a/x": ""}, made=linked("a/l.json", "../victim"), says="out of its folder"),
    Attack("a link to nothing out of the folder", PLAN + " --emit a/l.json", {"a/x": ""}, made=linked("a/l.json", "../victim"), says="out of its folder"),
    Attack("a link to itself", PLAN + " --emit l.json", made=linked("l.json", "l.json"), says="link to itself"),
    Attack("a page through a link out of the folder", PLAN + " --html a/l.html", {"victim": "MINE", "a/x": ""}, made=linked("a/l.html", "../victim"), says="out of its folder"),
    Attack("a trace in a folder", PLAN + " --trace a", {"a/x": ""}, says="folder"),
    Attack("a snapshot in no folder", PLAN + " --snapshot no/where.pickle", says="No such file"),
    Attack("a full device", PLAN + " --emit /dev/full", says="No space left"),
    Attack("a page on a full device", PLAN + " --html /dev/full", says="No space left"),
    Attack("a pipe that nobody reads", PLAN + " --emit p", made=lambda folder: os.mkfifo(f"{folder}/p"), says="p"),
    Attack("a read-only folder", PLAN + " --emit ro/d.json", {"ro/d.json": DS}, made=mode("ro", 0o555), as_nobody=True, says="Permission denied"),
    Attack("the kernel's memory", PLAN + " --emit /proc/self/mem", says="/proc/self/mem"),
    Attack("an original of someone else's", "lint d.json --fix", {"d.json": BROKEN, "d.json.orig": "MINE"}, status=(0, 1), changes=("d.json", "d.json.orig.1"),
           check=holds("d.json.orig.1", "bach")),
    Attack("an original that is a link", "lint d.json --fix", {"d.json": BROKEN, "victim": "MINE"}, made=linked("d.json.orig", "victim"), status=(0, 1),
           changes=("d.json", "d.json.orig.1")),
    Attack("a config that nobody named", "--recipe r.yaml $CARDS --zero 3 --recipe-out new.yaml", {"r.yaml": FACTORY, "new.ds_config.json": "MINE"},
           says="new.ds_config.json"),
    Attack("a config that nobody named, through a link", "--recipe r.yaml $CARDS --zero 3 --recipe-out new.yaml", {"r.yaml": FACTORY},
           made=linked("new.ds_config.json", "victim"), says="new.ds_config.json"),
    Attack("a recipe to stdout", "--recipe r.yaml $CARDS --zero 3 --recipe-out -", {"r.yaml": FACTORY, "r.ds_config.json": "MINE"}, status=PLANNED,
           says="is not written"),
    Attack("a recipe that cannot be written, and its config", "--recipe r.yaml $CARDS --zero 3 --recipe-out a", {"r.yaml": FACTORY, "a/x": ""},
           says="it is a folder"),
    Attack("a recipe on a full device, and its config", "--recipe r.yaml $CARDS --zero 3 --recipe-out /dev/full", {"r.yaml": FACTORY}, says="/dev/full"),
    Attack("a guessed temporary file", PLAN + " --emit d.json", {"victim": "MINE"}, status=PLANNED, changes=("d.json",),
           made=lambda folder: [os.symlink("victim", f"{folder}/d.json.{pid}.tmp") for pid in range(os.getpid(), os.getpid() + 300)]),
]
GROUPS = {"writing": WRITING}

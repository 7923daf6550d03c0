"""What an attack is, and how it is run: each in a folder of its own, with limits of time and memory.

Every attack ends by itself, on no signal, without an internal error, within its limits, and leaves the files that are
there as they are. What it prints holds no control character. Bad input ends with status 2 and one line.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Callable, Dict, Optional, Tuple, Union

FITS, NOTHING_FITS, BAD_INPUT = 0, 1, 2
PLANNED = (FITS, NOTHING_FITS)
MOST_SHOWN = 3000  # bytes of the line that says what is wrong
WALL_SECONDS = 300  # of a hang; the limits themselves are in processor time, which other processes do not change

# C0 but line breaks, ESC, DEL, C1, and marks that change the direction of text.
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Made = Callable[[str], None]
Checked = Callable[[str, "Done"], Optional[str]]


@dataclass
class Attack:
    """name: what is tried. words: the command line; $CARDS stands for eight A100s.

    files: what is in the folder; a function makes what is no file. status: exit codes that are right. says: a regular
    expression that stderr or stdout holds. seconds: of processor time. mebibytes: of memory.
    changes: files that the command may change. check: says what else is wrong. long: takes seconds, and is left out
    unless ZPLAN_ATTACKS is long (these alone) or all.
    """
    name: str
    words: str
    files: Dict[str, Union[str, bytes]] = field(default_factory=dict)
    made: Optional[Made] = None
    status: Tuple[int, ...] = (BAD_INPUT,)
    says: str = ""
    seconds: float = 1.0
    mebibytes: int = 200
    changes: Tuple[str, ...] = ()
    check: Optional[Checked] = None
    environment: Dict[str, str] = field(default_factory=dict)
    as_nobody: bool = False
    long: bool = False
    during: Optional[Callable[[str, subprocess.Popen], None]] = None


@dataclass
class Done:
    status: int
    out: str
    err: str
    seconds: float
    mebibytes: float
    timed_out: bool


class Limits:
    """Of a program: a machine may be four times as slow as the one that the seconds were counted on; sanitizers take longer and more memory,
    and their address space has no bound."""

    def __init__(self, program: str):
        self.sanitized = b"__asan_init" in open(program, "rb").read()
        self.slower = 12 if self.sanitized else 4

    def seconds(self, attack: Attack) -> float:
        return attack.seconds * self.slower

    def mebibytes(self, attack: Attack) -> float:
        return attack.mebibytes * (4 if self.sanitized else 1) + (200 if self.sanitized else 0)

    def of(self, attack: Attack) -> Dict[str, object]:
        return {"wall": WALL_SECONDS * self.slower, "processor": 90 * self.slower, "nobody": attack.as_nobody,
                "address_space": None if self.sanitized else 4 << 30, "resident": 8 << 30}


LAUNCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.py")
CARDS = "--gpus 8 --gpu A100-SXM-80GB"
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=0:abort_on_error=0:exitcode=99",
              "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99"}


def contents(folder: str) -> Dict[str, Tuple]:
    """What each file is: its kind, permissions, and text. Pipes and devices are not opened."""
    found = {}
    for around, folders, files in os.walk(folder):
        for each in sorted(folders + files):
            path = os.path.join(around, each)
            about = os.lstat(path)
            text: object = None
            if os.path.islink(path):
                text = os.readlink(path)
            elif os.path.isfile(path):
                if about.st_size < 1 << 20:
                    with open(path, "rb") as file:
                        text = file.read()
                else:
                    text = about.st_size
            found[os.path.relpath(path, folder)] = (about.st_mode, text)
    return found


def lay_out(attack: Attack, folder: str) -> None:
    for name, text in attack.files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    if attack.made:
        attack.made(folder)


def environment_of(attack: Attack, folder: str) -> Dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_", "ZPLAN_"))}
    return {**kept, **SANITIZERS, "HOME": os.path.join(folder, "home"), "HF_HUB_OFFLINE": "1", "LC_ALL": "C.UTF-8",
            "COLUMNS": "100", **attack.environment}


def run(program: str, attack: Attack, folder: str, limits: Limits) -> Done:
    words = [program, *shlex.split(attack.words.replace("$CARDS", CARDS))]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.NamedTemporaryFile() as result:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", LAUNCH, result.name, json.dumps(limits.of(attack)), *words], cwd=folder,
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment_of(attack, folder), start_new_session=True)
        if attack.during:
            attack.during(folder, process)
        process.wait()
        out.seek(0)
        err.seek(0)
        status, seconds, mebibytes, timed_out = json.load(result)
        return Done(status, out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace"), seconds, mebibytes,
                    timed_out)


def faults(attack: Attack, done: Done, limits: Limits, folder: str, before: Dict[str, Tuple]):
    """Yields what is wrong, a sentence each."""
    shown = done.err[:300] + ("…" if len(done.err) > 300 else "")
    if done.timed_out:
        yield "does not end"
    if done.status not in attack.status:
        yield f"status {done.status}, and not {' or '.join(map(str, attack.status))}: {shown!r}"
    if "internal error" in done.err or "out of memory" in done.err:
        yield f"says {shown!r}"
    if done.seconds > limits.seconds(attack):
        yield f"{done.seconds:.1f} s of {limits.seconds(attack):.1f}"
    if done.mebibytes > limits.mebibytes(attack):
        yield f"{done.mebibytes:.0f} MiB of {limits.mebibytes(attack):.0f}"
    if attack.says and not re.search(attack.says, done.err + "\n" + done.out):
        yield f"does not say {attack.says!r}: {shown or done.out[:300]!r}"
    if found := CONTROL.search((done.err + done.out).replace("\r\n", "\n")):
        yield f"prints {found.group()!r}"
    if done.status == BAD_INPUT and attack.status == (BAD_INPUT,):
        if done.err.count("\n") != 1 or not done.err.startswith("zplan: "):
            yield f"says more or less than one line: {shown!r}"
        if len(done.err.encode()) > MOST_SHOWN:
            yield f"a line of {len(done.err.encode())} bytes"
    after = contents(folder)
    for name in sorted(before.keys() | after.keys()):
        if name not in attack.changes and before.get(name) != after.get(name):
            yield f"{name} is {'gone' if name not in after else 'new' if name not in before else 'changed'}"
    if attack.check and done.status in attack.status and (wrong := attack.check(folder, done)):
        yield wrong


def tried(program: str, attack: Attack, limits: Limits):
    """What is wrong with one attack, and what it took."""
    with tempfile.TemporaryDirectory(prefix="zplan-hostile-") as folder:
        os.mkdir(os.path.join(folder, "home"))
        lay_out(attack, folder)
        if attack.as_nobody:
            os.chmod(folder, 0o755)
        before = contents(folder)
        done = run(program, attack, folder, limits)
        return list(faults(attack, done, limits, folder, before)), done


def main(groups: Dict[str, list]) -> None:
    """usage: GROUP.py ZPLAN [PART OF A NAME]"""
    program, wanted = os.path.abspath(sys.argv[1]), " ".join(sys.argv[2:])
    asked = os.environ.get("ZPLAN_ATTACKS", "short")
    limits = Limits(program)
    count = failed = 0
    for group, attacks in groups.items():
        for attack in attacks:
            if wanted not in f"{group}: {attack.name}" or not (asked == "all" or wanted or attack.long == (asked == "long")):
                continue
            if attack.as_nobody and os.getuid() != 0:
                attack.as_nobody = False
            count += 1
            wrong, done = tried(program, attack, limits)
            if wrong:
                failed += 1
                print(f"{group}: {attack.name}: {'; '.join(wrong)}", flush=True)
            elif wanted:
                print(f"{group}: {attack.name}: {done.status}, {done.seconds:.2f} s, {done.mebibytes:.0f} MiB: "
                      f"{done.err.splitlines()[0][:160] if done.err else ''}", flush=True)
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(1 if failed or not count else 0)

"""The same files through the Python package: each refusal is an InputError with the command line's sentence."""
import os
import shlex
import sys
import tempfile

import attack
import formats
import inputs
import zplan
from zplan import _engine

EVERY = os.environ.get("ZPLAN_ATTACKS") == "all"
CARDS = {"gpus": 8, "gpu": "A100-SXM-80GB"}
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


def tried(row):
    call = asked(row.words)
    if call is None or row.during or row.as_nobody or not (EVERY or is_short(row)):
        return None
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "home"))
        attack.lay_out(row, folder)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(attack.environment_of(row, folder))
        before = attack.contents(folder)
        try:
            call()
            said = "" if row.status != (attack.BAD_INPUT,) else "no error"
        except zplan.InputError as error:
            said = "" if attack.BAD_INPUT in row.status and not attack.CONTROL.search(str(error)) else f"refused: {error}"
        if attack.contents(folder) != before:
            said += "files changed"
        os.chdir("/")
        return said


def wrong_values():
    """Values that no command line could be given."""
    for name, given in {"gpus": True, "gpu": "\ud800", "seq": float("nan"), "mem": "80\0", "zero": [[]]}.items():
        try:
            zplan.plan("8B", **{**CARDS, name: given})
            yield name, "no error"
        except zplan.InputError as error:
            if name not in str(error).replace("-", "_"):
                yield name, f"does not name it: {error}"
        except (TypeError, ValueError, RuntimeError) as error:
            yield name, f"{type(error).__name__}: {error}"


def main():
    count, failed = 0, 0
    for rows in (*inputs.GROUPS.values(), *formats.GROUPS.values()):
        for row in rows:
            said = tried(row)
            count += said is not None
            if said:
                failed += 1
                print(f"{row.name}: {said[:300]}")
    for name, said in wrong_values():
        count, failed = count + 1, failed + 1
        print(f"{name}: {said}")
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(1 if failed or not count else 0)


main()

"""The same files through the Python package: each refusal is an InputError with the command line's sentence."""
import os
import shlex
import sys
import tempfile

import attack
import inputs
import zplan
from zplan import _engine

CARDS = {"gpus": 8, "gpu": "A100-SXM-80GB"}


def engine(words):
    """What the package's own command line answers, in this process."""
    status, _, messages = _engine.ask(words)
    if status == _engine.BAD_INPUT:
        raise zplan.InputError(messages)


def asked(words):
    """The package's call for a row's command line, or nothing where the package has none for it."""
    words = shlex.split(words)
    if words[:2] in (["--recipe", "r.yaml"], ["--recipe", "r.sh"]):
        return lambda: engine([*words[:2], "--gpus", "8", "--gpu", CARDS["gpu"], "--json"])
    if words[:2] == ["--model", "m"] and words[2:] == ["$CARDS"]:
        return lambda: zplan.plan("m", **CARDS)
    if words == ["lint", "d.json"]:
        return lambda: zplan.lint("d.json")
    if words[0] == "check" and words[1] in ("s.pickle", "t.log"):
        return lambda: zplan.check(words[1], model="8B", gpus=8, zero=0, tp=1, offload="none")
    return None


def tried(row):
    call = asked(row.words)
    if call is None or row.during or row.as_nobody:
        return None
    with tempfile.TemporaryDirectory() as folder:
        attack.lay_out(row, folder)
        os.chdir(folder)
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
    for group in inputs.GROUPS.values():
        for row in group:
            said = tried(row)
            count += said is not None
            if said:
                failed += 1
                print(f"{row.name}: {said[:300]}")
    for name, said in wrong_values():
        failed += 1
        print(f"{name}: {said}")
    print(f"{count} attacks through Python, {failed} wrong")
    sys.exit(1 if failed or not count else 0)


main()

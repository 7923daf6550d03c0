"""Writes python/zplan/options.pyi, the options of zplan.plan() and the like for editors and mypy, from the table of options.

usage: python3 python/generate_options.py ZPLAN [--check]   (--check: status 1 where the file is not what would be written)
"""
import json
import os
import subprocess
import sys

STUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zplan", "options.pyi")
CLASSES = {"plan": "PlanOptions", "search": "SearchOptions", "compare": "CompareOptions", "hardware compare": "HardwareOptions",
           "fit": "FitOptions", "lint": "LintOptions", "check": "CheckOptions"}
# How answers are written, which is the package's own choice, and the functions' first argument.
LEFT_OUT = {"json", "csv", "markdown", "sarif", "no_color", "help", "version", "model"}
HEAD = '''# Written by python/generate_options.py from the command line's table of options: change cli/options/option_table.cpp, not this file.
from __future__ import annotations

import os
from typing import Any, Dict, Literal, Mapping, Protocol, Sequence, TypedDict, Union

class HasToDict(Protocol):
    """A config object of transformers, or of a model that has one."""
    def to_dict(self) -> Dict[str, Any]: ...

Path = Union[str, os.PathLike[str]]
Config = Union[Path, Mapping[str, Any]]
ModelLike = Union[Path, Mapping[str, Any], HasToDict]
Integers = Union[int, Sequence[int]]
Names = Union[str, Sequence[str]]
'''


def literal(words):
    return "Literal[" + ", ".join(word if word.isdigit() else json.dumps(word) for word in words) + "]"


def type_of(option):
    kind, words = option["type"], option["words"]
    if option["list"]:
        return {"integer": "Integers", "number": "Union[float, Sequence[float]]"}.get(kind, "Names")
    if kind == "integer" and words:
        return literal(words) if words[0].isdigit() else f"Union[int, {literal(words)}]"
    if kind == "number" and option["other_words"]:
        return "Union[float, str]"
    if kind == "word" and not option["other_words"]:
        return literal(words)
    return {"flag": "bool", "integer": "int", "number": "float", "path": "Path", "config": "Config"}.get(kind, "str")


def stub(table):
    """A class for each set of commands that share options, and one for each command."""
    shared = {}
    for option in table:
        commands = tuple(command for command in CLASSES if command in option["commands"])
        if commands and option["key"] not in LEFT_OUT:
            shared.setdefault(commands, []).append(option)
    lines = []
    for commands, options in shared.items():
        lines += ["", f"class {mixin(commands)}(TypedDict, total=False):"]
        lines += [f"    {option['key']}: {type_of(option)}" for option in options]
    for command, name in CLASSES.items():
        bases = [mixin(commands) for commands in shared if command in commands]
        lines += ["", f"class {name}(", *(f"    {base}," for base in bases), "    total=False,", "): ..."]
    return HEAD + "\n".join(lines) + "\n"


def mixin(commands):
    return "_Of" + "".join(command.title().replace(" ", "") for command in commands)


def main():
    program = subprocess.run([sys.argv[1], "--help", "--json"], check=True, capture_output=True, text=True)
    text = stub(json.loads(program.stdout)["options"])
    if sys.argv[2:] == ["--check"]:
        with open(STUB, encoding="utf-8") as file:
            if file.read() != text:
                sys.exit(f"{STUB} is not what the table says: python3 {os.path.relpath(__file__)} ZPLAN")
        return
    with open(STUB, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()

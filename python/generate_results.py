"""Writes python/zplan/_fields.pyi, the fields of zplan.results for editors and mypy, from the JSON schemas in cli/schema.

usage: python3 python/generate_results.py [--check]   (--check: status 1 where the file is not what would be written)
"""
import ast
import importlib
import os
import sys
import textwrap
import types

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE, SCHEMAS = os.path.join(HERE, "zplan"), os.path.join(os.path.dirname(HERE), "cli", "schema")
STUB = os.path.join(PACKAGE, "_fields.pyi")
WIDTH = 120
HEAD = '''# Written by python/generate_results.py from cli/schema: change the schemas, not this file.
from dataclasses import dataclass
from typing import Any

from . import results
from ._read import Document, Value

__all__ = [
'''


def schema_module():
    """zplan._schema without the package, which would open the engine."""
    package = types.ModuleType("zplan")
    package.__path__ = [PACKAGE]
    sys.modules["zplan"] = package
    module = importlib.import_module("zplan._schema")
    module.FOLDER = SCHEMAS
    return module


def extended():
    """Names of the classes that results.py extends: the stub's fields are of those."""
    with open(os.path.join(PACKAGE, "results.py"), encoding="utf-8") as file:
        return {node.name for node in ast.parse(file.read()).body if isinstance(node, ast.ClassDef)}


def as_comment(text, indent):
    return [f"{indent}# {line}" for line in textwrap.wrap(text, WIDTH - len(indent) - 2)]


def stub(schema):
    ours, lines, known = extended(), [], schema.titled()
    for name in sorted(set(known) - ours):
        lines.append(f'    "{name}",')
    lines.append("]")
    for name, one in sorted(known.items()):
        base = "Document" if "schema" in one.schema["properties"] else "Value"
        lines += ["", "@dataclass(init=False, repr=False, eq=False)", f"class {name}({base}):"]
        description = one.schema.get("description", "")
        lines += textwrap.wrap(f'"""{description}"""', WIDTH, initial_indent="    ", subsequent_indent="    ") if description else []
        for field in schema.fields(one):
            text = " | ".join(results_name(part, ours) for part in field.type.split(" | "))
            lines += as_comment(field.description, "    ") if field.description else []
            lines.append(f"    {field.name}: {text}" + ("" if field.default is schema.REQUIRED else f" = {field.default!r}"))
    return HEAD + "\n".join(lines) + "\n"


def results_name(text, ours):
    """The type with the classes that results.py extends written as its own."""
    for opening, closing in (("tuple[", ", ...]"), ("dict[str, ", "]")):
        if text.startswith(opening):
            return opening + results_name(text[len(opening) : -len(closing)], ours) + closing
    return f"results.{text}" if text in ours else text


def main():
    text = stub(schema_module())
    if sys.argv[1:] == ["--check"]:
        with open(STUB, encoding="utf-8") as file:
            if file.read() != text:
                sys.exit(f"{STUB} is not what the schemas say: python3 {os.path.relpath(__file__)}")
        return
    with open(STUB, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()

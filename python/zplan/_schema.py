"""Makes the classes of `results` from the JSON schemas of the command line (cli/schema).

An object of a schema that has a title is a class of that name; its properties are the fields. Bytes are whole numbers, times
seconds, ratios fractions, unless a description says otherwise.
"""
from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple, Type

from ._read import Document, Value

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema")
NAMES = ("catalogue", "check", "fit", "hardware_comparison", "lint", "report")
REQUIRED = object()
LATER = {"Report": "schedule"}  # half of a report: read when it is first asked for

Schema = Dict[str, Any]
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Field(NamedTuple):
    """A property: its type as a stub writes it, and its value where the document leaves it out."""

    name: str
    type: str
    default: Any
    description: str


class Titled(NamedTuple):
    """An object with a title, and the document that its references are in."""

    schema: Schema
    document: Schema


def _resolved(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        target = document
        for part in schema["$ref"][2:].split("/"):
            target = target[part]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _below(schema: Schema) -> Iterator[Schema]:
    """Yields `schema` and every schema in it."""
    yield schema
    inside = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    for key in ("anyOf", "oneOf"):
        inside += schema.get(key, [])
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            inside.append(schema[key])
    for each in inside:
        yield from _below(each)


def _object_type(schema: Schema, document: Schema) -> str:
    if "title" in schema:
        return str(schema["title"])
    values = schema.get("additionalProperties")
    return f"dict[str, {_type(values, document) if isinstance(values, dict) else 'Any'}]"


def _types(schema: Schema, document: Schema) -> List[str]:
    schema = _resolved(schema, document)
    either = schema.get("anyOf", schema.get("oneOf"))
    if either:
        return [text for each in either for text in _types(each, document)]
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ["None" if value is None else type(value).__name__ for value in values]
    names = schema.get("type", [])
    found = []
    for name in [names] if isinstance(names, str) else names:
        if name == "array":
            found.append(f"tuple[{_type(schema['items'], document)}, ...]")
        else:
            found.append(_object_type(schema, document) if name == "object" else _TYPES[name])
    return found or ["Any"]


def _type(schema: Schema, document: Schema) -> str:
    """Returns the type as a stub writes it; None comes last."""
    return " | ".join(sorted(dict.fromkeys(_types(schema, document)), key=lambda text: text == "None"))


def titled() -> Dict[str, Titled]:
    """Reads the schemas and returns their objects that have titles and properties, by title."""
    found: Dict[str, Titled] = {}
    for name in NAMES:
        with open(os.path.join(FOLDER, f"{name}.schema.json"), encoding="utf-8") as file:
            document = json.load(file)
        for schema in _below(document):
            if "title" in schema and "properties" in schema:
                found.setdefault(schema["title"], Titled(schema, document))
    return found


def fields(one: Titled) -> List[Field]:
    """Returns the fields of a class, those that every document has first."""
    required, optional = [], []
    for name, schema in one.schema["properties"].items():
        if name == "schema":
            continue
        text = _type(schema, one.document)
        description = "" if "title" in schema else schema.get("description", "")
        if name in one.schema.get("required", ()):
            required.append(Field(name, text, REQUIRED, description))
            continue
        default = schema.get("default", () if text.startswith("tuple[") else None)
        optional.append(Field(name, f"{text} | None" if default is None and "None" not in text else text, default, description))
    return required + optional


def _part(text: str, known: Dict[str, Titled]) -> Tuple[str, str]:
    """Returns what a field of this type is read as ("one", "each", "named", "tuple" or nothing), and its class."""
    text = text.replace(" | None", "")
    inside = text[text.find("[") + 1 :].split(", ")
    if text.startswith("tuple["):
        return ("each", inside[0]) if inside[0] in known else ("tuple", "")
    if text.startswith("dict["):
        name = inside[1].rstrip("]")
        return ("named", name) if name in known else ("", "")
    return ("one", text) if text in known else ("", "")


_known: Dict[str, Titled] = {}


def names() -> List[str]:
    """Returns the names of all classes."""
    if not _known:
        _known.update(titled())
    return sorted(_known)


def make(name: str) -> Type[Value]:
    """Returns the class of this title; AttributeError where there is none."""
    if name not in names():
        raise AttributeError(f"module 'zplan.results' has no attribute {name!r}")
    schema, listed = _known[name].schema, [each for each in fields(_known[name]) if each.name != LATER.get(name)]
    parts = {each.name: part for each in listed if (part := _part(each.type, _known))[0]}
    inside: Dict[str, Any] = {each.name: each.default for each in listed if each.default is not REQUIRED}
    inside.update(__doc__=schema.get("description"), __module__="zplan.results", _parts=parts,
                  __annotations__={each.name: each.type for each in listed})
    base = Document if "schema" in schema["properties"] else Value
    return type(name, (base,), inside)

#!/usr/bin/python3
"""Validates every hardware profile against its JSON schema.

Usage: validate_profiles.py FOLDER, the hardware_profiles folder of the sources.
Exit status 1 and one line per fault where a profile, or a schema itself, is not as it should be.
"""
import json
import re
import sys
from pathlib import Path

from jsonschema import Draft202012Validator

FOLDERS = {"gpus": "gpu", "nodes": "node", "networks": "network"}
NOT_FIGURES = {"schema", "name", "aliases", "sources", "links", "measured", "collectives", "collectives_as"}


def read(path):
    def no_duplicates(pairs):
        keys = [key for key, _ in pairs]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise ValueError(f"{path}: {sorted(twice)} stand twice in one object")
        return dict(pairs)

    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=no_duplicates)


def schema_of(folder, kind):
    schema = read(folder / "schema" / f"{kind}.schema.json")
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def source_faults(profile):
    figures = set(profile) - NOT_FIGURES
    for figure in sorted(figures ^ set(profile.get("sources", {}))):
        yield f"sources: {figure} is a figure without a source, or the reverse"


def name_faults(path, profile):
    """A profile lies in the file of its name, so that it can be found."""
    if path.stem != re.sub(r"\s", "-", profile["name"]).lower():
        yield f"name: {profile['name']} in {path.name}"


def faults_of(path, validator):
    profile = read(path)
    for error in validator.iter_errors(profile):
        yield f"/{'/'.join(map(str, error.absolute_path))}: {error.message}"
    yield from source_faults(profile)
    yield from name_faults(path, profile)


def unchecked_schema_faults(validator, profile):
    """A schema that accepts anything would prove nothing: these must be refused."""
    for key in validator.schema["required"]:
        if validator.is_valid({k: v for k, v in profile.items() if k != key}):
            yield f"accepts a profile without {key}"
    if validator.is_valid({**profile, "vram_gb": 80}):
        yield "accepts unknown keys"


def main(folder):
    faults, count = [], 0
    for group, kind in FOLDERS.items():
        validator = schema_of(folder, kind)
        paths = sorted((folder / group).glob("*.json"))
        for path in paths:
            count += 1
            faults += [f"{group}/{path.name}: {fault}" for fault in faults_of(path, validator)]
        faults += [f"{kind}.schema.json: {fault}" for fault in unchecked_schema_faults(validator, read(paths[0]))]
    print("\n".join(faults) or f"{count} profiles match their schemas")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

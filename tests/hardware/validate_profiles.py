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


# FLOP per multiprocessor and clock, dense: fp16 with fp32 accumulation in the matrix units (GeForce since Turing: half), fp32
# in the plain ones. NVIDIA's whitepapers of Pascal, Volta, Turing, Ampere, Ada, Hopper and RTX Blackwell.
PER_CLOCK = {
    "6.0": ({256}, 128), "6.1": ({256}, 256), "7.0": ({1024}, 128), "7.5": ({512, 1024}, 128), "8.0": ({2048}, 128),
    "8.6": ({512, 1024}, 256), "8.9": ({512, 1024}, 256), "9.0": ({4096}, 256), "12.0": ({512, 1024}, 256),
}
# Hopper's data sheets give rates of the matrix units at a lower clock than boost; an H20's are cut.
CLOCK_OF_MATRIX_UNITS = {"9.0": 0.86}
CUT = {"H20-SXM-96GB"}


def near(value, expected, share):
    return abs(value / expected - 1) <= share


def relation_faults(profile):
    """A digit that was swapped: rates follow from multiprocessors and clock, bandwidth from bus and pin."""
    if "memory_bus_bits" in profile:
        expected = profile["memory_bus_bits"] * profile["memory_gbit_per_s_per_pin"] / 8
        if not near(profile["memory_bandwidth_gb_per_s"], expected, 0.005):
            yield f"memory_bandwidth_gb_per_s: {profile['memory_bandwidth_gb_per_s']}, but bus x pin is {expected:g}"
    if "multiprocessors" not in profile or profile["name"] in CUT:
        return
    matrix, plain = PER_CLOCK[profile["compute_capability"]]
    clocks = profile["multiprocessors"] * profile["boost_mhz"] / 1e6
    lowest = CLOCK_OF_MATRIX_UNITS.get(profile["compute_capability"], 0.99)
    if not any(each * clocks * lowest <= profile["fp16_dense_tflops"] <= each * clocks * 1.01 for each in matrix):
        yield f"fp16_dense_tflops: {profile['fp16_dense_tflops']}, but by clock it is {[each * clocks for each in sorted(matrix)]}"
    if not near(profile["fp32_tflops"], plain * clocks, 0.015):
        yield f"fp32_tflops: {profile['fp32_tflops']}, but by clock it is {plain * clocks:g}"


def faults_of(path, validator):
    profile = read(path)
    if path.parent.name == "gpus":
        yield from relation_faults(profile)
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


def unchecked_relation_faults(profiles):
    """Rules that accept anything would prove nothing: a swapped digit must be found in each figure."""
    for profile in profiles:
        for figure in ("memory_bandwidth_gb_per_s", "fp16_dense_tflops", "fp32_tflops"):
            by_clock = "multiprocessors" in profile and profile["name"] not in CUT
            known = "memory_bus_bits" in profile if figure.startswith("memory") else by_clock
            if known and not list(relation_faults({**profile, figure: profile[figure] * 1.2})):
                yield f"{profile['name']}: {figure} may be a fifth more without a fault"


def main(folder):
    faults, count = [], 0
    faults += unchecked_relation_faults([read(path) for path in sorted((folder / "gpus").glob("*.json"))])
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

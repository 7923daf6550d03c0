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
# in the plain ones. NVIDIA's whitepapers of Pascal, Volta, Turing, Ampere, Ada, Hopper and RTX Blackwell; AMD's of CDNA 2, 3,
# 4 and RDNA 3, per compute unit.
PER_CLOCK = {
    "6.0": ({256}, 128), "6.1": ({256}, 256), "7.0": ({1024}, 128), "7.5": ({512, 1024}, 128), "8.0": ({2048}, 128),
    "8.6": ({512, 1024}, 256), "8.9": ({512, 1024}, 256), "9.0": ({4096}, 256), "10.0": ({8192}, 256),
    "10.3": ({8192}, 256), "12.0": ({512, 1024}, 256),
    "12.1": ({1024}, 256), "gfx90a": ({1024}, 128), "gfx942": ({2048}, 256), "gfx950": ({4096}, 256), "gfx1100": ({512}, 256),
}
# Data sheets of Hopper and Blackwell give rates of the matrix units at a lower clock than boost; an H20's are cut, and those of GB200
# and GB300 are at a higher clock, which is not published.
CLOCK_OF_MATRIX_UNITS = {"9.0": 0.86, "10.0": 0.94, "10.3": 0.94}
CUT = {"H20-SXM-96GB", "GB200-NVL72", "GB300-NVL72"}


def near(value, expected, share):
    return abs(value / expected - 1) <= share


# What a slot of 16 lanes carries by generation, GB/s in one direction; GPUs may be wired to half of it or a quarter.
PCIE = [lanes / 16 * rate for rate in (15.75, 31.5, 63.0) for lanes in (4, 8, 16)]


def ratio_faults(profile):
    """What one rate is of another: bf16 as fp16, tf32 half of it, fp8 twice (Gaudi 3: the same)."""
    fp8 = 1 if profile["compute_capability"] == "gaudi3" else 2
    for figure, factor in (("bf16_dense_tflops", 1), ("tf32_dense_tflops", 0.5), ("fp8_dense_tflops", fp8)):
        if figure in profile and not near(profile[figure], factor * profile["fp16_dense_tflops"], 0.02):
            yield f"{figure}: {profile[figure]}, but by fp16 it is {factor * profile['fp16_dense_tflops']:g}"


def link_faults(profile):
    """PCIe by generation and lanes, other links by the number and the speed that the source names."""
    to_host, source = profile["pcie_gb_per_s_per_direction"], profile["sources"]["pcie_gb_per_s_per_direction"]
    if "NVLink-C2C" not in source and not any(near(to_host, each, 0.01) for each in PCIE):
        yield f"pcie_gb_per_s_per_direction: {to_host}, which no generation carries over 4, 8 or 16 lanes"
    links = re.search(r"(\d+) links? x ([\d.]+) GB/s", profile["sources"].get("nvlink_gb_per_s_per_direction", ""))
    links = links or re.search(r"(\d+) Infinity Fabric links x ([\d.]+) GB/s", profile["sources"].get("nvlink_gb_per_s_per_direction", ""))
    if links and not near(profile["nvlink_gb_per_s_per_direction"], int(links[1]) * float(links[2]), 0.01):
        yield f"nvlink_gb_per_s_per_direction: {profile['nvlink_gb_per_s_per_direction']}, but {links[0]} is {int(links[1]) * float(links[2]):g}"


def memory_faults(profile):
    """The size in the name is the nominal one; what nvidia-smi lists is at most that, and up to 7 % less (ECC, reserved)."""
    nominal = re.search(r"-(\d+)GB$", profile["name"])
    if nominal and not 0.93 <= profile["memory_mib"] / (1024 * int(nominal[1])) <= 1.001:
        yield f"memory_mib: {profile['memory_mib']} of {nominal[1]} GB"


def relation_faults(profile):
    """A digit that was swapped: rates follow from multiprocessors and clock, bandwidth from bus and pin."""
    yield from ratio_faults(profile)
    yield from link_faults(profile)
    yield from memory_faults(profile)
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


def swapped(number):
    """The number with two neighbouring digits in each other's place, in every way that changes it."""
    text = str(number)
    for i in range(len(text) - 1):
        pair = text[i:i + 2]
        if pair.isdigit() and pair[0] != pair[1]:
            yield float(text[:i] + pair[::-1] + text[i + 2:])


# Figures that others follow from, or that follow from others, and the least change that must be found in them.
RELATED = {
    "memory_bandwidth_gb_per_s": ("memory_bus_bits", 0.01), "memory_bus_bits": ("memory_bus_bits", 0.01),
    "memory_gbit_per_s_per_pin": ("memory_bus_bits", 0.01), "multiprocessors": ("multiprocessors", 0.03),
    "boost_mhz": ("multiprocessors", 0.03), "fp32_tflops": ("multiprocessors", 0.03),
    "fp16_dense_tflops": ("bf16_dense_tflops", 0.04), "bf16_dense_tflops": ("bf16_dense_tflops", 0.04),
    "tf32_dense_tflops": ("tf32_dense_tflops", 0.04), "fp8_dense_tflops": ("fp8_dense_tflops", 0.04),
    "memory_mib": ("memory_mib", 0.08),
}


def unchecked_relation_faults(profiles):
    """Rules that accept anything would prove nothing: a swapped digit must be found in each figure, once others know it."""
    tried = 0
    for profile in profiles:
        for figure, (known_by, least) in RELATED.items():
            by_clock = known_by != "multiprocessors" or profile["name"] not in CUT
            named = figure != "memory_mib" or re.search(r"-\d+GB$", profile["name"])
            if figure not in profile or known_by not in profile or not by_clock or not named:
                continue
            for other in swapped(profile[figure]):
                if other <= 0 or near(other, profile[figure], least):
                    continue
                tried += 1
                if not list(relation_faults({**profile, figure: other})):
                    yield f"{profile['name']}: {figure} may be {other:g} instead of {profile[figure]} without a fault"
    if tried < 1000:
        yield f"only {tried} swapped digits were tried"


def instance_faults(folder):
    """Cloud shapes name profiles that are there, once each, and as many GPUs as their name says where it does."""
    names = {group: {read(path)["name"] for path in (folder / group).glob("*.json")} for group in FOLDERS}
    seen = set()
    for row in read(folder / "instances.json")["instances"]:
        for key, group in (("gpu", "gpus"), ("node", "nodes"), ("network", "networks")):
            if row[key] not in names[group]:
                yield f"{row['name']}: no {key} is called {row[key]}"
        for name in (row["name"], *row.get("aliases", ())):
            if name.lower() in seen:
                yield f"{row['name']}: {name} stands twice"
            seen.add(name.lower())
        said = re.search(r"(?:^gpu_|^runpod-|gd-|-)(\d+)x|-(\d+)g$|^BM\.GPU.*\.(\d+)$", row["name"])
        said = next((each for each in (said.groups() if said else ()) if each), None)
        if said and int(said) != row["gpus"]:
            yield f"{row['name']}: {row['gpus']} GPUs, but its name says {said}"
        if (row["node"] == "single") != (row["gpus"] == 1):
            yield f"{row['name']}: {row['gpus']} GPUs on a node of type {row['node']}"
        for figure in row.get("assumed", {}):
            if figure not in row:
                yield f"{row['name']}: assumed names {figure}, which is no figure"


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
    validator = schema_of(folder, "instances")
    shapes = read(folder / "instances.json")
    faults += [f"instances.json: {error.json_path}: {error.message}" for error in validator.iter_errors(shapes)]
    faults += [f"instances.json: {fault}" for fault in instance_faults(folder)]
    if validator.is_valid({**shapes, "instances": [{**shapes["instances"][0], "date": "yesterday"}]}):
        faults.append("instances.schema.json: accepts a date that is none")
    print("\n".join(faults) or f"{count} profiles match their schemas")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

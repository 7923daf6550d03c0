#!/usr/bin/env python3
"""Writes releases.json: since which release DeepSpeed knows each key that zplan writes, and how defaults changed.

Nothing is typed by hand: every release is imported from its own folder, in a process of its own, and asked for the
fields of its pydantic sections, for the keys that its DeepSpeedConfig reads, for the optimizer types that its engine
makes, for the norm that it clips gradients to where no key says it, and whether its source has Muon at ZeRO-3, MiCS, and
what releases frozen parameters that are gathered to recompute a layer (#8148).

    DS_ACCELERATOR=cpu python record_releases.py FOLDER > releases.json

FOLDER holds unpacked source distributions, each in a folder named by its version (0.16.0, 0.16.1, …). Needs torch and
pydantic, and no GPU.
"""
import json
import os
import re
import subprocess
import sys

# What ds_config.cpp writes, by section.
WRITTEN = {
    "/zero_optimization": [
        "reduce_bucket_size", "overlap_comm", "reduce_scatter", "use_multi_rank_bucket_allreduce", "parameter_alignment",
        "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential", "zero_quantized_weights",
        "zero_quantized_gradients", "zero_hpz_partition_size", "stage3_prefetch_bucket_size",
        "stage3_param_persistence_threshold", "stage3_max_live_parameters", "stage3_max_reuse_distance",
        "sub_group_size", "stage3_gather_16bit_weights_on_model_save"],
    "/zero_optimization/offload_optimizer": ["device", "nvme_path", "pin_memory"],
    "/zero_optimization/offload_param": ["device", "nvme_path", "pin_memory", "buffer_size"],
    "/bf16": ["enabled", "bf16_master_weights_and_grads", "bf16_optimizer_states"],
    "/fp16": ["enabled", "fp16_master_weights_and_grads"],
    "/tensor_parallel": ["autotp_size", "vocab_parallel_lm_head"],
}
# The class of each section; older releases read precision from plain dictionaries.
CLASSES = {
    "/zero_optimization": [("deepspeed.runtime.zero.config", "DeepSpeedZeroConfig")],
    "/zero_optimization/offload_optimizer": [
        ("deepspeed.runtime.zero.offload_config", "DeepSpeedZeroOffloadOptimizerConfig")],
    "/zero_optimization/offload_param": [("deepspeed.runtime.zero.offload_config", "DeepSpeedZeroOffloadParamConfig")],
    "/bf16": [("deepspeed.runtime.precision_config", "DeepSpeedBF16Config")],
    "/fp16": [("deepspeed.runtime.precision_config", "DeepSpeedFP16Config")],
    "/tensor_parallel": [("deepspeed.runtime.tensor_parallel.config", "TPTrainingConfig")],
}
# Read from plain dictionaries: the literal that runtime/constants.py or runtime/config.py must hold.
PLAIN = {
    "/bf16": ["enabled", "bf16_master_weights_and_grads", "bf16_optimizer_states"],
    "/fp16": ["enabled", "fp16_master_weights_and_grads"],
}
OPTIMIZERS = ["AdamW", "Lion", "Muon"]


def pydantic_fields(pointer):
    import importlib
    for module, name in CLASSES[pointer]:
        try:
            model = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        found = {}
        for field, info in model.model_fields.items():
            default = info.get_default(call_default_factory=True)
            for key in {field, info.alias or field}:
                found[key] = default if isinstance(default, (bool, int, float, str, type(None))) else None
        return found
    return None


def plain_fields(folder, pointer):
    text = ""
    for name in ("constants.py", "config.py"):
        with open(os.path.join(folder, "deepspeed", "runtime", name), encoding="utf-8") as file:
            text += file.read()
    return {key: False for key in PLAIN.get(pointer, []) if re.search(rf'"{key}"', text)}


def engine_optimizers(folder):
    with open(os.path.join(folder, "deepspeed", "runtime", "config.py"), encoding="utf-8") as file:
        config = file.read()
    with open(os.path.join(folder, "deepspeed", "runtime", "engine.py"), encoding="utf-8") as file:
        engine = file.read()
    names = {name for name in OPTIMIZERS if re.search(rf"'{name.lower()}'|\"{name.lower()}\"", config)}
    return {"own": sorted(names), "torch": "getattr(torch.optim" in engine}


def source(folder, *path):
    """The text of a file of deepspeed/runtime/zero; empty where the release has none of that name."""
    try:
        with open(os.path.join(folder, "deepspeed", "runtime", "zero", *path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def abilities(folder):
    from deepspeed.runtime import constants
    return {"gradient_clipping": constants.GRADIENT_CLIPPING_DEFAULT,
            "muon_at_stage_3": "muon" in source(folder, "stage3.py").lower(),
            "mics": bool(source(folder, "mics.py")),
            "recomputes_frozen": "ds_recompute_parameters" in source(folder, "partitioned_param_coordinator.py")}


def one(folder):
    """Of the release in `folder`, in this process."""
    sys.path.insert(0, folder)
    import deepspeed
    sections = {}
    for pointer, keys in WRITTEN.items():
        fields = pydantic_fields(pointer)
        known = fields if fields is not None else plain_fields(folder, pointer)
        sections[pointer] = {key: known[key] for key in keys if key in known}
    assert os.path.abspath(deepspeed.__file__).startswith(os.path.abspath(folder)), deepspeed.__file__
    print("RECORD", json.dumps({"sections": sections, "optimizers": engine_optimizers(folder),
                                "abilities": abilities(folder)}))


def number(version):
    return [int(part) for part in version.split(".")]


def changes(values):
    """Of (version, value) in order each value with the release that brought it."""
    found = []
    for version, value in values:
        if not found or found[-1]["value"] != value:
            found.append({"since": version, "value": value})
    return found


def since(records, versions, ability):
    """The first release from which on all have it."""
    return changes((v, records[v]["abilities"][ability]) for v in versions)[-1]["since"]


def history(records, versions, pointer, key):
    """Since when `key` is known, and each default with the release that brought it."""
    known = [v for v in versions if key in records[v]["sections"][pointer]]
    if not known:
        raise SystemExit(f"{pointer}/{key} is known to no release")
    defaults = changes((v, records[v]["sections"][pointer][key]) for v in known)
    entry = {"pointer": f"{pointer}/{key}"}
    if known[0] != versions[0]:
        entry["since"] = known[0]
    if len(defaults) > 1:
        entry["defaults"] = defaults
    return entry


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--one":
        return one(sys.argv[2])
    root = sys.argv[1]
    versions = sorted((v for v in os.listdir(root) if re.fullmatch(r"\d+\.\d+\.\d+", v)), key=number)
    records = {}
    for version in versions:
        run = subprocess.run([sys.executable, __file__, "--one", os.path.join(root, version)], capture_output=True,
                             text=True, check=False)
        lines = [line for line in run.stdout.splitlines() if line.startswith("RECORD ")]
        if run.returncode != 0 or not lines:
            raise SystemExit(f"{version}: {run.stderr.strip().splitlines()[-1:]}")
        records[version] = json.loads(lines[0][len("RECORD "):])
    keys = [history(records, versions, p, k) for p, names in WRITTEN.items() for k in names]
    first = {name: next((v for v in versions if name in records[v]["optimizers"]["own"]), None) for name in OPTIMIZERS}
    torch_own = next((v for v in versions if records[v]["optimizers"]["torch"]), None)
    print(json.dumps({
        "schema": "zplan.deepspeed_releases/1",
        "source": "record_releases.py over the source distributions",
        "releases": versions,
        "keys": [k for k in keys if len(k) > 1],
        "gradient_clipping": changes((v, records[v]["abilities"]["gradient_clipping"]) for v in versions),
        "optimizers": {**{n: v for n, v in first.items() if v != versions[0]}, "torch.optim": torch_own},
        "muon_at_stage_3": since(records, versions, "muon_at_stage_3"),
        "mics_removed": since(records, versions, "mics"),
        "recomputes_frozen": since(records, versions, "recomputes_frozen"),
    }, indent=1))


if __name__ == "__main__":
    main()

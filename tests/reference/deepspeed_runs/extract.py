"""Condenses recorded DeepSpeed runs, in the fields of the records themselves: what each rank held and what it sent.
usage: extract.py RUNS_FOLDER > runs.json"""
import glob
import json
import os
import sys

FLAT = ("persistent_parameters", "single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition",
        "grad_partitions_flat_buffer", "param_groups_fp16_flat_cpu_memory")
SPEC = ("world", "batch", "seq", "tp", "lora", "lora_targets", "grad_ckpt", "reentrant", "dtype", "deepspeed")


def sizes(group, keys):
    return {k: {"bytes": group[k]["bytes"]} for k in keys if k in group}


def held(rank):
    after, snaps = rank["after_step"], rank["snaps"]
    return {
        "after_step": {
            "optimizer_class": after["optimizer_class"],
            **{k: after[k] for k in ("module_param_data_bytes", "ds_tensor_bytes_view") if k in after},
            "flat": sizes(after["flat"], FLAT),
            "optimizer_state": sizes(after["optimizer_state"], ("step", "exp_avg", "exp_avg_sq")),
        },
        "grad_peak_sampled": {k: rank["grad_peak_sampled"][k] for k in ("ipg_buffer",) if k in rank["grad_peak_sampled"]},
        "snaps": {
            "grads_after_step": {k: snaps["grads_after_step"][k] for k in ("ipg_buffer", "fp32_groups_gradients_flat") if k in snaps["grads_after_step"]},
            # Everything in fp32 after the step; rank 0 only.
            **({"gc_after_step": {"float32": snaps["gc_after_step"].get("float32")}} if snaps.get("gc_after_step") else {}),
        },
    }


rows = []
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.json"))):
    run = json.load(open(path))
    config = {k: v for k, v in run["ds_config"].items() if k != "steps_per_print"}
    rows.append({
        "name": run["name"],
        "spec": {k: run["spec"][k] for k in SPEC if k in run["spec"]},
        "model": run["model"],
        "ds_config": config,
        "collectives": [{k: c[k] for k in ("op", "dtype", "group", "phase", "count", "elements_total_in", "elements_total_out")} for c in run["collectives"]],
        "sequence": [{k: c[k] for k in ("op", "dtype", "group", "n_in", "n_out", "phase", "micro")} for c in run["sequence"]],
        "memory_per_rank": [held(rank) for rank in run["memory_per_rank"]],
    })
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

"""Condenses recorded DeepSpeed runs into held.json: what each rank held and what it sent.
usage: extract.py RUNS_FOLDER > held.json"""
import glob
import json
import os
import sys

MASTER = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition")


def held(rank):
    after, flat = rank["after_step"], rank["after_step"]["flat"]
    size = lambda name: flat.get(name, {}).get("bytes", 0)
    stage3 = "ds_tensor_bytes_view" in after
    offloaded = size("param_groups_fp16_flat_cpu_memory")
    states = after["optimizer_state"]
    return {
        "parameters": after["ds_tensor_bytes_view"] if stage3 else after["module_param_data_bytes"],
        "parameters_on_host": offloaded,
        "persistent": size("persistent_parameters"),
        "master": sum(size(name) for name in MASTER),
        "moments": states["exp_avg"]["bytes"] + states["exp_avg_sq"]["bytes"],
        "gradients": size("grad_partitions_flat_buffer") or rank["snaps"]["grads_after_step"].get("fp32_groups_gradients_flat", 0),
        "bucket_between_steps": rank["snaps"]["grads_after_step"].get("ipg_buffer", 0),
        "bucket_in_backward": rank["grad_peak_sampled"].get("ipg_buffer", 0),
        # Everything in fp32 after the step; rank 0 only. Stage 0 keeps its master copy where nothing else names it.
        "float32": (rank["snaps"].get("gc_after_step") or {}).get("float32"),
        "optimizer_step_counters": states.get("step", {}).get("bytes", 0),
    }


rows = []
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.json"))):
    run = json.load(open(path))
    zero, config = run["zero_config_effective"], run["ds_config"]
    spec = {k: run["spec"][k] for k in ("world", "batch", "seq", "tp", "lora", "lora_targets", "grad_ckpt", "reentrant", "dtype") if k in run["spec"]}
    keep = ("stage", "reduce_bucket_size", "overlap_comm", "param_persistence_threshold", "max_live_parameters",
            "max_reuse_distance", "prefetch_bucket_size", "sub_group_size", "parameter_alignment", "reduce_scatter",
            "use_multi_rank_bucket_allreduce", "round_robin_gradients", "use_all_reduce_for_fetch_params",
            "zero_hpz_partition_size")
    rows.append({
        "name": run["name"],
        "model": run["model"],
        "spec": spec,
        "precision": "fp16" if config.get("fp16", {}).get("enabled") else "bf16" if config.get("bf16", {}).get("enabled") else "fp32",
        "gradient_accumulation_steps": config.get("gradient_accumulation_steps", 1),
        "communication_dtype": config.get("communication_data_type"),
        "gradient_accumulation_dtype": config.get("data_types", {}).get("grad_accum_dtype"),
        "tensor_parallel": config.get("tensor_parallel"),
        "zero": {k: zero[k] for k in keep},
        "offload_optimizer": bool(zero["offload_optimizer"]),
        "offload_parameters": bool(zero["offload_param"]),
        "optimizer_class": run["memory_per_rank"][0]["after_step"]["optimizer_class"],
        "parameters": run["params"]["total"],
        "trainable": run["params"]["trainable"],
        "ranks": [held(rank) for rank in run["memory_per_rank"]],
        "collectives": [[c["op"], c["dtype"], c["group"], c["phase"], c["count"], c["elements_total_in"], c["elements_total_out"]]
                        for c in run["collectives"]],
    })
print("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]")

"""Condenses recorded ZeRO-3 steps to their gathers: python extract.py RUNS_FOLDER SCHEDULES.json writes calls.json.

RUNS_FOLDER: one JSON per run, as tests/reference/deepspeed_runs/ was made from; SCHEDULES.json: rows of whole models."""
import glob, itertools, json, os, sys

KNOBS = {"prefetch_bucket_size": 50_000_000, "max_live_parameters": 10**9, "max_reuse_distance": 10**9,
         "param_persistence_threshold": 100_000}


def fold(words):
    runs = [(word, len(list(group))) for word, group in itertools.groupby(words)]
    return " ".join(word if times == 1 else f"{word}x{times}" for word, times in runs)


def calls(sequence, mixed):
    """Of each micro-step and of the optimizer's step; elements received, f behind fp32 among 16-bit ones."""
    micro_steps, step = {}, []
    for phase, micro, elements, dtype in sequence:
        word = f"{elements}f" if mixed and dtype == "float32" else str(elements)
        (step if phase == "step" else micro_steps.setdefault(micro, [])).append(word)
    return {"micro_steps": [fold(each) for each in micro_steps.values()], "optimizer_step": fold(step)}


def options(ranks, micro_steps, knobs, zero):
    return {"data_parallel": ranks, "micro_steps": micro_steps,
            **{k: knobs[k] for k in ("prefetch_bucket_size", "max_live_parameters", "max_reuse_distance")},
            "overlap_comm": zero.get("overlap_comm", True), "offloaded": bool(zero.get("offload_param")),
            "allgather_sequential": zero.get("allgather_sequential", False),
            "use_all_reduce": zero.get("use_all_reduce_for_fetch_params", False),
            "secondary_partition": zero.get("zero_hpz_partition_size", 1),
            "persistence_threshold": knobs["param_persistence_threshold"]}


def gathers(row, zero, tensor_parallel):
    """All-gathers over the data-parallel group; all-reduces where those bring parameters."""
    for c in row["sequence"]:
        if c["group"] == 1 or tensor_parallel > 1 and c["ranks"] == list(range(tensor_parallel)):
            continue
        reduced = c["op"] == "all_reduce" and zero["use_all_reduce_for_fetch_params"] and c["phase"] != "step"
        if "all_gather" in c["op"] or reduced and c["dtype"] == "bfloat16":
            yield c["phase"], c["micro"], c["n_out"], c["dtype"]


def small_run(row):
    spec, model, zero = row["spec"], row["model"], row["zero_config_effective"]
    tensor_parallel = spec.get("tp", 1)
    fp32 = spec.get("dtype") == "fp32"
    recomputes = "reentrant" if spec.get("reentrant") else "non-reentrant"
    shape = {k: model[k] for k in ("hidden", "ffn", "layers", "heads", "kv", "vocab")}
    return {"name": row["name"],
            "model": {**shape, "head_dim": model["hidden"] // model["heads"], "tied": model["tie"]},
            "run": {"checkpointing": recomputes if spec.get("grad_ckpt") else "none", "lora": spec.get("lora", 0),
                    "tensor_parallel": tensor_parallel, "weights": 4 if fp32 else 2, "adapters": 2,
                    "adapters_last": False},
            "options": options(spec["world"] // tensor_parallel, row["ds_config"]["gradient_accumulation_steps"],
                               zero, zero),
            **calls(gathers(row, zero, tensor_parallel), not fp32)}


def whole_model(row):
    o, c, zero = row["options"], row["config"], row["ds_config"]["zero_optimization"]
    knobs = {k: zero.get("stage3_" + k, default) for k, default in KNOBS.items()}
    recomputes = "reentrant" if "reentrant=True" in row["id"] else "non-reentrant"
    sequence = [(x["phase"], x["micro"], x["n_out"], x["dtype"]) for x in row["sequence"]
                if "all_gather" in x["op"] for _ in range(x["times"])]
    heads = c["num_attention_heads"]
    return {"name": row["id"],
            "model": {"hidden": c["hidden_size"], "ffn": c["intermediate_size"], "layers": c["num_hidden_layers"],
                      "heads": heads, "kv": c["num_key_value_heads"], "vocab": c["vocab_size"],
                      "head_dim": c.get("head_dim", c["hidden_size"] // heads), "tied": c["tie_word_embeddings"],
                      "qkv_bias": c["model_type"] == "qwen2", "qk_norm": c["model_type"] == "qwen3"},
            "run": {"checkpointing": recomputes if o["checkpointing"] == "full" else "none",
                    "lora": o["lora_rank"] or 0, "tensor_parallel": 1, "weights": 2,
                    "adapters": 2 if o["adapter_dtype"] == "bf16" else 4, "adapters_last": True},
            "options": options(o["gpus"], o["grad_accum"], knobs, {"overlap_comm": zero.get("overlap_comm", True)}),
            **calls(sequence, True)}


def main(runs, schedules):
    rows = [json.load(open(path)) for path in sorted(glob.glob(os.path.join(runs, "*.json")))]
    found = [small_run(row) for row in rows if row["zero_config_effective"]["stage"] == 3]
    found += [whole_model(row) for row in json.load(open(schedules))
              if row["options"]["zero"] == 3 and row["options"]["framework"] == "deepspeed"]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "calls.json"), "w") as out:
        out.write("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

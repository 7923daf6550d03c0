"""Records the collectives of steady optimizer steps of DeepSpeed's ZeRO++ on CPU process groups (gloo), in the fields of
../deepspeed_runs. usage: record_deepspeed.py [NAMES …] > runs.json

DeepSpeed decides everything but the numbers: its CUDA quantizer is replaced by a stand-in whose results have the shapes
and types of csrc/quantization/pt_binding.cpp (int8 payload, two values to a byte at 4 bits; fp32 scales)."""
import collections
import json
import os
import socket
import sys

os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
import torch
import torch.distributed as td
import torch.distributed.distributed_c10d as c10d

CALLS, STATE = [], {"on": False, "phase": "forward", "micro": 0, "depth": 0}
# name: places of input and output among the arguments, and their names
ARGUMENTS = {
    "all_reduce": (0, 0, "tensor", "tensor"),
    "all_gather_into_tensor": (1, 0, "input_tensor", "output_tensor"),
    "reduce_scatter_tensor": (1, 0, "input", "output"),
    "all_to_all_single": (1, 0, "input", "output"),
    "broadcast": (0, 0, "tensor", "tensor"),
    "all_gather": (1, 0, "tensor", "tensor_list"),
    "reduce": (0, 0, "tensor", "tensor"),
}


def elements(x):
    return x.numel() if torch.is_tensor(x) else sum(elements(each) for each in x)


def wrap(name, function):
    place_in, place_out, name_in, name_out = ARGUMENTS[name]

    def wrapped(*a, **k):
        if STATE["on"] and STATE["depth"] == 0:
            sent = k.get(name_in, a[place_in] if len(a) > place_in else None)
            got = k.get(name_out, a[place_out] if len(a) > place_out else None)
            group = k.get("group", next((x for x in a if isinstance(x, td.ProcessGroup)), None))
            CALLS.append({"op": name, "dtype": str(sent.dtype).removeprefix("torch."), "group": td.get_world_size(group),
                          "n_in": elements(sent), "n_out": elements(got), "phase": STATE["phase"], "micro": STATE["micro"]})
        STATE["depth"] += 1
        if name == "all_gather_into_tensor":  # NCCL counts elements; gloo would have the shapes agree
            k = {key: x.reshape(-1) if torch.is_tensor(x) else x for key, x in k.items()}
            a = tuple(x.reshape(-1) if torch.is_tensor(x) else x for x in a)
        try:
            return function(*a, **k)
        finally:
            STATE["depth"] -= 1

    return wrapped


for name in ARGUMENTS:
    wrapped = wrap(name, getattr(c10d, name))
    setattr(td, name, wrapped)
    setattr(c10d, name, wrapped)

import deepspeed
import transformers

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # as on NCCL, every call goes to torch.distributed
type(deepspeed.accelerator.get_accelerator()).is_fp16_supported = lambda self: True
transformers.logging.set_verbosity_error()


class Quantizer:
    """Shapes and types of csrc/quantization/pt_binding.cpp; 8 bits round as the kernel does, 4 bits are zeros."""
    Symmetric, Asymmetric = 0, 1

    def quantize(self, x, groups, bits, kind):
        assert bits == 8 and x.dtype == torch.half
        rows = x.reshape(groups, -1).float()
        scales = (rows.abs().amax(1, keepdim=True) / 127).clamp_min(1e-12)
        return (rows / scales).round().to(torch.int8).reshape(x.shape), scales

    def dequantize(self, q, scales, groups, bits, kind):
        if bits == 4:
            return torch.zeros(list(q.shape[:-1]) + [q.shape[-1] * 2], dtype=torch.half)
        return (q.reshape(groups, -1).float() * scales.reshape(groups, 1)).half().reshape(q.shape)

    def swizzle_quant(self, x, groups, bits, kind, pipeline, nodes, per_node):
        return torch.zeros(x.numel() * bits // 8, dtype=torch.int8), torch.ones(groups, 1)

    def quantized_reduction(self, q, scales, groups_in, groups_out, bits, kind, per_node):
        return torch.zeros(q.numel() // per_node, dtype=torch.int8), torch.ones(groups_out, 1)


class Builder:
    def load(self):
        return Quantizer()


deepspeed.ops.op_builder.QuantizerBuilder = Builder

PLAIN = dict(hidden=256, layers=3, heads=4, kv=2, ffn=704, vocab=1000, tie=False)
# Of these q, k, v and o have numbers of elements that 2 x 4 ranks do not divide.
ODD = dict(hidden=250, layers=2, heads=5, kv=5, ffn=668, vocab=1004, tie=False)
NEVER_KEPT = dict(stage3_max_live_parameters=0, stage3_max_reuse_distance=0, stage3_prefetch_bucket_size=0)


def spec(name, zero, world=4, accumulation=1, model=PLAIN, dtype="bf16", ranks_per_node=2, **rest):
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, **zero}
    config = dict(train_micro_batch_size_per_gpu=2, gradient_accumulation_steps=accumulation,
                  train_batch_size=2 * accumulation * world,
                  optimizer=dict(type="AdamW", params=dict(lr=1e-4, torch_adam=True)), zero_optimization=zero,
                  gradient_clipping=1.0, **{dtype: dict(enabled=True)})
    return dict(name=name, spec=dict(world=world, batch=2, seq=32, ranks_per_node=ranks_per_node, **rest), model=model, ds_config=config)


WEIGHTS, GRADIENTS = dict(zero_quantized_weights=True), dict(zero_quantized_gradients=True)
SECOND = dict(zero_hpz_partition_size=2)
SPECS = [
    spec("qw", WEIGHTS),
    spec("qw_w2", WEIGHTS, world=2),
    spec("qw_persistent", {**WEIGHTS, "stage3_param_persistence_threshold": 40000}, accumulation=2),
    spec("qw_live0_gc", {**WEIGHTS, **NEVER_KEPT}, grad_ckpt=True),
    spec("qw_live0_ga2", {**WEIGHTS, **NEVER_KEPT}, accumulation=2),
    spec("qw_sequential", {**WEIGHTS, "stage3_allgather_sequential": True}),
    spec("qw_all_reduce_fetch", {**WEIGHTS, "stage3_use_all_reduce_for_fetch_params": True}),
    spec("qw_hpz2", {**WEIGHTS, **SECOND}),
    spec("qw_hpz2_live0_gc", {**WEIGHTS, **SECOND, **NEVER_KEPT}, grad_ckpt=True),
    spec("qw_fp16_buckets", {**WEIGHTS, "reduce_bucket_size": 200000, "stage3_prefetch_bucket_size": 200000}, dtype="fp16"),
    spec("hpz2_live0_gc", {**SECOND, **NEVER_KEPT}, grad_ckpt=True),
    spec("qg", GRADIENTS),
    spec("qg_w2_nodes_of_one", GRADIENTS, world=2, ranks_per_node=1),
    spec("qg_one_node", GRADIENTS, ranks_per_node=4),
    spec("qg_odd", GRADIENTS, model=ODD),
    spec("qg_ga2_buckets", {**GRADIENTS, "reduce_bucket_size": 200000}, accumulation=2),
    spec("qg_persistent", {**GRADIENTS, "stage3_param_persistence_threshold": 40000}),
    spec("all_three", {**WEIGHTS, **GRADIENTS, **SECOND}),
    spec("all_three_live0_gc_ga2", {**WEIGHTS, **GRADIENTS, **SECOND, **NEVER_KEPT}, accumulation=2, grad_ckpt=True),
    spec("lora8_qw", WEIGHTS, lora=8),
    spec("lora8_qw_live0_gc", {**WEIGHTS, **NEVER_KEPT}, lora=8, grad_ckpt=True),
    spec("lora8_qw_qg_hpz2", {**WEIGHTS, **GRADIENTS, **SECOND}, lora=8),
]


def build(run):
    m, s = run["model"], run["spec"]
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=m["hidden"], intermediate_size=m["ffn"], num_hidden_layers=m["layers"], num_attention_heads=m["heads"],
        num_key_value_heads=m["kv"], vocab_size=m["vocab"], tie_word_embeddings=m["tie"], max_position_embeddings=512,
        use_cache=False, attn_implementation="eager"))
    if "lora" in s:
        import peft
        targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = peft.get_peft_model(model.to(torch.bfloat16), peft.LoraConfig(
            r=s["lora"], lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM", lora_dropout=0.0))
    if s.get("grad_ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if "lora" in s:
            model.enable_input_require_grads()
    return model.train()


def flat(x):
    if torch.is_tensor(x):
        yield x
    elif isinstance(x, dict):
        yield from flat(list(x.values()))
    elif isinstance(x, (list, tuple)):
        for each in x:
            yield from flat(each)


def bytes_of(tensors):
    """Of distinct storages."""
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(sizes.values())


FLAT = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition",
        "grad_partitions_flat_buffer", "persistent_parameters")


def held(engine):
    """What is held between steps."""
    o = engine.optimizer
    state = collections.defaultdict(list)
    for each in o.optimizer.state.values():
        for key, value in each.items():
            state[key].append(value)
    shards = [p.ds_tensor for p in engine.module.parameters()]
    sizes = {a: list(flat(getattr(o, a))) for a in FLAT if hasattr(o, a)}
    return {"after_step": {"optimizer_class": type(o).__name__,
                           "ds_tensor_bytes_view": sum(t.numel() * t.element_size() for t in shards),
                           "flat": {a: {"bytes": bytes_of(t)} for a, t in sizes.items() if t},
                           "optimizer_state": {k: {"bytes": bytes_of(v)} for k, v in state.items()}},
            "snaps": {"grads_after_step": {"ipg_buffer": bytes_of(
                t for bucket in o.ipg_buckets.values() for t in flat(bucket.buffer))}}}


def worker(rank, port, run, out):
    s = run["spec"]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank % s["ranks_per_node"]), WORLD_SIZE=str(s["world"]),
                      LOCAL_SIZE=str(s["ranks_per_node"]), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    log = os.open(out + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    model = build(run)
    engine = deepspeed.initialize(model=model, model_parameters=[p for p in model.parameters() if p.requires_grad],
                                  config={**run["ds_config"], "steps_per_print": 100000})[0]
    generator = torch.Generator().manual_seed(7 + rank)
    for step in range(3):
        STATE["on"] = step == 2
        for micro in range(run["ds_config"]["gradient_accumulation_steps"]):
            ids = torch.randint(0, run["model"]["vocab"], (s["batch"], s["seq"]), generator=generator)
            STATE.update(micro=micro, phase="forward")
            loss = engine(input_ids=ids, labels=ids).loss
            STATE["phase"] = "backward"
            engine.backward(loss)
            del loss
            STATE["phase"] = "step"
            engine.step()
    STATE["on"] = False
    json.dump({"sequence": CALLS, "memory": held(engine)}, open(out + ".json", "w"))
    td.barrier()
    os._exit(0)


def record(run, folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    outs = [os.path.join(folder, f"{run['name']}.{rank}") for rank in range(run["spec"]["world"])]
    children = []
    for rank, out in enumerate(outs):
        child = os.fork()
        if child == 0:
            try:
                worker(rank, port, run, out)
            except BaseException:
                import traceback
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1] != 0:
            raise SystemExit(f"{run['name']}: {open(outs[0] + '.log').read()[-2000:]}")
    ranks = [json.load(open(out + ".json")) for out in outs]
    assert all(r["sequence"] == ranks[0]["sequence"] for r in ranks), run["name"]
    kinds = {}
    for call in ranks[0]["sequence"]:
        key = tuple(call[k] for k in ("op", "dtype", "group", "phase"))
        kind = kinds.setdefault(key, dict(zip(("op", "dtype", "group", "phase"), key), count=0, elements_total_in=0,
                                          elements_total_out=0))
        kind["count"] += 1
        kind["elements_total_in"] += call["n_in"]
        kind["elements_total_out"] += call["n_out"]
    folded = []
    for call in ranks[0]["sequence"]:
        if folded and {**folded[-1], "times": 1} == {**call, "times": 1}:
            folded[-1]["times"] = folded[-1].get("times", 1) + 1
        else:
            folded.append(dict(call))
    return {**run, "collectives": list(kinds.values()), "sequence": folded,
            "memory_per_rank": [r["memory"] for r in ranks]}


if __name__ == "__main__":
    import tempfile
    wanted = sys.argv[1:]
    separator = "[\n"
    with tempfile.TemporaryDirectory() as folder:
        for run in SPECS:
            if not wanted or run["name"] in wanted:
                print(separator + json.dumps(record(run, folder), separators=(",", ":")), end="", flush=True)
                print(run["name"], file=sys.stderr)
                separator = ",\n"
    print("\n]")

"""Records the collectives of the last of three optimizer steps of FSDP2 on a two-dimensional mesh (hybrid sharding) of CPU
processes (gloo), in the fields of ../schedules. usage: record_fsdp.py > fsdp.json"""
import itertools
import json
import os
import socket
import sys

os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
import torch
import torch.distributed as td
import torch.distributed.distributed_c10d as c10d
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

transformers.logging.set_verbosity_error()
CALLS, STATE = [], {"on": False, "phase": "forward"}
NAMES = {"all_reduce": ("tensor", "tensor", 0, 0), "all_gather_into_tensor": ("input_tensor", "output_tensor", 1, 0),
         "reduce_scatter_tensor": ("input", "output", 1, 0)}


def wrap(name, function):
    name_in, name_out, place_in, place_out = NAMES[name]

    def wrapped(*a, **k):
        if STATE["on"]:
            sent, got = k.get(name_in, a[place_in] if len(a) > place_in else None), k.get(name_out, a[place_out] if len(a) > place_out else None)
            CALLS.append((name, str(sent.dtype).removeprefix("torch."), td.get_world_size(k.get("group")), sent.numel(),
                          got.numel(), STATE["phase"]))
        return function(*a, **k)

    return wrapped


for name in NAMES:
    wrapped = wrap(name, getattr(c10d, name))
    setattr(td, name, wrapped)
    setattr(c10d, name, wrapped)

CONFIG = dict(model_type="llama", hidden_size=250, intermediate_size=668, num_hidden_layers=3, num_attention_heads=5,
              num_key_value_heads=5, vocab_size=1001, tie_word_embeddings=False)


def case(name, gpus=4, replicas=2, grad_accum=1, no_sync=False, **options):
    return dict(id=name + (f"|no_sync={no_sync}" if grad_accum > 1 else ""), gpus=gpus, replicas=replicas, grad_accum=grad_accum,
                no_sync=no_sync, **options)


CASES = [
    case("2x2"),
    case("2x2 not resharded", reshard_after_forward=False),
    case("2x2 bf16 shards", precision="bf16 shards", reduce="bf16"),
    case("2x2 reduced in bf16", reduce="bf16"),
    case("2x2 two micro-steps", grad_accum=2),
    case("2x2 three micro-steps", grad_accum=3, no_sync=True),
    case("4 replicas of one", replicas=4),
    case("2x3", gpus=6),
    case("3x2 LoRA", gpus=6, replicas=3, lora=8),
]


def worker(rank, port, run, out):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(run["gpus"]), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    td.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (run["replicas"], run["gpus"] // run["replicas"]), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(0)
    mixed = run.get("precision", "amp") == "amp"
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32 if run.get("reduce", "fp32") == "fp32" else torch.bfloat16) if mixed else MixedPrecisionPolicy()
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **{k: v for k, v in CONFIG.items() if k != "model_type"}, use_cache=False, attn_implementation="eager"))
    if not mixed:
        model = model.to(torch.bfloat16)
    layers = model.model.layers
    if "lora" in run:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=run["lora"], lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    for each in [*layers, model]:
        fully_shard(each, mesh=mesh, mp_policy=policy, reshard_after_forward=run.get("reshard_after_forward", True))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for step in range(3):
        STATE["on"] = step == 2
        for micro in range(run["grad_accum"]):
            if run["no_sync"]:
                model.set_requires_gradient_sync(micro == run["grad_accum"] - 1)
            ids = torch.randint(0, CONFIG["vocab_size"], (2, 32))
            STATE["phase"] = "forward"
            loss = model(input_ids=ids, labels=ids).loss
            STATE["phase"] = "backward"
            loss.backward()
        STATE["phase"] = "step"
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    STATE["on"] = False
    json.dump(CALLS, open(out, "w"))
    td.barrier()
    os._exit(0)


def record(run, folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    outs = [os.path.join(folder, f"{run['id']}.{rank}") for rank in range(run["gpus"])]
    children = []
    for rank, out in enumerate(outs):
        child = os.fork()
        if child == 0:
            try:
                worker(rank, port, run, out)
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children), run["id"]
    ranks = [json.load(open(out)) for out in outs]
    assert all(r == ranks[0] for r in ranks), run["id"]
    kinds = {}
    for op, dtype, group, n_in, n_out, phase in ranks[0]:
        kind = kinds.setdefault((op, dtype, group, phase), dict(op=op, dtype=dtype, group=group, phase=phase, count=0,
                                                                elements_in=0, elements_out=0))
        kind["count"] += 1
        kind["elements_in"] += n_in
        kind["elements_out"] += n_out
    sequence = [dict(zip(("op", "dtype", "group", "n_in", "n_out", "phase"), call), times=len(list(same)))
                for call, same in itertools.groupby(ranks[0])]
    options = dict(framework="fsdp", gpus=run["gpus"], replicas=run["replicas"], zero=0, tensor_parallel=1,
                   method="lora" if "lora" in run else "full", optimizer="adamw",
                   precision={"amp": "bf16 compute, fp32 shards"}.get(run.get("precision", "amp"), run.get("precision")),
                   reduce=run.get("reduce", "fp32"), micro_batch=2, grad_accum=run["grad_accum"], seq=32, checkpointing="none",
                   attention="eager", loss="full", reshard_after_forward=run.get("reshard_after_forward", True))
    if "lora" in run:
        options.update(lora_rank=run["lora"], lora_targets="all-linear", adapter_dtype="fp32")
    return dict(id=run["id"], model="small Llama", config=CONFIG, options=options, collectives=list(kinds.values()), sequence=sequence)


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        rows = [json.dumps(record(run, folder), separators=(",", ":")) for run in CASES]
    print("[\n" + ",\n".join(rows) + "\n]")

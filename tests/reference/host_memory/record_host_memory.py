"""Records what processes of a training run hold of host memory while they load a model, evaluate and save.

Every rank is a process of its own on the CPU with gloo; this process reads /proc/<pid>/status of all of them every
few milliseconds, by the moment that they say they are at. Anonymous memory is what a rank allocated, file memory
what it has mapped of checkpoints and libraries, which the kernel takes back when it needs it. The C library is
told to return blocks of 128 KiB and more as they are freed (MALLOC_MMAP_THRESHOLD_), so that what is resident is
what is live: on a GPU machine most of these blocks would be the device's.

    python record_host_memory.py SCENARIO RANKS --append rows.jsonl [--model small|large]
"""

import argparse
import gc
import json
import multiprocessing
import os
import sys
import tempfile
import time

MODELS = {
    # So small that what its ranks hold is the processes' own: libraries, threads, buffers.
    "tiny": dict(hidden_size=64, num_hidden_layers=2, intermediate_size=128, num_attention_heads=4,
                 num_key_value_heads=2, vocab_size=512, tie_word_embeddings=False, max_position_embeddings=2048),
    "small": dict(hidden_size=1024, num_hidden_layers=8, intermediate_size=4096, num_attention_heads=16,
                  num_key_value_heads=8, vocab_size=32000, tie_word_embeddings=False, max_position_embeddings=2048),
    "experts": dict(hidden_size=512, num_hidden_layers=8, intermediate_size=1024, num_attention_heads=8,
                    num_key_value_heads=8, vocab_size=16000, tie_word_embeddings=False, num_local_experts=16,
                    max_position_embeddings=2048),
    "large": dict(hidden_size=1536, num_hidden_layers=12, intermediate_size=6144, num_attention_heads=16,
                  num_key_value_heads=8, vocab_size=32000, tie_word_embeddings=False, max_position_embeddings=2048),
}


class Rank:
    """What a scenario runs with: its place in the world, and moments that the reader sees."""

    def __init__(self, rank, ranks, folder, moment, barrier):
        self.rank, self.ranks, self.folder = rank, ranks, folder
        self.moment, self.barrier, self.names = moment, barrier, []

    def at(self, name):
        """From here on the process is at `name`."""
        gc.collect()
        self.barrier.wait()
        if self.rank == 0:
            self.moment.value = name.encode()
        self.barrier.wait()
        time.sleep(0.05)


def load(rank, dtype):
    import torch
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(rank.folder, dtype=getattr(torch, dtype))


def initialise(rank):
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank.rank), LOCAL_RANK=str(rank.rank),
                      WORLD_SIZE=str(rank.ranks), LOCAL_WORLD_SIZE=str(rank.ranks))
    dist.init_process_group("gloo", rank=rank.rank, world_size=rank.ranks)


def own_weights(model):
    """Weights that were mapped from the checkpoint become the process's own, as a device's copy would be."""
    import torch
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1.0)


def plain(rank, dtype="bfloat16"):
    import torch
    from transformers import AutoModelForCausalLM  # noqa: F401
    initialise(rank)
    rank.at("load")
    model = load(rank, dtype)
    rank.at("train")
    own_weights(model)
    rank.at("save")
    if rank.rank == 0:
        model.save_pretrained(os.path.join(rank.folder, "saved"))


def converted(rank):
    plain(rank, "float32")


def adapters(rank):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM  # noqa: F401
    initialise(rank)
    rank.at("load")
    model = get_peft_model(load(rank, "bfloat16"), LoraConfig(r=64, target_modules="all-linear"))
    rank.at("train")
    own_weights(model)
    rank.at("save")
    if rank.rank == 0:
        model.save_pretrained(os.path.join(rank.folder, "saved"))


def deepspeed_config(stage):
    return {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
            "zero_allow_untested_optimizer": True, "gradient_clipping": 0.0,
            "zero_optimization": {"stage": stage, "stage3_gather_16bit_weights_on_model_save": True,
                                  "reduce_bucket_size": 1048576, "stage3_prefetch_bucket_size": 943718,
                                  "stage3_param_persistence_threshold": 10240}}


def deepspeed_run(rank, stage, what):
    os.environ["DS_ACCELERATOR"] = "cpu"
    import torch
    initialise(rank)
    import deepspeed
    from transformers import AutoModelForCausalLM  # noqa: F401
    from transformers.integrations import HfDeepSpeedConfig
    deepspeed.init_distributed("gloo", verbose=False)
    config = deepspeed_config(stage)
    alive = HfDeepSpeedConfig(config)  # zero.Init at stage 3
    rank.at("load")
    model = load(rank, "bfloat16")
    rank.at("start")
    engine, *_ = deepspeed.initialize(model=model, config=config,
                                      optimizer=torch.optim.AdamW(model.parameters(), lr=1e-5))
    rank.at("train")
    ids = torch.zeros((1, 16), dtype=torch.long)
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()  # makes the optimizer's states
    engine.zero_grad()
    del model
    rank.at("save")
    out = os.path.join(rank.folder, "saved")
    if what == "weights":
        if stage == 3:
            state = engine._zero3_consolidated_16bit_state_dict()
        else:
            from deepspeed.checkpoint.utils import clone_tensors_for_torch_save
            state = clone_tensors_for_torch_save(engine.module.state_dict())  # as Accelerator.get_state_dict does
        if rank.rank == 0:
            engine.module.save_pretrained(out, state_dict=state)
    else:
        engine.save_checkpoint(out)
    del alive


def fsdp(rank, what, dtype="bfloat16"):
    """accelerate's functions on CPU ranks, which its Accelerator would give to DDP."""
    from types import SimpleNamespace
    initialise(rank)
    os.environ.update(ACCELERATE_USE_FSDP="true", FSDP_VERSION="2", FSDP_CPU_RAM_EFFICIENT_LOADING="true")
    import torch
    from accelerate import PartialState
    PartialState(cpu=True)  # its loggers ask for one
    from accelerate.utils import FullyShardedDataParallelPlugin, save_fsdp_model
    from accelerate.utils.fsdp_utils import fsdp2_prepare_model
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from transformers import AutoModelForCausalLM  # noqa: F401
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, cpu_ram_efficient_loading=True, state_dict_type=what,
                                            auto_wrap_policy="transformer_based_wrap", reshard_after_forward=True)
    plugin.set_mixed_precision("bf16")
    accelerator = SimpleNamespace(state=SimpleNamespace(fsdp_plugin=plugin), mixed_precision="bf16",
                                  device=torch.device("cpu"), is_main_process=rank.rank == 0,
                                  process_index=rank.rank, num_processes=rank.ranks, torch_device_mesh=None,
                                  wait_for_everyone=torch.distributed.barrier)
    rank.at("load")
    model = load(rank, dtype)
    model = fsdp2_prepare_model(accelerator, model)
    rank.at("train")
    with torch.no_grad():
        model(input_ids=torch.zeros((1, 16), dtype=torch.long))
    for each in model.modules():  # as a backward leaves them
        if hasattr(each, "reshard"):
            each.reshard()
    rank.at("save")
    if what == "FULL_STATE_DICT":  # as Accelerator.get_state_dict does
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, cpu_offload=True)
        state = get_model_state_dict(model, options=options)
        if rank.rank == 0:
            model.save_pretrained(os.path.join(rank.folder, "saved"), state_dict=state)
    else:
        save_fsdp_model(plugin, accelerator, model, os.path.join(rank.folder, "saved"))


def evaluation(rank, accumulation=None, samples=48, tokens=256):
    os.environ.update(RANK=str(rank.rank), LOCAL_RANK=str(rank.rank), WORLD_SIZE=str(rank.ranks),
                      MASTER_ADDR="127.0.0.1", ACCELERATE_USE_CPU="true")
    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments  # noqa: F401

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return samples

        def __getitem__(self, index):
            ids = torch.full((tokens,), index % 100, dtype=torch.long)
            return {"input_ids": ids, "labels": ids}

    arguments = TrainingArguments(output_dir=os.path.join(rank.folder, "saved"), use_cpu=True, report_to=[],
                                  per_device_eval_batch_size=4, eval_accumulation_steps=accumulation,
                                  disable_tqdm=True, dataloader_pin_memory=False)
    rank.at("load")
    model = load(rank, "bfloat16")
    trainer = Trainer(model=model, args=arguments, eval_dataset=Data(),
                      compute_metrics=lambda prediction: {"rows": len(prediction.predictions)})
    rank.at("train")
    own_weights(model)
    rank.at("evaluation")
    trainer.evaluate()


# Options of zplan for each run.
OPTIONS = {
    "plain": {"framework": "torch", "load_dtype": "bf16"},
    "converted": {"framework": "torch", "load_dtype": "fp32", "precision": "fp32"},
    "adapters": {"framework": "torch", "load_dtype": "bf16", "method": "lora", "lora_rank": 64},
    "zero2-weights": {"framework": "deepspeed", "zero": 2},
    "zero2-checkpoint": {"framework": "deepspeed", "zero": 2},
    "zero3-weights": {"framework": "deepspeed", "zero": 3},
    "zero3-checkpoint": {"framework": "deepspeed", "zero": 3},
    "fsdp-full": {"framework": "fsdp", "zero": 3, "save": "full"},
    "fsdp-full-fp32": {"framework": "fsdp", "zero": 3, "save": "full", "load_dtype": "fp32"},
    "fsdp-sharded": {"framework": "fsdp", "zero": 3, "save": "sharded"},
    "evaluation": {"framework": "deepspeed", "zero": 0, "eval_batch": 4, "eval_samples": 48, "seq": 256},
    "evaluation-accumulated": {"framework": "deepspeed", "zero": 0, "eval_batch": 4, "eval_samples": 48, "seq": 256,
                               "eval_accumulation": 2},
}
SCENARIOS = {
    "plain": plain,
    "converted": converted,
    "adapters": adapters,
    "zero2-weights": lambda r: deepspeed_run(r, 2, "weights"),
    "zero2-checkpoint": lambda r: deepspeed_run(r, 2, "checkpoint"),
    "zero3-weights": lambda r: deepspeed_run(r, 3, "weights"),
    "zero3-checkpoint": lambda r: deepspeed_run(r, 3, "checkpoint"),
    "fsdp-full": lambda r: fsdp(r, "FULL_STATE_DICT"),
    "fsdp-full-fp32": lambda r: fsdp(r, "FULL_STATE_DICT", "float32"),
    "fsdp-sharded": lambda r: fsdp(r, "SHARDED_STATE_DICT"),
    "evaluation": evaluation,
    "evaluation-accumulated": lambda r: evaluation(r, 2),
}


def run_rank(scenario, rank, ranks, folder, port, moment, barrier):
    os.environ.update(MASTER_PORT=str(port), OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false",
                      HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    if rank != 0:
        sys.stdout = open(os.devnull, "w")
    else:
        sys.stdout = sys.stderr
    import torch
    torch.set_num_threads(1)
    state = Rank(rank, ranks, folder, moment, barrier)
    SCENARIOS[scenario](state)
    state.at("end")


def held(pid):
    values = {}
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith(("RssAnon", "RssFile", "RssShmem")):
                name, number, _ = line.split()
                values[name[3:-1].lower()] = int(number) * 1024
    return values


def make_checkpoint(folder, model, dtype):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM
    experts = "num_local_experts" in MODELS[model]
    kind, config = (MixtralForCausalLM, MixtralConfig) if experts else (LlamaForCausalLM, LlamaConfig)
    kind(config(**MODELS[model])).to(getattr(torch, dtype)).save_pretrained(folder)


def record(scenario, ranks, model, dtype):
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "131072"  # read as a process starts
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="host_memory_") as folder:
        maker = context.Process(target=make_checkpoint, args=(folder, model, dtype))
        maker.start(), maker.join()
        moment, barrier = context.Array("c", 32), context.Barrier(ranks)
        port = 20000 + os.getpid() % 20000
        processes = [context.Process(target=run_rank, args=(scenario, r, ranks, folder, port, moment, barrier))
                     for r in range(ranks)]
        for each in processes:
            each.start()
        moments = {}
        while any(each.is_alive() for each in processes):
            if any(each.exitcode for each in processes):
                for each in processes:
                    each.terminate()
                raise SystemExit(f"{scenario}: a rank failed")
            name = moment.value.decode() or "import"
            try:
                now = [held(each.pid) for each in processes]
            except (FileNotFoundError, ProcessLookupError):
                break
            if not all(now):
                continue
            at = moments.setdefault(name, {"first": now, "anon": [0] * ranks, "file": [0] * ranks, "node": 0})
            at["last"] = now
            for r, each in enumerate(now):
                at["anon"][r] = max(at["anon"][r], each["anon"] + each["shmem"])
                at["file"][r] = max(at["file"][r], each["file"])
            at["node"] = max(at["node"], sum(each["anon"] + each["shmem"] for each in now))
            time.sleep(0.004)
        for each in processes:
            each.join()
    return moments


def row_of(scenario, ranks, model, dtype, moments):
    from importlib.metadata import version
    packages = ("torch", "transformers", "deepspeed", "accelerate", "peft", "safetensors")
    def known(package):
        try:
            return version(package)
        except Exception:
            return None
    return {"id": f"{scenario}-{model}-{ranks}", "scenario": scenario, "ranks": ranks,
            "trained": OPTIONS[scenario].get("zero", 0) > 0 and OPTIONS[scenario]["framework"] == "deepspeed", "options": OPTIONS[scenario], "checkpoint_dtype": dtype,
            "config": {"model_type": "mixtral" if "num_local_experts" in MODELS[model] else "llama",
                       **MODELS[model]},
            "versions": {p: known(p) for p in packages},
            "moments": {name: {"anonymous_before": [f["anon"] + f["shmem"] for f in at["first"]],
                               "file_before": [f["file"] for f in at["first"]],
                               "anonymous_peak": at["anon"], "file_peak": at["file"],
                               "anonymous_peak_of_node": at["node"]}
                        for name, at in moments.items() if name not in ("import", "end")}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("ranks", type=int)
    parser.add_argument("--model", choices=sorted(MODELS), default="small")
    parser.add_argument("--checkpoint-dtype", default="bfloat16")
    parser.add_argument("--append", required=True, help="file that the row is written to")
    chosen = parser.parse_args()
    found = record(chosen.scenario, chosen.ranks, chosen.model, chosen.checkpoint_dtype)
    with open(chosen.append, "a") as out:
        out.write(json.dumps(row_of(chosen.scenario, chosen.ranks, chosen.model, chosen.checkpoint_dtype, found)) + "\n")

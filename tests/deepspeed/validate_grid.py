#!/usr/bin/env python3
"""Asks the real DeepSpeed, HF Trainer and launchers about every config that zplan_emit_grid prints.

    ninja zplan_emit_grid
    DS_ACCELERATOR=cpu python validate_grid.py bin/zplan_emit_grid [--sample N] [--initialize N] [--release 0.16.9]

Needs deepspeed, torch, transformers and accelerate, and no GPU. Per config: it has no key, optimizer argument or
"auto" that the installed packages do not know, by what generate_keys.py asks of them here and now; DeepSpeedConfig
accepts it for that number of ranks; what it resolves is what the plan says; every "auto" is filled in by the Trainer's own code; the launchers' own
parsers accept the launch lines. With --initialize N, every Nth plain config of at most 8 GPUs also goes through
deepspeed.initialize with a tiny model, in a process of its own, over a process group that only pretends to have peers.
--sample N takes N configs spread evenly over the grid and its styles; --release asks the emitter for configs of another
DeepSpeed release, which must be the installed one. Exit status 1 where anything is refused.
"""
import argparse
import copy
import json
import logging
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from types import SimpleNamespace

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
logging.disable(logging.WARNING)

# The seven figures that only exist at some stages.
NEEDS_STAGE = {"reduce_bucket_size": 1, "overlap_comm": 1, "prefetch_bucket_size": 3,
               "param_persistence_threshold": 3, "max_live_parameters": 3, "max_reuse_distance": 3, "sub_group_size": 3}


class World:
    """Stands for an mpu: DeepSpeedConfig asks it for nothing but the number of ranks."""

    def __init__(self, ranks):
        self.ranks = ranks

    def get_data_parallel_world_size(self):
        return self.ranks


def autos(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from autos(inner, f"{path}.{key}")
    elif value == "auto":
        yield path[1:]


def filled_by_trainer(case):
    """What the HF Trainer makes of a config with "auto", given arguments that agree with the plan."""
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig
    want, config = case["expected"], copy.deepcopy(case["config"])
    trainer = HfTrainerDeepSpeedConfig(config)
    arguments = SimpleNamespace(
        world_size=case["gpus"], per_device_train_batch_size=want["micro_batch_size"],
        gradient_accumulation_steps=want["gradient_accumulation_steps"], max_grad_norm=1.0, learning_rate=5e-5,
        adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, weight_decay=0.0, save_on_each_node=False,
        fp16="fp16" in config, fp16_full_eval=False, bf16="bf16" in config, bf16_full_eval=False,
        get_warmup_steps=lambda steps: 0)
    trainer.trainer_config_process(arguments)
    model = SimpleNamespace(config=SimpleNamespace(hidden_size=case["hidden_size"]))
    trainer.trainer_config_finalize(arguments, model, 100)
    left = list(autos(trainer.config))
    if left:
        raise ValueError(f'nobody fills in "auto" at {left}')
    return trainer.config


def device(section):
    return "none" if section is None else getattr(section.device, "value", section.device)


def check_meaning(case, read):
    """What DeepSpeedConfig resolved, against the plan."""
    zero, want = read.zero_config, case["expected"]
    found = {"stage": int(zero.stage), "micro_batch_size": read.train_micro_batch_size_per_gpu,
             "gradient_accumulation_steps": read.gradient_accumulation_steps,
             "offload_optimizer": device(zero.offload_optimizer), "offload_param": device(zero.offload_param)}
    for name, stage in NEEDS_STAGE.items():
        no_buckets = "data_types" in case["config"] and want["stage"] == 1
        if want["stage"] >= stage and not (no_buckets and name in ("reduce_bucket_size", "overlap_comm")):
            found[name] = getattr(zero, name)
    wrong = {k: (v, want[k]) for k, v in found.items() if v != want[k]}
    if wrong:
        raise ValueError(f"DeepSpeed reads (found, planned): {wrong}")
    batch = want["micro_batch_size"] * want["gradient_accumulation_steps"] * case["gpus"]
    if read.train_batch_size != batch:
        raise ValueError(f"train_batch_size {read.train_batch_size}, planned {batch}")


def installed_keys():
    """What the installed packages know: planner/frameworks/deepspeed/config/generate_keys.py, not the record it once wrote."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, os.path.join(source, "planner", "frameworks", "deepspeed", "config"))
    import generate_keys as keys
    sections = {section["pointer"]: set(section["keys"]) for section in keys.sections()}
    return SimpleNamespace(sections=sections, optimizers=keys.optimizers(), schedulers=keys.schedulers(),
                           autos=set(keys.auto_pointers()))


def unknown_keys(config, known, pointer=""):
    """Keys of `config`, at any depth, that nobody reads."""
    if pointer not in known.sections:
        yield f"{pointer} (no such section)"
        return
    for key, value in config.items():
        inner = f"{pointer}/{key}"
        if key not in known.sections[pointer]:
            yield inner
        elif isinstance(value, dict) and inner not in ("/optimizer/params", "/scheduler/params"):
            yield from unknown_keys(value, known, inner)


def unknown_arguments(config, known):
    """Arguments that the constructor of the named optimizer or scheduler does not have."""
    for name, table in (("optimizer", known.optimizers), ("scheduler", known.schedulers)):
        section = config.get(name)
        if section is None:
            continue
        kind = section["type"]
        arguments = table.get(kind, table.get(kind.lower(), ()))
        if arguments == ():
            yield f"/{name}/type {kind}"
        yield from (f"/{name}/params/{key}" for key in section["params"] if arguments and key not in arguments)


def check_keys(case, known):
    config = case["config"]
    wrong = [*unknown_keys(config, known), *unknown_arguments(config, known)]
    wrong += [f'"auto" at /{path}' for path in (p.replace(".", "/") for p in autos(config))
              if "/" + path not in known.autos]
    if wrong:
        raise ValueError(f"unknown to the installed packages: {wrong}")


def check_refuses(known):
    """The check must be able to fail."""
    for bad in ({"zero_optimisation": {}}, {"zero_optimization": {"stage3_prefetch": 1}}, {"bf16": {"enabled": True, "x": 1}},
                {"optimizer": {"type": "AdamW", "params": {"learning_rate": 1}}}, {"aio": {"block": 1}},
                {"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 1}}}, {"gradient_clipping": {"max": 1}},
                {"zero_optimization": {"sub_group_size": "auto"}}):
        try:
            check_keys({"config": bad}, known)
        except ValueError:
            continue
        raise SystemExit(f"the check accepts {bad}")


def check_config(case):
    from deepspeed.runtime.config import DeepSpeedConfig
    config = copy.deepcopy(case["config"]) if case["style"] == "plain" else filled_by_trainer(case)
    if list(autos(config)):
        raise ValueError("plain config with auto")
    check_meaning(case, DeepSpeedConfig(config, mpu=World(case["gpus"])))


def check_launch(lines):
    from accelerate.commands.launch import launch_command_parser
    from deepspeed.launcher.runner import parse_args
    from torch.distributed.run import get_args_parser
    words = {name: [w.replace("$NODE_RANK", "0").replace("$MASTER_ADDR", "host") for w in shlex.split(line)]
             for name, line in lines.items()}
    parsed = [parse_args(words["deepspeed"][1:]).user_script,
              get_args_parser().parse_args(words["torchrun"][1:]).training_script,
              launch_command_parser().parse_args(words["accelerate"][2:]).training_script]
    if parsed != ["train.py"] * 3:
        raise ValueError(f"scripts {parsed}")


def initialize(case):
    """Runs in a process of its own: deepspeed.initialize with a tiny model."""
    import deepspeed
    import torch
    from deepspeed.accelerator import get_accelerator
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from transformers import LlamaConfig, LlamaForCausalLM
    gpus, config = case["gpus"], case["config"]
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(gpus), LOCAL_SIZE=str(gpus), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29555")
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    for name in ("is_fp16_supported", "is_bf16_supported"):
        setattr(type(get_accelerator()), name, lambda self: True)
    torch.distributed.init_process_group("fake", rank=0, world_size=gpus, store=FakeStore())
    deepspeed.init_distributed(dist_backend="fake", verbose=False)
    heads = max(4, case["tensor_parallel"])
    model = LlamaForCausalLM(LlamaConfig(hidden_size=16 * heads, intermediate_size=32 * heads, num_hidden_layers=1,
                                         num_attention_heads=heads, num_key_value_heads=heads, vocab_size=64 * heads))
    optimizer = config.get("optimizer")
    if optimizer and optimizer["type"] == "AdamW" and "offload_optimizer" not in config["zero_optimization"]:
        optimizer["params"]["torch_adam"] = True  # the fused one needs a GPU
    client = None if optimizer else torch.optim.AdamW(model.parameters())
    _, made, _, _ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), optimizer=client,
                                         config=config)
    print("initialized", type(made).__name__)


def run_initialize(case):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(case, file)
        file.flush()
        run = subprocess.run([sys.executable, __file__, "--one", file.name], capture_output=True, text=True)
    if run.returncode != 0 or "initialized" not in run.stdout:
        raise ValueError("deepspeed.initialize: " + (run.stderr.strip().splitlines() or ["no output"])[-1])


def tried(check, argument, what, failures):
    try:
        check(argument)
        return True
    except BaseException as error:  # DeepSpeed asserts, exits and raises
        failures.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
        return False


def sampled(cases, count):
    """`count` of them, spread so that every style is among them: styles follow one another."""
    if not count or count >= len(cases):
        return cases
    step = len(cases) // count
    while step % 3 == 0:
        step -= 1
    return cases[::step][:count]


def can_initialize(case):
    # Lion's, Muon's and NVMe's kernels are compiled for the machine: no compiler run here.
    kernels = case["config"].get("optimizer", {}).get("type") in ("Lion", "Muon") or "aio" in case["config"]
    return case["style"] == "plain" and case["gpus"] <= 8 and not kernels and not case["name"].startswith("qlora")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("emitter", nargs="?")
    parser.add_argument("--initialize", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--release")
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        with open(options.one) as file:
            initialize(json.load(file))
        sys.stdout.flush()
        os._exit(0)
    import deepspeed.comm
    deepspeed.comm.get_rank = lambda *_, **__: 0
    deepspeed.comm.get_world_size = lambda *_, **__: 1
    if options.release and options.release != deepspeed.__version__.strip():
        sys.exit(f"DeepSpeed {deepspeed.__version__} is installed, not {options.release}")
    emit = [options.emitter] + (["--release", options.release] if options.release else [])
    lines = subprocess.run(emit, capture_output=True, text=True, check=True).stdout.splitlines()
    cases, failures, passed = sampled([json.loads(line) for line in lines], options.sample), [], Counter()
    known = None if options.release else installed_keys()
    if known:
        check_refuses(known)
    for case in cases:
        name = f'{case["name"]} ({case["style"]})'
        if known:
            passed["keys"] += tried(lambda each: check_keys(each, known), case, name, failures)
        passed[f'DeepSpeedConfig, {case["style"]}'] += tried(check_config, case, name, failures)
        if case["style"] == "plain":
            passed["launch lines"] += tried(check_launch, case["launch"], name, failures)
    chosen = [c for c in cases if can_initialize(c)][::options.initialize] if options.initialize else []
    for case in chosen:
        passed["deepspeed.initialize"] += tried(run_initialize, case, case["name"], failures)
    for failure in failures:
        print("REFUSED", failure)
    print(f"DeepSpeed {deepspeed.__version__.strip()}: {len(cases)} configs;", ", ".join(f"{k}: {v} passed" for k, v in passed.items()), f"; {len(failures)} refused")
    sys.exit(1 if failures or not cases else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Asks the real accelerate about every FSDP2 config and command line that zplan_emit_fsdp prints.

    python validate_configs.py bin/zplan_emit_fsdp [--torchtitan]

Needs accelerate and torch, and no GPU. Per config: accelerate reads the YAML; the launcher's own code turns it into the
environment of a worker; the FSDP2 plugin that a worker makes of that environment is what the plan says; the launchers'
parsers accept the lines. With --torchtitan, its arguments go through tyro into torchtitan's own dataclasses (needs
torchtitan 0.3, tyro and spmd_types). Exit status 1 where anything is refused.
"""
import argparse
import json
import logging
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter

logging.disable(logging.WARNING)


def words_of(line, config):
    line = line.replace("$NODE_RANK", "0").replace("$MASTER_ADDR", "host").replace("CONFIG", config)
    return shlex.split(line)


def worker_environment(words):
    """What `accelerate launch` hands to a worker: its own code up to where it starts one."""
    from accelerate.commands.launch import (_validate_launch_command, launch_command_parser)
    from accelerate.utils.launch import prepare_multi_gpu_env
    args = launch_command_parser().parse_args(words[2:])
    args, defaults, _ = _validate_launch_command(args)
    if args.training_script != "train.py":
        raise ValueError(f"script {args.training_script}")
    return args, prepare_multi_gpu_env(args)


def check_fsdp(case):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import FullyShardedDataParallelPlugin
    want = case["expected"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(case["yaml"])
        file.flush()
        read = load_config_from_file(file.name)
        args, environment = worker_environment(words_of(case["launch"]["accelerate"], file.name))
    kept = dict(os.environ)
    os.environ.update({k: v for k, v in environment.items() if k.startswith(("FSDP", "ACCELERATE"))})
    try:
        plugin = FullyShardedDataParallelPlugin()
        if want["mixed_precision"] != "no":
            plugin.set_mixed_precision(environment["ACCELERATE_MIXED_PRECISION"])
    finally:
        os.environ.clear()
        os.environ.update(kept)
    found = {"reshard_after_forward": plugin.reshard_after_forward,
             "offload": type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy",
             "checkpointing": plugin.activation_checkpointing,
             "mixed_precision": environment["ACCELERATE_MIXED_PRECISION"],
             "num_processes": read.num_processes, "num_machines": args.num_machines}
    if plugin.fsdp_version != 2 or not plugin.cpu_ram_efficient_loading:
        raise ValueError(f"version {plugin.fsdp_version}, loading {plugin.cpu_ram_efficient_loading}")
    if found != want:
        raise ValueError(f"accelerate reads {found}, planned {want}")


def check_torch(case):
    from accelerate.commands.launch import launch_command_parser
    from torch.distributed.run import get_args_parser
    launch = case["launch"]
    args = launch_command_parser().parse_args(words_of(launch["accelerate"], "")[2:])
    if (args.training_script, args.num_processes) != ("train.py", case["expected"]["num_processes"]):
        raise ValueError(f"accelerate: {args.training_script}, {args.num_processes}")
    if get_args_parser().parse_args(words_of(launch["torchrun"], "")[1:]).training_script != "train.py":
        raise ValueError("torchrun: no train.py")


def check_torchtitan(case):
    """Through tyro into torchtitan's own dataclasses."""
    from dataclasses import dataclass, field

    import tyro
    from torchtitan.config.configs import ParallelismConfig, TrainingConfig
    from torchtitan.distributed.activation_checkpoint import ActivationCheckpointingConfig, SelectiveAC

    @dataclass
    class Config:
        training: TrainingConfig = field(default_factory=TrainingConfig)
        parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
        activation_checkpoint: ActivationCheckpointingConfig = field(default_factory=SelectiveAC.Config)

    words = words_of(case["launch"]["torchtitan"], "CONFIG")
    words = words[words.index("--config") + 2:]
    read, want = tyro.cli(Config, args=words), case["expected"]
    sharded = case["framework"] == "fsdp"
    degree = read.parallelism.data_parallel_shard_degree if sharded else read.parallelism.data_parallel_replicate_degree
    found = (degree, read.training.enable_cpu_offload, type(read.activation_checkpoint).__qualname__ == "FullAC.Config")
    if found != (want["num_processes"], want["offload"], want["checkpointing"]):
        raise ValueError(f"torchtitan reads {found}, planned {want}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("emitter")
    parser.add_argument("--torchtitan", action="store_true")
    options = parser.parse_args()
    import accelerate
    lines = subprocess.run([options.emitter], capture_output=True, text=True, check=True).stdout.splitlines()
    cases, failures, passed = [json.loads(line) for line in lines], [], Counter()
    for case in cases:
        checks = [("accelerate, FSDP2", check_fsdp) if case["framework"] == "fsdp" else ("launch lines, DDP", check_torch)]
        if options.torchtitan and case["launch"]["torchtitan"]:
            checks.append(("torchtitan", check_torchtitan))
        for what, check in checks:
            try:
                check(case)
                passed[what] += 1
            except BaseException as error:  # parsers exit
                failures.append(f'{case["name"]}, {what}: {type(error).__name__}: {str(error)[:300]}')
    for failure in failures:
        print("REFUSED", failure)
    print(f"accelerate {accelerate.__version__}: {len(cases)} plans;", ", ".join(f"{k}: {v} passed" for k, v in passed.items()),
          f"; {len(failures)} refused")
    sys.exit(1 if failures or not cases else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes what the real DeepSpeed and the real HF Trainer make of a ds_config, for the tests to compare with.

    DS_ACCELERATOR=cpu python record.py GOLDEN_FOLDER     # needs deepspeed, torch, transformers; no GPU

batch.json     DeepSpeed's batch triangle over a grid: what it resolves, or null where it stops
defaults.json  what DeepSpeed takes where zero_optimization and its offload sections say nothing
hf_auto.json   what the HF Trainer puts in place of "auto" for a hidden size
resolved.json  what DeepSpeedConfig makes of each file of GOLDEN_FOLDER (those without "auto")
"""
import itertools
import json
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.WARNING)

import deepspeed.comm
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero.offload_config import (DeepSpeedZeroOffloadOptimizerConfig,
                                                   DeepSpeedZeroOffloadParamConfig)
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

HERE = Path(__file__).parent
deepspeed.comm.get_rank = lambda *_, **__: 0


class World:
    """Stands for an mpu: DeepSpeedConfig asks it for nothing but the number of ranks."""

    def __init__(self, ranks):
        self.ranks = ranks

    def get_data_parallel_world_size(self):
        return self.ranks


def write(name, value):
    """A line per entry."""
    if isinstance(value, list):
        text = "[\n" + ",\n".join(json.dumps(each) for each in value) + "\n]"
    else:
        text = "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()) + "\n}"
    (HERE / name).write_text(text + "\n")


def triangle(train, micro, steps, world):
    given = {"train_batch_size": train, "train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps}
    config = {key: value for key, value in given.items() if value is not None}
    try:
        read = DeepSpeedConfig(config, mpu=World(world))
    except (AssertionError, ValueError):
        return None
    return [read.train_batch_size, read.train_micro_batch_size_per_gpu, read.gradient_accumulation_steps]


def record_batch():
    grid = itertools.product([None, 1, 4, 8, 9, 16, 48], [None, 1, 2, 3], [None, 1, 2, 4], [1, 2, 4, 8])
    write("batch.json", [{"given": case[:3], "world": case[3], "resolved": triangle(*case)} for case in grid])


def plain(value):
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def record_defaults():
    models = {"/zero_optimization": DeepSpeedZeroConfig,
              "/zero_optimization/offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
              "/zero_optimization/offload_param": DeepSpeedZeroOffloadParamConfig}
    write("defaults.json", {pointer: {field.alias or name: plain(field.default)
                                      for name, field in model.model_fields.items() if name != "leaf_module"}
                            for pointer, model in models.items()})


def filled(hidden):
    keys = ["reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"]
    config = HfTrainerDeepSpeedConfig({"zero_optimization": {"stage": 3} | {key: "auto" for key in keys}})
    arguments = SimpleNamespace(get_warmup_steps=lambda steps: 0)
    config.trainer_config_finalize(arguments, SimpleNamespace(config=SimpleNamespace(hidden_size=hidden)), 1)
    return {key: config.config["zero_optimization"][key] for key in keys}


def record_auto():
    write("hf_auto.json", {str(h): filled(h) for h in (64, 896, 1001, 2048, 3584, 4096, 5120, 7168, 8192, 16384)})


def device(section):
    return plain(section.device.value if hasattr(section.device, "value") else section.device) if section else "none"


def resolved(config, world):
    read = DeepSpeedConfig(config, mpu=World(world))
    zero = read.zero_config
    return {"world": world, "train_batch_size": read.train_batch_size,
            "micro_batch_size": read.train_micro_batch_size_per_gpu,
            "gradient_accumulation_steps": read.gradient_accumulation_steps,
            "gradient_clipping": read.gradient_clipping, "stage": int(zero.stage),
            "bf16": read.bfloat16_config.enabled, "fp16": read.float16_config.enabled,
            "low_master": read.bfloat16_config.bf16_master_weights_and_grads
            or read.float16_config.fp16_master_weights_and_grads,
            "grad_accum_dtype": read.grad_accum_dtype, "optimizer": read.optimizer_name,
            "autotp_size": read.tensor_parallel_config.autotp_size,
            "offload_optimizer": device(zero.offload_optimizer), "offload_param": device(zero.offload_param),
            "reduce_bucket_size": zero.reduce_bucket_size, "prefetch_bucket_size": zero.prefetch_bucket_size,
            "persistence_threshold": zero.param_persistence_threshold,
            "max_live_parameters": zero.max_live_parameters, "max_reuse_distance": zero.max_reuse_distance,
            "sub_group_size": zero.sub_group_size, "overlap_comm": zero.overlap_comm,
            "parameter_alignment": zero.parameter_alignment}


def world_of(config):
    """The number of ranks that the batch was written for; a file without train_batch_size goes with any."""
    if "train_batch_size" not in config:
        return 8
    return config["train_batch_size"] // (config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"])


def record_golden(folder):
    records = {}
    for path in sorted(folder.glob("*.json")):
        text = path.read_text()
        if '"auto"' not in text:
            records[path.stem] = resolved(json.loads(text), world_of(json.loads(text)))
    write("resolved.json", records)


if __name__ == "__main__":
    record_batch()
    record_defaults()
    record_auto()
    record_golden(Path(sys.argv[1]))

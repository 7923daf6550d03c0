#!/usr/bin/env python3
"""Writes keys.json: every key that DeepSpeed, the HF Trainer and accelerate know in a ds_config.

Nothing is typed by hand: pydantic sections are asked for their fields; the other sections are found by
letting DeepSpeedConfig read a dictionary that remembers which keys it was asked for; optimizers and
schedulers by the signature of their constructor; "auto" by the calls in the Trainer's and accelerate's source.

Needs deepspeed, torch, transformers and accelerate:

    DS_ACCELERATOR=cpu python generate_keys.py > keys.json
"""
import inspect
import json
import logging
import os
import re
from collections import defaultdict

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.WARNING)

import accelerate
import deepspeed
import deepspeed.comm
import torch
import transformers
from accelerate.utils import DeepSpeedPlugin
from deepspeed.comm.config import CommsLoggerConfig
from deepspeed.compile.config import CompileConfig
from deepspeed.inference.config import WeightQuantConfig
from deepspeed.monitor.config import CometConfig, CSVConfig, TensorBoardConfig, WandbConfig
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lion import FusedLion
from deepspeed.runtime import config as ds
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.engine import DeepSpeedEngine
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
from deepspeed.runtime.tensor_parallel.config import TPConfig, TPTrainingConfig
from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig
from deepspeed.runtime.zero.offload_config import (DeepSpeedZeroOffloadOptimizerConfig,
                                                   DeepSpeedZeroOffloadParamConfig)
from deepspeed.utils.config import DeepSpeedThroughputTimerConfig
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

PYDANTIC = {
    "/zero_optimization": DeepSpeedZeroConfig,
    "/zero_optimization/offload_param": DeepSpeedZeroOffloadParamConfig,
    "/zero_optimization/offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
    "/zero_optimization/leaf_module": DeepSpeedZeroLeafModuleConfig,
    "/zero_optimization/zenflow": ZenFlowConfig,
    "/fp16": DeepSpeedFP16Config,
    "/bf16": DeepSpeedBF16Config,
    "/bfloat16": DeepSpeedBF16Config,
    "/tensor_parallel": TPTrainingConfig,
    "/tensor_parallel/tp": TPConfig,
    "/hybrid_engine": ds.HybridEngineConfig,
    "/tensorboard": TensorBoardConfig,
    "/wandb": WandbConfig,
    "/csv_monitor": CSVConfig,
    "/comet": CometConfig,
    "/comms_logger": CommsLoggerConfig,
    "/compile": CompileConfig,
    "/weight_quantization": WeightQuantConfig,
    "/timers/throughput": DeepSpeedThroughputTimerConfig,
}
# Sections whose inside no plan depends on and whose readers are not in DeepSpeedConfig.
FREE = ["/autotuning", "/data_efficiency", "/expert_parallel", "/pipeline", "/datastates_ckpt",
        "/checkpoint/writer", "/scheduler/params", "/optimizer/params"]
# Read by deepspeed.initialize before DeepSpeedConfig, or only beside "zero_optimization": true.
READ_ELSEWHERE = ["sequence_parallel_size", "data_parallel_size", "allgather_size"]


class Recorder(dict):
    """A dictionary that remembers which keys it was asked for."""

    def __init__(self, values, pointer, seen):
        super().__init__(values)
        self.pointer, self.seen = pointer, seen

    def get(self, key, default=None):
        self.seen[self.pointer].add(key)
        return super().get(key, default)

    def __getitem__(self, key):
        self.seen[self.pointer].add(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.seen[self.pointer].add(key)
        return super().__contains__(key)

    def keys(self):
        return self


def recorded_keys():
    """pointer → keys that DeepSpeedConfig asked a plain-dictionary section for."""
    seen = defaultdict(set)

    def node(pointer, **values):
        return Recorder(values, pointer, seen)

    sections = ["activation_checkpointing", "aio", "flops_profiler", "data_types", "torch_autocast", "timers"]
    top = node("", train_micro_batch_size_per_gpu=1, **{name: node("/" + name) for name in sections},
               optimizer=node("/optimizer", type="AdamW", params={}),
               scheduler=node("/scheduler", type="WarmupLR", params={}),
               checkpoint=node("/checkpoint", parallel_write=node("/checkpoint/parallel_write")))
    deepspeed.comm.get_rank = lambda *_, **__: 0

    class OneRank:
        def get_data_parallel_world_size(self):
            return 1

    ds.DeepSpeedConfig(top, mpu=OneRank())
    return seen


def fields(model):
    """Names and aliases of a pydantic section, and what took the place of deprecated ones."""
    keys, replaced = [], {}
    for name, field in model.model_fields.items():
        keys += [field.alias] if field.alias else []
        keys.append(name)
        extra = field.json_schema_extra or {}
        if extra.get("deprecated"):
            replaced[name] = extra.get("new_param", "")
    return keys, replaced


def section(pointer, keys, rejected, replaced=None):
    entry = {"pointer": pointer, "unknown": "rejected" if rejected else "ignored", "keys": keys}
    if replaced:
        entry["replaced_by"] = replaced
    return entry


def sections():
    seen = recorded_keys()
    removed = set(ds._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    seen[""] = (seen[""] | set(READ_ELSEWHERE)) - removed
    plain = [section(p, sorted(k), False) for p, k in sorted(seen.items()) if p not in FREE]
    models = [section(p, fields(m)[0], True, fields(m)[1]) for p, m in PYDANTIC.items()]
    return plain + models


def arguments(constructor):
    skip = {"self", "params", "model_params", "args", "kwargs", "optimizer"}
    return sorted(p for p in inspect.signature(constructor.__init__).parameters if p not in skip)


def optimizers():
    """type → arguments. DeepSpeed's types in lower case (it ignores case for them), torch's as torch has them."""
    adam = set(arguments(FusedAdam)) | set(arguments(DeepSpeedCPUAdam)) | set(arguments(torch.optim.AdamW))
    adam = sorted((adam - {"adamw_mode"}) | {"torch_adam", "adam_w_mode", "fp32_optimizer_states"})
    muon = set(DeepSpeedEngine._MUON_HALF_KEYS) | set(DeepSpeedEngine._ADAM_HALF_KEYS)
    muon |= {"muon_lr", "adam_lr", "per_head_muon", "torch_adam", "adam_w_mode", "fp32_optimizer_states"}
    own = {"adam": adam, "adamw": adam, "lion": arguments(FusedLion), "muon": sorted(muon),
           "adagrad": arguments(torch.optim.Adagrad)}
    # Not imported: they need a CUDA build or another package, so that their arguments are not checked.
    own |= {name: None for name in ds.DEEPSPEED_OPTIMIZERS if name not in own}
    base = torch.optim.Optimizer
    classes = [c for c in vars(torch.optim).values() if inspect.isclass(c) and issubclass(c, base)]
    torch_own = {c.__name__: arguments(c) for c in classes
                 if c is not base and c.__name__.lower() not in own}
    return own | dict(sorted(torch_own.items()))


def schedulers():
    return {name: arguments(getattr(lr_schedules, name)) for name in lr_schedules.VALID_LR_SCHEDULES}


def auto_pointers():
    """Where "auto" is filled in, by the HF Trainer or by accelerate."""
    trainer = inspect.getsource(HfTrainerDeepSpeedConfig)
    names = set(re.findall(r'fill_(?:match|only)\(\s*"([a-z0-9_.]+)"', trainer))
    plugin = inspect.getsource(DeepSpeedPlugin.__post_init__)
    mapping = plugin[plugin.index("plugin_to_config_mapping"):plugin.index("kwargs =")]
    names |= set(re.findall(r': "([a-z0-9_.]+)"', mapping))
    return sorted("/" + name.replace(".", "/") for name in names)


def main():
    versions = {m.__name__: m.__version__ for m in (deepspeed, torch, transformers, accelerate)}
    print(json.dumps({
        "schema": "zplan.ds_config_keys/1",
        "source": "generate_keys.py over the installed packages",
        "versions": versions,
        "sections": sections(),
        "free": FREE,
        "removed": {"": sorted(ds._REMOVED_TOP_LEVEL_CONFIG_KEYS),
                    "/zero_optimization": sorted(ds._REMOVED_ZERO_CONFIG_KEYS)},
        "optimizers": optimizers(),
        "schedulers": schedulers(),
        "auto": auto_pointers(),
    }, indent=1))


if __name__ == "__main__":
    main()

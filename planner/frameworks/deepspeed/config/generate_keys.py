#!/usr/bin/env python3
"""Writes keys.json: every key that DeepSpeed, the HF Trainer and accelerate know in a ds_config.

Nothing is typed by hand: pydantic sections are asked for their fields; the other sections are found by
letting DeepSpeedConfig read a dictionary that remembers which keys it was asked for, and with which default;
kinds, ranges and choices of values by the annotations of pydantic fields; optimizers and schedulers by the
signature of their constructor; "auto" by the calls in the Trainer's and accelerate's source.

Needs deepspeed, torch, transformers and accelerate:

    DS_ACCELERATOR=cpu python generate_keys.py > keys.json
"""
import inspect
import json
import logging
import os
import pathlib
import re
import typing
from collections import defaultdict
from enum import Enum

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.WARNING)

import accelerate
import deepspeed
import deepspeed.comm
import torch
import transformers
from pydantic import BaseModel
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
    """A dictionary that records which of its keys are read."""

    def __init__(self, values, pointer, seen, defaults):
        super().__init__(values)
        self.pointer, self.seen, self.defaults = pointer, seen, defaults

    def get(self, key, default=None):
        self.seen[self.pointer].add(key)
        self.defaults[self.pointer][key] = default
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
    """pointer → keys that DeepSpeedConfig asked a plain-dictionary section for, and pointer → their defaults."""
    seen, defaults = defaultdict(set), defaultdict(dict)

    def node(pointer, **values):
        return Recorder(values, pointer, seen, defaults)

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
    return seen, defaults


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


def kind_of(annotation):
    """Kind of a pydantic field's values and, of an enum or a Literal, the choices."""
    options = [a for a in typing.get_args(annotation) if a is not type(None)]
    if typing.get_origin(annotation) is typing.Union:
        return kind_of(options[0]) if len(options) == 1 else {"kind": "any"}
    if typing.get_origin(annotation) is typing.Literal:
        return {"kind": "choice", "choices": options}
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return {"kind": "choice", "choices": [member.value for member in annotation]}
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return {"kind": "object"}
    named = {bool: "boolean", int: "integer", float: "number", str: "text", pathlib.Path: "text",
             list: "list", dict: "object"}
    return {"kind": named.get(typing.get_origin(annotation) or annotation, "any")}


def value_of(field):
    """What a pydantic field takes: kind, whether null, limits, default."""
    entry = kind_of(field.annotation)
    entry["null"] = type(None) in typing.get_args(field.annotation)
    for limit in field.metadata:
        entry |= {name: getattr(limit, name) for name in ("gt", "ge", "lt", "le") if hasattr(limit, name)}
    default = field.default.value if isinstance(field.default, Enum) else field.default
    if isinstance(default, (bool, int, float, str)):
        entry["default"] = default
    return entry


def plain_value(default):
    """What a plain section asks for, by the default that it gives: DeepSpeed itself checks nothing there."""
    named = {bool: "boolean", int: "integer", float: "number", str: "text"}
    default = float(default) if isinstance(default, int) and abs(default) >= 1e6 else default
    return {"kind": named[type(default)], "null": False, "default": default} if type(default) in named else None


def section(pointer, keys, rejected, replaced=None, values=None):
    entry = {"pointer": pointer, "unknown": "rejected" if rejected else "ignored", "keys": keys}
    if replaced:
        entry["replaced_by"] = replaced
    if values:
        entry["values"] = values
    return entry


def model_section(pointer, model):
    keys, replaced = fields(model)
    values = {field.alias or name: value_of(field) for name, field in model.model_fields.items()}
    return section(pointer, keys, True, replaced, values)


def plain_section(pointer, keys, defaults):
    values = {key: plain_value(defaults.get(key)) for key in keys}
    return section(pointer, keys, False, values={key: value for key, value in values.items() if value})


def sections():
    seen, defaults = recorded_keys()
    removed = set(ds._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    seen[""] = (seen[""] | set(READ_ELSEWHERE)) - removed
    plain = [plain_section(p, sorted(k), defaults[p]) for p, k in sorted(seen.items()) if p not in FREE]
    return plain + [model_section(p, m) for p, m in PYDANTIC.items()]


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


def scheduler_classes():
    """DeepSpeed's, and torch's, which it looks up where it has none of that name."""
    theirs = torch.optim.lr_scheduler
    classes = [c for c in vars(theirs).values() if inspect.isclass(c) and issubclass(c, theirs.LRScheduler)]
    found = {c.__name__: c for c in classes if not c.__name__.startswith("_") and c is not theirs.LRScheduler}
    return {name: getattr(lr_schedules, name) for name in lr_schedules.VALID_LR_SCHEDULES} | dict(sorted(found.items()))


def schedulers():
    """type → arguments."""
    return {name: arguments(c) for name, c in scheduler_classes().items()}


def required(constructor):
    skip = {"self", "optimizer"}
    parameters = inspect.signature(constructor.__init__).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.name not in skip and p.kind is p.POSITIONAL_OR_KEYWORD]


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
        "required": {name: required(c) for name, c in scheduler_classes().items() if required(c)},
        "auto": auto_pointers(),
    }, indent=1))


if __name__ == "__main__":
    main()

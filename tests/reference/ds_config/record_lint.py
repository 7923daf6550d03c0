#!/usr/bin/env python3
"""Writes lint.json and values.json: where the real DeepSpeed stops and where it does not.

    DS_ACCELERATOR=cpu python record_lint.py     # needs deepspeed, torch; no GPU

lint.json    one entry per file: its text, the number of ranks, and what DeepSpeed stops with, by DeepSpeedConfig ("config") or,
             where that passes, by deepspeed.initialize over a fake process group ("initialize"); null where neither does
values.json  which JSON values a pydantic field of each kind takes, and what it makes of them
"""
import json
import logging
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import Literal, Optional

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.WARNING)

import deepspeed
import deepspeed.comm
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.config_utils import DeepSpeedConfigModel
from torch.testing._internal.distributed.fake_pg import FakeStore

HERE = Path(__file__).parent
WORLD = 4
BASE = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
        "bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "zero_optimization": {"stage": 2}}


def zero(**keys):
    return {"zero_optimization": {"stage": 2} | keys}


def off(**keys):
    return {"device": "cpu", "pin_memory": False} | keys


SCHEDULER = {"type": "WarmupDecayLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}}
FP16 = {"bf16": None, "fp16": {"enabled": True}}
# What is put over BASE; null takes a key out.
CHANGES = [
    {}, {"gradient_clipp1ng": 1.0}, {"gradient_clipping": 0}, {"gradient_clipping": -1}, {"steps_per_print": 10},
    {"prescale_gradients": True}, {"prescale_gradients": True} | zero(stage=1), {"prescale_gradients": True} | zero(stage=3),
    {"prescale_gradients": True} | zero(stage=3, reduce_scatter=False), {"prescale_gradients": True} | zero(stage=0),
    {"gradient_predivide_factor": 2.0}, {"gradient_predivide_factor": 2.0} | zero(stage=3),
    {"gradient_predivide_factor": 2.0} | zero(stage=1),
    {"gradient_allreduce_op": "sum"}, {"gradient_allreduce_op": "sum"} | zero(stage=3), {"gradient_allreduce_op": "max"},
    {"communication_data_type": "fp32"}, {"communication_data_type": "int8"}, {"communication_data_type": "float32"},
    {"communication_data_type": "BF16"}, {"seq_parallel_communication_data_type": "int8"},
    {"fp16": {"enabled": True}}, {"fp16": {"enabled": False}}, {"bf16": {"enabled": "yes"}}, {"bf16": {"enabled": "maybe"}},
    {"bf16": {"enabled": 1}}, {"bf16": {"enabled": 2}}, {"bf16": {"enable": True}}, {"bf16": True}, {"fp16": 1},
    {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}},
    {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}},
    {"bf16": {"enabled": True, "bf16_optimizer_states": True}},
    {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}} | zero(stage=0),
    FP16, FP16 | {"fp16": {"enabled": True, "fp16_master_weights_and_grads": True}},
    FP16 | {"fp16": {"enabled": True, "fp16_master_weights_and_grads": True}} | zero(stage=0),
    FP16 | {"fp16": {"enabled": True, "fp16_master_weights_and_grads": True}} | zero(stage=3),
    FP16 | {"fp16": {"enabled": True, "loss_scale": -1}}, FP16 | {"fp16": {"enabled": True, "loss_scale": True}},
    FP16 | {"fp16": {"enabled": True, "loss_scale": 128}}, FP16 | {"fp16": {"enabled": True, "loss_scale_window": 0}},
    FP16 | {"fp16": {"enabled": True, "min_loss_scale": 0}}, FP16 | {"fp16": {"enabled": True, "hysteresis": 0}},
    FP16 | {"fp16": {"enabled": True, "initial_scale_power": -1}},
    {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}, {"bf16": None, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}},
    {"torch_autocast": {"enabled": True, "dtype": "int4"}}, {"torch_autocast": {"enabled": True, "lower_precision_safe_modules": [1]}},
    zero(stage=4), zero(stage=-1), zero(stage="2"), zero(stage=2.0), zero(stage=2.5), zero(stage=True), zero(stage=None),
    zero(stage="auto"), zero(foo=1), zero(foo="auto"), zero(offload_gradients={"device": "cpu"}), zero(mics_shard_size=4),
    zero(zeropp_loco_param={}), {"amp": {"enabled": False}}, {"elasticity": {}}, {"curriculum_learning": {}},
    zero(cpu_offload=True), zero(cpu_offload=False), zero(cpu_offload=True, offload_optimizer=off()),
    zero(stage=3, cpu_offload_param=True), zero(cpu_offload_use_pin_memory=True),
    zero(stage3_gather_fp16_weights_on_model_save=True),
    zero(stage3_gather_fp16_weights_on_model_save=True, stage3_gather_16bit_weights_on_model_save=True),
    zero(prefetch_bucket_size=5), zero(prefetch_bucket_size=5, stage3_prefetch_bucket_size=5),
    zero(allgather_bucket_size=1001), zero(stage=1, allgather_bucket_size=1001), zero(stage=3, allgather_bucket_size=1001),
    zero(stage=0, allgather_bucket_size=1001), zero(allgather_bucket_size=1000),
    zero(reduce_bucket_size=5e8), zero(reduce_bucket_size=5.5), zero(reduce_bucket_size="5e8"),
    zero(reduce_bucket_size="500000000"), zero(reduce_bucket_size=0), zero(reduce_bucket_size=-1),
    zero(reduce_bucket_size=True), zero(reduce_bucket_size=None), zero(reduce_bucket_size=[1]), zero(reduce_bucket_size="auto"),
    zero(reduce_bucket_size=10**19), zero(overlap_comm="true"), zero(overlap_comm="on"), zero(overlap_comm=3),
    zero(overlap_comm=None), zero(offload_optimizer=off()), zero(stage=3, offload_optimizer=off()),
    zero(stage=0, offload_optimizer=off()), zero(stage=1, offload_optimizer=off()),
    zero(offload_optimizer={"device": "gpu"}), zero(offload_optimizer="cpu"), zero(offload_optimizer=None),
    zero(offload_optimizer=off(ratio=0.5)), zero(stage=3, offload_optimizer=off(ratio=1.5)),
    zero(offload_optimizer=off(buffer_size=5)), zero(offload_param=off()), zero(stage=3, offload_param=off()),
    zero(stage=3, zero_hpz_partition_size=2), zero(stage=3, zero_hpz_partition_size=3), zero(stage=3, zero_hpz_partition_size=8),
    zero(zero_hpz_partition_size=2), zero(stage=3, zero_hpz_partition_size=-1),
    zero(compute_grad_norm=False), zero(stage=3, compute_grad_norm=False), zero(stage=0, compute_grad_norm=False),
    zero(legacy_stage1=True), zero(legacy_stage1=True, stage=1), zero(elastic_checkpoint=True, stage=3), zero(round_robin_gradients=True, stage=3),
    zero(stage3_max_live_parameters=5), zero(sub_group_size=5), zero(stage=0, reduce_bucket_size=5),
    {"zero_optimization": True}, {"zero_optimization": False}, {"zero_optimization": 2}, {"zero_optimization": None},
    {"zero_optimization": []},
    {"train_batch_size": 9}, {"train_batch_size": 32}, {"train_batch_size": "8"}, {"train_batch_size": 8.0}, {"train_batch_size": 8.5},
    {"train_batch_size": 0}, {"train_batch_size": -8}, {"train_batch_size": "auto"}, {"gradient_accumulation_steps": "auto"},
    {"train_micro_batch_size_per_gpu": 0}, {"train_micro_batch_size_per_gpu": "auto"},
    {"train_batch_size": None, "train_micro_batch_size_per_gpu": None}, {"train_micro_batch_size_per_gpu": None},
    {"train_batch_size": None}, {"train_batch_size": None, "gradient_accumulation_steps": None},
    {"train_batch_size": 6, "train_micro_batch_size_per_gpu": None}, {"gradient_accumulation_steps": None},
    {"train_batch_size": 12, "gradient_accumulation_steps": None}, {"gradient_accumulation_steps": 0},
    {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True, "max_grad_norm": 1.0}}},
    {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True, "foo": 1}}},
    {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "torch_adam": True}}},
    {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}, "parameters": {}}},
    {"optimizer": {"type": "adamW", "params": {"lr": 1e-4, "torch_adam": True}}},
    {"optimizer": {"type": "AdamX", "params": {"lr": 1e-4}}}, {"optimizer": {"type": "sgd", "params": {"lr": 1e-4}}},
    {"optimizer": {"type": "SGD", "params": {"lr": 1e-4}}},
    {"optimizer": {"type": "SGD", "params": {"lr": 1e-4}}, "zero_allow_untested_optimizer": True},
    {"optimizer": {"type": "SGD", "params": {"lr": 1e-4, "betas": [0.9, 0.99]}}, "zero_allow_untested_optimizer": True},
    {"optimizer": {"type": "SGD", "params": {"lr": 1e-4}}} | zero(stage=0), {"optimizer": {"type": 3}}, {"optimizer": "AdamW"},
    {"optimizer": {"params": {"lr": 1e-4}}}, {"optimizer": {}},
    {"optimizer": {"type": "AdamW", "params": {"lr": -1, "torch_adam": True}}},
    {"optimizer": {"type": "AdamW", "params": {"lr": "0.1", "torch_adam": True}}},
    {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 1.1], "torch_adam": True}}},
    {"optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-4}}},
    {"scheduler": SCHEDULER}, {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_steps": 10}}},
    {"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5, "warmup_num_steps": 10}}},
    {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10}}},
    {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}},
    {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10.0}}},
    {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}},
    {"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cosine"}}},
    {"scheduler": {"type": "WarmupLr", "params": {}}}, {"scheduler": {"type": "WarmupLR"}},
    {"scheduler": {"type": "CosineAnnealingLR", "params": {"T_max": 10}}}, {"scheduler": "WarmupLR"}, {"scheduler": {}},
    {"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1}}},
    {"data_types": {"grad_accum_dtype": "fp32"}}, {"data_types": {"grad_accum_dtype": "float8"}},
    {"data_types": {"grad_accum_dtype": "fp32"}} | zero(stage=0), {"data_types": {"grad_accum_dtype": "fp32"}} | zero(stage=1),
    {"data_types": {"grad_accum_dtype": "fp32"}} | zero(stage=1, compute_grad_norm=False),
    {"data_types": {"param_dtype": "fp16"}}, {"data_types": {"param_dtype": "bf16"}},
    {"data_types": {"keep_in_fp32_modules": "none"}}, {"data_types": {"buffer_dtype": "x"}},
    {"activation_checkpointing": {"partition_activation": True}}, {"activation_checkpointing": {"partition_activations": True}},
    {"activation_checkpointing": True}, {"aio": {"thread_count": 4}}, {"aio": {"block_size": 1048576}}, {"aio": None}, {"aio": 3},
    {"checkpoint": {"tag_validation": "Maybe"}}, {"checkpoint": {"tag_validation": "Ignore"}},
    {"checkpoint": {"parallel_write": {"pipeline_stage": "x"}}},
    {"tensor_parallel": {"enabled": True, "tp_size": 4}}, {"tensor_parallel": {"autotp_sise": 4}}, {"tensor_parallel": {"dtype": "fp16"}},
    {"wall_clock_breakdown": "no"}, {"wall_clock_breakdown": "auto"}, {"wall_clock_breakdown": True}, {"dump_state": "x"},
    {"flops_profiler": None, "bfloat16": {"enabled": True}, "bf16": None}, {"tensorboard": {"enabled": True, "job": "x"}},
    {"comms_logger": {"enabled": True, "prof_op": []}}, {"zero_force_ds_cpu_optimizer": "x"}, {"vocabulary_size": 100},
    {"managed_gradient_accumulation": False} | zero(stage=3), {"managed_gradient_accumulation": False},
]
TEXTS = [
    '{"train_batch_size": 8 // all ranks\n}', '{/* all ranks */ "train_batch_size": 8}', '{"train_batch_size": 8,}',
    '{"train_batch_size": 8, # all ranks\n "gradient_clipping": 1}', '\ufeff{"train_batch_size": 8}',
    '{"train_batch_size": 8, "gradient_clipping": NaN}', '{"train_batch_size": 8, "gradient_clipping": -Infinity}',
    '{"train_batch_size": 8, "train_batch_size": 4}', '{"train_batch_size": 8, "bf16": {"enabled": true, "enabled": false}}',
    '[{"train_batch_size": 8}]', '3', '"auto"', 'null', 'true',
    '{"train_batch_size": 8, "fp16": null}', '{"train_batch_size": 8, "optimizer": null}', '{"train_batch_size": 8, "scheduler": null}',
    '{"train_batch_size": 8, "activation_checkpointing": null}', '{"train_batch_size": 8, "bf16": null}',
    '{"train_batch_size": 8, "flops_profiler": null}', '{"train_batch_size": 8, "tensor_parallel": null}',
    '{"train_batch_size": 8, "tensorboard": null}', '{"train_batch_size": 8, "weight_quantization": null}', '{"train_batch_size": 8, "gradient_clipping": null}',
    '{"train_batch_size": 8, "gradient_clipping": "1.0"}', '{"train_batch_size": 8, "steps_per_print": "2"}',
    '{"train_batch_size": 8, "timers": 3}', '{"train_batch_size": 8, "pipeline": 3}', '{"train_batch_size": 8, "data_types": null}',
]


class World:
    def get_data_parallel_world_size(self):
        return WORLD


def merged(change):
    both = BASE | change
    return {key: value for key, value in both.items() if value is not None or key in change and key not in BASE}


def start():
    """A process group without peers, on a device that claims to have every type."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(WORLD), LOCAL_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29555")
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    for name in ("is_fp16_supported", "is_bf16_supported"):
        setattr(type(get_accelerator()), name, lambda self: True)
    torch.distributed.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    deepspeed.init_distributed(dist_backend="fake", verbose=False)


def initialize(path):
    start()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    client = None if "type" in json.loads(Path(path).read_text()).get("optimizer", {}) else torch.optim.AdamW(model.parameters())
    deepspeed.initialize(model=model, model_parameters=list(model.parameters()), optimizer=client, config=path)


def stopped(step, path):
    """What `step` stops with, from a process of its own."""
    ours, theirs = multiprocessing.Pipe(False)
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        try:
            step(path)
            theirs.send(None)
        except BaseException as error:  # DeepSpeed asserts, exits and raises
            theirs.send(f"{type(error).__name__}: {str(error)}"[:200].splitlines()[0])
        os._exit(0)
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        answer = "process ended"
    os.waitpid(child, 0)
    return answer


def read(path):
    deepspeed.comm.get_rank = lambda *_, **__: 0
    DeepSpeedConfig(path, mpu=World())


def judged(text, whole):
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        stop, by = stopped(read, file.name), "config"
        if stop is None and whole:
            stop, by = stopped(initialize, file.name), "initialize"
    return {"text": text, "world": WORLD, "stops": stop, "by": by if stop else None, "initialized": whole}


KINDS = {"boolean": bool, "integer": int, "number": float, "text": str, "list": list, "object": dict,
         "choice": Literal["none", "cpu"], "optional": Optional[bool]}
VALUES = [True, False, 0, 1, 2, -3, 1.0, 0.0, 2.5, 5e8, 1e300, "true", "off", "T", "maybe", "1", " 1 ", "1.0", "1.5", "5e8", "1_000",
          "nan", "inf", "", "cpu", "CPU", "none", None, [], [1], {}, {"a": 1}]


def taken(kind, value):
    model = type("Model", (DeepSpeedConfigModel, ), {"__annotations__": {"field": kind}})
    try:
        return {"accepted": True, "becomes": repr(model(field=value).field)}
    except ValueError:
        return {"accepted": False}


def main():
    records = [judged(text, False) for text in TEXTS] + [judged(json.dumps(merged(change)), True) for change in CHANGES]
    (HERE / "lint.json").write_text("[\n" + ",\n".join(json.dumps(each) for each in records) + "\n]\n")
    values = [{"kind": name, "value": value} | taken(kind, value) for name, kind in KINDS.items() for value in VALUES]
    (HERE / "values.json").write_text("[\n" + ",\n".join(json.dumps(each) for each in values) + "\n]\n")


if __name__ == "__main__":
    main()

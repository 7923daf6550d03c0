# Written by python/generate_options.py from the command line's table of options: change cli/options/option_table.cpp, not this file.
from __future__ import annotations

import os
from typing import Any, Dict, Literal, Mapping, Protocol, Sequence, TypedDict, Union

class HasToDict(Protocol):
    """A config object of transformers, or of a model that has one."""
    def to_dict(self) -> Dict[str, Any]: ...

Path = Union[str, os.PathLike[str]]
Config = Union[Path, Mapping[str, Any]]
ModelLike = Union[Path, Mapping[str, Any], HasToDict]
Integers = Union[int, Sequence[int]]
Names = Union[str, Sequence[str]]

class _OfPlanSearchCompareHardwareCompareFitLintCheck(TypedDict, total=False):
    hub: Literal["huggingface", "modelscope"]
    offline: bool
    method: Literal["full", "lora", "qlora"]
    lora_rank: int
    lora_targets: Names
    lora_dropout: float
    freeze: Names
    train_tower: bool
    train_layers: str
    expand_blocks: int
    images: int
    image_size: str
    image_tokens: int
    quantization: Literal["nf4", "nf4-double", "int8", "gptq-int4", "gptq-int8", "awq", "hqq", "torchao-int8", "torchao-int4", "mxfp4"]
    quant_storage: Literal["uint8", "bf16", "fp16", "fp32"]
    prepare_kbit: bool
    adapters: int
    dora: bool
    modules_to_save: Names
    tie_saved_modules: bool
    no_autocast_adapters: bool
    objective: Literal["sft", "dpo", "orpo", "simpo", "kto", "reward", "grpo", "ppo", "gkd"]
    reference: Literal["copy", "adapters-off", "adapter", "precomputed", "none"]
    teacher: Path
    divergence: Literal["mixture", "forward", "reverse"]
    teacher_top: int
    label_loss: bool
    generations: int
    completion_length: int
    steps_per_generation: int
    iterations: int
    rollout: Literal["trainer", "colocate", "server"]
    vllm_memory: float
    vllm_sleep: Literal[0, 1, 2]
    vllm_tp: int
    value_model: Path
    reward_model: Path
    mini_batches: int
    rollout_batch: int
    gpus: int
    mem: float
    nodes: int
    node: str
    network: str
    host_mem: float
    pcie: str
    topology: Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
    host_threads: int
    host_bandwidth: float
    disk_bandwidth: float
    precision: Literal["bf16", "fp16", "fp32"]
    optimizer: str
    no_master_weights: bool
    optimizer_kernel: Literal["fused", "foreach", "single", "deepspeed-fused"]
    optimizer_in_backward: bool
    checkpointing: Literal["none", "selective", "full"]
    checkpoint_offload: Literal["none", "alst", "deepspeed", "unsloth", "trl", "torchtune"]
    tiled_mlp: Union[int, Literal["auto"]]
    tiled_loss: Union[int, Literal["auto"]]
    attention: Literal["flash", "sdpa", "eager"]
    fused_loss: bool
    loss_chunks: int
    sliced_head: bool
    fused_head: bool
    loss_shift: Literal["labels", "logits", "logits-alone"]
    cut_cross_entropy: bool
    compile: Literal["none", "layer", "model"]
    float8: Literal["none", "tensorwise", "rowwise", "tensorwise-gather"]
    kernels: Literal["torch", "liger", "fla"]
    modules: Literal["transformers", "litgpt", "llm-foundry", "torchtitan", "unsloth"]
    expandable_segments: bool
    seq: int
    micro_batch: Union[int, Literal["max"]]
    grad_accum: int
    global_batch: int
    units: Literal["GiB", "GB"]

class _OfPlanSearchCompareFitLintCheck(TypedDict, total=False):
    gpu: Path

class _OfPlanSearchCompareFit(TypedDict, total=False):
    instance: str
    load_dtype: Literal["bf16", "fp16", "fp32"]
    load_everywhere: bool
    save: Literal["full", "sharded"]
    eval_batch: int
    eval_logits: bool
    eval_samples: int
    eval_accumulation: int
    generate: int
    verbose: bool

class _OfPlanSearchCompareHardwareCompareFitLint(TypedDict, total=False):
    headroom: float
    deepspeed_version: str

class _OfPlanSearchHardwareCompareFitCheck(TypedDict, total=False):
    zero: Integers
    pp: Integers
    vpp: Integers
    megatron: str
    torchtitan: str
    pipeline_schedule: str
    cp: Integers
    ep: Integers
    etp: Integers
    dp_replicate: Integers
    cp_rotate: Literal["allgather", "alltoall"]
    offload: Names

class _OfPlanSearchHardwareCompareFitLintCheck(TypedDict, total=False):
    tp: Integers
    sp: Integers
    framework: Literal["deepspeed", "fsdp", "torch", "megatron", "torchtitan"]

class _OfPlanSearchCompareHardwareCompareFitCheck(TypedDict, total=False):
    routing: str
    buckets: Literal["hf-auto", "default"]

class _OfPlanHardwareCompareFitCheck(TypedDict, total=False):
    ds_config: Config

class _OfPlanSearchFit(TypedDict, total=False):
    recipe: Names
    trainer: Names
    lengths: str
    batching: Literal["padded", "grouped", "packed"]

class _OfPlanSearchCompareHardwareCompareFit(TypedDict, total=False):
    samples: int
    tokens: int
    epochs: float
    price: Union[float, Sequence[float]]

class _OfCompareHardwareCompare(TypedDict, total=False):
    order: Literal["given", "fastest", "cheapest"]

class _OfCompare(TypedDict, total=False):
    baseline: Config
    differences: bool
    slide: bool

class _OfFit(TypedDict, total=False):
    solve: Literal["micro-batch", "sequence", "gpus", "model", "memory", "host-memory", "vllm-memory"]
    within: str
    oom: Path

class _OfCheck(TypedDict, total=False):
    worst: int
    fit_efficiency: bool
    tolerance: Union[float, str]

class _OfLint(TypedDict, total=False):
    fix: bool

class _OfPlanSearchCompare(TypedDict, total=False):
    explain: bool
    snapshot: Path
    trace: Path
    html: Path

class _OfPlanSearch(TypedDict, total=False):
    no_advice: bool
    recipe_out: Path

class _OfPlanSearchCompareLint(TypedDict, total=False):
    emit: Path
    config_style: Literal["plain", "hf-auto", "ms-swift"]

class _OfPlanSearchCompareFitLint(TypedDict, total=False):
    nvme_path: Path

class PlanOptions(
    _OfPlanSearchCompareHardwareCompareFitLintCheck,
    _OfPlanSearchCompareFitLintCheck,
    _OfPlanSearchCompareFit,
    _OfPlanSearchCompareHardwareCompareFitLint,
    _OfPlanSearchHardwareCompareFitCheck,
    _OfPlanSearchHardwareCompareFitLintCheck,
    _OfPlanSearchCompareHardwareCompareFitCheck,
    _OfPlanHardwareCompareFitCheck,
    _OfPlanSearchFit,
    _OfPlanSearchCompareHardwareCompareFit,
    _OfPlanSearchCompare,
    _OfPlanSearch,
    _OfPlanSearchCompareLint,
    _OfPlanSearchCompareFitLint,
    total=False,
): ...

class SearchOptions(
    _OfPlanSearchCompareHardwareCompareFitLintCheck,
    _OfPlanSearchCompareFitLintCheck,
    _OfPlanSearchCompareFit,
    _OfPlanSearchCompareHardwareCompareFitLint,
    _OfPlanSearchHardwareCompareFitCheck,
    _OfPlanSearchHardwareCompareFitLintCheck,
    _OfPlanSearchCompareHardwareCompareFitCheck,
    _OfPlanSearchFit,
    _OfPlanSearchCompareHardwareCompareFit,
    _OfPlanSearchCompare,
    _OfPlanSearch,
    _OfPlanSearchCompareLint,
    _OfPlanSearchCompareFitLint,
    total=False,
): ...

class CompareOptions(
    _OfPlanSearchCompareHardwareCompareFitLintCheck,
    _OfPlanSearchCompareFitLintCheck,
    _OfPlanSearchCompareFit,
    _OfPlanSearchCompareHardwareCompareFitLint,
    _OfPlanSearchCompareHardwareCompareFitCheck,
    _OfPlanSearchCompareHardwareCompareFit,
    _OfCompareHardwareCompare,
    _OfCompare,
    _OfPlanSearchCompare,
    _OfPlanSearchCompareLint,
    _OfPlanSearchCompareFitLint,
    total=False,
): ...

class HardwareOptions(
    _OfPlanSearchCompareHardwareCompareFitLintCheck,
    _OfPlanSearchCompareHardwareCompareFitLint,
    _OfPlanSearchHardwareCompareFitCheck,
    _OfPlanSearchHardwareCompareFitLintCheck,
    _OfPlanSearchCompareHardwareCompareFitCheck,
    _OfPlanHardwareCompareFitCheck,
    _OfPlanSearchCompareHardwareCompareFit,
    _OfCompareHardwareCompare,
    total=False,
): ...

class FitOptions(
    _OfPlanSearchCompareHardwareCompareFitLintCheck,
    _OfPlanSearchCompareFitLintCheck,
    _OfPlanSearchCompareFit,
    _OfPlanSearchCompareHardwareCompareFitLint,
    _OfPlanSearchHardwareCompareFitCheck,
    _OfPlanSearchHardwareCompareFitLintCheck,
    _OfPlanSearchCompareHardwareCompareFitCheck,
    _OfPlanHardwareCompareFitCheck,
    _OfPlanSearchFit,
    _OfPlanSearchCompareHardwareCompareFit,
    _OfFit,
    _OfPlanSearchCompareFitLint,
    total=False,
): ...

class LintOptions(
    _OfPlanSearchCompareHardwareCompareFitLintCheck,
    _OfPlanSearchCompareFitLintCheck,
    _OfPlanSearchCompareHardwareCompareFitLint,
    _OfPlanSearchHardwareCompareFitLintCheck,
    _OfLint,
    _OfPlanSearchCompareLint,
    _OfPlanSearchCompareFitLint,
    total=False,
): ...

class CheckOptions(
    _OfPlanSearchCompareHardwareCompareFitLintCheck,
    _OfPlanSearchCompareFitLintCheck,
    _OfPlanSearchHardwareCompareFitCheck,
    _OfPlanSearchHardwareCompareFitLintCheck,
    _OfPlanSearchCompareHardwareCompareFitCheck,
    _OfPlanHardwareCompareFitCheck,
    _OfCheck,
    total=False,
): ...

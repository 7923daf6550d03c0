"""The command line's options as keyword arguments: `--micro-batch 4` is `micro_batch=4`, a flag is True.

What each does is said by `zplan --help` and in docs/command-line.md.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Mapping, Protocol, Sequence, TypedDict, Union

if TYPE_CHECKING:
    from typing import Literal


class HasToDict(Protocol):
    """A config object of transformers, or of a model that has one."""

    def to_dict(self) -> Dict[str, Any]: ...


Path = Union[str, "os.PathLike[str]"]
Config = Union[Path, Mapping[str, Any]]  # a DeepSpeed config: a file or a dict
ModelLike = Union[Path, Mapping[str, Any], HasToDict]  # a name, a size, a file, a folder, a Hub id in the cache; a config
Integers = Union[int, Sequence[int]]
Names = Union[str, Sequence[str]]


class ModelOptions(TypedDict, total=False):
    method: Literal["full", "lora", "qlora"]
    lora_rank: int
    lora_targets: Names
    lora_dropout: float
    quantization: Literal[
        "nf4",
        "nf4-double",
        "int8",
        "gptq-int4",
        "gptq-int8",
        "awq",
        "hqq",
        "torchao-int8",
        "torchao-int4",
        "mxfp4",
    ]
    quant_storage: Literal["uint8", "bf16", "fp16", "fp32"]
    prepare_kbit: bool
    adapters: int  # in memory: one trains, the others are frozen
    dora: bool
    modules_to_save: Names  # "embed_tokens", "lm_head"
    tie_saved_modules: bool
    no_autocast_adapters: bool
    objective: Literal["sft", "dpo", "orpo", "simpo", "kto", "reward", "grpo", "ppo"]
    reference: Literal["copy", "adapters-off", "adapter", "precomputed", "none"]
    generations: int  # completions of each prompt
    completion_length: int  # of seq, tokens
    steps_per_generation: int
    iterations: int
    rollout: Literal["trainer", "colocate", "server"]
    vllm_memory: float  # share of a GPU's memory
    vllm_sleep: Literal[0, 1, 2]
    vllm_tp: int
    value_model: Path  # of ppo, as model
    reward_model: Path
    mini_batches: int
    rollout_batch: int  # samples of a GPU that ppo generates and scores at once
    freeze: Names  # "vision", "projector"
    images: int  # of each sample
    image_size: str  # "1344x1008"
    image_tokens: int  # of each image


class ClusterOptions(TypedDict, total=False):
    gpus: int
    gpu: Path
    mem: float  # GiB per GPU
    nodes: int
    node: str
    network: str
    host_mem: float  # GiB per node
    pcie: str  # generation and lanes of each slot: "4x8"
    topology: Literal["PIX", "PXB", "PHB", "NODE", "SYS"]  # the longest way between GPUs of a node
    host_threads: int  # of each process
    host_bandwidth: float  # GB/s, rated, of a node's memory
    disk_bandwidth: float  # GB/s of a node's drives


class InstanceOptions(TypedDict, total=False):
    instance: str  # cloud shape: "p5.48xlarge"


class TrainingOptions(TypedDict, total=False):
    precision: Literal["bf16", "fp16", "fp32"]
    optimizer: str  # also as TrainingArguments.optim names it
    no_master_weights: bool
    checkpointing: Literal["none", "selective", "full"]
    checkpoint_offload: Literal["none", "alst", "deepspeed"]
    tiled_mlp: Union[int, Literal["auto"]]
    tiled_loss: Union[int, Literal["auto"]]
    attention: Literal["flash", "sdpa", "eager"]
    fused_loss: bool
    fused_head: bool
    loss_shift: Literal["labels", "logits", "logits-alone"]
    kernels: Literal["torch", "liger", "fla"]
    loss_chunks: int
    sliced_head: bool
    modules: Literal["transformers", "litgpt", "llm-foundry", "torchtitan"]
    expandable_segments: bool


class BatchOptions(TypedDict, total=False):
    seq: int  # tokens per sample
    micro_batch: Union[int, Literal["max"]]
    grad_accum: int
    global_batch: int


class RunOptions(TypedDict, total=False):
    """Loading, evaluation, saving, and the length of the run."""

    load_dtype: Literal["bf16", "fp16", "fp32"]
    load_everywhere: bool
    save: Literal["full", "sharded"]
    eval_batch: int  # samples per GPU
    eval_logits: bool
    eval_samples: int
    eval_accumulation: int  # steps
    generate: int  # tokens
    samples: int  # of an epoch
    tokens: int
    epochs: float
    price: Union[float, Sequence[float]]  # of a GPU-hour; of compare_hardware also one for each name


class QuestionOptions(ModelOptions, ClusterOptions, TrainingOptions, BatchOptions, total=False):
    """What every question about a model takes."""

    units: Literal["GiB", "GB"]


class PlanningOptions(QuestionOptions, total=False):
    headroom: float  # percent
    deepspeed_version: str
    nvme_path: Path


class StrategyOptions(TypedDict, total=False):
    """What of a strategy is given, and so not searched."""

    zero: Integers
    tp: Integers
    sp: Integers
    cp: Integers
    ep: Integers
    routing: str
    cp_rotate: Literal["allgather", "alltoall"]
    offload: Names
    buckets: Literal["default", "hf-auto"]
    framework: Literal["deepspeed", "fsdp", "torch"]


class DataOptions(TypedDict, total=False):
    trainer: Names
    recipe: Names  # files: configs of axolotl, LLaMA-Factory, TRL, torchtune, ms-swift, accelerate, TrainingArguments
    lengths: str
    batching: Literal["padded", "grouped", "packed"]


class OutputOptions(TypedDict, total=False):
    config_style: Literal["plain", "hf-auto", "ms-swift"]
    emit: Path
    explain: bool


class CompareOptions(PlanningOptions, RunOptions, InstanceOptions, OutputOptions, total=False):
    routing: str
    buckets: Literal["default", "hf-auto"]
    baseline: Config
    differences: bool
    order: Literal["given", "fastest", "cheapest"]


class SearchOptions(PlanningOptions, DataOptions, RunOptions, InstanceOptions, StrategyOptions, OutputOptions, total=False):
    recipe_out: Path


class PlanOptions(SearchOptions, total=False):
    ds_config: Config


class HardwareOptions(PlanOptions, total=False):
    """Of `compare_hardware`: what differs between the compared is not in it."""

    order: Literal["given", "fastest", "cheapest"]


class FitOptions(PlanningOptions, DataOptions, RunOptions, InstanceOptions, StrategyOptions, total=False):
    ds_config: Config
    solve: Literal["micro-batch", "sequence", "gpus", "model", "memory", "host-memory"]
    oom: str


class LintOptions(PlanningOptions, total=False):
    tp: Integers
    sp: Integers
    framework: Literal["deepspeed", "fsdp", "torch"]
    fix: bool
    emit: Path
    config_style: Literal["plain", "hf-auto", "ms-swift"]


class CheckOptions(QuestionOptions, StrategyOptions, total=False):
    ds_config: Config
    worst: int
    fit_efficiency: bool
    tolerance: Union[float, str]

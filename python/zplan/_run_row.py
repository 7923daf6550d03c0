"""A run as a row of `zplan.runs/1` (docs/check.md): what was trained in the words of the rows, and what was measured."""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from . import results
from ._device import Step
from ._words import as_json

if TYPE_CHECKING:
    from transformers import TrainingArguments

_FRAMEWORKS = {"deepspeed": "deepspeed", "fsdp": "fsdp", "torch": "single"}
# How PyTorch's AdamW walks the parameters is not in a plan's options.
_KERNELS = {"adamw_torch": "torch_foreach", "adamw_torch_fused": "torch_fused"}


def _config(model: Any, report: results.Report) -> Dict[str, Any]:
    """The model's config; of a name the engine's own figures."""
    config = getattr(model, "config", model)
    if isinstance(config, Mapping):
        return dict(as_json(config))
    if hasattr(config, "to_dict"):
        return dict(as_json(config.to_dict()))
    return _config_file(os.fspath(config), report)


def _config_file(name: str, report: results.Report) -> Dict[str, Any]:
    path = os.path.join(name, "config.json") if os.path.isdir(name) else name
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    shape = report.model
    return {"model_type": shape.architecture, "hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size,
            "num_hidden_layers": shape.layers, "num_attention_heads": shape.attention_heads,
            "num_key_value_heads": shape.key_value_heads, "head_dim": shape.head_size, "vocab_size": shape.vocabulary_size,
            "tie_word_embeddings": shape.tied_embeddings}


def _ds_config(config: Any) -> Optional[Dict[str, Any]]:
    if config is None or isinstance(config, Mapping):
        return None if config is None else dict(as_json(config))
    with open(config, encoding="utf-8") as file:
        return dict(json.load(file))


def _optimizer(training: Optional[TrainingArguments], report: results.Report, ds_config: Optional[Dict[str, Any]], offloads: bool) -> str:
    if report.training.optimizer == "adamw" and ds_config is not None and "optimizer" in ds_config:
        return "ds_cpu" if offloads else "ds_fused"
    asked = str(getattr(getattr(training, "optim", None), "value", "")) if training is not None else ""
    return _KERNELS.get(asked, report.training.optimizer)


def _dtype(model: Any) -> str:
    """Of the parameters that the model has, "float32"; where it is no module, ""."""
    parameters = getattr(model, "parameters", None)
    first = next(iter(parameters()), None) if callable(parameters) else None
    return "" if first is None else str(first.dtype).rsplit(".", maxsplit=1)[-1]


def _precision(model: Any, report: results.Report) -> str:
    training = report.training
    if training.framework == "fsdp":
        return "bf16 compute, fp32 shards"
    if training.framework == "torch" and training.precision != "fp32":
        return "amp" if _dtype(model) in ("", "float32") else training.precision
    return training.precision


def _parameters(model: Any) -> Optional[int]:
    parameters = getattr(model, "parameters", None)
    return sum(getattr(each, "ds_numel", each.numel()) for each in parameters()) if callable(parameters) else None


def _options(report: results.Report, plan: results.Plan, model: Any, training: Optional[TrainingArguments],
             ds_config: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    strategy, asked = plan.strategy, report.training
    offload = "+".join(part for part, where in (("optimizer", strategy.offload_optimizer), ("param", strategy.offload_parameters))
                       if where != "none")
    options: Dict[str, Any] = {
        "framework": _FRAMEWORKS[strategy.framework], "gpus": report.cluster.gpus, "ranks_per_node": report.cluster.gpus_per_node,
        "zero": 0 if strategy.framework != "deepspeed" else strategy.zero_stage, "tensor_parallel": strategy.tensor_parallel,
        "method": asked.method, "optimizer": _optimizer(training, report, ds_config, bool(offload)),
        "precision": _precision(model, report), "micro_batch": strategy.micro_batch_size,
        "grad_accum": strategy.gradient_accumulation_steps, "seq": asked.sequence_length,
        "checkpointing": strategy.activation_checkpointing, "attention": asked.attention,
        "loss": "fused" if asked.fused_loss else "full", "rank": 0, "buckets": "default",
    }
    keywords = getattr(training, "gradient_checkpointing_kwargs", None) or {}
    if keywords.get("use_reentrant"):
        options["reentrant"] = True
    if strategy.framework == "torch" and options["precision"] in ("bf16", "fp16"):
        options["autocast"] = True
    if offload:
        options["offload"] = offload
    if asked.method != "full":
        options.update(lora_rank=asked.lora_rank, lora_targets=list(asked.lora_targets or ()), lora_dropout=asked.lora_dropout)
    if asked.method == "qlora":
        options.update(quantization=asked.quantization, prepare_kbit=asked.prepares_kbit_training)
    if strategy.framework == "fsdp":
        options["reshard_after_forward"] = strategy.zero_stage == 3
    return options


def _step(step: Step) -> Dict[str, Any]:
    """Without a device figure where NVML gave none."""
    row: Dict[str, Any] = {"allocated_before": step.allocated_before, "peak_allocated": step.peak_allocated,
                           "peak_reserved": step.peak_reserved, "seconds": step.seconds}
    if step.device_bytes is not None:
        row["device_bytes"] = step.device_bytes
    return row


def run_row(report: results.Report, plan: results.Plan, model: Any, training: Optional[TrainingArguments], config: Any,
            steps: List[Step], available: int, outcome: str) -> Dict[str, Any]:
    ds_config = _ds_config(config) if plan.strategy.framework == "deepspeed" else None
    options = _options(report, plan, model, training, ds_config)
    accumulation = f"|gas{options['grad_accum']}" if options["grad_accum"] > 1 else ""
    row: Dict[str, Any] = {
        "id": f"{report.model.name}|{plan.id}|n{options['gpus']}|b{options['micro_batch']}s{options['seq']}{accumulation}",
        "model": report.model.name, "config": _config(model, report), "options": options, "sharing": 1,
        "available_bytes": available, "outcome": outcome, "measured": {str(step.number): _step(step) for step in steps},
    }
    parameters = _parameters(model)
    if parameters is not None:
        row["parameters"] = parameters
    if ds_config is not None:
        row["ds_config"] = ds_config
    return row

"""Objects of transformers as options of the command line. Nothing of transformers is imported: what is given brings it along."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping

if TYPE_CHECKING:
    from transformers import TrainingArguments

_ATTENTION = {"eager": "eager", "sdpa": "sdpa", "flash_attention_2": "flash", "flash_attention_3": "flash"}


def attention_option(config: Any) -> Dict[str, Any]:
    """The kernel that a config asks for, where it says; a model's config does."""
    kernel = _ATTENTION.get(str(getattr(config, "_attn_implementation", None)))
    return {} if kernel is None else {"attention": kernel}


def deepspeed_config(training: TrainingArguments) -> Any:
    """The DeepSpeed config of the arguments, with every "auto" that the Trainer has resolved so far; None: none."""
    if not getattr(training, "deepspeed", None):
        return None
    resolved = getattr(getattr(training, "hf_deepspeed_config", None), "config", None)
    return resolved if resolved is not None else training.deepspeed


def _has_optimizer(config: Any) -> bool:
    """Whether a ds_config names the optimizer: then that is what runs. A file is left to the engine, which says where it contradicts."""
    return isinstance(config, Mapping) and "optimizer" in config


def training_options(training: TrainingArguments, given: Mapping[str, Any]) -> Dict[str, Any]:
    """What the arguments say, as options."""
    config = given.get("ds_config") or deepspeed_config(training)
    options: Dict[str, Any] = {
        "micro_batch": training.per_device_train_batch_size,
        "grad_accum": training.gradient_accumulation_steps,
        "precision": "bf16" if training.bf16 else "fp16" if training.fp16 else "fp32",
        "checkpointing": "full" if training.gradient_checkpointing else "none",
        "fused_loss": bool(getattr(training, "use_liger_kernel", False)),
    }
    if not _has_optimizer(config):
        options["optimizer"] = training.optim
    if config is not None:
        options["ds_config"] = config
    elif getattr(training, "fsdp", None):
        options["framework"] = "fsdp"
    if training.world_size > 1:
        options["gpus"] = training.world_size
    length = getattr(training, "max_length", None) or getattr(training, "max_seq_length", None)  # TRL's
    if length is not None:
        options["seq"] = length
    return options

"""One training run, as it is asked for: what `zplan check` later plans, and what is really trained."""
import json
from dataclasses import dataclass, fields
from pathlib import Path

CATALOGUE = Path(__file__).resolve().parents[2] / "models" / "catalogue"

# Sizes that DeepSpeed's own defaults and Hugging Face's "auto" agree on nowhere; the runs take the defaults.
LORA_RANK = 16
LEARNING_RATE = 1e-5
CLIP = 1.0


@dataclass(frozen=True)
class Run:
    """`ranks` share one GPU. `offload` is "", "optimizer" or "optimizer+param"; `layers` cuts the model."""
    model: str
    framework: str = "deepspeed"  # deepspeed, fsdp, single
    zero: int = 0
    ranks: int = 1
    micro_batch: int = 1
    seq: int = 1024
    grad_accum: int = 1
    checkpointing: bool = True
    lora: bool = False
    offload: str = ""
    precision: str = "bf16"
    optimizer: str = "torch_fused"
    layers: int = 0
    steps: int = 5

    @property
    def id(self):
        """What differs from the defaults, in the form of the other measured steps."""
        name = self.model.split("/")[-1]
        kind = f"z{self.zero}" if self.framework == "deepspeed" else self.framework
        parts = [name, kind, f"n{self.ranks}", f"b{self.micro_batch}s{self.seq}"]
        if self.checkpointing:
            parts.append("ckpt")
        if self.grad_accum > 1:
            parts.append(f"gas{self.grad_accum}")
        shown = {"lora", "offload", "precision", "optimizer", "layers", "steps"}
        parts += [f"{f.name}={getattr(self, f.name)}" for f in fields(self)
                  if f.name in shown and getattr(self, f.name) != f.default]
        return "|".join(parts)


def catalogue():
    """Every model's config by its name and its aliases."""
    found = {}
    for path in sorted(CATALOGUE.glob("*.json")):
        entries = json.loads(path.read_text())
        if not isinstance(entries, list):
            continue  # the schema
        for entry in entries:
            for name in [entry["name"], *entry["aliases"]]:
                found[name] = entry["config"]
    return found


def config_of(run):
    """The model's config as the row states it and as transformers builds it."""
    config = dict(catalogue()[run.model])
    if run.layers:
        config["num_hidden_layers"] = run.layers
    return config


def options_of(run, rank=0):
    """The row's options, in the words in which `zplan check` reads them."""
    fsdp = run.framework == "fsdp"
    options = {
        "framework": run.framework, "gpus": run.ranks, "zero": 0 if fsdp else run.zero, "tensor_parallel": 1,
        "method": "lora" if run.lora else "full", "optimizer": run.optimizer,
        "precision": "bf16 compute, fp32 shards" if fsdp else run.precision,
        "micro_batch": run.micro_batch, "grad_accum": run.grad_accum, "seq": run.seq,
        "checkpointing": "full" if run.checkpointing else "none", "attention": "flash", "loss": "full",
        "rank": rank, "buckets": "default", "clip": CLIP,
    }
    if run.lora:
        options |= {"lora_rank": LORA_RANK, "lora_targets": "all-linear", "adapter_dtype": "fp32"}
    if run.offload:
        options["offload"] = run.offload
    if fsdp:
        options |= {"reshard_after_forward": True, "reduce": "fp32"}
    return options


def ds_config_of(run):
    """DeepSpeed's configuration of the run."""
    zero = {"stage": run.zero}
    for part, key in (("optimizer", "offload_optimizer"), ("param", "offload_param")):
        if part in run.offload:
            zero[key] = {"device": "cpu", "pin_memory": True}
    config = {
        "train_micro_batch_size_per_gpu": run.micro_batch, "gradient_accumulation_steps": run.grad_accum,
        "zero_optimization": zero, "gradient_clipping": CLIP, "zero_allow_untested_optimizer": True,
    }
    if run.precision in ("bf16", "fp16"):
        config[run.precision] = {"enabled": True}
    if run.optimizer == "ds_cpu":
        config["optimizer"] = {"type": "AdamW", "params": {"lr": LEARNING_RATE}}
    elif run.offload:
        config["zero_force_ds_cpu_optimizer"] = False
    return config


def row_of(run, rank=0):
    """The row without what was measured."""
    row = {"id": run.id, "model": run.model, "config": config_of(run), "options": options_of(run, rank), "sharing": run.ranks}
    if run.framework == "deepspeed":
        row["ds_config"] = ds_config_of(run)
    return row

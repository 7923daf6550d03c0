"""Training runs whose memory and time are measured: what `zplan check` plans of each, and how it is trained."""
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


# The order of the runs matters: the budget cuts off the end.
QWEN, LLAMA_1B, LLAMA_3B, LLAMA_8B = "Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-3B", "meta-llama/Meta-Llama-3-8B"


def one_rank():
    stages = range(4)
    return [
        *(Run(QWEN, zero=z) for z in stages),
        *(Run(LLAMA_1B, zero=z, seq=2048) for z in stages),
        *(Run(QWEN, framework=f) for f in ("single", "fsdp")),
        *(Run(LLAMA_8B, zero=z, seq=2048, lora=True) for z in (0, 2, 3)),
        *(Run(QWEN, zero=z, checkpointing=False) for z in stages),
        *(Run(LLAMA_3B, zero=z, seq=2048) for z in (1, 2, 3)),
        *(Run(QWEN, zero=2, seq=s) for s in (512, 2048, 8192)),
        *(Run(LLAMA_1B, zero=z, offload="optimizer", optimizer="ds_cpu") for z in (1, 2, 3)),
        Run(LLAMA_1B, zero=3, offload="optimizer+param", optimizer="ds_cpu"),
        *(Run(QWEN, zero=z, grad_accum=4) for z in (1, 2, 3)),
        *(Run(QWEN, zero=z, seq=4096) for z in (0, 1, 3)),
        *(Run(LLAMA_1B, zero=z, micro_batch=4, seq=512, checkpointing=False) for z in (2, 3)),
        *(Run(LLAMA_3B, zero=z, seq=1024, lora=True) for z in (2, 3)),
        Run(QWEN, framework="single", precision="amp"),
        Run(LLAMA_1B, framework="fsdp", seq=2048),
        Run(LLAMA_8B, framework="single", seq=4096, lora=True),
        Run(LLAMA_8B, zero=2, seq=8192, lora=True),
        Run("Qwen/Qwen2.5-7B", framework="single", seq=2048, lora=True),
        Run("Qwen/Qwen3-0.6B", zero=2, seq=2048),
        Run("HuggingFaceTB/SmolLM2-1.7B", zero=3, seq=2048),
        Run("Qwen/Qwen3-1.7B", zero=1, micro_batch=2, seq=1024),
        Run(QWEN, zero=2, precision="fp16"),
        Run(QWEN, zero=2, optimizer="torch_foreach"),
        Run(LLAMA_3B, zero=3, offload="optimizer", optimizer="ds_cpu"),
        Run(LLAMA_1B, framework="single", seq=2048, precision="amp"),
        Run(LLAMA_1B, zero=2, micro_batch=8, seq=1024),
    ]


def several_ranks():
    """Their time says little, since they take turns on one GPU; their memory and their collectives are those of ranks."""
    short = {"steps": 3}
    return [
        *(Run(QWEN, zero=z, ranks=2, **short) for z in range(4)),
        *(Run(QWEN, zero=z, ranks=4, seq=512, **short) for z in (1, 2, 3)),
        *(Run(QWEN, zero=z, ranks=2, lora=True, **short) for z in (2, 3)),
        Run(QWEN, framework="fsdp", ranks=2, **short),
        *(Run(LLAMA_1B, zero=z, ranks=2, **short) for z in (1, 2, 3)),
        *(Run(QWEN, zero=z, ranks=2, offload="optimizer", optimizer="ds_cpu", **short) for z in (2, 3)),
        Run(QWEN, framework="fsdp", ranks=4, seq=512, **short),
        Run(QWEN, zero=3, ranks=4, seq=512, lora=True, **short),
    ]


def verdict_runs():
    """Each is run with a little more and a little less memory than zplan says it needs."""
    return [
        Run(QWEN, zero=1, seq=1024, steps=3),
        Run(QWEN, zero=2, seq=4096, steps=3),
        Run(QWEN, zero=3, seq=2048, checkpointing=False, steps=3),
        Run(LLAMA_1B, zero=0, seq=2048, steps=3),
        Run(LLAMA_1B, zero=2, micro_batch=2, seq=2048, steps=3),
        Run(LLAMA_3B, framework="single", seq=2048, lora=True, steps=3),
        Run(LLAMA_8B, zero=3, seq=2048, lora=True, steps=3),
        Run(QWEN, framework="fsdp", seq=4096, steps=3),
        Run(LLAMA_1B, zero=3, offload="optimizer", optimizer="ds_cpu", seq=4096, steps=3),
        Run(QWEN, zero=2, grad_accum=2, micro_batch=4, seq=1024, steps=3),
    ]

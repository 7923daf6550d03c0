"""Steps of FSDP's first generation with adapters, on a stand-in for the CUDA runtime that launches no kernel: writes steps.json.

usage: record.py [FIRST ROW, COUNT]   (under the stand-in; torch, transformers and peft importable)

Decoder layers are FSDP units (accelerate's TRANSFORMER_BASED_WRAP), every adapter matrix a unit of its own (peft's
fsdp_auto_wrap_policy), use_orig_params=False, adapters in fp32 beside a 16-bit base, no mixed precision. `around`: each unit is called
inside its checkpoint, as transformers' models did up to 4.48; `inside`: the checkpoint is inside the unit, as since."""
import functools
import gc
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, ShardingStrategy
from torch.distributed.fsdp.wrap import _or_policy, lambda_auto_wrap_policy, transformer_auto_wrap_policy
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

import peft
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

MODELS = {
    "TinyLlama-1.1B": dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4,
                           vocab_size=32000, tie_word_embeddings=False),
    "Llama-2-7B": dict(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32,
                       vocab_size=32000, tie_word_embeddings=False),
    "Llama-2-13B": dict(hidden_size=5120, intermediate_size=13824, num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=40,
                        vocab_size=32000, tie_word_embeddings=False),
    "Llama-2-70B": dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8,
                        vocab_size=32000, tie_word_embeddings=False),
}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
CASES = [dict(model=model, gpus=gpus, micro_batch=b, seq=s, reentrant=reentrant, units=units)
         for model, gpus, b, s in (("TinyLlama-1.1B", 2, 4, 2048), ("Llama-2-7B", 2, 2, 4096), ("Llama-2-7B", 8, 4, 2048),
                                   ("Llama-2-13B", 4, 4, 2048), ("Llama-2-70B", 8, 1, 4096))
         for reentrant, units in ((True, "around"), (True, "inside"))]


class Around(torch.nn.Module):
    """A unit that is called inside its checkpoint."""

    def __init__(self, unit, reentrant):
        super().__init__()
        self.unit, self.reentrant = unit, reentrant

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.unit, name)

    def forward(self, hidden, **others):
        return checkpoint(functools.partial(self.unit.__call__, **others), hidden, use_reentrant=self.reentrant)


class Peaks:
    """Peaks by phase."""

    def __init__(self):
        self.phases = {}
        torch.cuda.reset_peak_memory_stats()

    def mark(self, phase):
        stats = torch.cuda.memory_stats()
        self.phases[phase] = dict(peak_requested=stats["requested_bytes.all.peak"], peak_allocated=stats["allocated_bytes.all.peak"],
                                  peak_reserved=stats["reserved_bytes.all.peak"])
        torch.cuda.reset_peak_memory_stats()


def is_adapter(module):
    return not list(module.children()) and getattr(module, "weight", None) is not None and module.weight.requires_grad


def run(case):
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(case["gpus"]), MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
    torch.cuda.set_device(0)
    dist.init_process_group(backend="fake", rank=0, world_size=case["gpus"], store=FakeStore())
    config = AutoConfig.for_model("llama", **MODELS[case["model"]])
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)
    parameters = sum(p.numel() for p in model.parameters())
    model.config.use_cache = False
    if case["units"] == "inside":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": case["reentrant"]})
    with torch.device("cuda"):
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=16, target_modules=ATTENTION, task_type="CAUSAL_LM"))
    model.enable_input_require_grads()
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    policy = functools.partial(_or_policy, policies=[
        functools.partial(lambda_auto_wrap_policy, lambda_fn=is_adapter),
        functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})])
    wrapped = FullyShardedDataParallel(model, auto_wrap_policy=policy, sharding_strategy=ShardingStrategy.FULL_SHARD, use_orig_params=False,
                                       limit_all_gathers=True, device_id=0, backward_prefetch=BackwardPrefetch.BACKWARD_PRE)
    wrapped.train()
    base = model.get_base_model()
    if case["units"] == "around":
        for i, unit in enumerate(base.model.layers):
            base.model.layers[i] = Around(unit, case["reentrant"])
    peaks = None

    def before_head(_, inputs):
        peaks.mark("forward")
        inputs[0].register_hook(lambda gradient: peaks.mark("loss_backward"))

    base.lm_head.register_forward_pre_hook(before_head)
    trained = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)
    for _ in range(3):
        gc.collect()
        before = torch.cuda.memory_stats()
        ids = torch.zeros(case["micro_batch"], case["seq"], dtype=torch.long, device="cuda")
        peaks = Peaks()
        loss = wrapped(input_ids=ids, labels=ids).loss
        peaks.mark("loss")
        loss.backward()
        del loss
        peaks.mark("backward")
        wrapped.clip_grad_norm_(1.0)
        peaks.mark("clip")
        optimizer.step()
        peaks.mark("step")
        optimizer.zero_grad(set_to_none=True)
    worst = max(peaks.phases, key=lambda phase: peaks.phases[phase]["peak_allocated"])
    step = dict(requested_before=before["requested_bytes.all.current"], allocated_before=before["allocated_bytes.all.current"],
                peak_requested=max(p["peak_requested"] for p in peaks.phases.values()),
                peak_allocated=peaks.phases[worst]["peak_allocated"],
                peak_reserved=max(p["peak_reserved"] for p in peaks.phases.values()), peak_phase=worst,
                phases={name: {k: p[k] for k in ("peak_requested", "peak_allocated")} for name, p in peaks.phases.items()})
    name = "|".join(["fsdp1", case["model"], f"n{case['gpus']}", f"b{case['micro_batch']}s{case['seq']}", case["units"]])
    return dict(id=name, model=case["model"], config={"model_type": "llama", **MODELS[case["model"]]},
                options=dict(framework="fsdp", gpus=case["gpus"], tensor_parallel=1, method="lora", lora_rank=16, lora_targets=ATTENTION,
                             adapter_dtype="fp32", optimizer="torch_fused", precision="bf16", micro_batch=case["micro_batch"], grad_accum=1,
                             seq=case["seq"], checkpointing="full", reentrant=case["reentrant"], attention="flash", loss="full", clip=1.0,
                             fsdp1_inside_checkpoints=case["units"] == "around", reshard_after_forward=True),
                parameters=parameters, trainable=trainable, measured={"3": step})


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = CASES[int(sys.argv[1])] if len(sys.argv) > 1 else None
    if chosen:
        print(json.dumps(run(chosen), separators=(",", ":")))
    else:
        import subprocess
        rows = [subprocess.run([sys.executable, __file__, str(i)], check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
                for i in range(len(CASES))]
        open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.json"), "w").write("[\n" + ",\n".join(rows) + "\n]\n")

#!/usr/bin/env python3
"""Records training steps with the losses of answers that LLaMA-Factory and torchtune compute over whole logits.

usage: record.py OUTPUT [ID…]
Runs PyTorch's CUDA build on a stand-in for the CUDA runtime that launches no kernel, so torch.cuda.memory_stats() holds what a GPU
would hold and values mean nothing. Each case runs in a process of its own; OUTPUT gets a line for each.
"""
import gc
import json
import os
import subprocess
import sys

import torch
import torch.nn.functional as F

MODELS = {
    "Qwen3-0.6B": ("Qwen3Config", dict(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=8,
                                       head_dim=128, max_position_embeddings=40960, tie_word_embeddings=True)),
    "Qwen2.5-7B": ("Qwen2Config", dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_attention_heads=28, num_key_value_heads=4,
                                       max_position_embeddings=32768, tie_word_embeddings=False)),
    "Llama-3.2-1B": ("LlamaConfig", dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_attention_heads=32, num_key_value_heads=8,
                                         head_dim=64, max_position_embeddings=131072, tie_word_embeddings=True)),
    "Llama-3.1-8B": ("LlamaConfig", dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
                                         max_position_embeddings=131072, tie_word_embeddings=False)),
}


def case(name, model, layers, loss, *, lora=False, amp=True, checkpointed=True, micro_batch=1, seq=1024, whole="whole-fp32"):
    return dict(id=name, model=model, layers=layers, loss=loss, lora=lora, amp=amp, checkpointed=checkpointed, micro_batch=micro_batch, seq=seq,
                whole=whole)


# Real widths, few layers. amp: mixed precision as transformers' Trainer has it, weights that train in fp32.
CASES = [
    case("dpo_full_Qwen3", "Qwen3-0.6B", 4, "dpo", micro_batch=2),
    case("dpo_full_Qwen3_kept", "Qwen3-0.6B", 4, "dpo", checkpointed=False),
    case("dpo_full_bf16_Llama1B", "Llama-3.2-1B", 4, "dpo", amp=False, micro_batch=2),
    case("dpo_full_bf16_Qwen7B", "Qwen2.5-7B", 2, "dpo", amp=False),
    case("dpo_lora_Qwen3", "Qwen3-0.6B", 6, "dpo", lora=True, micro_batch=2),
    case("dpo_lora_Llama8B", "Llama-3.1-8B", 2, "dpo", lora=True, seq=2048),
    case("dpo_lora_Llama8B_kept", "Llama-3.1-8B", 2, "dpo", lora=True, checkpointed=False),
    case("orpo_lora_Qwen3", "Qwen3-0.6B", 6, "orpo", lora=True, micro_batch=2),
    case("orpo_full_bf16_Llama1B", "Llama-3.2-1B", 4, "orpo", amp=False),
    case("simpo_lora_Llama8B", "Llama-3.1-8B", 2, "simpo", lora=True),
    case("simpo_full_Qwen3", "Qwen3-0.6B", 4, "simpo"),
    case("kto_lora_Qwen3", "Qwen3-0.6B", 6, "kto", lora=True, micro_batch=4),
    case("kto_lora_Llama8B", "Llama-3.1-8B", 2, "kto", lora=True, micro_batch=2),
    case("kto_full_bf16_Llama1B", "Llama-3.2-1B", 4, "kto", amp=False, micro_batch=2),
    case("dpo_lora_16_Llama8B", "Llama-3.1-8B", 2, "dpo", lora=True, amp=False, micro_batch=2, whole="whole"),
    case("dpo_full_16_Qwen3", "Qwen3-0.6B", 4, "dpo", amp=False, whole="whole"),
]


class Phases:
    """Peaks by phase of a step."""

    def __init__(self):
        self.peaks = {}
        torch.cuda.reset_peak_memory_stats()

    def mark(self, name):
        stats = torch.cuda.memory_stats()
        self.peaks[name] = {"peak_requested": stats["requested_bytes.all.peak"], "peak_allocated": stats["allocated_bytes.all.peak"],
                            "peak_reserved": stats["reserved_bytes.all.peak"]}
        torch.cuda.reset_peak_memory_stats()


def log_probabilities(logits, ids, whole):
    """Sums of the labels' log-probabilities. Source: LLaMA-Factory 0.9.5 train/trainer_utils.py get_batch_logps; torchtune 0.7
    rlhf/sequence_processing.py get_batch_log_probs, rlhf/rewards.py logits_to_logprobs."""
    labels = ids[:, 1:].clone()
    mask = labels != -100
    logits = logits[:, :-1, :]
    if whole == "whole":
        each = torch.gather(F.log_softmax(logits / 1.0, dim=-1), 2, labels.unsqueeze(-1)).squeeze(-1)
    else:
        each = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (each * mask).sum(-1), mask.sum(-1)


def answers(forward, ids, whole):
    """Source: LLaMA-Factory 0.9.5 train/dpo/trainer.py concatenated_forward; torchtune 0.7 recipes/lora_dpo_single_device.py."""
    logits = forward(ids)
    if whole == "whole-fp32":
        logits = logits.to(torch.float32)
    sums, lengths = log_probabilities(logits, ids, whole)
    return logits, sums, sums / lengths


def preference(spec, policy, reference, ids, phases):
    """The loss of pairs. LLaMA-Factory keeps the policy's logits until its metrics are made, torchtune drops them before."""
    whole = spec["whole"]
    logits, sums, means = answers(policy, ids, whole)
    phases.mark("policy_loss")
    half = ids.size(0) // 2
    if spec["loss"] in ("orpo", "simpo"):
        chosen, rejected = means.split(half)
        if spec["loss"] == "orpo":
            odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
            losses = -chosen + 0.1 * -F.logsigmoid(odds)
        else:
            losses = -F.logsigmoid(0.1 * (chosen - rejected - 5.0))
    else:
        if whole == "whole":
            del logits
        with torch.no_grad():
            compared, against, _ = answers(reference, ids, whole)
        del compared
        phases.mark("reference")
        chosen, rejected = (sums - against).split(half)
        losses = -F.logsigmoid(0.1 * (chosen - rejected))
    if whole != "whole":
        for part in logits.split(half):
            part.mean()
    return losses.mean()


def kto(spec, policy, reference, ids, phases):
    """Source: LLaMA-Factory 0.9.5 train/kto/trainer.py concatenated_forward, kto_loss; TRL 0.24 trainer/kto_trainer.py kto_loss."""
    tags = torch.arange(ids.size(0)) % 2 == 0  # indices in the place of a mask, whose size would be read from the device
    good, bad = tags.nonzero().squeeze(-1).cuda(), (~tags).nonzero().squeeze(-1).cuda()

    def picked(forward):
        logits, sums, _ = answers(forward, ids, spec["whole"])
        with torch.no_grad():
            _, of_mismatched, _ = answers(forward, ids, spec["whole"])
        return logits[good], logits[bad], sums[good], sums[bad], of_mismatched

    chosen_logits, rejected_logits, chosen, rejected, mismatched = picked(policy)
    phases.mark("policy_loss")
    with torch.no_grad():
        of_reference = picked(reference)
        against_chosen, against_rejected, against = of_reference[2:]
        del of_reference
    phases.mark("reference")
    shift = (mismatched - against).mean().clamp(min=0)
    losses = torch.cat((1 - F.sigmoid(0.1 * (chosen - against_chosen - shift)), 1 - F.sigmoid(0.1 * (shift - (rejected - against_rejected)))), 0)
    losses = losses.nanmean()
    chosen_logits.nansum()
    rejected_logits.nansum()
    return losses


def prepared(model, amp):
    """As accelerate prepares a model: autocast around the forward, whose outputs are turned into fp32."""
    if not amp:
        return lambda ids: model(input_ids=ids).logits
    from accelerate.utils import convert_outputs_to_fp32

    forward = convert_outputs_to_fp32(torch.autocast("cuda", dtype=torch.bfloat16)(model.forward))
    return lambda ids: forward(input_ids=ids).logits


def build(spec, dtype):
    import transformers
    from transformers import AutoModelForCausalLM, masking_utils

    masking_utils.find_packed_sequence_indices = lambda *_, **__: None  # it would read the device
    name, sizes = MODELS[spec["model"]]
    config = getattr(transformers, name)(num_hidden_layers=spec["layers"], use_cache=False, **sizes)
    with torch.device("cuda"):
        return config, AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)


def options_of(spec):
    lora = spec["lora"]
    precision = "bf16" if lora or not spec["amp"] else "amp"
    return {"framework": "single", "gpus": 1, "tensor_parallel": 1, "method": spec["loss"], "trained": "lora" if lora else "full",
            **({"lora_rank": 16, "lora_targets": "all-linear", "adapter_dtype": "fp32" if spec["amp"] else "bf16"} if lora else {}),
            **({"autocast": True} if spec["amp"] else {}),
            **({} if lora or spec["loss"] in ("orpo", "simpo") else {"reference_model": "frozen copy"}), "optimizer": "torch_fused",
            "precision": precision, "micro_batch": spec["micro_batch"], "grad_accum": 1, "seq": spec["seq"],
            "checkpointing": "full" if spec["checkpointed"] else "none", "reentrant": spec["checkpointed"] and spec["whole"] == "whole-fp32",
            "attention": "flash", "loss": spec["loss"], "answer_loss": spec["whole"], "rank": 0}


def record(spec):
    torch.manual_seed(0)
    torch.cuda.init()
    lora, amp = spec["lora"], spec["amp"]
    config, model = build(spec, torch.float32 if amp and not lora else torch.bfloat16)
    model.train()
    if spec["checkpointed"]:
        reentrant = spec["whole"] == "whole-fp32"  # LLaMA-Factory's use_reentrant_gc
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        if lora and reentrant:
            model.enable_input_require_grads()
    reference_model = None
    if lora:
        import peft

        about = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
        with torch.device("cuda"):
            model = peft.get_peft_model(model, about, autocast_adapter_dtype=amp)
        model.train()
    elif spec["loss"] in ("dpo", "kto"):
        _, reference_model = build(spec, torch.bfloat16)
        reference_model.eval().requires_grad_(False)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
    policy = prepared(model, amp)
    of_reference = prepared(reference_model, amp) if reference_model is not None else None

    def reference(ids):
        if of_reference is not None:
            return of_reference(ids)
        with model.disable_adapter():
            return policy(ids)

    head = model.get_base_model().lm_head if lora else model.lm_head
    current = {}

    def at_head(_, inputs):
        if current and torch.is_grad_enabled() and inputs[0].requires_grad:
            current["phases"].mark("forward")
            inputs[0].register_hook(lambda _: current["phases"].mark("loss_backward"))

    head.register_forward_pre_hook(at_head)
    measured = {}
    for step in range(1, 4):
        before = torch.cuda.memory_stats()
        phases = current["phases"] = Phases()
        ids = torch.zeros(spec["micro_batch"] * (1 if spec["loss"] == "kto" else 2), spec["seq"], dtype=torch.long, device="cuda")
        loss = (kto if spec["loss"] == "kto" else preference)(spec, policy, reference, ids, phases)
        phases.mark("loss")
        loss.backward()
        del loss
        phases.mark("backward")
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        phases.mark("clip")
        optimizer.step()
        phases.mark("step")
        optimizer.zero_grad(set_to_none=True)
        peak = max(phases.peaks, key=lambda name: phases.peaks[name]["peak_allocated"])
        measured[str(step)] = {"requested_before": before["requested_bytes.all.current"], "allocated_before": before["allocated_bytes.all.current"],
                               **{key: max(each[key] for each in phases.peaks.values()) for key in ("peak_requested", "peak_allocated", "peak_reserved")},
                               "peak_phase": peak, "phases": phases.peaks}
        gc.collect()
    return {"id": spec["id"], "model": spec["model"], "config": {**config.to_dict(), "architectures": None}, "options": options_of(spec),
            "parameters": sum(each.numel() for name, each in model.named_parameters() if "lora_" not in name),
            "trainable": sum(each.numel() for each in trained), "measured": measured}


def main():
    if os.environ.get("RECORD_ONE"):
        print(json.dumps(record(json.loads(os.environ["RECORD_ONE"]))))
        return
    wanted = sys.argv[2:]
    with open(sys.argv[1], "w") as out:
        for spec in CASES:
            if wanted and spec["id"] not in wanted:
                continue
            done = subprocess.run([sys.executable, __file__], env={**os.environ, "RECORD_ONE": json.dumps(spec)}, capture_output=True, text=True)
            lines = done.stdout.splitlines()
            if done.returncode != 0 or not lines:
                sys.exit(f"{spec['id']}: {done.stderr[-2000:]}")
            out.write(lines[-1] + "\n")


main()

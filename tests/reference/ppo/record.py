"""Records updates of PPO on the stand-in for a GPU: TRL's own PPOTrainer.train() over given completions, by phase.

usage: record.py OUT.jsonl [part of an id], with the stand-in preloaded, the helpers that recorded ../steps (ds_step) importable, and TRL 1.8.0,
the last of whose releases here has PPO, in front of others on the path. Rows that OUT has already are left out; each runs in a process of its own.
"""
import json, os, sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from recording import record
import ds_step as D
from ds_step import LINEAR, Phases, cur, make_config, peft, torch
torch.cuda._is_in_bad_fork = lambda: False
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
import transformers.generation.utils as generation_utils
import trl.experimental.ppo.ppo_trainer as ppo

PAD, EOS = 7, 8  # what is read back from the device is 0: no token is padding, none ends a completion


def case(sp):
    D.watchdog()
    torch.manual_seed(0); torch.set_num_threads(1); torch.cuda.init(); torch.cuda.set_device(0)
    b, s, c, gas, lora = sp["b"], sp["s"], sp["c"], sp.get("gas", 1), sp.get("lora", False)
    kw = dict(attn_implementation="sdpa", dtype=torch.bfloat16)

    def make(kind, name):
        cfg = make_config(name); cfg.num_labels = 1; cfg.pad_token_id = PAD
        with torch.device("cuda"): return kind.from_config(cfg, **kw)

    value_of, reward_of = sp.get("value", sp["model"]), sp.get("reward", sp["model"])
    policy = make(AutoModelForCausalLM, sp["model"])
    value = make(AutoModelForSequenceClassification, value_of)
    reward = make(AutoModelForSequenceClassification, reward_of); reward.requires_grad_(False)
    reference = None if lora or not sp.get("made", True) else make(AutoModelForCausalLM, sp["model"])
    if reference is not None: reference.requires_grad_(False)
    parameters = sum(p.numel() for p in policy.parameters())
    config = json.loads(policy.config.to_json_string(use_diff=False)); config["architectures"] = [type(policy).__name__]
    for each in (policy, value):
        if not sp.get("cache", False): each.config.use_cache = False
        if sp.get("ckpt"): each.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    args = ppo.PPOConfig(output_dir="ppo_out", per_device_train_batch_size=b, gradient_accumulation_steps=gas, num_mini_batches=sp.get("mini", 1),
        num_ppo_epochs=sp.get("epochs", 4), local_rollout_forward_batch_size=sp.get("rollout", b), response_length=c, total_episodes=3 * b * gas * 1,
        num_sample_generations=0, report_to=[], save_strategy="no", disable_tqdm=True, bf16=False, optim="adamw_torch_fused", max_grad_norm=None, missing_eos_penalty=None)
    lc = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=LINEAR, task_type="CAUSAL_LM") if lora else None
    data = [dict(input_ids=[0] * (s - c)) for _ in range(4 * b * gas)]
    collate = lambda rows: dict(input_ids=torch.tensor([r["input_ids"] for r in rows]))

    def given(model, queries, pad, config):
        """In the place of generate(): completions and the scores of each step, stacked, as transformers gives them."""
        scores = [torch.empty(queries.shape[0], model.config.vocab_size, dtype=torch.float32, device="cuda") for _ in range(c)]
        logits = torch.stack(scores, 1); del scores
        return torch.cat((queries, torch.zeros(queries.shape[0], c, dtype=torch.long, device="cuda")), dim=1), logits

    if sp.get("generates"):
        # What is read back is 0, so that generate() never sees an end token and makes all requested tokens.
        generation_utils.StopCheck.__call__ = lambda self, unfinished, tokens, length: length >= s
    else:
        ppo.generate = given
    measured = {}; cell = {}
    processing = SimpleNamespace(pad_token_id=PAD, eos_token_id=EOS)
    with torch.device("cpu"):
        trainer = ppo.PPOTrainer(args=args, processing_class=processing, model=policy, ref_model=reference, reward_model=reward, train_dataset=data,
            value_model=value, data_collator=collate, eval_dataset=data, peft_config=lc)
    trainer.log = lambda *a, **k: None
    trainer.callback_handler.on_step_end = lambda *a, **k: trainer.control
    mark = lambda name: cell["ph"].mark(name)
    generation = ppo.batch_generation

    def generated(*a, **k):
        cell["ph"] = Phases(); cell["update"] = cell.get("update", 0) + 1; cell["before"] = cur()
        result = generation(*a, **k); mark("generate"); cell["scoring"] = True
        return result

    ppo.batch_generation = generated
    forward = ppo.forward

    def noted_forward(model, *a, **k):
        trains = torch.is_grad_enabled()
        if trains and cell.get("scoring"): mark("score"); cell["scoring"] = False
        elif trains: mark("statistics")
        result = forward(model, *a, **k)
        if trains: mark("forward")
        return result

    ppo.forward = noted_forward
    backward = trainer.accelerator.backward

    def noted_backward(loss, **k):
        mark("loss"); backward(loss, **k); mark("backward")

    trainer.accelerator.backward = noted_backward
    step = trainer.optimizer.step
    def noted_step(*a, **k):
        result = step(*a, **k); mark("step")
        return result
    trainer.optimizer.step = noted_step
    after = trainer.lr_scheduler.step

    def ended(*a, **k):
        mark("statistics"); d = cell["ph"].d; before = cell["before"]; k_ = max(d, key=lambda n: d[n]["peak_allocated"])
        measured[str(cell["update"])] = dict(allocated_before=before["allocated"], requested_before=before["requested"], peak_allocated=d[k_]["peak_allocated"],
            peak_requested=max(v["peak_requested"] for v in d.values()), peak_reserved=max(v["peak_reserved"] for v in d.values()), peak_phase=k_, phases=d)
        return after(*a, **k)

    trainer.lr_scheduler.step = ended
    row = dict(id=sp["id"], model=sp["model"], config=config, parameters=parameters, trainable=sum(p.numel() for p in trainer.model.parameters() if p.requires_grad))
    row["options"] = dict(framework="single", gpus=1, tensor_parallel=1, method="ppo", trained="lora" if lora else "full", lora_rank=16 if lora else None,
        lora_targets=LINEAR if lora else None, adapter_dtype="fp32" if lora else None, optimizer="torch_fused", precision="bf16", micro_batch=b, grad_accum=gas, seq=s, completion=c,
        checkpointing="full" if sp.get("ckpt") else "none", attention="flash", loss="ppo", fused_head=False, padding_mask=True, engine="trainer",
        reference_model="adapters-off" if lora else "copy", value_model=value_of, reward_model=reward_of, mini_batches=sp.get("mini"), ppo_epochs=sp.get("epochs", 4),
        generates=sp.get("generates"), rollout_batch=sp.get("rollout", b), keeps_cache=bool(sp.get("cache")), rank=0, clip=None)
    trainer.train()
    row["measured"] = measured
    return row


def specs():
    Q05, Q15, L1, L8 = "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Llama-3.2-1B", "Llama-3-8B"
    rows = []

    def add(model, b=1, s=1024, c=512, **more):
        sp = dict(model=model, b=b, s=s, c=c, **more)
        name = "|".join([model, f"b{b}s{s}c{c}"] + [f"{k}={v}" for k, v in more.items()])
        rows.append({**sp, "id": "ppo|" + name})

    add(Q05, b=2); add(Q05, b=2, ckpt=True); add(Q05, b=4, s=512, c=128, gas=4)
    add(Q05, b=2, lora=True); add(Q05, b=2, ckpt=True, cache=True); add(Q05, b=2, cache=True)
    add(Q15, b=1, s=2048, c=1024, ckpt=True); add(Q15, b=2, s=1024, c=256, lora=True, ckpt=True); add(Q15, b=1, value=Q05, reward=L1)
    add(L1, b=2, s=1024, c=256, ckpt=True); add(L1, b=2, s=1024, c=256, lora=True); add(L1, b=1, s=512, c=64, gas=8, epochs=1)
    add(L8, b=1, s=1024, c=512, lora=True, ckpt=True, value=L1, reward=L1); add(L1, b=1, s=2048, c=512, value=Q05, reward=L8, ckpt=True)
    # Chunks of another size than a micro-batch, and mini-batches.
    add(Q05, b=2, s=512, c=128, gas=4, rollout=8); add(Q05, b=2, s=512, c=128, gas=4, mini=2); add(Q05, b=2, s=512, c=128, gas=4, mini=4, ckpt=True)
    # transformers' own generate(), with keys, values and scores.
    add(Q05, b=2, generates=True); add(Q05, b=2, s=512, c=384, gas=8, rollout=16, ckpt=True, generates=True)
    add(Q05, b=4, s=512, c=128, gas=4, rollout=16, lora=True, generates=True); add(Q15, b=1, s=768, c=256, gas=8, rollout=3, ckpt=True, generates=True)
    add(L1, b=2, s=1024, c=256, generates=True); add(L1, b=2, s=512, c=256, gas=8, rollout=16, lora=True, ckpt=True, value=Q05, reward=Q05, generates=True)
    add(L8, b=1, s=768, c=256, gas=16, rollout=16, lora=True, ckpt=True, value=Q05, reward=Q05, generates=True)
    add("Llama-2-7B", b=1, s=768, c=128, gas=16, rollout=16, lora=True, ckpt=True, value=Q05, reward=Q05, generates=True)
    add("Qwen3-0.6B", b=2, s=512, c=256, gas=4, rollout=4, ckpt=True, generates=True); add("Gemma-3-1B", b=1, s=1024, c=256, gas=4, rollout=4, ckpt=True, generates=True)
    return rows


record(specs(), case)

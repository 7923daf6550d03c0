"""Records steps of GRPO on the stand-in for a GPU: TRL's own loss and scoring over given completions, by phase.

usage: record.py OUT.jsonl [part of an id], with the stand-in preloaded and the helpers that recorded ../steps (ds_step) importable.
Rows that OUT has already are left out; each runs in a process of its own.
"""
import copy, gc, inspect, json, os, sys
from collections import defaultdict
from contextlib import nullcontext
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from recording import record
import ds_step as D
from ds_step import FakeStore, LINEAR, Phases, attribute, cur, deepspeed, ds_config, dscomm, make_config, peft, stor, td, torch, torch_opt
from transformers import AutoModelForCausalLM, masking_utils
import trl.kernels.chunked_logprob as chunked
import trl.trainer.utils as utils
import trl.trainer.grpo_trainer as grpo_trainer
from trl.trainer.grpo_trainer import GRPOTrainer


class Unlaunched:
    """In the place of a Triton kernel: nothing is computed."""

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None


chunked._forward_kernel = chunked._backward_kernel = Unlaunched()
PICKED = {}  # how many tokens are labels: read back from the device, where values are garbage


def _picked(x, mask):
    indices = torch.empty((PICKED["tokens"], 2), dtype=torch.long, device=x.device)
    return x[indices[:, 0], indices[:, 1]]


utils._picked = _picked
grpo_trainer.nanmin = torch.min  # the real ones count what is no number, on the device
grpo_trainer.nanmax = torch.max
source = inspect.getsource(utils.add_fused_lm_head)
for name in ("hidden_states", "labels"):
    assert f"{name}[mask] if compact" in source
    source = source.replace(f"{name}[mask] if compact", f"_picked({name}, mask) if compact")
exec(source, utils.__dict__)

ROLLOUT = dict(beta=0.0, engine="colocate", fused=True)


def of_whole_logits(model, ids, mask, keep, batch_size=None, compute_entropy=False, **_):
    """_get_per_token_logps_and_entropies, written out as in TRL 0.24."""
    every, entropies = [], []
    size = batch_size or ids.size(0)
    for start in range(0, ids.size(0), size):
        rows = ids[start:start + size]
        logits = model(input_ids=rows, attention_mask=mask[start:start + size], logits_to_keep=keep + 1, use_cache=False).logits
        logits = logits[:, :-1, :]
        logits = logits[:, -keep:, :]
        logits = logits / 1.0
        picked = rows[:, -keep:]
        chosen = [torch.nn.functional.log_softmax(row, dim=-1).gather(dim=-1, index=label.unsqueeze(-1)).squeeze(-1) for row, label in zip(logits, picked)]
        every.append(torch.stack(chosen))
        if compute_entropy:
            with torch.no_grad():
                some = []
                for part in logits.reshape(-1, logits.size(-1)).split(128):
                    logarithms = torch.nn.functional.log_softmax(part, dim=-1)
                    some.append(-(torch.exp(logarithms) * logarithms).sum(-1))
                entropies.append(torch.cat(some).reshape(picked.shape))
    return torch.cat(every), torch.cat(entropies) if compute_entropy else None, None


def trainer_of(model, sp):
    """What GRPOTrainer's methods ask of the trainer."""
    accelerator = SimpleNamespace(num_processes=sp.get("gpus", 1), is_main_process=True, gather=lambda x: x, gather_for_metrics=lambda x: x,
                                  reduce=lambda x, reduction: x,
                                  autocast=lambda: torch.autocast("cuda", dtype=torch.bfloat16, enabled=sp.get("precision") == "amp"))
    args = SimpleNamespace(delta=None, use_bias_correction_kl=True, steps_per_generation=sp.get("gas", 1), report_to=[])
    trainer = SimpleNamespace(
        accelerator=accelerator, args=args, model=model, state=SimpleNamespace(global_step=1), beta=sp["beta"], epsilon_low=0.2, epsilon_high=0.2, loss_type="dapo",
        importance_sampling_level="token", top_entropy_quantile=1.0, off_policy_mask_threshold=None, use_vllm=sp["engine"] != "trainer",
        vllm_importance_sampling_correction=True, aux_loss_enabled=False, _entropy_bonus_enabled=False, temperature=1.0,
        current_gradient_accumulation_steps=sp.get("gas", 1), max_completion_length=sp["c"], _metrics=dict(train=defaultdict(list)))
    ask = lambda *a, **k: GRPOTrainer._get_per_token_logps_and_entropies(trainer, *a, **k)
    trainer._get_per_token_logps_and_entropies = ask if sp["fused"] else of_whole_logits
    return trainer


def generated(sp, count):
    """Padded prompts and completions as _generate_and_score_completions has them."""
    def of(tokens): return torch.ones(count, tokens, dtype=torch.long, device="cuda")
    prompt, completion = sp["s"] - sp["c"], sp["c"]
    return dict(prompt_ids=of(prompt), prompt_mask=of(prompt), completion_ids=of(completion), completion_mask=of(completion))


def scored(trainer, reference, sp):
    """The rest of it: log-probabilities of the policy and the reference, in batches."""
    batch = generated(sp, sp["b"] * sp.get("gas", 1))
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    ask = lambda model: trainer._get_per_token_logps_and_entropies(model, ids, mask, sp["c"], batch_size=sp["b"])[0]
    batch["advantages"] = torch.zeros(ids.size(0), device="cuda")
    with torch.no_grad():
        if sp["engine"] != "trainer":
            batch["old_per_token_logps"] = ask(trainer.model)
            sampled = torch.zeros_like(batch["old_per_token_logps"])
            ratio = (batch["old_per_token_logps"] - sampled) * batch["completion_mask"]
            batch["importance_sampling_ratio"] = torch.exp(torch.nan_to_num(ratio, nan=0.0).sum(dim=-1, keepdim=True))
            batch["sampling_per_token_logps"] = sampled
        if sp["beta"] != 0.0 and reference is not None: batch["ref_per_token_logps"] = ask(reference)
        elif sp["beta"] != 0.0:
            with trainer.model.disable_adapter(): batch["ref_per_token_logps"] = ask(trainer.model)
    items = batch["completion_mask"].sum()
    parts = {k: v.chunk(sp.get("gas", 1)) for k, v in batch.items()}
    return [{**{k: v[i] for k, v in parts.items()}, "num_items_in_batch": items} for i in range(sp.get("gas", 1))]


class OwnLoss:
    """The loss and scoring of rows that this script records; whole_logits.py has releases' own."""
    fuses_head = True

    def __init__(self, model, sp): self.sp, self.trainer = sp, trainer_of(model, sp)
    def score(self, reference): return scored(self.trainer, reference, self.sp)
    def loss(self, model, inputs): return GRPOTrainer._compute_loss(self.trainer, model, inputs)
    @staticmethod
    def prepare(model, sp): """Nothing is wrapped."""


def case(sp, Loss=OwnLoss):
    sp = {**ROLLOUT, **sp}
    D.watchdog()
    fw, N, lora, gas = sp.get("framework", "single"), sp.get("gpus", 1), sp.get("lora", False), sp.get("gas", 1)
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(N), LOCAL_SIZE=str(N), MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
    torch.manual_seed(0); torch.set_num_threads(1); torch.cuda.init(); torch.cuda.set_device(0)
    if fw != "single": td.init_process_group(backend="fake", rank=0, world_size=N, store=FakeStore())
    if not sp.get("padded", True): masking_utils._ignore_causal_mask_sdpa = lambda *a, **k: True
    cfg = make_config(sp["model"]); z3 = fw == "deepspeed" and sp["zero"] == 3
    PICKED["tokens"] = sp["b"] * sp["c"]
    copied = sp["beta"] != 0.0 and not lora
    row = dict(id=sp["id"], model=sp["model"])
    row["options"] = dict(framework=fw, gpus=N, zero=sp.get("zero"), tensor_parallel=1, method="grpo", trained="lora" if lora else "full",
        lora_rank=16 if lora else None, lora_targets=LINEAR if lora else None, adapter_dtype=sp.get("adapter_dtype", "fp32") if lora else None, optimizer="torch_fused",
        precision={"amp": "bf16 compute, fp32 shards" if fw == "fsdp" else "amp"}.get(sp.get("precision", "bf16"), "bf16"),
        micro_batch=sp["b"], grad_accum=gas, seq=sp["s"], completion=sp["c"], checkpointing="full" if sp.get("ckpt") else "none", attention="flash", loss="grpo",
        fused_head=sp["fused"], padding_mask=sp.get("padded", True), engine=sp["engine"], reference_model=None if sp["beta"] == 0.0 else "copy" if copied else "adapters-off",
        rank=0, clip=1.0)
    dsc = eng = reng = ref = None
    if fw == "deepspeed":
        dsc = ds_config(sp, cfg.hidden_size); row["ds_config"] = copy.deepcopy(dsc)
        if dscomm.cdb is None: deepspeed.init_distributed(dist_backend="fake", verbose=False)
    dtype = torch.float32 if sp.get("precision") == "amp" else torch.bfloat16
    kw = dict(attn_implementation="sdpa", dtype=dtype)
    if z3:
        from transformers.integrations import HfDeepSpeedConfig
        alive = HfDeepSpeedConfig(copy.deepcopy(dsc))

    def make():
        if z3:
            with deepspeed.zero.Init(config_dict_or_path=copy.deepcopy(dsc), dtype=torch.bfloat16): return AutoModelForCausalLM.from_config(cfg, **kw)
        with torch.device("cuda"): return AutoModelForCausalLM.from_config(cfg, **kw)

    num = lambda p: getattr(p, "ds_numel", p.numel())
    m = make(); row["parameters"] = sum(num(p) for p in m.parameters())
    c = json.loads(m.config.to_json_string(use_diff=False)); c["architectures"] = [type(m).__name__]; row["config"] = c
    m.config.use_cache = False
    if Loss.fuses_head: utils.add_fused_lm_head(m, outputs=("log_probs", "entropy"))
    if sp.get("ckpt"): m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if lora:
        lc = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=LINEAR, task_type="CAUSAL_LM")
        with torch.device("cuda"): m = peft.get_peft_model(m, lc, autocast_adapter_dtype=sp.get("adapter_dtype", "fp32") == "fp32")
    m.train()
    params = [p for p in m.parameters() if p.requires_grad]; row["trainable"] = sum(num(p) for p in params)

    def make_reference():
        model = make(); model.eval(); model.requires_grad_(False); model.config.use_cache = False
        if Loss.fuses_head: utils.add_fused_lm_head(model)
        Loss.prepare(model, sp)
        return model

    Loss.prepare(m, sp)
    if copied and fw != "fsdp": ref = make_reference()
    cell = {}
    inner = m.get_base_model() if lora else m

    def behind_layers(mod, args, output):
        if cell.get("ph") is None or not torch.is_grad_enabled(): return
        cell["ph"].mark("forward")
        if output.requires_grad: output.register_hook(lambda g: (cell["ph"].mark("loss_backward"), None)[1])

    inner.model.norm.register_forward_hook(behind_layers)
    if fw == "deepspeed":
        opt = torch_opt(params, "torch_fused")
        eng, _, _, _ = deepspeed.initialize(model=m, model_parameters=params, optimizer=opt, config=copy.deepcopy(dsc), dist_init_required=False); opt = eng.optimizer
        if ref is not None:
            rc = copy.deepcopy(dsc)
            if not z3: rc["zero_optimization"] = dict(stage=0)
            row["ds_config_reference"] = copy.deepcopy(rc)
            reng, *_ = deepspeed.initialize(model=ref, config=rc, dist_init_required=False); reng.eval()
    elif fw == "fsdp":
        params = None
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if sp.get("precision") == "amp" else MixedPrecisionPolicy()
        how = dict(mesh=init_device_mesh("cuda", (N,)), mp_policy=mp, reshard_after_forward=True)
        row["options"].update(reshard_after_forward=True, reduce="fp32" if sp.get("precision") == "amp" else "bf16")

        def shard(model, own):
            for layer in own.model.layers: fully_shard(layer, **how)
            fully_shard(model, **how)

        shard(m, inner)
        if copied:  # made when the policy is sharded already
            ref = make_reference(); shard(ref, ref)
        opt = torch_opt([p for p in m.parameters() if p.requires_grad], "torch_fused")
    else: opt = torch_opt(params, "torch_fused")
    gc.collect()
    trainer = Loss(m, sp)
    x, measured, buffered = eng or m, {}, None
    for step in range(1, 4):
        before = cur(); ph = Phases(); cell["ph"] = ph
        for micro in range(gas):
            ph.micro = micro + 1
            if micro == 0:
                buffered = trainer.score(reng or ref); ph.mark("score")
            loss = trainer.loss(x, buffered[micro]); ph.mark("loss")
            if eng: eng.backward(loss)
            else: loss.backward()
            del loss; ph.mark("backward")
            if eng and micro < gas - 1: eng.step(); ph.mark("micro_step")
        if eng: eng.step(); ph.mark("step")
        else:
            torch.nn.utils.clip_grad_norm_([p for p in m.parameters() if p.requires_grad], 1.0); ph.mark("clip"); opt.step(); ph.mark("step"); opt.zero_grad(set_to_none=True)
        cell["ph"] = None
        d = ph.d; k = max(d, key=lambda name: d[name]["peak_allocated"])
        measured[str(step)] = dict(allocated_before=before["allocated"], requested_before=before["requested"], peak_allocated=d[k]["peak_allocated"],
            peak_requested=max(v["peak_requested"] for v in d.values()), peak_reserved=max(v["peak_reserved"] for v in d.values()), peak_phase=k, phases=d)
    row["measured"] = measured
    return row


def specs():
    Q05, Q15, L1, L8 = "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Llama-3.2-1B", "Llama-3-8B"
    rows = []

    def add(model, fw, zero=None, gpus=1, b=1, s=1024, c=512, **more):
        sp = dict(model=model, framework=fw, zero=zero, gpus=gpus, b=b, s=s, c=c, **more)
        name = "|".join([model, fw if fw != "deepspeed" else f"z{zero}", f"n{gpus}", f"b{b}s{s}c{c}"] + [f"{k}={v}" for k, v in more.items()])
        rows.append({**sp, "id": "grpo|" + name})

    DS = "deepspeed"
    for ckpt in (False, True): add(Q05, "single", b=2, ckpt=ckpt)
    add(Q05, "single", b=2, ckpt=True, beta=0.04)
    add(Q05, "single", b=2, ckpt=True, engine="trainer")
    add(Q05, "single", b=8, s=1024, c=256, ckpt=True)
    add(Q05, "single", b=2, s=2048, c=1792, ckpt=True, gas=4)
    add(Q05, "single", b=2, ckpt=True, padded=False)
    add(Q05, "single", b=2, ckpt=True, precision="amp")
    add(L1, "single", b=4, s=1024, c=512, lora=True)
    add(L1, "single", b=4, s=1024, c=512, lora=True, ckpt=True, beta=0.04)
    add(Q15, "single", b=2, s=2048, c=1536, lora=True, ckpt=True, gas=2)
    add(L8, "single", b=2, s=2048, c=1024, lora=True, ckpt=True, beta=0.04)
    for beta in (0.0, 0.04):
        add(Q15, DS, 2, 4, b=2, s=1024, c=512, ckpt=True, beta=beta)
        add(Q15, DS, 3, 4, b=2, s=1024, c=512, ckpt=True, beta=beta)
        add(L8, DS, 3, 8, b=2, s=2048, c=1024, ckpt=True, beta=beta)
    add(L1, DS, 3, 4, b=4, s=1024, c=768, ckpt=False)
    add(L1, DS, 2, 4, b=4, s=1024, c=768, ckpt=False, gas=2)
    add(Q15, DS, 3, 4, b=2, s=1024, c=512, ckpt=True, gas=4)
    add(Q15, DS, 3, 4, b=2, s=1024, c=512, ckpt=True, engine="trainer")
    add(Q15, DS, 3, 4, b=2, s=1024, c=512, ckpt=True, gas=4, engine="trainer")
    add(Q15, DS, 3, 4, b=2, s=1024, c=512, ckpt=True, lora=True, adapter_dtype="bf16")
    add(L8, DS, 2, 8, b=1, s=2048, c=1024, ckpt=True, lora=True, beta=0.04)
    for more in (dict(), dict(beta=0.04), dict(ckpt=False)): add(Q05, "single", **{**dict(b=2, ckpt=True, fused=False), **more})
    add(Q05, "single", b=8, s=1024, c=256, ckpt=True, fused=False)
    add(L1, "single", b=4, s=1024, c=512, lora=True, ckpt=True, fused=False)
    add(Q15, DS, 3, 4, b=2, s=1024, c=512, ckpt=True, fused=False)
    add(L1, DS, 2, 4, b=4, s=1024, c=768, ckpt=True, gas=2, fused=False)
    add(L8, DS, 3, 8, b=1, s=4096, c=3072, ckpt=True, gas=2, beta=0.04)
    add(Q15, "fsdp", None, 4, b=2, s=1024, c=512, ckpt=True, precision="amp")
    add(Q15, "fsdp", None, 4, b=2, s=1024, c=512, ckpt=True, precision="amp", beta=0.04)
    return rows


if __name__ == "__main__": record(specs(), case)

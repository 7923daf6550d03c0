"""Records steps of GRPO over whole logits on the stand-in for a GPU: the releases' own functions, under accelerate's wrappers.

usage: whole_logits.py OUT.jsonl [part of an id], with what record.py needs, and in SOURCES a folder with the unpacked trl-0.18.0, trl-0.29.1,
trl-1.8.0 and ms_swift-4.6.0.
"""
import ast, os
from collections import defaultdict
from types import MethodType, SimpleNamespace

import record as R
from record import generated, record, torch
import accelerate.utils as au
from typing import Any, Dict, List, Optional, Tuple, Union

SOURCES = os.environ["SOURCES"]
OF = {"trl0.18": ("trl-0.18.0/trl/trainer/grpo_trainer.py", "trl-0.18.0/trl/trainer/utils.py"),
      "trl0.29": ("trl-0.29.1/trl/trainer/grpo_trainer.py", "trl-0.29.1/trl/trainer/utils.py"),
      "trl1.8": ("trl-1.8.0/trl/trainer/grpo_trainer.py", "trl-1.8.0/trl/trainer/utils.py"),
      "swift4.6": ("ms_swift-4.6.0/swift/rlhf_trainers/grpo_trainer.py", "trl-0.29.1/trl/trainer/utils.py")}
METHODS = ("_get_per_token_logps", "_get_per_token_logps_and_entropies", "_compute_loss", "_get_logps_via_local_forward",
           "_get_per_token_logps_and_entropies_single", "_compute_loss_and_metrics")
HELPERS = ("selective_log_softmax", "entropy_from_logits", "is_peft_model", "use_adapter")


def functions(path, names, inside):
    """The named functions of a file (of its class GRPOTrainer where `inside`), without decorators, run by themselves."""
    tree = ast.parse(open(os.path.join(SOURCES, path)).read())
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "GRPOTrainer").body if inside else tree.body
    found = [n for n in body if isinstance(n, ast.FunctionDef) and n.name in names]
    for each in found: each.decorator_list, each.returns = [], None
    for each in found:
        for arg in each.args.args: arg.annotation = None
    return ast.unparse(ast.Module(found, []))


def methods_of(release):
    own, helpers = OF[release]
    space = dict(torch=torch, F=torch.nn.functional, nn=torch.nn, Any=Any, Dict=Dict, List=List, Optional=Optional, Tuple=Tuple, Union=Union,
                 nanmin=torch.min, nanmax=torch.max, gather=lambda x: x, gather_object=lambda x: x, WINDOW_NORMALIZED_LOSS_TYPES=("cispo", "dapo", "fipo"))
    exec(functions(helpers, HELPERS, False), space)
    exec(functions(own, METHODS, True), space)
    return space


class Self(SimpleNamespace):
    """What the functions ask of the trainer; what is not set is off."""
    def __getattr__(self, name): return None


class Release:
    fuses_head = False

    def __init__(self, model, sp):
        self.sp, self.space = sp, methods_of(sp["of"])
        self.is_swift = sp["of"].startswith("swift")
        accelerator = SimpleNamespace(num_processes=sp.get("gpus", 1), is_main_process=True, unwrap_model=lambda x: x, gather=lambda x: x,
                                      gather_for_metrics=lambda x: x, reduce=lambda x, reduction: x)
        args = Self(delta=None, steps_per_generation=sp.get("gas", 1), report_to=[])
        self.own = Self(accelerator=accelerator, args=args, model=model, state=SimpleNamespace(global_step=1), beta=sp["beta"], epsilon_low=0.2,
                        epsilon_high=0.2, loss_type="grpo" if self.is_swift or sp["of"] == "trl0.18" else "dapo", importance_sampling_level="token",
                        top_entropy_quantile=1.0, use_vllm=sp["engine"] != "trainer", vllm_importance_sampling_correction=True, temperature=0.9,
                        current_gradient_accumulation_steps=sp.get("gas", 1), max_completion_length=sp["c"], _metrics=dict(train=defaultdict(list)),
                        model_kwarg_keys=("use_cache", "logits_to_keep"), sdar_loss_coef=0.0,
                        template=SimpleNamespace(padding_free=False, sequence_parallel_size=1))
        for name in METHODS:
            if name in self.space: setattr(self.own, name, MethodType(self.space[name], self.own))
        if self.is_swift:
            self.own._get_per_token_logps_and_entropies = self.own._get_per_token_logps_and_entropies_single

    @staticmethod
    def prepare(model, sp):
        """accelerate's prepare_model where it does not leave mixed precision to DeepSpeed."""
        if sp.get("framework", "single") == "deepspeed": return
        own = model.forward.__func__
        model.forward = MethodType(torch.autocast("cuda", dtype=torch.bfloat16)(own), model)
        model.forward = MethodType(au.convert_outputs_to_fp32(model.forward.__func__), model)

    def ask(self, model, batch):
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        keep, size = self.sp["c"], self.sp["b"]
        if self.is_swift:
            parts = [self.own._get_per_token_logps_and_entropies(model, dict(input_ids=i, attention_mask=m), SimpleNamespace(logits_to_keep=keep))[0]
                     for i, m in zip(ids.split(size), mask.split(size))]
            return torch.cat(parts)
        if "_get_per_token_logps" in self.space: return self.own._get_per_token_logps(model, ids, mask, keep, size)
        return self.own._get_per_token_logps_and_entropies(model, ids, mask, keep, batch_size=size)[0]

    def score(self, reference):
        sp, gas = self.sp, self.sp.get("gas", 1)
        batch = generated(sp, sp["b"] * gas)
        rows = sp["b"] * gas
        batch["advantages"] = torch.zeros((rows, sp["c"]) if self.is_swift else rows, device="cuda")
        self.own.ref_model = reference
        with torch.no_grad():
            scores = self.is_swift or (sp["engine"] != "trainer" and sp["of"] != "trl0.18")
            if scores: batch["old_per_token_logps"] = self.ask(self.own.model, batch)
            if sp["of"].startswith("trl") and scores:
                sampled = torch.zeros_like(batch["old_per_token_logps"])
                batch["importance_sampling_ratio"] = torch.exp(batch["old_per_token_logps"] - sampled)
            if sp["beta"] != 0.0 and sp["of"] != "trl0.18":
                if reference is not None: batch["ref_per_token_logps"] = self.ask(reference, batch)
                else:
                    with self.own.model.disable_adapter(): batch["ref_per_token_logps"] = self.ask(self.own.model, batch)
        items = batch["completion_mask"].sum()
        parts = {k: v.chunk(gas) for k, v in batch.items()}
        nothing = dict(old_per_token_logps=None) if sp["of"] == "trl0.18" else {}
        return [{**nothing, **{k: v[i] for k, v in parts.items()}, "num_items_in_batch": items} for i in range(gas)]

    def loss(self, model, inputs):
        if not self.is_swift: return self.own._compute_loss(model, inputs)
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        batch = Self(logits_to_keep=self.sp["c"], **inputs)
        return self.own._compute_loss_and_metrics(model, dict(input_ids=ids, attention_mask=mask), batch)[0]


def case(sp):
    row = R.case(sp, Release)
    row["options"].update(fused_head=False, trainer=sp["of"].replace("trl", "trl@").replace("swift", "swift@"))
    # What the trainer's defaults would fill.
    row["options"].update(reentrant=False, lora_dropout=0.0 if sp.get("lora") else None)
    row["options"]["autocast"] = True if sp.get("framework", "single") == "single" and sp.get("precision") != "amp" else None
    return row


def specs():
    """Chosen before anything was compared."""
    Q05, Q15, L1, L8 = "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Llama-3.2-1B", "Llama-3-8B"
    rows = []

    def add(of, model, fw, zero=None, gpus=1, b=1, s=1024, c=512, **more):
        sp = dict(of=of, model=model, framework=fw, zero=zero, gpus=gpus, b=b, s=s, c=c, fused=False, **more)
        name = "|".join([of, model, fw if fw != "deepspeed" else f"z{zero}", f"n{gpus}", f"b{b}s{s}c{c}"] + [f"{k}={v}" for k, v in more.items()])
        rows.append({**sp, "id": "grpo|" + name})

    DS, A = "deepspeed", dict(precision="amp", ckpt=True)
    for of in OF:
        add(of, Q05, "single", b=2, **A)
        add(of, Q05, "single", b=8, c=256, **A, engine="trainer")
        add(of, L1, "single", b=4, lora=True, ckpt=True, beta=0.04)
        add(of, Q15, "fsdp", None, 4, b=2, **A)
    add("trl0.18", Q05, "single", b=2, precision="amp", engine="trainer")
    add("trl0.18", Q05, "single", b=4, **A, beta=0.04)
    add("trl0.18", Q15, DS, 2, 4, b=4, s=1536, c=1024, ckpt=True)
    add("trl0.18", Q15, DS, 3, 4, b=2, ckpt=True)
    add("trl0.18", L8, DS, 3, 8, b=2, s=2048, c=1024, ckpt=True, beta=0.04)
    add("trl0.18", L8, "single", b=2, s=2048, c=1024, lora=True, ckpt=True, engine="trainer")
    add("trl0.29", Q05, "single", b=2, s=2048, c=1792, gas=4, ckpt=True)  # 16-bit weights under autocast
    add("trl0.29", Q15, "fsdp", None, 4, b=2, **A, beta=0.04)
    add("trl1.8", Q15, DS, 2, 4, b=2, ckpt=True)
    add("swift4.6", Q05, "single", b=4, ckpt=True, beta=0.04)  # 16-bit weights under autocast
    add("swift4.6", Q15, "single", b=1, s=2048, c=1536, ckpt=True, lora=True, gas=2)
    add("swift4.6", Q15, DS, 2, 4, b=2, ckpt=True, beta=0.04)
    add("swift4.6", L1, DS, 2, 4, b=4, c=768, ckpt=True, gas=2)
    add("swift4.6", Q15, DS, 3, 4, b=2, ckpt=True)
    add("swift4.6", L8, DS, 3, 8, b=1, s=4096, c=3072, ckpt=True, gas=2, beta=0.04)
    add("swift4.6", L8, DS, 2, 8, b=1, s=2048, c=1024, ckpt=True, lora=True, beta=0.04, engine="trainer")
    return rows


if __name__ == "__main__": record(specs(), case)

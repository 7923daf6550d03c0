"""Real PyTorch runs that end out of memory on the null GPU, each for a known cause. usage: STEP=FOLDER run.sh oom_runs.py OUT.json [ID...]
CASES: what ran (`ran`), what its owner believes to have run (`options` of zplan), the cause that tells the two apart, and the
memory of the device. A record holds the message as PyTorch prints it."""

import json
import os
import random
import sys
import tempfile
import traceback

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.environ["STEP"]]  # the folder of ds_step.py
import accelerate
import deepspeed
import ds_step
import peft
import torch
import transformers
from transformers import AutoModelForCausalLM
from models import make_config

G = 1 << 30
MiB = 1 << 20
CONTEXT = 458 * MiB


def evaluate(sp):
    """The Hugging Face Trainer: a step of training, then evaluate()."""
    from torch.utils.data import Dataset
    from transformers import Trainer, TrainingArguments

    class Rows(Dataset):
        def __len__(s):
            return sp.get("samples", 64)

        def __getitem__(s, i):
            x = torch.zeros(sp["s"], dtype=torch.long)
            return {"input_ids": x, "labels": x}

    cfg = make_config(sp["model"])
    with torch.device("cuda"):
        m = AutoModelForCausalLM.from_config(cfg, attn_implementation="sdpa", dtype=torch.bfloat16)
    if sp.get("lora"):
        with torch.device("cuda"):
            m = ds_step.add_lora(m, sp)
    a = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=sp["b"],
        max_steps=2,
        bf16=bool(sp.get("bf16")),
        gradient_checkpointing=bool(sp.get("ckpt")),
        gradient_checkpointing_kwargs={"use_reentrant": False},
        report_to=[],
        save_strategy="no",
        eval_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        optim="adamw_torch_fused",
        dataloader_num_workers=0,
        **({"per_device_eval_batch_size": sp["eval_batch"]} if "eval_batch" in sp else {}),
    )
    accelerate.Accelerator.pad_across_processes = lambda self, tensor, **k: tensor  # sizes are read back from the device, garbage here
    t = Trainer(model=m, args=a, train_dataset=Rows(), eval_dataset=Rows(), compute_metrics=(lambda p: {}) if sp.get("metrics") else None)
    t.train()
    t.evaluate()


def varied(sp):
    """Steps over batches of random lengths, which leave blocks of many sizes in the allocator's cache."""
    ds_step.watchdog()
    random.seed(sp.get("seed", 0))
    cfg = make_config(sp["model"])
    with torch.device("cuda"):
        m = AutoModelForCausalLM.from_config(cfg, attn_implementation="sdpa", dtype=torch.bfloat16)
    if sp.get("lora"):
        with torch.device("cuda"):
            m = ds_step.add_lora(m, sp)
    m.train()
    m.config.use_cache = False
    if sp.get("ckpt"):
        m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    o = ds_step.torch_opt([p for p in m.parameters() if p.requires_grad], "torch_fused")
    for _i in range(sp["batches"]):
        n = random.randint(*sp["lengths"])
        ids = torch.zeros(sp["b"], n, dtype=torch.long, device="cuda")
        m(input_ids=ids, labels=ids).loss.backward()
        o.step()
        o.zero_grad(set_to_none=True)


def run(ran):
    kind = ran["kind"]
    sp = {k: v for k, v in ran.items() if k != "kind"}
    if kind == "step":
        ds_step.case(dict(id="case", steps=2, optimizer="torch_fused", **sp))
    elif kind == "evaluate":
        evaluate(sp)
    else:
        varied(sp)


def attempt(ran, cap, taken, others, nvml, env=None):
    if env is None:
        env = {}
    env = env if nvml else dict(env, NULLNVML_OFF="1")
    """runs a case in a child; what it printed at its end, and the most that was reserved"""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        os.environ.update(
            NULLCUDA_MEM=str(cap),
            NULLCUDA_TAKEN=str(taken + sum(others.values())),
            NULLNVML_OTHERS=",".join(f"{p}:{b}" for p, b in others.items()),
            **env,
        )
        res = {}
        try:
            dn = os.open(os.devnull, os.O_WRONLY)
            os.dup2(dn, 1)
            os.dup2(dn, 2)
            run(ran)
            res = {"ok": True}
        except torch.OutOfMemoryError as e:
            res = {"ok": False, "message": str(e), "type": "torch.OutOfMemoryError", "where": traceback.format_exc().splitlines()[-8:]}
        except BaseException:
            res = {"ok": False, "error": traceback.format_exc()[-1500:]}
        try:
            s = torch.cuda.memory_stats()
            res.update(reserved_peak=s["reserved_bytes.all.peak"], allocated_peak=s["allocated_bytes.all.peak"])
        except Exception:
            pass
        with os.fdopen(w, "w") as f:
            json.dump(res, f)
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        s = f.read()
    os.waitpid(pid, 0)
    return json.loads(s) if s else {"ok": False, "error": "no answer"}


from cases import CASES


def main():
    out = sys.argv[1]
    want = set(sys.argv[2:])
    done = {}
    if os.path.exists(out):
        with open(out) as file:
            done = json.load(file)
    for c in CASES:
        if (want and c["id"] not in want) or (not want and c["id"] in done):
            continue
        cap = c["memory"] * MiB if c.get("memory") else None
        free = None if cap and not os.environ.get("PEAKS") else attempt(c["ran"], 4 << 40, 0, {}, True)
        if not cap or os.environ.get("PEAKS"):
            print(c["id"], {k: (round(v / G, 2) if isinstance(v, int) and not isinstance(v, bool) else v) for k, v in free.items()}, flush=True)
            if not cap:
                continue
        others = {int(p): b * MiB for p, b in c.get("others", {}).items()}
        a = attempt(c["ran"], cap, CONTEXT, others, c.get("nvml", True))
        print(c["id"], a.get("message", a) if not a.get("ok") else "RUNS", flush=True)
        if "message" in a:
            done[c["id"]] = {
                "id": c["id"],
                "cause": c["cause"],
                "model": c["model"],
                "options": c["options"],
                "ran": c["ran"],
                "memory_mib": c["memory"],
                "others_mib": c.get("others", {}),
                "message": a["message"],
                "allocated_peak": a["allocated_peak"],
                "where": [line.strip() for line in a["where"] if "File" in line][-1:],
            }
        with open(out, "w") as file:
            json.dump(done, file, indent=1)
    print("versions", torch.__version__, transformers.__version__, deepspeed.__version__, peft.__version__, accelerate.__version__)


main()

"""Records steps that train some layers of a model, all else frozen, on the stand-in for a GPU.

usage: record.py OUT.json, with the stand-in preloaded and the helpers that recorded ../steps (ds_step) importable.
"""
import json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from ds_step import Phases, make_config, torch
from transformers import AutoModelForCausalLM, masking_utils


def peak(sp):
    masking_utils._ignore_causal_mask_sdpa = lambda *a, **k: True
    torch.manual_seed(0)
    with torch.device("cuda"): m = AutoModelForCausalLM.from_config(make_config(sp["model"]), attn_implementation="sdpa", dtype=torch.bfloat16)
    m.config.use_cache = False
    for name, p in m.named_parameters():
        p.requires_grad_(any(f".layers.{i}." in name for i in sp["layers"]))
        if p.requires_grad and sp["wide"]: p.data = p.data.float()  # LLaMA-Factory's cast_trainable_params_to_fp32
    if sp["checkpointing"] == "full": m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    m.train()
    opt = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-5, fused=True)
    for _ in range(3):
        ph = Phases()
        ids = torch.ones(sp["b"], sp["s"], dtype=torch.long, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16): loss = m(input_ids=ids, labels=ids).loss
        loss.backward()
        del loss
        opt.step(); opt.zero_grad(set_to_none=True)
        ph.mark("step")
    return ph.d["step"]["peak_allocated"]


SPECS = [dict(model="Qwen2.5-0.5B", b=2, s=1024, layers=layers, checkpointing=checkpointing, wide=wide)
         for layers, checkpointing, wide in (([22, 23], "full", False), ([22, 23], "none", False), ([0, 1], "full", False), ([22, 23], "full", True),
                                             ([5, 11, 17, 23], "full", True), ([5, 11, 17, 23], "none", True))]

if __name__ == "__main__":
    torch.cuda.init()
    rows = []
    for spec in SPECS:
        torch.cuda.empty_cache()
        rows.append({**spec, "peak_allocated": peak(spec)})
        print(rows[-1], flush=True)
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")

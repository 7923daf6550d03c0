"""Records steps of generalized knowledge distillation on the stand-in for a GPU: the losses of TRL's and ms-swift's GKD trainers over given
answers, under accelerate's wrappers, by phase.

usage: record.py OUT.jsonl [part of an id], with the stand-in preloaded, the helpers that recorded ../steps (ds_step) importable, and in SOURCES a
folder with the unpacked trl-1.16.0 and ms_swift-4.6.0. Rows that OUT has already are left out; each runs in a process of its own.
"""
import ast, copy, gc, json, os, sys
from types import MethodType

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from recording import record
import ds_step as D
from ds_step import FakeStore, LINEAR, Phases, cur, deepspeed, ds_config, dscomm, make_config, peft, td, torch, torch_opt
from transformers import AutoModelForCausalLM, masking_utils
import accelerate.utils as au
from types import SimpleNamespace

BETA = dict(mixture=0.5, forward=0.0, reverse=1.0)
LABELS = {}  # how many tokens have labels: read back from the device, where values are garbage


def picked(x, mask):
    indices = torch.empty((LABELS["tokens"], 2), dtype=torch.long, device=x.device)
    return x[indices[:, 0], indices[:, 1]]


def source_of(path):
    return open(os.path.join(os.environ["SOURCES"], path)).read()


def with_given_labels(source, *replaced):
    """The source with boolean masks replaced by indices of as many tokens as have labels."""
    for old, new in replaced:
        assert old in source, old
        source = source.replace(old, new)
    return source


def of_release(path, name):
    """A function of a class of a file, by itself."""
    tree = ast.parse(source_of(path))
    found = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name)
    found.decorator_list = []
    return ast.unparse(found)


SPACE = dict(torch=torch, F=torch.nn.functional, picked=picked)
exec(with_given_labels(of_release("trl-1.16.0/trl/experimental/gkd/gkd_trainer.py", "generalized_jsd_loss"), ("jsd[mask]", "picked(jsd, mask)")), SPACE)


def swift():
    source = with_given_labels(source_of("ms_swift-4.6.0/swift/rlhf_trainers/gkd_loss.py"), ("student_logits[s_mask]", "picked(student_logits, s_mask)"),
                               ("self.full_logits[mask]", "picked(self.full_logits, mask)"),
                               ("assert s_mask.sum() == t_mask.sum()", "assert (s_mask.sum() == t_mask.sum()) is not None"))
    space = dict(picked=picked, __name__="gkd_loss")
    sys.modules["gkd_loss"] = SimpleNamespace(__dict__=space)
    exec(source, space)
    return SimpleNamespace(**space)


def of_trl(model, teacher, inputs, beta):
    """GKDTrainer.compute_loss."""
    student_outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    with torch.no_grad():
        teacher_outputs = teacher(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    loss = SPACE["generalized_jsd_loss"](student_logits=student_outputs.logits[:, :-1, :], teacher_logits=teacher_outputs.logits[:, :-1, :],
                                labels=inputs["labels"][:, 1:], beta=beta, num_items_in_batch=inputs["items"])
    torch.cuda.empty_cache()
    return loss


def of_swift(module):
    def loss_of(model, teacher, inputs, beta):
        """GKDTrainer.compute_loss, _compute_jsd_loss."""
        given = {k: inputs[k] for k in ("input_ids", "attention_mask")}
        outputs_student = model(**given)
        with torch.no_grad():
            outputs_teacher = teacher(**given)
        out = module.TeacherOutput(full_logits=outputs_teacher.logits, labels=inputs["labels"])
        labels = torch.roll(inputs["labels"], shifts=-1, dims=1)
        out.labels = torch.roll(out.labels, shifts=-1, dims=1)
        total, num_valid = module.gkd_loss(outputs_student.logits, out, labels, beta, 0.9)
        return total / num_valid

    return loss_of


def prepare(model):
    """accelerate's prepare_model where it does not leave mixed precision to DeepSpeed."""
    own = model.forward.__func__
    model.forward = MethodType(torch.autocast("cuda", dtype=torch.bfloat16)(own), model)
    model.forward = MethodType(au.convert_outputs_to_fp32(model.forward.__func__), model)


def case(sp):
    D.watchdog()
    fw, N, lora, gas = sp["framework"], sp["gpus"], sp.get("lora", False), sp.get("gas", 1)
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(N), LOCAL_SIZE=str(N), MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
    torch.manual_seed(0); torch.set_num_threads(1); torch.cuda.init(); torch.cuda.set_device(0)
    if fw != "single": td.init_process_group(backend="fake", rank=0, world_size=N, store=FakeStore())
    masking_utils._ignore_causal_mask_sdpa = lambda *a, **k: True
    is_trl, amp, z3 = sp["of"].startswith("trl"), sp.get("precision") == "amp", fw == "deepspeed" and sp["zero"] == 3
    LABELS["tokens"] = sp["b"] * (sp["s"] - 1 if is_trl else sp["s"])
    row = dict(id=sp["id"], model=sp["model"])
    row["options"] = dict(framework=fw, gpus=N, zero=sp["zero"], tensor_parallel=1, method="gkd", trained="lora" if lora else "full",
        lora_rank=16 if lora else None, lora_targets=LINEAR if lora else None, adapter_dtype="fp32" if lora else None, lora_dropout=0.0 if lora else None,
        optimizer="torch_fused", precision=("bf16 compute, fp32 shards" if fw == "fsdp" else "amp") if amp else "bf16", micro_batch=sp["b"], grad_accum=gas,
        seq=sp["s"], checkpointing="full" if sp.get("ckpt") else "none", attention="flash", loss="gkd", divergence=sp["divergence"], rank=0, clip=1.0,
        trainer=sp["of"], reentrant=False, autocast=True if fw == "single" and not amp else None)
    dsc = eng = teng = None
    configs = [make_config(sp["model"]), make_config(sp["teacher"])]
    if fw == "deepspeed":
        dsc = ds_config({**sp, "gas": gas}, configs[0].hidden_size); row["ds_config"] = copy.deepcopy(dsc)
        if dscomm.cdb is None: deepspeed.init_distributed(dist_backend="fake", verbose=False)
    if z3:
        from transformers.integrations import HfDeepSpeedConfig
        alive = HfDeepSpeedConfig(copy.deepcopy(dsc))

    def make(cfg, dtype):
        kw = dict(attn_implementation="sdpa", dtype=dtype)
        if z3:
            with deepspeed.zero.Init(config_dict_or_path=copy.deepcopy(dsc), dtype=torch.bfloat16): return AutoModelForCausalLM.from_config(cfg, **kw)
        with torch.device("cuda"): return AutoModelForCausalLM.from_config(cfg, **kw)

    def config_of(model):
        c = json.loads(model.config.to_json_string(use_diff=False)); c["architectures"] = [type(model).__name__]
        return c

    num = lambda p: getattr(p, "ds_numel", p.numel())
    m = make(configs[0], torch.float32 if amp else torch.bfloat16)
    row["parameters"] = sum(num(p) for p in m.parameters()); row["config"] = config_of(m)
    m.config.use_cache = False
    if sp.get("ckpt"): m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if lora:
        lc = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=LINEAR, task_type="CAUSAL_LM")
        with torch.device("cuda"): m = peft.get_peft_model(m, lc)
    m.train()
    params = [p for p in m.parameters() if p.requires_grad]; row["trainable"] = sum(num(p) for p in params)

    def make_teacher():
        t = make(configs[1], torch.bfloat16); t.eval(); t.requires_grad_(False); t.config.use_cache = False
        row["teacher_config"] = config_of(t)
        if fw != "deepspeed": prepare(t)
        return t

    if fw != "deepspeed": prepare(m)
    teacher = make_teacher() if fw != "fsdp" else None
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
        rc = copy.deepcopy(dsc)
        if not z3: rc["zero_optimization"] = dict(stage=0)
        row["ds_config_reference"] = copy.deepcopy(rc)
        teng, *_ = deepspeed.initialize(model=teacher, config=rc, dist_init_required=False); teng.eval()
    elif fw == "fsdp":
        params = None
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if amp else MixedPrecisionPolicy()
        how = dict(mesh=init_device_mesh("cuda", (N,)), mp_policy=mp, reshard_after_forward=True)
        row["options"].update(reshard_after_forward=True, reduce="fp32" if amp else "bf16")

        def shard(model, own):
            for layer in own.model.layers: fully_shard(layer, **how)
            fully_shard(model, **how)

        shard(m, inner)
        teacher = make_teacher()  # when the student is sharded already
        if not is_trl: shard(teacher, teacher)  # TRL's prepare_model(evaluation_mode=True) shards nothing
        opt = torch_opt([p for p in m.parameters() if p.requires_grad], "torch_fused")
    else: opt = torch_opt(params, "torch_fused")
    gc.collect()
    loss_of, beta = of_trl if is_trl else of_swift(swift()), BETA[sp["divergence"]]
    x, t, measured = eng or m, teng or teacher, {}
    for step in range(1, 4):
        before = cur(); ph = Phases(); cell["ph"] = ph
        for micro in range(gas):
            ph.micro = micro + 1
            ids = torch.ones(sp["b"], sp["s"], dtype=torch.long, device="cuda")
            inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids.clone(), items=torch.ones((), dtype=torch.long, device="cuda"))
            loss = loss_of(x, t, inputs, beta); ph.mark("loss")
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
    """Chosen before anything was compared."""
    Q05, Q15, Q7, L1, L8 = "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Qwen2.5-7B", "Llama-3.2-1B", "Llama-3-8B"
    rows = []

    def add(of, model, teacher, fw, zero=None, gpus=1, b=1, s=1024, divergence="mixture", **more):
        sp = dict(of=of, model=model, teacher=teacher, framework=fw, zero=zero, gpus=gpus, b=b, s=s, divergence=divergence, **more)
        name = "|".join([of, model, teacher, fw if fw != "deepspeed" else f"z{zero}", f"n{gpus}", f"b{b}s{s}", divergence] + [f"{k}={v}" for k, v in more.items()])
        rows.append({**sp, "id": "gkd|" + name})

    DS = "deepspeed"
    for of in ("trl@1.16", "swift@4.6"):
        for divergence in BETA: add(of, Q05, Q15, "single", b=2, divergence=divergence, ckpt=True)
        add(of, Q05, Q15, "single", b=2, s=512, precision="amp", ckpt=True)
        add(of, Q05, Q15, "single", b=4, s=512)
        add(of, L1, L8, "single", b=2, lora=True, ckpt=True)
        add(of, Q05, Q15, DS, 2, 4, b=2, ckpt=True)
        add(of, L1, L8, DS, 2, 4, b=1, ckpt=True, gas=2)
        add(of, Q05, Q15, DS, 3, 4, b=2, ckpt=True)
        add(of, L1, L8, DS, 3, 8, b=2, s=2048, divergence="forward", ckpt=True)
        add(of, L1, L8, DS, 3, 8, b=1, s=1024, divergence="reverse", ckpt=True, gas=2)
        add(of, Q05, Q15, "fsdp", None, 4, b=2, precision="amp", ckpt=True)
        add(of, L1, L8, "fsdp", None, 8, b=1, s=2048, precision="amp", ckpt=True)
    add("swift@4.6", Q05, Q7, DS, 3, 4, b=2, ckpt=True)  # vocabularies of different sizes
    add("swift@4.6", Q15, Q7, "single", b=1, ckpt=True, lora=True)
    return rows


if __name__ == "__main__": record(specs(), case)

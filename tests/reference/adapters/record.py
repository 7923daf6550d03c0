"""Records steps with several adapters on the stand-in for a GPU: what recorded ../methods, with peft's add_adapter.

usage: record.py OUT.jsonl [part of an id], with the stand-in preloaded and the helpers that recorded ../steps (ds_step) importable.
"""
import os, sys, json, time, gc, copy
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from recording import record
import ds_step as D
from ds_step import torch, td, peft, deepspeed, FakeStore, AutoModelForCausalLM, M, make_config, cur, Phases, attribute, stor, ds_config, dscomm, torch_opt, LINEAR
import torch.nn.functional as F
from transformers.initialization import no_init_weights
bnb=None
def tree(cfg): return json.loads(cfg.to_json_string(use_diff=False))
def quantise(m,cfg,storage,double,head):
    global bnb
    for name,mod in list(m.named_modules()):
        if type(mod) is not torch.nn.Linear or mod is head: continue
        par=m.get_submodule(name.rsplit(".",1)[0]); leaf=name.rsplit(".",1)[1]; b=mod.bias is not None
        w=torch.empty(mod.out_features,mod.in_features,dtype=torch.bfloat16,device="cuda")
        with torch.device("meta"): n=bnb.nn.Linear4bit(mod.in_features,mod.out_features,b,torch.bfloat16,compress_statistics=double,quant_type="nf4",quant_storage=storage)
        n.weight=bnb.nn.Params4bit(w,requires_grad=False,compress_statistics=double,quant_type="nf4",quant_storage=storage,module=n)._quantize(w.device)
        if b: n.bias=torch.nn.Parameter(torch.empty(mod.out_features,dtype=torch.bfloat16,device="cuda"),requires_grad=False)
        n.requires_grad_(False); setattr(par,leaf,n); del w
def build_q(cfg,sp):
    with torch.device("meta"): m=AutoModelForCausalLM.from_config(cfg,attn_implementation="sdpa",dtype=torch.bfloat16)
    P=sum(p.numel() for p in m.parameters())
    quantise(m,cfg,{"bf16":torch.bfloat16,"uint8":torch.uint8}[sp.get("storage","bf16")],sp.get("double",False),m.get_output_embeddings())
    rest={}
    for name,p in list(m.named_parameters(remove_duplicate=False)):
        if p.device.type!="meta": continue
        if id(p) not in rest: rest[id(p)]=(p,torch.nn.Parameter(torch.empty(p.shape,dtype=p.dtype,device="cuda"),requires_grad=False))
        a,b=name.rsplit(".",1); setattr(m.get_submodule(a),b,rest[id(p)][1])
    r=m.model.rotary_emb
    with torch.device("cuda"): m.model.rotary_emb=type(r)(m.config)
    m.is_loaded_in_4bit=True; m.is_quantized=True
    return m,P
def logp(logits,ids):
    """sum log-probability of the labels, as TRL's selective_log_softmax on bf16 logits (row by row) [dpo_loss=trl]"""
    out=[]
    for lg,lb in zip(logits[:,:-1],ids[:,1:]): out.append(F.log_softmax(lg,dim=-1).gather(-1,lb.unsqueeze(-1)).squeeze(-1))
    return torch.stack(out).sum(-1)
from contextlib import contextmanager
@contextmanager
def use_adapter(model,name):
    """as TRL 1.16 trainer/utils.py use_adapter, written out"""
    previous=model.active_adapter; model.set_adapter(name)
    try: yield
    finally: model.set_adapter(previous)
def case(sp):
    global bnb
    D.watchdog(); fw=sp.get("framework","single"); N=sp.get("gpus",1); t0=time.time(); kind=sp["kind"]; q=kind=="qlora"; lora=kind in("lora_mts","dora","lora","qlora","dpo_lora","dpo_ref"); dpo=kind.startswith("dpo")
    os.environ.update(RANK="0",LOCAL_RANK="0",WORLD_SIZE=str(N),LOCAL_SIZE=str(N),MASTER_ADDR="127.0.0.1",MASTER_PORT="29999")
    torch.manual_seed(0); torch.set_num_threads(1); torch.cuda.init(); torch.cuda.set_device(0)
    if q:
        import bitsandbytes; bnb=bitsandbytes
    if fw!="single": td.init_process_group(backend="fake",rank=0,world_size=N,store=FakeStore())
    cfg=make_config(sp["model"]); h=cfg.hidden_size; opt_kind=sp.get("optimizer","torch_fused"); remarks=[]
    row=dict(id=sp["id"],model=sp["model"])
    mts=["embed_tokens","lm_head"] if kind=="lora_mts" else None
    row["options"]=dict(framework=fw,gpus=N,zero=sp.get("zero"),tensor_parallel=1,method={"lora_mts":"lora","dora":"dora","lora":"lora","qlora":"qlora","dpo":"dpo","dpo_lora":"dpo","dpo_ref":"dpo"}[kind],trained="lora" if lora else "full",lora_rank=sp.get("lora_rank",16) if lora else None,lora_targets=LINEAR if lora else None,
        modules_to_save=mts,use_dora=kind=="dora",adapter_dtype=sp.get("adapter_dtype","fp32") if lora else None,optimizer=opt_kind,precision="bf16",micro_batch=sp["b"],sequences_per_step=2*sp["b"] if dpo else sp["b"],reference_model=("frozen bf16 copy" if kind=="dpo" else "adapter" if kind=="dpo_ref" else None),adapters=sp.get("adapters",2 if kind=="dpo_ref" else 1),
        grad_accum=1,seq=sp["s"],checkpointing="full" if sp.get("ckpt") else "none",attention="flash",loss="dpo" if dpo else "full",offload=None,rank=0,buckets="default",overlap_comm=None,clip=1.0,quantization=("nf4-double" if sp.get("double") else "nf4") if q else None,quant_storage=sp.get("storage","bf16") if q else None)
    dsc=None; eng=None; reng=None; ref=None; z3=fw=="deepspeed" and sp["zero"]==3
    if fw=="deepspeed":
        dsc=ds_config(sp,h); row["ds_config"]=copy.deepcopy(dsc)
        if dscomm.cdb is None: deepspeed.init_distributed(dist_backend="fake",verbose=False)
    num=lambda p: getattr(p,"ds_numel",p.numel())
    kw=dict(attn_implementation="sdpa",dtype=torch.bfloat16)
    def make():
        if z3:
            with deepspeed.zero.Init(config_dict_or_path=copy.deepcopy(dsc),dtype=torch.bfloat16): return AutoModelForCausalLM.from_config(cfg,**kw)
        with torch.device("cuda"): return AutoModelForCausalLM.from_config(cfg,**kw)
    torch.cuda.reset_peak_memory_stats()
    if q: m,P=build_q(cfg,sp); remarks.append("quantised before partitioning (every rank loads the whole NF4 model), as transformers does without zero.Init for quantised models")
    else: m=make(); P=sum(num(p) for p in m.parameters())
    c=tree(m.config); c["architectures"]=[type(m).__name__]; row["config"]=c; row["parameters"]=P
    m.train(); m.config.use_cache=False
    if z3 and lora and not q:
        from transformers.integrations import HfDeepSpeedConfig
        hfds=HfDeepSpeedConfig(copy.deepcopy(dsc))      # as under the HF Trainer: peft gathers partitioned weights (modules_to_save copies, DoRA norms)
    if q: row["quant_state_bytes"]=sum(stor([t for mod in m.modules() if isinstance(mod,bnb.nn.Linear4bit) for t in ((mod.weight.quant_state.absmax,mod.weight.quant_state.code)+((mod.weight.quant_state.offset,mod.weight.quant_state.state2.absmax,mod.weight.quant_state.state2.code) if mod.weight.quant_state.nested else ()))]).values())
    if sp.get("ckpt"): m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant":False})
    if lora:
        lc=peft.LoraConfig(r=sp.get("lora_rank",16),lora_alpha=32,lora_dropout=0.0,target_modules=LINEAR,task_type="CAUSAL_LM",use_dora=kind=="dora",modules_to_save=mts,**({"ensure_weight_tying":True} if sp.get("ensure_tied") else {}))
        with torch.device("cuda"): m=peft.get_peft_model(m,lc,autocast_adapter_dtype=sp.get("adapter_dtype","fp32")=="fp32")
        with torch.device("cuda"):
            for i in range(1,row["options"]["adapters"]):
                name="ref" if kind=="dpo_ref" and i==1 else f"other{i}"
                m.add_adapter(name,copy.deepcopy(lc),autocast_adapter_dtype=sp.get("adapter_dtype","fp32")=="fp32")
        assert m.active_adapter=="default"; row["trained_adapters"]=sorted({n.split("lora_")[1].split(".")[1] for n,p in m.named_parameters() if p.requires_grad and "lora_" in n})
        assert row["trained_adapters"]==["default"],row["trained_adapters"]
    m.train(); params=[p for p in m.parameters() if p.requires_grad]; row["trainable"]=sum(num(p) for p in params)
    row["trainable_dtypes"]={}
    for p in params: row["trainable_dtypes"][str(p.dtype)]=row["trainable_dtypes"].get(str(p.dtype),0)+num(p)
    head=m.get_output_embeddings(); 
    if lora: head=m.get_base_model().get_output_embeddings() or m.get_base_model().lm_head
    cell={}
    def pre(mod,inp):
        if cell.get("ph") is not None:
            cell["ph"].mark("forward")
            if inp[0].requires_grad and torch.is_grad_enabled(): inp[0].register_hook(lambda g: (cell["ph"].mark("loss_backward"),None)[1])
    if fw!="fsdp": head.register_forward_pre_hook(pre)
    if kind=="dpo":
        ref=make(); ref.eval(); ref.requires_grad_(False); ref.config.use_cache=False
    init0=cur(); torch.cuda.reset_peak_memory_stats()
    if fw=="deepspeed":
        opt=torch_opt(params,opt_kind)
        eng,_,_,_=deepspeed.initialize(model=m,model_parameters=params,optimizer=opt,config=copy.deepcopy(dsc),dist_init_required=False); opt=eng.optimizer
        row["optimizer_class"]=type(opt).__name__+" / "+type(getattr(opt,"optimizer",opt)).__name__
        if ref is not None:
            rc=copy.deepcopy(dsc)
            if not z3: rc["zero_optimization"]=dict(stage=0)
            if z3:                                                      # as TRL's prepare_deepspeed does for a reference model
                rc["zero_optimization"].update({"reduce_bucket_size":h*h,"stage3_param_persistence_threshold":10*h,"stage3_prefetch_bucket_size":0})
            row["ds_config_reference"]=copy.deepcopy(rc); reng,*_=deepspeed.initialize(model=ref,config=rc,dist_init_required=False); reng.eval()
    elif fw=="fsdp":
        params=None
        from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
        from torch.distributed.device_mesh import init_device_mesh
        mesh=init_device_mesh("cuda",(N,)); inner=m.get_base_model() if lora else m
        for l in inner.model.layers: fully_shard(l,mesh=mesh)
        fully_shard(m,mesh=mesh); head.register_forward_pre_hook(pre); row["options"].update(reshard_after_forward=True)
        opt=torch_opt([p for p in m.parameters() if p.requires_grad],opt_kind)
    else: opt=torch_opt(params,opt_kind)
    gc.collect(); s=torch.cuda.memory_stats(); row["init"]=dict(before=init0,peak_allocated=s["allocated_bytes.all.peak"],peak_reserved=s["reserved_bytes.all.peak"],after=cur())
    core=eng.module if eng else m; row["states_after_init"]=attribute(core,opt)
    if lora: row["adapter_dtype_after"]=str(next(p for n,p in core.named_parameters() if p.requires_grad and "lora_" in n).dtype)
    meas={}
    for st in range(1,4):
        before=cur(); ph=Phases(); cell["ph"]=ph; ph.micro=1; B=2*sp["b"] if dpo else sp["b"]
        ids=torch.zeros(B,sp["s"],dtype=torch.long,device="cuda"); x=eng or m
        if dpo:
            lg=x(input_ids=ids).logits; lp=logp(lg,ids); del lg; ph.mark("policy_loss")
            with torch.no_grad():
                hold=cell["ph"]; cell["ph"]=None
                if kind=="dpo": rl=(reng or ref)(input_ids=ids).logits
                elif kind=="dpo_ref":
                    with use_adapter(core,"ref"): rl=x(input_ids=ids).logits
                else:
                    pm=core
                    with pm.disable_adapter(): rl=x(input_ids=ids).logits
                cell["ph"]=hold
                rp=logp(rl,ids); del rl
            ph.mark("reference")
            d=lp-rp; b=sp["b"]; loss=-F.logsigmoid(0.1*(d[:b]-d[b:])).mean(); del lp,rp,d; ph.mark("loss")
        else: loss=x(input_ids=ids,labels=ids).loss; ph.mark("loss")
        if eng: eng.backward(loss)
        else: loss.backward()
        del loss; ph.mark("backward")
        row.setdefault("states_before_step",{})[str(st)]=attribute(core,opt)
        if eng: eng.step(); ph.mark("step")
        else:
            torch.nn.utils.clip_grad_norm_([p for p in m.parameters() if p.requires_grad],1.0); ph.mark("clip"); opt.step(); ph.mark("step"); opt.zero_grad(set_to_none=True)
        cell["ph"]=None; dd=ph.d; k=max(dd,key=lambda x:dd[x]["peak_allocated"])
        meas[str(st)]=dict(allocated_before=before["allocated"],requested_before=before["requested"],peak_allocated=dd[k]["peak_allocated"],peak_requested=max(v["peak_requested"] for v in dd.values()),peak_reserved=max(v["peak_reserved"] for v in dd.values()),peak_phase=k,end_allocated=cur()["allocated"],phases=dd)
    row["measured"]=meas; row["states"]=attribute(core,opt)
    if ref is not None: row["reference_bytes"]=sum(stor([getattr(p,"ds_tensor",None) if hasattr(p,"ds_tensor") else p.data for p in ref.parameters()]).values())
    if z3:
        ps=list(core.parameters()); row["zero3"]=dict(persistent=sum(p.ds_numel for p in ps if getattr(p,"ds_persist",False)),resident_after_step=sum(p.ds_numel for p in ps if str(p.ds_status).endswith(".AVAILABLE")))
    row["remarks"]="; ".join(remarks); row["seconds"]=round(time.time()-t0,1)
    return row
torch.cuda._is_in_bad_fork=lambda: False   # bitsandbytes asks the device at import; the stand-in survives a fork
def specs():
    Q05,Q15,L1,L8="Qwen2.5-0.5B","Qwen2.5-1.5B","Llama-3.2-1B","Llama-3-8B"; DS="deepspeed"; o=[]
    def S(kind,model,fw="single",zero=None,gpus=1,b=1,s=1024,ckpt=False,**k):
        name="|".join([kind,model,fw if fw!=DS else f"z{zero}",f"n{gpus}",f"b{b}s{s}"]+(["ckpt"] if ckpt else [])+[f"{a}={v}" for a,v in k.items()])
        o.append(dict(kind=kind,model=model,framework=fw,zero=zero,gpus=gpus,b=b,s=s,ckpt=ckpt,id=name,**k))
    S("lora",L1,b=2,adapters=3); S("lora",Q15,b=1,s=2048,ckpt=True,adapters=8); S("lora",L8,b=1,s=2048,ckpt=True,adapters=2,lora_rank=64); S("lora",Q05,b=1,adapters=4,adapter_dtype="bf16")
    S("qlora",L1,b=1,s=2048,ckpt=True,adapters=4,storage="uint8"); S("qlora",L8,b=1,s=1024,adapters=2,storage="uint8",double=True)
    S("lora",Q15,DS,2,4,s=2048,ckpt=True,adapters=4); S("lora",L1,DS,3,4,s=1024,adapters=4,adapter_dtype="bf16"); S("lora",L8,DS,3,8,s=2048,ckpt=True,adapters=3,lora_rank=64,adapter_dtype="bf16"); S("lora",Q15,"fsdp",None,4,s=1024,ckpt=True,adapters=3,adapter_dtype="bf16")
    S("dpo_ref",L1,b=1); S("dpo_ref",Q15,b=2,ckpt=True); S("dpo_ref",L8,b=1,s=2048,ckpt=True,lora_rank=64); S("dpo_ref",Q05,b=1,s=2048,adapters=4); S("dpo_ref",L1,DS,2,4,b=1,s=2048,ckpt=True)
    return o
record(specs(),case)

"""Records every allocation and free of one training step: python record.py CASE.json … fills in their "events".

The model of a case is built from its config on the GPU, two short steps warm up what PyTorch keeps (cuBLAS's
workspaces), and the allocator's own history of the next step is written down. Needs torch, transformers and, for
cases that ask for them, peft, bitsandbytes and DeepSpeed; a GPU or a stand-in for the CUDA runtime that runs no
kernels (see README.md). One case with `tensor_parallel` a run."""
import json, os, sys, warnings

import torch
import transformers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def launch_no_kernels():
    """Triton's functions allocate what they allocate; nothing is compiled or launched."""
    import triton
    from triton.runtime import autotuner, jit
    for each in (jit.JITFunction, autotuner.Autotuner, autotuner.Heuristics):
        each.run = lambda *_, **__: None

    class Device:
        utils = type("Utils", (), {"get_device_properties": lambda *_: {"max_shared_mem": 166912, "multiprocessor_count": 108}})()
        get_current_target = staticmethod(lambda: type("Target", (), {"backend": "cuda", "arch": 80, "warp_size": 32}))
        get_current_device = staticmethod(lambda: 0)
        get_active_torch_device = staticmethod(lambda: torch.device("cuda", 0))

    triton.runtime.driver.set_active(Device())


def packed(layer, kind):
    """A linear layer with its weight as bitsandbytes packs it."""
    import bitsandbytes
    sizes = layer.in_features, layer.out_features, layer.bias is not None
    if kind == "int8":
        made = bitsandbytes.nn.Linear8bitLt(*sizes, has_fp16_weights=False, threshold=6.0)
        made.weight = bitsandbytes.nn.Int8Params(layer.weight.data.cpu(), requires_grad=False, has_fp16_weights=False)
    else:
        nested = kind == "nf4-double"
        made = bitsandbytes.nn.Linear4bit(*sizes, torch.bfloat16, compress_statistics=nested, quant_type="nf4")
        made.weight = bitsandbytes.nn.Params4bit(layer.weight.data.cpu(), requires_grad=False,
                                                 compress_statistics=nested, quant_type="nf4", module=made)
    made.bias = layer.bias
    return made.to("cuda")


def quantise(model, case):
    """What transformers' loader and peft.prepare_model_for_kbit_training make of the model."""
    kind = case["quantization"]
    for name, layer in list(model.named_modules()):
        if type(layer) is torch.nn.Linear and layer is not model.get_output_embeddings():
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, packed(layer, kind))
    setattr(model, "is_loaded_in_8bit" if kind == "int8" else "is_loaded_in_4bit", True)
    model.requires_grad_(False)
    if case.get("prepares_kbit_training"):
        import peft
        peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)


def divide(model, ranks):
    """Rank 0's part of the model in a tensor-parallel group whose other ranks do not exist."""
    import deepspeed
    import deepspeed.sequence.cross_entropy as cross_entropy
    from torch.testing._internal.distributed.fake_pg import FakeStore
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(ranks), LOCAL_SIZE=str(ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
    torch.distributed.init_process_group(backend="fake", rank=0, world_size=ranks, store=FakeStore())
    deepspeed.init_distributed(dist_backend="fake", verbose=False)
    # Compares what other ranks sent: nothing arrived.
    cross_entropy._validate_vocab_shard_bounds = lambda *_: model.config.vocab_size
    model = deepspeed.tp_model_init(model, tp_size=ranks, dtype=torch.bfloat16)
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 0},
              "zero_allow_untested_optimizer": True, "tensor_parallel": {"autotp_size": ranks}}
    engine, *_ = deepspeed.initialize(model=model, config=config, dist_init_required=False,
                                      optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    return engine.module


def build(case):
    config = dict(case["config"])
    config = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    options = {}
    if config.model_type in ("qwen3_moe", "mixtral"):
        options["experts_implementation"] = case.get("experts", "grouped_mm")
    wide = case.get("fp32") or case.get("autocast") and "quantization" not in case
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=case["attention"],
            dtype=torch.float32 if wide else torch.bfloat16, **options)
        if "quantization" in case:
            quantise(model, case)
        if "lora" in case:
            import peft
            fused = {"gpt2": ["c_attn"], "gpt_neox": ["query_key_value"], "phi3": ["qkv_proj"]}
            targets = case["lora"] if case["lora"] == "all-linear" else fused.get(config.model_type, ["q_proj", "v_proj"])
            model = peft.get_peft_model(
                model, peft.LoraConfig(r=16, target_modules=targets, task_type="CAUSAL_LM",
                                       lora_dropout=case.get("lora_dropout", 0.0), use_dora=case.get("dora", False)),
                autocast_adapter_dtype=case.get("fp32_adapters", True))
    model.train()
    if "checkpointing" in case:
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": case["checkpointing"] == "reentrant"})
    if case.get("zero_stage") == 3:
        from deepspeed.runtime.zero.linear import zero3_linear_wrap
        torch.nn.functional.linear = zero3_linear_wrap
    return divide(model, case["tensor_parallel"]) if "tensor_parallel" in case else model


def step(model, case, ids, mask):
    given = {"attention_mask": mask} if mask is not None else {}
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bool(case.get("autocast"))):
        loss = model(input_ids=ids, labels=ids, use_cache=bool(case.get("keeps_cache")), **given).loss
    loss.backward()


def record(case):
    # Asks the device whether position ids restart: no, where they are not given. A stand-in has no answer.
    transformers.masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    model = build(case)
    for _ in range(2):
        step(model, case, torch.zeros(1, 8, dtype=torch.long, device="cuda"), None)
    model.zero_grad(set_to_none=True)
    ids = torch.zeros(case["batch"], case["sequence"], dtype=torch.long, device="cuda")
    mask = torch.ones_like(ids) if case.get("padding_mask") else None
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=4_000_000)
    step(model, case, ids, mask)
    history = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(None)
    live, events = {}, []
    for each in history:
        if each["action"] == "alloc":
            live[each["addr"]] = each["size"]
            events.append(each["size"])
        elif each["action"] == "free_requested" and each["addr"] in live:
            events.append(-live.pop(each["addr"]))
    return events


def write(path, case):
    """One field a line, sixteen events a line."""
    events = case.pop("events")
    fields = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items()]
    lines = [", ".join(map(str, events[i:i + 16])) for i in range(0, len(events), 16)]
    fields.append('  "events": [\n    ' + ",\n    ".join(lines) + "\n  ]")
    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(fields) + "\n}\n")


for path in sys.argv[1:]:
    with open(path) as file:
        case = json.load(file)
    if "kernels" in case:
        launch_no_kernels()
    case["events"] = record(case)
    print(path, len(case["events"]), "events")
    write(path, case)

"""Records what a host needs to issue training steps: python record.py OUT.json [CASE …]

Qwen2.5-1.5B with 4 and with 12 layers takes real steps of PyTorch, DeepSpeed and FSDP2; the difference of their times is that
of 8 layers. Times are the process's CPU time, in windows around each forward and each backward. Needs torch, transformers,
peft and DeepSpeed, and a stand-in for the CUDA runtime that runs no kernels (see README.md): the host then waits for nothing."""
import copy, json, logging, os, statistics, subprocess, sys, time, warnings

LAYERS = (4, 12)
BATCH, SEQUENCE, MICRO_STEPS, STEPS = 1, 256, 2, 12
SKIPPED = 3  # steps at first, in which ZeRO-3's trace is not complete and states are made
PROCESSES = 5

CASES = {
    "plain": dict(framework="torch"),
    "checkpointing": dict(framework="torch", checkpointing=True),
    "lora-checkpointing": dict(framework="torch", checkpointing=True, lora=True),
    "zero3-1gpu-checkpointing": dict(framework="deepspeed", stage=3, gpus=1, checkpointing=True),
    "zero3-4gpus-checkpointing": dict(framework="deepspeed", stage=3, gpus=4, checkpointing=True),
    "zero2-4gpus-checkpointing": dict(framework="deepspeed", stage=2, gpus=4, checkpointing=True),
    "fsdp2-4gpus": dict(framework="fsdp2", gpus=4),
}


def micro_steps(case, layers):
    """[(milliseconds of a forward, of its backward), …]"""
    warnings.filterwarnings("ignore")
    import torch
    import torch.distributed
    import transformers
    from torch.testing._internal.distributed.fake_pg import FakeStore

    transformers.logging.set_verbosity_error()
    # These read the device back, whose memory holds nothing.
    transformers.masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    ranks = case.get("gpus", 1)
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(ranks), LOCAL_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29999")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.cuda.set_device(0)
    config = transformers.Qwen2Config(
        hidden_size=1536, intermediate_size=8960, num_hidden_layers=layers, num_attention_heads=12, num_key_value_heads=2,
        vocab_size=151936, tie_word_embeddings=True, use_cache=False)

    def made():
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)

    if case["framework"] != "torch":
        torch.distributed.init_process_group(backend="fake", rank=0, world_size=ranks, store=FakeStore())
    if case["framework"] == "deepspeed":
        import deepspeed
        import deepspeed.comm
        import deepspeed.runtime.zero.parameter_offload  # noqa: F401
        import deepspeed.runtime.zero.stage3  # noqa: F401

        deepspeed.utils.logger.setLevel(logging.ERROR)
        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
        for name, module in list(sys.modules.items()):
            if name.startswith("deepspeed.runtime.zero") and hasattr(module, "assert_ints_same_as_other_ranks"):
                module.assert_ints_same_as_other_ranks = lambda *_: None
        settings = dict(train_micro_batch_size_per_gpu=BATCH, gradient_accumulation_steps=MICRO_STEPS,
                        zero_optimization=dict(stage=case["stage"]), gradient_clipping=1.0, bf16=dict(enabled=True),
                        zero_allow_untested_optimizer=True)
        deepspeed.init_distributed(dist_backend="fake", verbose=False)
    if case.get("stage") == 3:
        with deepspeed.zero.Init(config_dict_or_path=copy.deepcopy(settings), dtype=torch.bfloat16):
            model = made()
    else:
        with torch.device("cuda"):
            model = made()
    if case.get("lora"):
        import peft

        with torch.device("cuda"):
            model = peft.get_peft_model(model, peft.LoraConfig(
                r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"))
    model.train()
    if case.get("checkpointing"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if case["framework"] == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cuda", (ranks,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
    if case["framework"] == "deepspeed":
        model, *_ = deepspeed.initialize(model=model, model_parameters=trained, config=settings, optimizer=optimizer,
                                         dist_init_required=False)

    times = []
    for step in range(STEPS):
        for _ in range(MICRO_STEPS):
            ids = torch.zeros(BATCH, SEQUENCE, dtype=torch.long, device="cuda")
            marks = [time.process_time_ns()]
            loss = model(input_ids=ids, labels=ids).loss
            marks.append(time.process_time_ns())
            model.backward(loss) if case["framework"] == "deepspeed" else loss.backward()
            marks.append(time.process_time_ns())
            del loss
            if case["framework"] == "deepspeed":
                model.step()
            if step >= SKIPPED:
                times.append(((marks[1] - marks[0]) / 1e6, (marks[2] - marks[1]) / 1e6))
        if case["framework"] != "deepspeed":
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return times


def one_process(name, layers):
    lines = subprocess.run([sys.executable, __file__, "--one", name, str(layers)], check=True, capture_output=True, text=True)
    return json.loads(lines.stdout.splitlines()[-1])


def record(names):
    rows = []
    for name in names:
        medians = {layers: [] for layers in LAYERS}
        for _ in range(PROCESSES):  # by turns, so that both see the same neighbours
            for layers in LAYERS:
                times = one_process(name, layers)
                medians[layers].append([statistics.median(column) for column in zip(*times)])
        row = {"case": name, **CASES[name]}
        for i, phase in enumerate(("forward", "backward")):
            runs = {layers: [round(each[i], 3) for each in medians[layers]] for layers in LAYERS}
            row[phase] = {f"{layers}_layers_ms": runs[layers] for layers in LAYERS}
            row[phase]["per_layer_ms"] = round(
                (statistics.median(runs[LAYERS[1]]) - statistics.median(runs[LAYERS[0]])) / (LAYERS[1] - LAYERS[0]), 4)
            row[phase]["per_layer_ms_of_fastest"] = round(
                (min(runs[LAYERS[1]]) - min(runs[LAYERS[0]])) / (LAYERS[1] - LAYERS[0]), 4)
        print(name, row["forward"]["per_layer_ms"], row["backward"]["per_layer_ms"], file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def main():
    if sys.argv[1] == "--one":
        print(json.dumps(micro_steps(CASES[sys.argv[2]], int(sys.argv[3]))))
        return
    rows = record(sys.argv[2:] or list(CASES))
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


main()

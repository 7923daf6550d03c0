"""How long other planners take for a plan beside zplan, on one machine in one run; docs/performance.md shows a table made with it.

usage: compare_planners.py CALCULON LLM_ANALYSIS BINARIES

CALCULON and LLM_ANALYSIS are checkouts of the two programs (tests/reference/other_planners/README.md says which); numpy, pandas, psutil
and fire must be installed. BINARIES is the folder with zplan and plan_benchmark. All plan OPT-66B, which every one of them can describe,
on 512 GPUs of 80 GB, one plan after the other on one core: the programs unchanged, imported once, so that Python's start does not count.
Each has two seconds; what is told is the mean of its fastest fifth of them, since a machine is only ever slowed down."""

import json
import logging
import pathlib
import subprocess
import sys
import time

GPUS, SEQUENCE = 512, 2048
HIDDEN, LAYERS, HEADS, VOCABULARY = 9216, 64, 72, 50272
TENSOR_PARALLEL, MICRO_BATCHES, ACCUMULATIONS = (1, 2, 4, 8), range(1, 9), (1, 2, 4, 8)
SECONDS, PARTS = 2.0, 5
MODEL = ["--model", "facebook/opt-66b", "--seq", str(SEQUENCE), "--gpus", str(GPUS), "--nodes", str(GPUS // 8), "--gpu", "H100-SXM-80GB"]


def sweep():
    """Batches and degrees, again and again."""
    while True:
        for tensor_parallel in TENSOR_PARALLEL:
            for micro_batch in MICRO_BATCHES:
                for accumulation in ACCUMULATIONS:
                    yield tensor_parallel, micro_batch, accumulation


def calculon(folder):
    """Memory and time of one execution, as its own search asks for them; its optimizer sharding is what is nearest to ZeRO."""
    sys.path.insert(0, str(folder))
    import calculon
    from calculon.llm import Llm
    description = json.loads((folder / "systems" / "h100_80g_nvl8.json").read_text())
    for memory in ("mem1", "mem2"):  # What does not fit is to be worked out to its end, too.
        description[memory]["GiB"] = 10**9
    system = calculon.System(description)
    shape = {"hidden": HIDDEN, "feedforward": 4 * HIDDEN, "seq_size": SEQUENCE, "attn_heads": HEADS, "attn_size": HIDDEN // HEADS,
             "num_blocks": LAYERS}
    application, log = Llm.Application(shape), logging.getLogger("calculon")

    def plan(tensor_parallel, micro_batch, accumulation):
        ranks, model = GPUS // tensor_parallel, Llm(application, log)
        model.compile(system, Llm.Execution.from_json({
            "num_procs": GPUS, "tensor_par": tensor_parallel, "pipeline_par": 1, "data_par": ranks, "tensor_par_net": 0, "pipeline_par_net": 1,
            "data_par_net": 1, "batch_size": ranks * micro_batch * accumulation, "microbatch_size": micro_batch, "datatype": "float16",
            "fused_activation": True, "attention_type": "multihead", "activation_recompute": "full", "pipeline_interleaving": 1,
            "optimizer_sharding": True, "tensor_par_comm_type": "ar", "tensor_par_overlap": "none", "seq_par_ag_redo": False,
            "data_par_overlap": False, "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True}))
        model.run(system)
        return model.get_mem_tier1_cap_req(), model.get_total_time()

    return plan


def llm_analysis(folder):
    """Its `train`, at ZeRO-3."""
    sys.path.insert(0, str(folder))
    from llm_analysis import analysis, config
    config.model_configs["opt"] = config.ModelConfig(name="opt", num_layers=LAYERS, n_head=HEADS, hidden_dim=HIDDEN, vocab_size=VOCABULARY,
                                                     max_seq_len=SEQUENCE, num_key_value_heads=HEADS, ffn_embed_dim=4 * HIDDEN,
                                                     mlp_gated_linear_units=False)

    def plan(tensor_parallel, micro_batch, accumulation):
        return analysis.train(model_name="opt", gpu_name="h100-sxm-80gb", dtype_name="w16a16e16", log_level="ERROR",
                              batch_size_per_gpu=micro_batch, gradient_accumulation_steps=accumulation, seq_len=SEQUENCE,
                              activation_recomputation=4, ds_zero=3, dp_size=GPUS // tensor_parallel, tp_size=tensor_parallel, sp_size=1,
                              flash_attn=True)

    return plan


def seconds_per_plan(plan):
    """The mean of the fastest part."""
    best, wanted = float("inf"), sweep()
    for _ in range(PARTS):
        plans, begin = 0, time.perf_counter()
        while (spent := time.perf_counter() - begin) < SECONDS / PARTS:
            plan(*next(wanted))
            plans += 1
        best = min(best, spent / plans)
    return best


def zplan_benchmarks(binaries):
    """Of plan_benchmark: plans a second, by its name."""
    said = subprocess.run([binaries / "plan_benchmark", "--benchmark_filter=plans_of_a_sweep|one_more_plan/70B_on_512$",
                           "--benchmark_format=json", "--benchmark_min_time=2"], check=True, capture_output=True, text=True).stdout
    return {each["name"]: each["items_per_second"] for each in json.loads(said)["benchmarks"]}


def zplan_process(binaries):
    """The command for every legal strategy in full, on all cores: how many plans, and seconds of wall time with its start."""
    best = float("inf")
    for _ in range(10):
        begin = time.perf_counter()
        said = subprocess.run([binaries / "zplan", *MODEL, "--json"], check=False, capture_output=True, text=True).stdout
        best = min(best, time.perf_counter() - begin)
    return len(json.loads(said)["plans"]), best


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folders = [pathlib.Path(each).resolve() for each in sys.argv[1:]]
    for name, plan in (("Calculon", calculon(folders[0])), ("llm-analysis", llm_analysis(folders[1]))):
        seconds = seconds_per_plan(plan)
        print(f"{name}: {seconds * 1e3:.3f} ms a plan, {1 / seconds:,.0f} plans a second")
    for name, rate in zplan_benchmarks(folders[2]).items():
        print(f"zplan, {name}: {1e6 / rate:.2f} us a plan, {rate:,.0f} plans a second")
    plans, seconds = zplan_process(folders[2])
    print(f"zplan, the command: {plans} plans in full in {seconds * 1e3:.0f} ms")


main()

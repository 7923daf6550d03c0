"""What other planners foretell for the runs in ../published/speed.json, in tokens per second per GPU; README.md says how.

usage: run.py CALCULON LLM_ANALYSIS

CALCULON and LLM_ANALYSIS are checkouts of the two programs; numpy and fire must be installed. Writes speed.json beside this file and
prints how many runs each takes and why it takes no others."""

import collections
import json
import logging
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
RUNS = HERE.parent / "published" / "speed.json"

CALCULON_SYSTEMS = {"a100-sxm-80gb": "a100_80g.json", "h100-sxm-80gb": "h100_80g_nvl8.json"}
LLM_ANALYSIS_GPUS = ("a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm-80gb")
# What its README says may be assumed where nothing was measured.
LLM_ANALYSIS_EFFICIENCIES = {"llm-analysis": {}, "llm-analysis, assumed efficiencies": {"flops_efficiency": 0.5, "hbm_memory_efficiency": 0.9}}

Shape = collections.namedtuple("Shape", "hidden layers heads key_value_heads feed_forward gated vocabulary positions tied")


class Skipped(Exception):
    pass


def shape_of(config):
    kind = config["model_type"]
    if kind == "mpt":
        hidden, heads = config["d_model"], config["n_heads"]
        positions = config["max_seq_len"] if config["learned_pos_emb"] else 0
        return Shape(hidden, config["n_layers"], heads, heads, config["expansion_ratio"] * hidden, False, config["vocab_size"], positions, True)
    if kind == "gpt2":
        heads = config["n_head"]
        return Shape(config["n_embd"], config["n_layer"], heads, heads, config["n_inner"], False, config["vocab_size"], config["n_positions"], True)
    heads = config["num_attention_heads"]
    # Qwen's first generation states the width of its two halves together.
    feed_forward = config["intermediate_size"] // (2 if kind == "qwen" else 1)
    return Shape(config["hidden_size"], config["num_hidden_layers"], heads, config.get("num_key_value_heads", heads), feed_forward, True,
                 config["vocab_size"], 0, config["tie_word_embeddings"])


def data_parallel(options):
    return options["gpus"] // options["tensor_parallel"]


def tokens_per_gpu(options):
    return options["micro_batch"] * options["grad_accum"] * options["seq"] / options["tensor_parallel"]


def refuse_what_neither_models(options):
    if options["method"] != "full":
        raise Skipped("adapters")
    if options.get("fp8"):
        raise Skipped("float8 products beside 16-bit ones")


class Calculon:
    def __init__(self, folder):
        sys.path.insert(0, str(folder))
        import calculon
        from calculon.llm import Llm
        self.calculon, self.Llm = calculon, Llm
        self.systems = {gpu: json.loads((folder / "systems" / file).read_text()) for gpu, file in CALCULON_SYSTEMS.items()}
        for system in self.systems.values():  # No run is refused for its memory: times do not depend on capacities.
            system["mem1"]["GiB"] = system["mem2"]["GiB"] = 10**9

    def tokens_per_second(self, run):
        options, shape = run["options"], shape_of(run["config"])
        refuse_what_neither_models(options)
        if options["gpu_profile"] not in self.systems:
            raise Skipped("no description of the card: " + options["gpu_profile"])
        if shape.gated:
            raise Skipped("gated feed-forward")
        # With full recomputation its window for overlap comes out negative, and overlapping dearer than not overlapping.
        return tokens_per_gpu(options) / min(self.seconds(options, shape, overlap) for overlap in {False, data_parallel(options) > 1})

    def seconds(self, options, shape, overlap):
        ranks, tensor_parallel = data_parallel(options), options["tensor_parallel"]
        execution = {
            "num_procs": options["gpus"], "tensor_par": tensor_parallel, "pipeline_par": 1, "data_par": ranks,
            "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 0 if options["nodes"] == 1 else 1,
            "batch_size": ranks * options["micro_batch"] * options["grad_accum"], "microbatch_size": options["micro_batch"],
            "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
            "activation_recompute": options["checkpointing"], "pipeline_interleaving": 1,
            "optimizer_sharding": options["zero"] > 0 and ranks > 1, "tensor_par_comm_type": "ar", "tensor_par_overlap": "none",
            "seq_par_ag_redo": False, "data_par_overlap": overlap, "weight_offload": False, "activations_offload": False,
            "optimizer_offload": False, "training": True}
        application = {"hidden": shape.hidden, "feedforward": shape.feed_forward, "seq_size": options["seq"], "attn_heads": shape.heads,
                       "attn_size": shape.hidden // shape.heads, "num_blocks": shape.layers}
        model = self.Llm(self.Llm.Application(application), logging.getLogger("calculon"))
        system = self.calculon.System(self.systems[options["gpu_profile"]])
        model.compile(system, self.Llm.Execution.from_json(execution))
        model.run(system)
        return model.get_total_time()


class LlmAnalysis:
    def __init__(self, folder, efficiencies):
        sys.path.insert(0, str(folder))
        from llm_analysis import analysis, config
        self.analysis, self.config, self.efficiencies = analysis, config, efficiencies

    def tokens_per_second(self, run):
        options, shape = run["options"], shape_of(run["config"])
        refuse_what_neither_models(options)
        if options["gpu_profile"] not in LLM_ANALYSIS_GPUS:
            raise Skipped("no description of the card: " + options["gpu_profile"])
        self.config.model_configs[run["id"]] = self.config.ModelConfig(
            name=run["id"], num_layers=shape.layers, n_head=shape.heads, hidden_dim=shape.hidden, vocab_size=shape.vocabulary,
            max_seq_len=options["seq"], num_key_value_heads=shape.key_value_heads, ffn_embed_dim=shape.feed_forward,
            mlp_gated_linear_units=shape.gated)
        summary = self.analysis.train(
            model_name=run["id"], gpu_name=options["gpu_profile"], dtype_name="w16a16e16", log_level="ERROR",
            batch_size_per_gpu=options["micro_batch"], gradient_accumulation_steps=options["grad_accum"], seq_len=options["seq"],
            activation_recomputation={"none": 0, "full": 4}[options["checkpointing"]], ds_zero=options["zero"],
            dp_size=data_parallel(options), tp_size=options["tensor_parallel"], sp_size=1, flash_attn=options["attention"] == "flash",
            **self.efficiencies)
        # Not its device_tokens_per_sec, which counts the tokens of one micro-step over the time of all.
        return tokens_per_gpu(options) / summary["latency_per_iter"]


def flops_per_token(run):
    """Of the products alone: matrices and attention scores, forward, backward and recomputed."""
    options, shape = run["options"], shape_of(run["config"])
    products = run["parameters"] - shape.positions * shape.hidden - (0 if shape.tied else shape.vocabulary * shape.hidden)
    forward = 2 * products + 4 * shape.layers * shape.hidden * options["seq"]
    passes = (3 if options["method"] == "full" else 2) + (1 if options["checkpointing"] == "full" else 0)
    return passes * forward


class OneUtilisation:
    """The simplest there is: every run goes at the median FLOP/s of the other measured runs of its card, checkpointing and method."""

    def __init__(self, runs):
        self.cells = collections.defaultdict(dict)
        for run in runs:
            self.cells[self.cell(run)][run["id"]] = run["measured"]["tokens_per_second_per_gpu"] * flops_per_token(run)

    def cell(self, run):
        options = run["options"]
        return options["gpu_profile"], options["checkpointing"], options["method"], bool(options.get("fp8"))

    def tokens_per_second(self, run):
        others = [flops for name, flops in self.cells[self.cell(run)].items() if name != run["id"]]
        if not others:
            raise Skipped("no other run of its kind")
        return statistics.median(others) / flops_per_token(run)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    calculon, llm_analysis = (pathlib.Path(each).resolve() for each in sys.argv[1:])
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    planners = {"calculon": Calculon(calculon)}
    planners |= {name: LlmAnalysis(llm_analysis, efficiencies) for name, efficiencies in LLM_ANALYSIS_EFFICIENCIES.items()}
    planners["one utilisation"] = OneUtilisation(runs)
    records, tally = [], collections.Counter()
    for name, planner in planners.items():
        for run in runs:
            record = {"id": run["id"], "planner": name}
            try:
                record["tokens_per_second_per_gpu"] = round(planner.tokens_per_second(run), 3)
            except Skipped as skipped:
                record["skipped"] = str(skipped)
            tally[name, record.get("skipped", "taken")] += 1
            records.append(record)
    (HERE / "speed.json").write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n", encoding="utf-8")
    for (name, outcome), count in tally.items():
        print(f"{name}: {outcome}: {count}")


main()

"""Configs of trainers with parallelism of their own, scenarios, and caches of hubs: numbers, names and links that nobody meant."""
import json
import os

from attack import BAD_INPUT, PLANNED, Attack
from inputs import CONFIG, RECIPE, TITAN, deep

EITHER = PLANNED + (BAD_INPUT,)
LAST = 2**63 - 1
MEGATRON = ("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
            "--group-query-attention --num-query-groups 8 --seq-length 4096 --max-position-embeddings 8192 --position-embedding-type rope "
            "--rotary-base 500000 --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights "
            "--attention-dropout 0.0 --hidden-dropout 0.0 --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer "
            "--no-create-attention-mask-in-dataloader --tokenizer-type NullTokenizer --vocab-size 128256 --mock-data ")
SWIFT = ("NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-7B --tensor_model_parallel_size 2 --micro_batch_size 1 --global_batch_size 16 "
         "--max_length 4096 --packing true ")
SWIFT_YAML = "model: Qwen/Qwen3-8B\ntuner_type: lora\nmax_length: 1024\nper_device_train_batch_size: 1\n"
ACCELERATE = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\nmixed_precision: bf16\n"
STAGES = "[parallelism]\npipeline_parallel_degree = 2\n"
PARALLEL = "parallelism_config:\n  parallelism_config_"


def megatron(name, flags, says="", instead=("", ""), status=(BAD_INPUT,), **more):
    return Attack(name, "--recipe r.sh $CARDS", {"r.sh": MEGATRON.replace(*instead) + flags + "\n"}, says=says, status=status, **more)


def swift(name, flags, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "--recipe r.sh $CARDS --verbose", {"r.sh": SWIFT + flags + "\n"}, says=says, status=status, **more)


def swift_yaml(name, text, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "--recipe r.yaml $CARDS", {"r.yaml": SWIFT_YAML + text}, says=says, status=status, **more)


def titan(name, text, says="", status=(BAD_INPUT,), instead=("", ""), **more):
    return Attack(name, "--recipe r.toml $CARDS --verbose", {"r.toml": TITAN.replace(*instead, 1) + text}, says=says, status=status, **more)


def accelerate(name, text, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "--model Qwen/Qwen3-8B --recipe a.yaml $CARDS --verbose", {"a.yaml": ACCELERATE + text}, says=says, status=status, **more)


def argument(name, framework, word, says="", words="", status=(BAD_INPUT,), **more):
    return Attack(name, f"--model Qwen/Qwen3-8B $CARDS --framework {framework} --{framework} '{word}' {words}", says=says, status=status, **more)


FORMATS = [
    megatron("layers of 10^20", "", "num_layers", ("--num-layers 32", "--num-layers 99999999999999999999")),
    megatron("100,000 layers of a script", "", "num_hidden_layers: 100000", ("--num-layers 32", "--num-layers 100000")),
    megatron("a hidden size of 2^62", "", "hidden_size", ("4096 --ffn", "4611686018427387904 --ffn")),
    megatron("a hidden size that is no number", "", "hidden_size", ("4096 --ffn", "nan --ffn")),
    megatron("a vocabulary of 2^63 - 1", "", "vocab_size", ("128256", str(LAST))),
    megatron("no tokens", "", "seq_length", ("--seq-length 4096", "--seq-length 0")),
    megatron("no samples", "", "micro_batch_size", ("--micro-batch-size 1", "--micro-batch-size 0")),
    megatron("a batch of 2^63 - 1 samples", "", "global_batch_size", ("64", str(LAST))),
    megatron("a batch that the ranks cannot share", "", "global batch of 1", ("--global-batch-size 64", "--global-batch-size 1")),
    megatron("Python as the frequency of mixtures", "--num-experts 8 --moe-layer-freq \"__import__('os').system('touch PWNED')\"", "num_experts"),
    megatron("a list of 10^9 as the frequency of mixtures", "--num-experts 8 --moe-layer-freq '([1]*1000000000)'", "num_experts"),
    megatron("10^9 layers that predict", "--mtp-num-layers 1000000000", "mtp"),
    megatron("10^9 stages", "--pipeline-model-parallel-size 1000000000", "pipeline_model_parallel_size"),
    megatron("virtual stages of no layers", "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 0", "virtual"),
    megatron("a layout of 10^11 layers", "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*99999999999|tL'", "layout"),
    megatron("multiples of multiples of layers", "--pipeline-model-parallel-layout 'E((((((t*99)*99)*99)*99)*99)*99)L'", "layout"),
    megatron("100,000 modules to recompute", "--recompute-granularity selective --recompute-modules " + "core_attn " * 100000, "4096 words"),
    megatron("a share of 10^308", "--optimizer-cpu-offload --optimizer-offload-fraction 1e308", "a number from 0 to 1"),
    megatron("10^9 optimizer instances", "--num-distributed-optimizer-instances 1000000000", "instances"),
    megatron("devices as tokenizer and checkpoint", "--load /dev/zero --tokenizer-model /dev/zero", status=PLANNED, seconds=2),
    swift("a device as another config", "--config /dev/zero", "unknown keys", PLANNED, seconds=2),
    swift("a device as a model", "--model /dev/zero", "device"),
    swift("a layout of 10^11 layers under ms-swift", "--pipeline_model_parallel_size 4 --pipeline_model_parallel_layout 'Et*99999999999|L'", "layout"),
    megatron("several degrees in a flag", "--tensor-model-parallel-size 1,2", "one value"),
    megatron("an option as a number of tokens in a script", "", "seq_length", ("--seq-length 4096", "--seq-length=--emit=PWNED")),
    megatron("2^63 - 1 processes of as many nodes", "", "", ("nproc_per_node 8", f"nproc_per_node {LAST} --nnodes {LAST}"), EITHER, seconds=2),
    megatron("-8 processes", "", "", ("nproc_per_node 8", "nproc_per_node -8"), EITHER, seconds=2),
    megatron("a hidden size of 1", "", "intermediate_size", ("4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8", "1 --num-attention-heads 1")),
    megatron("more layers of a virtual stage than there are", "--pipeline-model-parallel-size 1024 --num-layers-per-virtual-pipeline-stage 16777216", "virtual"),
    swift("3,000 modules of adapters", "--tuner_type lora --target_modules " + " ".join(f"m{i}" for i in range(3000)), "m0"),
    swift("brackets as a pattern of modules", "--tuner_type lora --target_regex '" + "(" * 3000 + "a" + ")*" * 3000 + "_proj'", "target_regex"),
    swift("alternatives in alternatives as a pattern", "--tuner_type lora --target_regex '" + "(q|" * 1000 + "_proj)" * 300 + "'", "target_regex"),
    swift("a rank of 2^24 under Megatron-Core", "--tuner_type lora --lora_rank 16777216", "lora_rank"),
    swift("a dropout that is no number", "--tuner_type lora --lora_dropout nan", "lora_dropout"),
    swift("adapters that are a device", "--adapters /dev/zero", "", EITHER, seconds=2),
    Attack("adapters that are a pipe", "--recipe r.sh $CARDS", {"r.sh": SWIFT + "--mcore_adapter p\n"}, made=lambda folder: os.mkfifo(f"{folder}/p"),
           status=EITHER, seconds=2),
    swift_yaml("a config in a text, of 100,000 objects in objects", "deepspeed: '" + '{"a":' * 100000 + "1" + "}" * 100000 + "'\n", "64 levels"),
    swift_yaml("a config in a text, of a stage that is not", "deepspeed: {zero_optimization: {stage: 99}}\n", "stage"),
    swift_yaml("lists and sections for values", "lora_rank: [8]\ngradient_accumulation_steps: {a: 1}\n", "a list|a section"),
    titan("a name that begins with no letter", "[@model]\na = 1\n", "r.toml:7: not TOML"),
    titan("a bracket where a value begins", "a = [}\n", "r.toml:7: not TOML"),
    titan("a bracket after lines", "[a]\nb = 1\n\n[ @]\n", "r.toml:10: not TOML"),
    titan("tables where a table is", "[[training]]\nsteps = 1\n", "r.toml:7"),
    titan("a degree of -2^63", "[parallelism]\ndata_parallel_shard_degree = -9223372036854775808\n", "data_parallel_shard_degree"),
    titan("degrees whose product exceeds 64 bits",
          "[parallelism]\ndata_parallel_shard_degree = 4294967296\ntensor_parallel_degree = 4294967296\ncontext_parallel_degree = 4294967296\n", "degree"),
    titan("a schedule with escapes", '[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "\\u001b[31m\\u202e"\n', "schedule"),
    titan("stages of no layers", "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_layers_per_stage = 0\n", "layers_per_stage"),
    titan("50,000 points to split at", "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_split_points = [" + '"layers.1",' * 50000 + "]\n",
          "", EITHER, seconds=2),
    titan("degrees of 2^90 GPUs", "[parallelism]\ndata_parallel_shard_degree = 1073741824\ntensor_parallel_degree = 1073741824\n"
          "context_parallel_degree = 1073741824\n", "more than 1000000 GPUs"),
    titan("another setting behind a comma", '[parallelism]\nfsdp_reshard_after_forward = "never,num_chunks=8"\n', "fsdp_reshard_after_forward"),
    titan("another setting behind a schedule", STAGES + 'pipeline_parallel_schedule = "1F1B,num_chunks=8"\n', "pipeline_parallel_schedule"),
    titan("several degrees in a text", '[parallelism]\ntensor_parallel_degree = "1,2,4"\n', "one value"),
    titan("-1 layers of a stage", STAGES + "pipeline_parallel_layers_per_stage = -1\n", "from 1 to"),
    titan("a list of micro-batch sizes", STAGES + "pipeline_parallel_microbatch_size = [2]\n", "a list"),
    titan("an option as a number of tokens", "[parallelism]\n", "seq_len", instead=("2048", '"--emit=PWNED"')),
    titan("50,000 converters", "", "49980 more", PLANNED, instead=('"8B"', '"8B"\nconverters = [' + '"a\\u001b[31m",' * 50000 + "]"), seconds=2,
          check=lambda _f, done: "a long report" if len(done.out) > 20000 else None),
    titan("a converter of a megabyte", "", "", PLANNED, instead=('"8B"', '"8B"\nconverters = ["' + "x" * 1000000 + '"]'), seconds=2,
          check=lambda _f, done: "a long report" if len(done.out) > 20000 else None),
    Attack("a flavour that goes up", "--recipe r.toml $CARDS", {"r.toml": TITAN.replace('"8B"', '"../../../etc/passwd"')}, says="flavor"),
    Attack("values for tables", "--recipe r.toml $CARDS", {"r.toml": 'model = 5\ntraining = "x"\nparallelism = []\n'}, says="no trainer"),
    accelerate("10^9 ranks that divide tensors", PARALLEL + "tp_size: 1000000000\n", "tp_size"),
    accelerate("ranks of -1", PARALLEL + "dp_replicate_size: -1\n", "dp_replicate_size"),
    accelerate("an infinite degree", PARALLEL + "cp_size: .inf\n", "cp_size"),
    accelerate("a list for degrees", "parallelism_config: [1, 2]\n", "its\\s+keys\\s+are\\s+read\\s+where", PLANNED, seconds=2),
    accelerate("a command for degrees", 'parallelism_config: "$(touch PWNED)"\n', "its\\s+keys\\s+are\\s+read\\s+where", PLANNED, seconds=2),
    accelerate("no machines", "num_machines: 0\n", "num_machines"),
    argument("2^63 - 1 layers recomputed together", "megatron", f"recompute-num-layers={LAST}", "recompute-num-layers"),
    argument("2^63 - 1 layers of the first and last stage", "megatron",
             f"decoder-first-pipeline-num-layers={LAST},decoder-last-pipeline-num-layers={LAST}", "num-layers", "--pp 4"),
    argument("a bucket of 2^63 - 1 elements", "megatron", f"ddp-bucket-size={LAST}", "ddp-bucket-size"),
    argument("a hierarchy whose product exceeds 64 bits", "megatron",
             "hierarchical-context-parallel-sizes=4294967296 4294967296,cp-comm-type=a2a+p2p", "hierarchical", "--cp 4"),
    argument("a layout of 10,000 brackets", "megatron", "pipeline-model-parallel-layout=E" + "(" * 9990 + "L", "layout"),
    argument("a layout of 700 multiples", "megatron", "pipeline-model-parallel-layout=E" + "(t*9999)*9999" * 700 + "L", "layout"),
    argument("stages without layers", "megatron", "pipeline-model-parallel-layout=E" + "|" * 7 + "L", "no layer", "--pp 8"),
    argument("1,024 virtual stages", "megatron", "none", "virtual stages", "--vpp 1024"),
    argument("a word 9,000 times", "torchtitan", "num_chunks=1," * 9000 + "num_chunks=1", "given twice"),
    argument("a module 4,000 times", "megatron", "recompute-modules=" + "core_attn " * 4000, "", "--checkpointing selective", EITHER, seconds=2),
    argument("exchanges of 1,000 layers", "megatron", "cp-comm-type=" + "p2p " * 1000, "1000 layers", "--cp 2"),
    argument("a hierarchy of 20,000 levels", "megatron", "hierarchical-context-parallel-sizes=" + "1 " * 20000 + ",cp-comm-type=a2a+p2p", "hierarchical", "--cp 4"),
    argument("a coefficient that is no number", "megatron", "moe-aux-loss-coeff=nan", "from 0"),
    argument("buckets of an element", "megatron", "ddp-bucket-size=1,overlap-grad-reduce", "", "--zero 1", EITHER, seconds=4),
    argument("2^24 buckets", "megatron", "ddp-num-buckets=16777216,overlap-grad-reduce", "", "--zero 1", EITHER, seconds=4),
    argument("a layout with escapes", "megatron", "pipeline-model-parallel-layout=E\x1b[31m|tL", "layout", "--pp 2"),
    argument("a switch with a value", "megatron", "no-rope-fusion=true", "a switch without a value"),
    argument("2^24 layers less on the first stage", "torchtitan", "pipeline_parallel_first_stage_less_layers=16777216", "cannot be divided", "--pp 8"),
    argument("a schedule of two parts with nine", "torchtitan", "pipeline_parallel_schedule=ZBVZeroBubble", "takes 2 virtual stages", "--pp 4 --vpp 9 --grad-accum 8"),
    argument("2^63 - 1 chunks of a loss", "torchtitan", f"num_chunks={LAST}", "num_chunks"),
    argument("a chunk of a loss for each of 8192 tokens", "torchtitan", "num_chunks=8192", "from 0 to 256", "--seq 8192"),
]

FOLDER = "home/.cache/huggingface/hub/models--evil--{}/"
CACHE = FOLDER.format("model")
SNAPSHOT = CACHE + "snapshots/abc123/config.json"


def made_at(at, make):
    """Makes something in the place of a file of the folder."""
    def made(folder):
        path = f"{folder}/{at}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.remove(path)
        make(path)
    return made


def link(target, at):
    return made_at(at, lambda path: os.symlink(target, path))


def pipe(at):
    return made_at(at, os.mkfifo)


def adapter(name, base):
    return (FOLDER.format(name) + "snapshots/abc123/adapter_config.json", json.dumps({"base_model_name_or_path": base, "peft_type": "LORA"}))


def cached(name, made=None, says="", status=(BAD_INPUT,), words="--model evil/model $CARDS", files=(), **more):
    return Attack(name, words, {CACHE + "refs/main": "abc123", **dict(files)}, made=made, status=status, says=says, **more)


ASKS = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}
HUB = [
    cached("a blob elsewhere", link("/etc/passwd", SNAPSHOT), "not JSON",
           check=lambda _f, done: "prints /etc/passwd" if "root:" in done.out + done.err else None),
    cached("a blob that is a device", link("/dev/zero", SNAPSHOT), "config.json"),
    cached("a blob that is a pipe", pipe(SNAPSHOT), "config.json"),
    cached("a blob that is itself", link("config.json", SNAPSHOT), "config.json"),
    cached("a revision above the cache", None, "the name of a snapshot", files=((CACHE + "refs/main", "../../../../../../m"), ("m/config.json", CONFIG))),
    cached("a revision of a megabyte", None, "4096 bytes", files=((CACHE + "refs/main", "a" * (1 << 20)),)),
    cached("a revision with escapes", None, "the name of a snapshot", files=((CACHE + "refs/main", "\x1b[31m\n"),)),
    cached("a revision that is a pipe", pipe(CACHE + "refs/main"), "pipe"),
    cached("a revision that is a device", link("/dev/zero", CACHE + "refs/main"), "device"),
    cached("snapshots that are the root", lambda folder: os.symlink("/", f"{folder}/{CACHE}snapshots"), "config.json"),
    cached("a name that goes up", None, "config.json", words="--model ../../etc $CARDS"),
    cached("a name that goes up inside", None, "no model is known", words="--model evil/../../../../etc/passwd $CARDS"),
    cached("a cache that is a device", None, "no model is known", environment={"HF_HUB_CACHE": "/dev/zero"}),
    cached("a token that is a pipe", pipe("home/.cache/huggingface/token"), "pipe", environment=ASKS),
    cached("a token that is a device", None, "device", environment={**ASKS, "HF_TOKEN_PATH": "/dev/zero"}),
    cached("a token of a megabyte", None, "larger than", files=(("home/.cache/huggingface/token", "x" * (1 << 20)),), environment=ASKS),
    cached("a token that is a pipe, where no hub is asked", pipe("home/.cache/huggingface/token"), status=PLANNED, words="--model 8B $CARDS",
           environment=ASKS, seconds=2),
    cached("a token with line breaks", None, "cannot be asked", environment={**ASKS, "HF_TOKEN": "x\r\nHost: evil"}),
    cached("an endpoint that is a file", None, "HF_ENDPOINT", environment={**ASKS, "HF_ENDPOINT": "file:///etc/passwd"}),
    cached("an endpoint with escapes", None, "cannot be asked", environment={**ASKS, "HF_ENDPOINT": "https://\x1b[31m\n/"}),
    cached("adapters of each other", None, "adapters without end", files=(adapter("model", "evil/b"), (FOLDER.format("b") + "refs/main", "abc123"), adapter("b", "evil/model"))),
    cached("adapters of themselves", None, "adapters without end", files=(adapter("model", "evil/model"),)),
    cached("adapters whose base is a device", None, "device", files=(adapter("model", "/dev/zero"),)),
    cached("adapters whose base is an option", None, "no model is known", files=(adapter("model", "--emit=PWNED"),)),
    cached("adapters whose base has escapes and a NUL", None, "no model is known", files=(adapter("model", "a\x1b[31m\u202e\0"),)),
    cached("adapters whose base is a megabyte", None, "no model is known", files=(adapter("model", "x" * (1 << 20)),)),
    cached("adapters that are a pipe", pipe(FOLDER.format("model") + "snapshots/abc123/adapter_config.json"), "without"),
    cached("a folder in the place of a revision", made_at(CACHE + "refs/main", os.mkdir), "folder"),
    cached("a model of the user that is a pipe", pipe("home/.config/zplan/models/evil.json"), "pipe", words="--model evil $CARDS"),
    cached("a profile of the user that is a pipe", pipe("home/.config/zplan/hardware/evil.json"), "pipe", words="--model 8B --gpus 8 --gpu evil"),
]

BASE = ("--model", "8B", "--gpus", "8", "--gpu", "A100-SXM-80GB")


def scenario(name, *words, says="", files=(), **more):
    text = json.dumps({"schema": "zplan.scenarios/1", "scenarios": [{"name": "a", "arguments": list(words)}, {"name": "b", "arguments": list(BASE)}]})
    return Attack(name, "compare s.zplan", {"s.zplan": text, **dict(files)}, says=says or "not an option of a scenario", **more)


def report(name, path, says):
    text = json.dumps({"schema": "zplan.scenarios/1", "scenarios": [{"name": "x", "report": path}]})
    return Attack(name, "compare s.zplan", {"s.zplan": text}, says=says)


SCENARIOS = [
    Attack("scenarios in a thousand lists", "compare s.zplan", {"s.zplan": '{"schema":"zplan.scenarios/1","scenarios":' + deep("[]") + "}"}, says="64 levels"),
    scenario("a scenario that writes a config", *BASE, "--emit", "PWNED"),
    scenario("a scenario that writes a page", *BASE, "--html", "PWNED"),
    scenario("a scenario that writes a trace", *BASE, "--trace", "PWNED"),
    scenario("a scenario that writes a snapshot", *BASE, "--snapshot", "PWNED"),
    scenario("a scenario that writes a recipe", "--recipe", "r.yaml", *BASE[2:], "--recipe-out", "PWNED", files=(("r.yaml", RECIPE),)),
    scenario("a scenario that repairs a file", "lint", "d.json", "--fix", says="nothing else", files=(("d.json", '{"train_bach_size":8}'),)),
    scenario("a scenario of devices", "--model", "/dev/zero", "--gpus", "8", says="device"),
    scenario("a scenario with lengths of a device", *BASE, "--lengths", "/dev/zero", says="device"),
    scenario("a scenario of a GPU in a file of others", *BASE[:4], "--gpu", "/etc/passwd", says="--gpu"),
    scenario("a scenario that measures", "bench", "--local", "2", says="no such option|nothing else"),
    scenario("a scenario of 200,000 modules", *BASE, "--method", "lora", "--lora-targets", ",".join(f"m{i}" for i in range(200000)), says="m0"),
    scenario("a scenario with a NUL", "--model", "8B\0x", says="no model is known"),
    report("a report that is a device", "/dev/zero", "device"),
    report("a report that is its own file", "s.zplan", "zplan.report/1"),
]
GROUPS = {"formats": FORMATS, "hub": HUB, "scenarios": SCENARIOS}

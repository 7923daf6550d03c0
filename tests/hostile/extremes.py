"""Legal and extreme: an answer, or a sentence, within the budget of steps and 1 GiB."""
from attack import BAD_INPUT, PLANNED, Attack
from inputs import CONFIG

EITHER = PLANNED + (BAD_INPUT,)


def asked(name, words, seconds=10.0, mebibytes=1024, **more):
    return Attack(name, words, status=EITHER, seconds=seconds, mebibytes=mebibytes, **more)


def layers(count):
    return {"m/config.json": CONFIG.replace('_layers":32', f'_layers":{count}')}


STAGES = "--model m --framework megatron --gpu H100-SXM-80GB"
EXTREMES = [
    asked("a million GPUs", "--model 405B --gpus 1000000 --nodes 125000 --gpu H100-SXM-80GB"),
    asked("a million GPUs in one node", "--model 8B --gpus 1000000 --mem 80", seconds=20, long=True),
    asked("more GPUs than there are numbers", "--model 8B --gpus 99999999999999999999 --mem 80"),
    asked("a billion tokens a sample", "--model 8B $CARDS --seq 1000000000"),
    asked("16 million tokens a sample", "--model 8B $CARDS --seq 16777216"),
    asked("100,000 layers", "--model m $CARDS", files=layers(100000)),
    asked("as many layers as are taken", "--model m $CARDS --zero 3 --offload none", files=layers(1024), seconds=10),
    asked("as many layers as are taken, with every strategy", "--model m $CARDS", files=layers(1024), seconds=15, long=True),
    asked("a rank of a million", "--model 8B $CARDS --method lora --lora-rank 1000000"),
    asked("the highest rank", "--model 8B $CARDS --method lora --lora-rank 65536"),
    asked("the largest micro-batch", "--model 8B $CARDS --micro-batch 65536"),
    asked("a billion steps of accumulation", "--model 8B $CARDS --grad-accum 1000000000"),
    asked("the most steps of accumulation", "--model 8B $CARDS --grad-accum 65536"),
    asked("200,000 tiles of an MLP", "--model 8B $CARDS --tiled-mlp 200000"),
    asked("256 tiles of an MLP", "--model 8B $CARDS --tiled-mlp 256", seconds=20, long=True),
    asked("257 tiles of an MLP", "--model 8B $CARDS --tiled-mlp 257"),
    asked("16 million chunks of a loss", "--model 8B $CARDS --seq 16777216 --loss-chunks 16777216", says="1 to 1024"),
    asked("as many chunks of a loss as are taken", "--model 8B $CARDS --seq 8192 --loss-chunks 1024 --sliced-head", seconds=15, long=True),
    asked("a device of a petabyte", "--model 8B --gpus 8 --mem 1000000"),
    asked("a device of nothing", "--model 8B --gpus 8 --mem 0.0001"),
    asked("every option at its bound", "--model 8B --gpus 1000000 --mem 1000000 --seq 16777216 --micro-batch 65536 --grad-accum 65536 --zero 3 --offload all "
          "--method lora --lora-rank 65536", seconds=20),
    asked("a model of 10^15 parameters", "--model 1000T $CARDS"),
    asked("a model of 100T parameters", "--model 100T --gpus 1000000 --nodes 125000 --gpu H100-SXM-80GB", long=True),
    asked("a mixture of a million experts", "--model m $CARDS", files={"m/config.json": CONFIG.replace("Llama", "Mixtral").replace("llama", "mixtral")[:-1] + ',"num_local_experts":1000000}'}),
    asked("1,000 degrees of tensor parallelism", "--model 8B $CARDS --tp " + ",".join(map(str, range(1, 1001)))),
    asked("10,000 recipes", "--recipe " + ",".join(["r.yaml"] * 10000) + " $CARDS", files={"r.yaml": "base_model: Qwen/Qwen3-8B\nadapter: lora\n"}),
    asked("an option of a megabyte", "--model " + "x" * 100000 + " $CARDS"),
    asked("a million GPUs, searched under two frameworks",
          "search --model 405B --gpus 1000000 --nodes 125000 --gpu H100-SXM-80GB --framework megatron,torchtitan"),
    asked("as many layers as are taken, searched under two frameworks",
          "search --model m --gpus 8192 --nodes 1024 --gpu H100-SXM-80GB --framework megatron,torchtitan", files=layers(1024), seconds=20, long=True),
    asked("1,024 micro-batches through 1,024 stages", f"{STAGES} --gpus 8192 --nodes 1024 --pp 1024 --grad-accum 1024", files=layers(1024),
          says="more than 131072 passes"),
    asked("65,536 micro-batches through stages of torchtitan", "--model Qwen/Qwen3-8B $CARDS --framework torchtitan --pp 8 --grad-accum 65536",
          says="more than 131072 passes"),
    asked("a backward in two parts, in as many passes as are planned of others", "--model Qwen/Qwen3-8B $CARDS --framework torchtitan "
          "--pipeline-schedule ZBVZeroBubble --pp 8 --vpp 2 --grad-accum 8192", says="more than 8192 passes"),
    asked("as many backwards in two parts as are planned", "--model Qwen/Qwen3-8B $CARDS --framework torchtitan --pipeline-schedule ZBVZeroBubble "
          "--pp 8 --vpp 2 --grad-accum 512", seconds=25, long=True),
    asked("backwards in two parts, searched", "search --model m --gpus 8192 --nodes 1024 --gpu H100-SXM-80GB --framework torchtitan "
          "--pipeline-schedule ZBVZeroBubble", files=layers(1024), seconds=30, long=True),
    asked("2,048 micro-batches, and layers of Unsloth without end", "--model m --gpus 1 --gpu A100-SXM-80GB --trainer unsloth --method lora "
          "--grad-accum 2048", files=layers(1024)),
    asked("16 million tokens under Unsloth", "--model Qwen/Qwen3-8B --gpus 1 --gpu A100-SXM-80GB --trainer unsloth --method lora --seq 16777216"),
    asked("the highest rank under Unsloth", "--model Qwen/Qwen3-8B --gpus 1 --gpu A100-SXM-80GB --trainer unsloth --method lora --lora-rank 65536 "
          "--micro-batch 65536"),
    asked("65,536 micro-batches through virtual stages", "--model Qwen/Qwen3-8B $CARDS --framework megatron --pp 4 --vpp 9 --grad-accum 65536",
          says="more than 131072 passes"),
    asked("as many passes as are planned", f"{STAGES} --gpus 16 --nodes 2 --pp 16 --vpp 8 --grad-accum 1024 --zero 1 --tp 1", files=layers(128),
          seconds=30, long=True),
    asked("every degree of Megatron-Core at its bound",
          f"{STAGES} --gpus 1000000 --nodes 125000 --tp 1024 --pp 1024 --vpp 1024 --cp 1024 --ep 1024 --etp 1024 --seq 16777216", files=layers(1024)),
    asked("1,024 layers that predict", "--model Qwen/Qwen3-8B $CARDS --framework megatron --checkpointing none --megatron mtp-num-layers=1024", seconds=20,
          long=True),
    asked("lengths of a million samples", "--model 8B $CARDS --lengths l.txt", files={"l.txt": "1234\n" * 1000000}),
]
GROUPS = {"extremes": EXTREMES}

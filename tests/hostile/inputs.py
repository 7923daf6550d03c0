"""Files that are not what they seem, and files that try to have something done."""
import os
import pickle
import socket
import struct
import threading
import time

from attack import BAD_INPUT, NOTHING_FITS, PLANNED, Attack

CONFIG = ('{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4096,"intermediate_size":14336,'
          '"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,'
          '"torch_dtype":"bfloat16"}')
RECIPE = "base_model: Qwen/Qwen3-8B\nadapter: lora\nmicro_batch_size: 1\nsequence_len: 2048\n"
SCRIPT = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 1 "
SWIFT = "swift sft --model Qwen/Qwen3-8B --per_device_train_batch_size 1 "
DS = '{"train_micro_batch_size_per_gpu":1,"zero_optimization":{"stage":2}}'


def recipe(name, text, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "--recipe r.yaml $CARDS", {"r.yaml": text}, says=says, status=status, **more)


def script(name, text, says="", status=PLANNED + (BAD_INPUT,), **more):
    return Attack(name, "--recipe r.sh $CARDS", {"r.sh": text}, says=says, status=status, **more)


def config(name, text, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "--model m $CARDS", {"m/config.json": text}, says=says, status=status, **more)


def ds_config(name, text, says="", status=(BAD_INPUT,), words="lint d.json", **more):
    return Attack(name, words, {"d.json": text}, says=says, status=status, **more)


def snapshot(name, value, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "check s.pickle --model 8B --gpus 1 --zero 0 --tp 1 --offload none", {"s.pickle": value}, says=says,
                  status=status, **more)


def log(name, text, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "check t.log --model 8B --gpus 8 --zero 3 --tp 1 --offload none", {"t.log": text}, says=says,
                  status=status, **more)


def laughs(levels, width, first="lol", join=", ", anchor="&{} [{}]", alias="*{}"):
    lines = [f"x0: &x0 {first}"]
    for i in range(1, levels):
        lines.append(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * width)}]")
    return "\n".join(lines) + "\n"


YAML = [
    recipe("aliases that multiply", RECIPE + laughs(12, 9), "too many values"),
    recipe("aliases of long texts", RECIPE + 'big: &b "' + "x" * (1 << 20) + '"\nl: [' + ",".join(["*b"] * 20000) + "]\n", "64 MiB"),
    recipe("an alias in its own list", RECIPE + "a: &a [*a]\n", "alias of nothing"),
    recipe("merge keys that multiply", RECIPE + "m0: &m0 {a: 1}\n" +
           "".join(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}], k{i}: 1}}\n" for i in range(1, 12)), "too many values"),
    recipe("a merge key of itself", RECIPE + "a: &a {<<: *a}\n", "alias of nothing"),
    recipe("a merge key of a number", RECIPE + "a: {<<: 3}\n", "r.yaml:5"),
    recipe("lists in lists", RECIPE + "a: " + "[" * 100000 + "]" * 100000 + "\n", "r.yaml:5"),
    recipe("sections in sections", RECIPE + "a: " + "{a: " * 50000 + "1" + "}" * 50000 + "\n", "r.yaml:5"),
    recipe("sections by blanks", "".join(" " * i + "a:\n" for i in range(2000)), "too many values"),
    recipe("99,000 keys", RECIPE + "".join(f"key_{i}: 1\n" for i in range(99000)), "4096 keys"),
    recipe("a million values", RECIPE + "l: [" + "1," * 1000000 + "]\n", "too many values"),
    recipe("a tag that runs a command", RECIPE + '? !!python/object/apply:os.system ["touch PWNED"]\n: 1\nb: !!python/object/apply:os.system ["touch PWNED"]\n',
           "", PLANNED + (BAD_INPUT,)),
    recipe("a tag of a module", RECIPE + "b: !!python/module:antigravity x\n", "", PLANNED + (BAD_INPUT,)),
    recipe("a tag of bytes", RECIPE + "learning_rate: !!binary AAAA====\n", "", PLANNED + (BAD_INPUT,)),
    recipe("a byte order mark", b"\xef\xbb\xbf" + RECIPE.encode(), "Qwen3-8B", PLANNED),
    recipe("UTF-16", RECIPE.encode("utf-16"), "r.yaml", PLANNED + (BAD_INPUT,)),
    recipe("a NUL in a value", RECIPE + 'learning_rate: "1\0 2"\n', "r.yaml"),
    recipe("a NUL by an escape", RECIPE.replace("Qwen/Qwen3-8B", '"Qwen/Qwen3-8B\\0/../../etc/passwd"'), ""),
    recipe("bytes that are no UTF-8", RECIPE.encode() + b"x: \xff\xfe\xc3\x28\n", "r.yaml"),
    recipe("a number beyond 64 bits", RECIPE.replace("micro_batch_size: 1", "micro_batch_size: 99999999999999999999999"), "micro_batch_size"),
    recipe("a negative number", RECIPE.replace("micro_batch_size: 1", "micro_batch_size: -9223372036854775808"), "micro_batch_size"),
    recipe("an infinite number", RECIPE.replace("sequence_len: 2048", "sequence_len: .inf"), "sequence_len"),
    recipe("a number with a thousand digits", RECIPE + "lora_r: " + "9" * 1000 + "\n", "lora_r"),
    recipe("sexagesimal numbers that overflow", RECIPE + "lora_r: " + "59:" * 500 + "59\n", ""),
    recipe("a number of 2 MB in base 2", RECIPE + "lora_r: 0b" + "1" * 2000000 + "\n", ""),
    recipe("a key of 2 MB", RECIPE + "? " + "k" * 2000000 + "\n: 1\n", "", PLANNED + (BAD_INPUT,)),
    recipe("an empty file", "", "r.yaml"),
    recipe("two documents", RECIPE + "---\n" + RECIPE, "r.yaml"),
    recipe("a quote that does not end", RECIPE + 'a: "' + "x\n" * 200000, "r.yaml"),
    recipe("an anchor of a million characters", RECIPE + "a: &" + "b" * 1000000 + " 1\n", "", PLANNED + (BAD_INPUT,)),
    recipe("a pattern of a million modules", RECIPE + "lora_target_modules: '(" + "|".join(f"m{i}" for i in range(50000)) + ")_proj'\n", "",
           PLANNED + (BAD_INPUT,)),
]


def deep(kind, count=200000):
    return (kind[0] * count) + (kind[1] * count)


TITAN = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 2048\n'


def toml(name, text, says="", status=(BAD_INPUT,), **more):
    return Attack(name, "--recipe r.toml $CARDS", {"r.toml": text}, says=says, status=status, **more)


EITHER = PLANNED + (BAD_INPUT,)
TOML = [
    toml("lists in lists", TITAN + "a = " + deep("[]"), "r.toml:7"),
    toml("tables in tables", TITAN + "a = " + "{a = " * 100000 + "1" + "}" * 100000, "r.toml:7"),
    toml("tables in lists", TITAN + "a = " + "[{a = " * 60 + "1" + "}]" * 60, "too many levels"),
    toml("a key of 200,000 parts", TITAN + "a." * 200000 + "a = 1\n", "r.toml:7: a key of too many parts"),
    toml("a table of 200,000 parts", TITAN + "[" + "a." * 200000 + "a]\n", "r.toml:7: a key of too many parts"),
    toml("quoted parts, with blanks", TITAN + '"a" . ' * 100000 + "a = 1\n", "a key of too many parts"),
    toml("many parts in a text and in a comment", TITAN.replace("8B", "8" + "." * 100) + "# " + "a." * 100 + "\n", "", EITHER),
    toml("90,000 values in a line", TITAN + "a = [" + "1.5, " * 90000 + "]\n", "", EITHER),
    toml("90,000 keys in a line", TITAN + "a = {" + ", ".join(f"é{i} = 1" for i in range(90000)) + "}\n", "", EITHER, seconds=2),
    toml("a million values", TITAN + "a = [" + "1, " * 1000000 + "]\n", "too many values", mebibytes=700, seconds=4),
    toml("a key twice", TITAN + "seq_len = 1\n", "r.toml:7"),
    toml("a table twice", TITAN + "[training]\nsteps = 1\n", "r.toml:7"),
    toml("text behind a NUL", TITAN + "\0garbage{{{", "r.toml:7"),
    toml("a byte order mark", b"\xef\xbb\xbf" + TITAN.replace("[model]\n", "model.converters = [true, 1]\n[model]\n").encode(), "", EITHER),
    toml("UTF-16", TITAN.encode("utf-16"), "r.toml"),
    toml("bytes that are no UTF-8", TITAN.encode() + b'a = "\xff\xfe"\n', "r.toml:7"),
    toml("a quote that does not end", TITAN + 'a = """' + "x\n" * 200000, "r.toml"),
    toml("a number beyond 64 bits", TITAN.replace("2048", "9" * 1000), "r.toml:6"),
    toml("a batch of 2^63 - 1", TITAN.replace("batch_size = 1", "batch_size = 9223372036854775807"), "batch_size"),
    toml("a date for a number", TITAN.replace("2048", "1979-05-27T07:32:00Z"), "seq_len"),
    toml("infinity for a number", TITAN.replace("2048", "inf"), "seq_len"),
    toml("a file of 20 MB", TITAN + "# x\n" * 5000000, "16 MiB|larger"),
    toml("an empty file", "", "r.toml"),
]


JSON = [
    config("lists in lists", '{"a":' + deep("[]") + "}", "64 levels"),
    config("objects in objects", '{"a":' * 200000 + "1" + "}" * 200000, "64 levels"),
    config("100,000 objects", CONFIG[:-1] + ',"x":[' + ",".join(["{}"] * 100000) + "]}", "", PLANNED),
    config("a million keys", "{" + ",".join(f'"k{i}":1' for i in range(1000000)) + "}", "keys", seconds=3),
    config("90,000 keys", CONFIG[:-1] + "," + ",".join(f'"k{i}":1' for i in range(90000)) + "}", "", PLANNED, seconds=2),
    config("a key twice", CONFIG[:-1] + ',"hidden_size":1}', "hidden_size.* stands twice"),
    config("text behind a NUL", CONFIG + "\0garbage{{{", "NUL"),
    config("a byte order mark", b"\xef\xbb\xbf" + CONFIG.encode(), "", PLANNED + (BAD_INPUT,)),
    config("UTF-16", CONFIG.encode("utf-16"), "not JSON"),
    config("bytes that are no UTF-8", CONFIG[:-1].encode() + b',"x":"\xff\xfe"}', "not JSON"),
    config("a lone surrogate", CONFIG[:-1] + ',"_name_or_path":"\\ud800"}', "", PLANNED + (BAD_INPUT,)),
    config("a number beyond any double", CONFIG.replace("4096", "1e999"), "number"),
    config("a number of a million digits", CONFIG.replace("4096", "9" * 1000000), "number"),
    config("layers below zero", CONFIG.replace('_layers":32', '_layers":-1'), "num_hidden_layers"),
    config("layers of 2^63", CONFIG.replace('_layers":32', '_layers":9223372036854775808'), "num_hidden_layers"),
    config("no heads", CONFIG.replace('attention_heads":32', 'attention_heads":0'), "num_attention_heads"),
    config("sizes that no device holds", CONFIG.replace("4096", "1048576").replace("14336", "16777216").replace('_layers":32', '_layers":100')
           .replace('attention_heads":32', 'attention_heads":8192'), "", PLANNED + (BAD_INPUT,)),
    config("a text for a number", CONFIG.replace("4096", '"4096; rm -rf ~"'), "hidden_size"),
    config("a folder for a file", CONFIG, "", made=lambda folder: (os.remove(f"{folder}/m/config.json"), os.mkdir(f"{folder}/m/config.json"))),
    config("a pipe for a file", CONFIG, "pipe", made=lambda folder: (os.remove(f"{folder}/m/config.json"), os.mkfifo(f"{folder}/m/config.json"))),
    config("a link to itself", CONFIG, "", made=lambda folder: (os.remove(f"{folder}/m/config.json"), os.symlink("config.json", f"{folder}/m/config.json"))),
    config("an auto_map of code", CONFIG[:-1] + ',"auto_map":{"AutoModelForCausalLM":"evil.py--Model"}}', "", PLANNED + (BAD_INPUT,)),
    Attack("quantization_config in a thousand lists", "--recipe r.yaml $CARDS",
           {"r.yaml": RECIPE.replace("Qwen/Qwen3-8B", "./m"), "m/config.json": '{"quantization_config":{"a":' + deep("[]") + "}}"}, says="64 levels"),
    Attack("a recipe's model at a pipe", "--recipe r.yaml $CARDS", {"r.yaml": RECIPE.replace("Qwen/Qwen3-8B", "./m"), "m/x": ""},
           made=lambda folder: os.mkfifo(f"{folder}/m/config.json"), says="pipe"),
    Attack("a quantization_config of 30 MB", "--recipe r.yaml $CARDS",
           {"r.yaml": RECIPE.replace("Qwen/Qwen3-8B", "./m"), "m/config.json": '{"quantization_config":{"a":"' + "x" * 30000000 + '"}}'}, mebibytes=400),
]

LINT = [
    ds_config("300 KB of {}", '{"x":[' + ",".join(["{}"] * 100000) + "]}", "ignored-key", (1, 0), seconds=1.5),
    ds_config("20,000 keys near a known one", '{"train_micro_batch_size_per_gpu":1,' + ",".join(f'"train_batch_siz{i}":1' for i in range(20000)) + "}",
              "unknown-key", (1,), seconds=2),
    ds_config("20,000 keys, to be repaired", '{"train_micro_batch_size_per_gpu":1,' + ",".join(f'"train_batch_siz{i}":1' for i in range(20000)) + "}",
              "", (0, 1), words="lint d.json --emit -", seconds=10),
    ds_config("a key 20,000 times", "{" + ",".join(['"train_batch_size":1'] * 20000) + "}", "twice"),
    ds_config("20,000 comments", "{" + "/* c */\n" * 20000 + '"train_batch_size":8}', "comment", (0,), seconds=2),
    ds_config("20,000 comment keys of a strict section, repaired", '{"train_batch_size":8,"zero_optimization":{"stage":2,' +
              ",".join(f'"_c{i}":1' for i in range(20000)) + "}}", "", (0, 1), words="lint d.json --emit -", seconds=4),
    ds_config("a million keys", "{" + ",".join(f'"k{i}":1' for i in range(1000000)) + "}", "d.json", seconds=3, mebibytes=400),
    ds_config("a key of a megabyte above a million values", '{"' + "k" * (1 << 20) + '":[' + "0," * 500000 + "0]}", "d.json", seconds=2),
    ds_config("text behind a NUL", DS + "\0garbage{{{", "NUL"),
    ds_config("a comment that does not end", '{"train_batch_size":8 /* ' + "x" * 100000, "d.json"),
    ds_config("lists in lists", deep("[]"), "64 levels"),
    ds_config("a stage of 1e400", DS.replace('"stage":2', '"stage":1e400'), "", (BAD_INPUT, 1)),
    ds_config("a key of 60 MB", '{"' + "k" * 60000000 + '":1}', "", (0, 1, BAD_INPUT), seconds=3, mebibytes=900),
    ds_config("text behind a NUL, as a plan's config", DS + "\0{{{", "NUL", words="--model 8B $CARDS --ds-config d.json"),
    ds_config("a device as a config", DS, "device|larger|file", words="--model 8B $CARDS --ds-config /dev/zero"),
    ds_config("a stage of true in a plan", DS.replace('"stage":2', '"stage":[[[]]]'), "", words="--model 8B $CARDS --ds-config d.json"),
]


def writes_on(folder, _process):
    """A file that grows while it is read."""
    def write():
        end = time.monotonic() + 3
        with open(f"{folder}/r.yaml", "ab") as file:
            while time.monotonic() < end and _process.poll() is None:
                file.write(b"# more\n" * 10000)
    threading.Thread(target=write, daemon=True).start()


def bound_socket(folder):
    made = socket.socket(socket.AF_UNIX)
    made.bind(f"{folder}/r.yaml")
    made.close()


def sparse(folder):
    with open(f"{folder}/r.yaml", "wb") as file:
        file.truncate(10 << 30)


def as_link(target):
    return lambda folder: os.symlink(target, f"{folder}/r.yaml")


KINDS = [
    Attack("a pipe as a recipe", "--recipe r.yaml $CARDS", made=lambda folder: os.mkfifo(f"{folder}/r.yaml"), says="pipe"),
    Attack("a socket as a recipe", "--recipe r.yaml $CARDS", made=bound_socket, says="pipe or a socket"),
    Attack("a folder as a recipe", "--recipe r.yaml $CARDS", made=lambda folder: os.mkdir(f"{folder}/r.yaml"), says="folder"),
    Attack("an endless device as a recipe", "--recipe /dev/zero $CARDS", says="device"),
    Attack("an endless device through a link", "--recipe r.yaml $CARDS", made=as_link("/dev/urandom"), says="device"),
    Attack("a terminal as a recipe", "--recipe /dev/tty $CARDS", says="/dev/tty"),
    Attack("a link to itself as a recipe", "--recipe r.yaml $CARDS", made=as_link("r.yaml"), says="symbolic links"),
    Attack("a link to nothing as a recipe", "--recipe r.yaml $CARDS", made=as_link("nowhere"), says="No such file"),
    Attack("memory of the process as a recipe", "--recipe /proc/self/mem $CARDS", says="/proc/self/mem"),
    Attack("an empty file of the kernel's", "--recipe /proc/self/attr/current $CARDS", says="/proc/self/attr/current", status=(BAD_INPUT,)),
    Attack("an unreadable recipe", "--recipe r.yaml $CARDS", {"r.yaml": RECIPE}, as_nobody=True,
           made=lambda folder: os.chmod(f"{folder}/r.yaml", 0), says="Permission denied"),
    Attack("a recipe of 10 GB", "--recipe r.yaml $CARDS", made=sparse, says="larger than"),
    Attack("a recipe that grows while it is read", "--recipe r.yaml $CARDS", {"r.yaml": RECIPE}, during=writes_on, status=PLANNED + (BAD_INPUT,),
           changes=("r.yaml",), seconds=3, mebibytes=300),
    Attack("a name of 100,000 characters", "--recipe " + "r" * 100000 + " $CARDS", says="too long"),
    Attack("a recipe below a file", "--recipe r.yaml/x $CARDS", {"r.yaml": RECIPE}, says="Not a directory"),
    Attack("a folder of links to each other", "check .", made=lambda folder: (os.symlink("b", f"{folder}/a"), os.symlink("a", f"{folder}/b")),
           says="", status=(BAD_INPUT,)),
    Attack("a folder that holds itself", "check .", {"a/y/.x": "x"}, made=lambda folder: os.symlink("..", f"{folder}/a/up"), status=(BAD_INPUT,)),
    Attack("a folder with a pipe and a device", "check .", made=lambda folder: (os.mkfifo(f"{folder}/p.json"), os.symlink("/dev/zero", f"{folder}/z.json")),
           status=(BAD_INPUT,)),
    Attack("a pipe as lengths", "--model 8B $CARDS --lengths p", made=lambda folder: os.mkfifo(f"{folder}/p"), says="pipe"),
    Attack("a pipe as an error message", "fit --oom p --model 8B $CARDS", made=lambda folder: os.mkfifo(f"{folder}/p"), says="pipe"),
    Attack("a pipe as a GPU", "--model 8B --gpus 8 --gpu ./p.json", made=lambda folder: os.mkfifo(f"{folder}/p.json"), says=""),
    Attack("a pipe as a baseline", "compare --model 8B $CARDS zero3 --baseline p", made=lambda folder: os.mkfifo(f"{folder}/p"), says=""),
]

SHELL = [
    script("a command that is substituted", SWIFT + "--max_length $(touch PWNED; echo 2048)\n"),
    script("backticks", SWIFT + "--max_length `touch PWNED; echo 2048`\n"),
    script("a script that is read in", "source ./evil.sh\n. ./evil.sh\n" + SWIFT + "\n"),
    script("eval and exec", "eval 'touch PWNED'\nexec touch PWNED\n" + SWIFT + "\n"),
    script("a process that is substituted", "cat <(touch PWNED) >(touch PWNED)\n" + SWIFT + "\n"),
    script("a command in a default", "X=${Y:=$(touch PWNED)}\n" + SWIFT + '--max_length "$X"\n'),
    script("a command in an index", "X=$((a[$(touch PWNED)]))\nlet 'b[$(touch PWNED)]=1'\n" + SWIFT + '--max_length "$X"\n'),
    script("a trap", "trap 'touch PWNED' EXIT DEBUG\n" + SWIFT + "\n"),
    script("a file that is written", "echo x > PWNED\ncat > PWNED <<EOF\nx\nEOF\n" + SWIFT + "\n"),
    script("a function that calls itself", "f() { f; f; }\nf\n" + SWIFT + "\n"),
    script("a loop that does not end", "while :; do :; done\nuntil false; do X=$X$X; done\n" + SWIFT + "\n"),
    script("a value that doubles", "x=xxxxxxxx\n" + "x=$x$x\n" * 60 + SWIFT + '--max_length "$x"\n'),
    script("braces of a billion", SWIFT + "--max_length {1..1000000000}\n"),
    script("braces of braces", SWIFT + "--max_length " + "{a,b}" * 40 + "\n"),
    script("a power that does not fit", "X=$((2**999999))\nY=$((1/0))\nZ=$((-9223372036854775808 / -1))\nW=$((1<<999))\n" + SWIFT + "--max_length $X\n"),
    script("a replacement that multiplies", "x=aaaaaaaa\n" + 'x=${x//a/aaaaaaaa}\n' * 20 + SWIFT + '--max_length "$x"\n'),
    script("an index of a billion", "a[999999999]=1\na[-5]=2\n" + SWIFT + '--max_length "${a[999999999]}"\n'),
    script("a sequence of a billion", "for i in $(seq 1 1000000000); do X=$i; done\n" + SWIFT + "--max_length $X\n"),
    script("nested loops", "".join(f"for i{n} in 1 2 3 4 5 6 7 8 9; do\n" for n in range(12)) + "x=1\n" + "done\n" * 12 + SWIFT + "\n"),
    script("80,000 flags", SWIFT + " ".join(f"--flag_{i} 1" for i in range(80000)) + "\n"),
    script("quotes that do not end", SWIFT + "--max_length '" + "x" * 900000),
    script("brackets that do not end", SWIFT + "--max_length " + "$(" * 20000),
    script("documents in documents", "".join(f"cat <<E{i}\n" for i in range(2000)) + SWIFT + "\n"),
    script("a script of 5 MB", "# x\n" * 1250000 + SWIFT + "\n", "1 MiB", (BAD_INPUT,)),
    script("the contents of another file", SWIFT + "--max_length $(cat /etc/passwd)\n", check=lambda _folder, done: "prints /etc/passwd" if "root:x" in done.out + done.err else None),
    script("a secret of the environment", SWIFT + '--hub_token "$HF_TOKEN" --max_length $SECRET\n', environment={"HF_TOKEN": "hf_5ecret5ecret", "SECRET": "5ecret"},
           check=lambda _folder, done: "prints the secret" if "5ecret" in done.out + done.err else None),
    script("a device as its config", SWIFT.replace("swift sft", "swift sft --deepspeed /dev/zero") + "\n"),
    script("a NUL", SWIFT + "\0--max_length 2048\n"),
    script("bytes that are no UTF-8", SWIFT.encode() + b"--max_length \xff\xfe\n"),
    script("line ends of Windows", SWIFT.replace(" --per", " \\\r\n --per") + "\r\n"),
    Attack("a config outside of the recipe's folder", "--recipe r.yaml $CARDS --verbose", {"r.yaml": RECIPE + "deepspeed: /etc/os-release\n"},
           status=PLANNED, says="lies outside of the\\s+recipe's\\s+folder"),
    Attack("a config through a link out of the recipe's folder", "--recipe r.yaml $CARDS --verbose", {"r.yaml": RECIPE + "deepspeed: d.json\n"},
           made=lambda folder: os.symlink("/etc/os-release", f"{folder}/d.json"), status=PLANNED, says="lies\\s+outside"),
    Attack("a config through a link to the kernel's", "--recipe r.yaml $CARDS --verbose", {"r.yaml": RECIPE + "deepspeed: d.json\n"},
           made=lambda folder: os.symlink("/proc/self/environ", f"{folder}/d.json"), status=PLANNED, says="d.json",
           environment={"SECRET": "5ecret"}, check=lambda _folder, done: "prints the secret" if "5ecret" in done.out + done.err else None),
    Attack("a pipe as a recipe's config", "--recipe r.yaml $CARDS --verbose", {"r.yaml": RECIPE + "deepspeed: d.json\n"},
           made=lambda folder: os.mkfifo(f"{folder}/d.json"), status=PLANNED, says="d.json"),
]


class Runs:
    def __reduce__(self):
        return os.system, ("touch PWNED",)


def shared_lists(depth, width):
    """A list of a list of …, each of which stands `width` times in the next."""
    body = b"]\x94"
    for i in range(depth):
        body += b"]\x94(" + b"".join(b"h" + bytes([i]) for _ in range(width)) + b"e\x94".replace(b"\x94", b"")
    return b"\x80\x04" + body + b"."


EMPTY = {"segments": [], "device_traces": [[]]}


def history(events):
    return {"segments": [], "device_traces": [[{"action": "alloc", "addr": i, "size": 512, "stream": 0, "frames": []} for i in range(events)]]}


SNAPSHOT = [
    snapshot("a call of os.system", pickle.dumps(Runs(), 4), "pickle of other objects"),
    snapshot("a call in a snapshot", pickle.dumps({**EMPTY, "x": Runs()}, 4), "pickle of other objects"),
    snapshot("lists that multiply", shared_lists(60, 200), "pickle", mebibytes=600, seconds=3),
    snapshot("a length of 2^63", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b"x.", "pickle"),
    snapshot("a length of 4 GB", b"\x80\x04X" + struct.pack("<I", 0xFFFFFFFF) + b"x.", "cut off"),
    snapshot("a name of 2^32", b"\x80\x04Nr" + struct.pack("<I", 0xFFFFFFFF) + b".", "", (BAD_INPUT,)),
    snapshot("a name that nothing has", b"\x80\x04h\x05.", "pickle"),
    snapshot("an empty stack", b"\x80\x04a.", "pickle"),
    snapshot("a cut file", pickle.dumps(history(100), 4)[:-50], "cut off"),
    snapshot("a list in itself", b"\x80\x04]\x94h\x00a.", "pickle"),
    snapshot("30 million values", b"\x80\x04(" + b"N" * 30000000 + b"l.", "pickle", mebibytes=1000, seconds=5),
    snapshot("marks without end", b"\x80\x04" + b"(" * 20000000 + b".", "pickle", mebibytes=400, seconds=3),
    snapshot("a text a million times", b"\x80\x04\x8c\xff" + b"x" * 255 + b"\x94](" + b"h\x00" * 3000000 + b"e.", "", mebibytes=1000, seconds=5),
    snapshot("160,000 events", pickle.dumps(history(160000), 4), "", (0, 1), seconds=6, mebibytes=700),
    snapshot("sizes beyond 64 bits", pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1 << 80}]]}, 4), "64 bits"),
    snapshot("sizes below zero", pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": -5}]]}, 4), "size"),
]

LOG = [
    log("a line of 20 MB", "Max_MA 1 GB Max_CA " + "x" * 20000000, "", mebibytes=400),
    log("a million lines", "Max_MA\nMax_CA\n" * 500000, "", mebibytes=400, seconds=3),
    log("NUL and bytes of no text", b"Max_MA \0\xff\xfe Max_CA \x1b[31m" * 1000, ""),
    log("figures beyond any number", "MA 1e999 GB  Max_MA 1e999 GB  CA 1e999 GB  Max_CA 999999999999999999999 GB\n", ""),
]
GROUPS = {"YAML": YAML, "TOML": TOML, "config.json": JSON, "ds_config": LINT, "kinds of files": KINDS, "shell": SHELL, "snapshot": SNAPSHOT, "log": LOG}

"""Fuzzes the readers of what others write, each for some seconds, as many at once as there are cores: run.py BUILD SECONDS [READER…].

Seeds: files of tests/, and what corpus/READER keeps of earlier findings. The last line counts the readers; a finding is
kept as BUILD/fuzz/READER/crash-….
"""
import glob
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
LONGEST = 16384  # bytes of an input

SEEDS = {
    "yaml": ["reference/recipes/*.yaml", "cli/golden/*.yaml"],
    "toml": [],
    "shell": ["reference/recipes/*.sh"],
    "recipe": ["reference/recipes/*.yaml", "reference/recipes/*.sh", "hostile/fuzz/corpus/toml/*.toml"],
    "json": ["models/corpus/*.json", "check/corpus/*.json", "reference/recipes/*.json"],
    "config": ["models/corpus/*.json"],
    "ds_config": ["reference/ds_config/cases/*.json", "deepspeed/golden/*.json", "reference/recipes/ds_stage3.json"],
    "snapshot": ["check/snapshots/*.pickle"],
    "log": ["check/samples/*", "check/corpus/*", "reference/oom_messages/*"],
    "scenarios": ["cli/golden/*.zplan", "gui/**/*.zplan"],
}
WORDS = {
    "yaml": ["<<: ", "&a ", "*a", "!!int ", "? ", ": ", "- ", "|\n", "---\n", "{", "}", "[", "]"],
    "toml": ["[[", "]]", "[a.b]\n", "= ", '"""', "'''", "0x", "1979-05-27T07:32:00Z", "inf", "{", "}", "\\u00e9", "# "],
    "shell": ["$(", "`", "${", "}", "$((", "))", "<<EOF\n", "EOF\n", "for i in ", "; do ", "done\n", "if ", "then ", "fi\n", "swift sft ", "torchrun ", "\\\n"],
    "recipe": ["[parallelism]\n", "pipeline_parallel_degree = 2\n", "tensor_parallel_degree", "pipeline_parallel_schedule = ", '"ZBVZeroBubble"',
               "pipeline_parallel_layers_per_stage = ", "local_batch_size = ", "--num-layers ", "--hidden-size ", "--tensor-model-parallel-size ",
               "--global-batch-size ", "--tuner_type lora ", "--target_modules ", "NPROC_PER_NODE=", "NNODES=", "deepspeed: ", "-1", "9223372036854775807"],
    "snapshot": ["\\x80\\x04", "\\x94", "\\x8c", "\\x8a", "\\x95"],
}


def seeds_of(reader):
    return [each for pattern in SEEDS[reader] for each in glob.glob(os.path.join(TESTS, pattern), recursive=True)
            if os.path.isfile(each) and os.path.getsize(each) <= LONGEST * 4]


def fuzzed(build, reader, seconds):
    """True if nothing was found."""
    folder = os.path.join(build, "fuzz", reader)
    corpus = os.path.join(folder, "corpus")
    os.makedirs(corpus, exist_ok=True)
    seeds = seeds_of(reader)
    words = [os.path.join(build, "bin", f"fuzz_{reader}"), f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=60", "-rss_limit_mb=2048",
             "-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={folder}/", *([f"-seed_inputs={','.join(seeds)}"] if seeds else []), corpus]
    if os.path.isdir(kept := os.path.join(HERE, "corpus", reader)):
        words.append(kept)
    if reader in WORDS:
        dictionary = os.path.join(folder, "words")
        with open(dictionary, "w", encoding="utf-8") as file:
            for each in WORDS[reader]:
                text = each if each.startswith("\\x") else each.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\x0a")
                file.write(f'"{text}"\n')
        words.append(f"-dict={dictionary}")
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    ran = [line.split()[-1] for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
    print(f"{reader}: {ran[0] if ran else 'no'} inputs{'' if done.returncode == 0 else ': ' + done.stderr[-3000:]}", flush=True)
    return done.returncode == 0


def main():
    build, seconds = sys.argv[1], int(sys.argv[2])
    readers = sys.argv[3:] or list(SEEDS)
    with ThreadPoolExecutor(os.cpu_count()) as at_once:
        held = list(at_once.map(lambda reader: fuzzed(build, reader, seconds), readers))
    print(f"{sum(held)} passed, {len(held) - sum(held)} failed")
    sys.exit(0 if all(held) else 1)


main()

"""fit_schema_test.py ZPLAN SCHEMA: what `zplan fit … --json` prints is what the schema says, for every question, where nothing fits,
and for out-of-memory messages with and without a plan."""

import json
import subprocess
import sys

import jsonschema

MESSAGE = (
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.27 GiB. GPU 1 has a total capacity of 44.35 GiB of which "
    "1.38 GiB is free. Including non-PyTorch memory, this process has 42.96 GiB memory in use. Of the allocated memory 41.10 GiB is "
    "allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated."
)
QUESTIONS = [
    ["--model", "8B", "--gpus", "5", "--mem", "44"],
    ["--solve", "memory", "--model", "8B", "--gpus", "2", "--zero", "3"],
    ["--solve", "model", "--gpus", "2", "--mem", "24", "--zero", "2"],
    ["--solve", "gpus", "--model", "70B", "--gpu", "H100-SXM-80GB", "--zero", "2,3"],
    ["--solve", "micro-batch", "--model", "8B", "--gpus", "1", "--mem", "24", "--zero", "0"],
    ["--oom", MESSAGE],
    ["--oom", "CUDA out of memory. Tried to allocate 2.00 MiB"],
    ["--oom", MESSAGE, "--model", "8B", "--gpus", "5", "--zero", "2", "--seq", "4096", "--micro-batch", "4"],
]


def main():
    program, schema_path = sys.argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    broken = 0
    for question in QUESTIONS:
        result = subprocess.run([program, "fit", *question, "--json"], capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1) and not result.stderr, (question, result.returncode, result.stderr)
        for error in validator.iter_errors(json.loads(result.stdout)):
            broken += 1
            print(f"{question}: {error.json_path}: {error.message}")
    # The schema must be able to fail.
    assert not validator.is_valid({"schema": "zplan.fit/1"}), "the schema accepts an empty report"
    sys.exit(1 if broken else 0)


main()

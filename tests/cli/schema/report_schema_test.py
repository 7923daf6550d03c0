"""report_schema_test.py ZPLAN SCHEMA: what `zplan … --json` prints is what the schema says, over questions that differ
in every branch of the report: fits or not, one node or two, LoRA, offload, mixtures, compare, explain."""

import json
import pathlib
import subprocess
import sys

import jsonschema

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "reference" / "recipes"
QUESTIONS = [
    "--model 8B --gpus 5 --mem 44",
    "--model Qwen/Qwen3-8B --gpus 5 --mem 44 --explain",
    "--model 70B --gpus 16 --nodes 2 --gpu H100-SXM-80GB --micro-batch max",
    "--model Qwen/Qwen3-30B-A3B --method lora --zero 2 --gpus 5 --mem 44 --micro-batch 2",
    "--model 8B --gpus 1 --mem 8 --zero 0 --checkpointing none",
    "--model 8B --method qlora --quantization nf4-double --gpus 2 --mem 24 --optimizer adamw8bit",
    "--model 8B --gpus 8 --mem 80 --framework fsdp --explain",
    "--model 8B --gpus 2 --mem 80 --framework torch --method lora",
    "--model 175B --gpus 8 --gpu A100-SXM-80GB --offload all-nvme --zero 3 --precision fp16 --units GB",
    "search --model 8B --gpus 5 --mem 44 --global-batch 40",
    "search --model 70B --gpus 2 --mem 24",
    "compare --model 70B --gpus 16 --gpu H100-SXM-80GB --nodes 2 zero3 tp8+zero1 zero3+offload-all",
    "compare --model meta-llama/Llama-2-13b-hf --gpus 8 --gpu RTX-4090-24GB --seq 256 --global-batch 8 zero3 tp8+zero1",
    "compare --model 0.5B --gpus 1 --mem 24 zero0 zero3",
    "compare --model 8B --gpus 8 --mem 80 zero3 fsdp fsdp+no-reshard ddp",
    "compare --model 0.5B --gpus 2 --mem 24 --baseline zero2 zero3+b2 lora+zero1+a2 qlora+ddp",
    f"--recipe {RECIPES}/axolotl_qlora.yaml --gpus 2 --mem 24",
    f"search --recipe {RECIPES}/trl_sft.yaml --gpus 2 --mem 24",
]


def main():
    program, schema_path = sys.argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    broken = 0
    for question in QUESTIONS:
        result = subprocess.run([program, *question.split(), "--json"], capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1) and not result.stderr, (question, result.returncode, result.stderr)
        for error in validator.iter_errors(json.loads(result.stdout)):
            broken += 1
            print(f"{question}: {error.json_path}: {error.message}")
    # The schema must be able to fail.
    assert not validator.is_valid({"schema": "zplan.report/1"}), "the schema accepts an empty report"
    sys.exit(1 if broken else 0)


main()

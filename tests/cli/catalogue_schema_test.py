"""catalogue_schema_test.py ZPLAN SCHEMA: what `zplan models … --json` and `zplan hardware … --json` print is what the schema says."""

import json
import subprocess
import sys

import jsonschema

QUESTIONS = [
    ["models"],
    ["models", "search", "qwen3"],
    ["models", "show", "Qwen/Qwen3-8B"],
    ["models", "show", "mistralai/Mixtral-8x7B-v0.1"],
    ["hardware"],
    ["hardware", "search", "h100"],
    ["hardware", "instances"],
]


def main():
    program, schema_path = sys.argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    broken = 0
    for question in QUESTIONS:
        result = subprocess.run([program, *question, "--json"], capture_output=True, text=True, check=True)
        for error in validator.iter_errors(json.loads(result.stdout)):
            broken += 1
            print(f"{question}: {error.json_path}: {error.message}")
    # The schema must be able to fail.
    assert not validator.is_valid({"schema": "zplan.models/1"}), "the schema accepts an empty catalogue"
    sys.exit(1 if broken else 0)


main()

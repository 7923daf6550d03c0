"""bench_schema_test.py SCHEMA FILE…: results of the benchmark are what the schema says, and one that lacks a key or has
another type is not."""

import copy
import json
import sys

import jsonschema

# Results that were written before these keys were added are still results.
ADDED_LATER = {"share_gpu"}


def main():
    schema_path, *paths = sys.argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert paths, "no result"
    broken = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        for error in validator.iter_errors(result):
            broken += 1
            print(f"{path}: {error.json_path}: {error.message}")
        for key in set(result) - ADDED_LATER:
            lacking = copy.deepcopy(result)
            del lacking[key]
            assert not validator.is_valid(lacking), f"the schema accepts a result without {key}"
        result["collectives"][0]["bytes"] = "many"
        assert not validator.is_valid(result), "the schema accepts a text for a size"
    sys.exit(1 if broken else 0)


main()

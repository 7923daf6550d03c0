"""check_schema_test.py ZPLAN SCHEMA TESTS: what `zplan check … --json` prints is what the schema says, over every kind of
measurement, skipped and judged, with and without a tolerance."""

import json
import subprocess
import sys

import jsonschema

PLAN = "--model Qwen2.5-0.5B --gpus 4 --mem 80 --zero 2 --tp 1 --offload none --seq 1024".split()


def main():
    program, schema_path, tests = sys.argv[1:]
    questions = [
        [f"{tests}/reference/published"],
        [f"{tests}/reference/capacity", f"{tests}/reference/schedules"],
        [f"{tests}/reference/deepspeed_runs/runs.json", "--worst", "2"],
        [f"{tests}/reference/published/memory.json", "--tolerance", "1%"],
        [f"{tests}/check/samples/deepspeed.log", f"{tests}/check/samples/snapshot.json", *PLAN],
        [f"{tests}/check/snapshots/z2.pickle", *PLAN],
        [f"{tests}/check/samples/all_reduce.txt"],
        [f"{tests}/check/samples/bench_nccl.json", f"{tests}/check/samples/bench_mpi.json", "--tolerance", "50%"],
    ]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    broken = 0
    kinds = set()
    for question in questions:
        result = subprocess.run([program, "check", *question, "--json"], capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1), (question, result.returncode, result.stderr)
        report = json.loads(result.stdout)
        kinds |= {group["kind"] for group in report["groups"]}
        for error in validator.iter_errors(report):
            broken += 1
            print(f"{question}: {error.json_path}: {error.message}")
    assert kinds == {"measurement", "speed", "collectives", "schedule", "step", "log"}, kinds
    # The schema must be able to fail.
    assert not validator.is_valid({"schema": "zplan.check/1"}), "the schema accepts an empty report"
    record = {"id": "a", "file": "b", "kind": "step", "statistic": "allocated", "predicted": 1, "measured_low": 1,
              "measured_high": 1, "error": None, "exact": False, "phase_right": None, "part": None, "skipped": None}
    report = {"schema": "zplan.check/1", "zplan_version": "0", "groups": [], "records": [record], "other_planners": []}
    assert not validator.is_valid(report), "the schema accepts a record that is neither judged nor skipped"
    sys.exit(1 if broken else 0)


main()

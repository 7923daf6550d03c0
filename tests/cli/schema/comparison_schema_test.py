"""comparison_schema_test.py ZPLAN SCHEMA REPORT_SCHEMA: what `zplan compare FILE.zplan --json` prints is what the schema says, and
each of its reports what zplan --json prints; with scenarios that fit, that do not, and a report that was saved."""

import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

SCENARIOS = [
    {"name": "small", "arguments": "--model 0.5B --gpus 2 --mem 24".split()},
    {"name": "pinned", "arguments": "--model 0.5B --gpus 2 --mem 24".split(), "strategy": "zero3"},
    {"name": "too large", "arguments": "--model 8B --gpus 1 --mem 8 --offload none".split()},
    {"name": "then", "report": "then.json"},
    {"name": "left out", "arguments": [], "compared": False},
]


def validator_of(path):
    schema = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def run(program, *words):
    result = subprocess.run([program, *words, "--json"], capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1) and not result.stderr, (words, result.returncode, result.stderr)
    return json.loads(result.stdout)


def main():
    program, schema, report_schema = sys.argv[1:]
    comparison, report = validator_of(schema), validator_of(report_schema)
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        saved = run(program, "--model", "0.5B", "--gpus", "4", "--mem", "24")
        pathlib.Path(folder, "then.json").write_text(json.dumps(saved), encoding="utf-8")
        file = pathlib.Path(folder, "all.zplan")
        for more in ([], ["--baseline", "then"], ["--explain"]):
            file.write_text(json.dumps({"schema": "zplan.scenarios/1", "baseline": 1, "scenarios": SCENARIOS}), encoding="utf-8")
            answer = run(program, "compare", str(file), *more)
            assert len(answer["scenarios"]) == 4, [each["name"] for each in answer["scenarios"]]
            errors += comparison.iter_errors(answer)
            for each in answer["scenarios"]:
                errors += report.iter_errors(each["report"])
    for error in errors:
        print(f"{error.json_path}: {error.message}")
    # The schema must be able to fail.
    broken = dict(answer, scenarios=[dict(answer["scenarios"][0], saved="then.json")])
    assert not comparison.is_valid(broken), "the schema accepts a scenario that is planned and saved"
    assert not comparison.is_valid({"schema": "zplan.comparison/1"}), "the schema accepts an empty comparison"
    sys.exit(1 if errors else 0)


main()

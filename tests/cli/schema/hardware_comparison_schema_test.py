"""hardware_comparison_schema_test.py ZPLAN SCHEMA REPORT_SCHEMA: what `zplan hardware compare … --json` prints is what the schema
says, and the reports in it are reports."""

import json
import subprocess
import sys

import jsonschema

QUESTIONS = [
    ["H100-SXM-80GB", "p4d.24xlarge", "--model", "8B", "--gpus", "8", "--zero", "3", "--offload", "none"],
    ["h100", "910b", "--model", "8B", "--method", "qlora"],
    ["h100", "g6e.12xlarge", "910b", "--model", "8B", "--method", "qlora", "--price", "3,2,1", "--order", "cheapest", "--samples", "1000"],
    ["RTX-2060-12GB", "dgx-spark", "--model", "1.7B", "--zero", "0"],
]


def read(path):
    with open(path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def main():
    program, schema, report = sys.argv[1], read(sys.argv[2]), read(sys.argv[3])
    broken = 0
    for question in QUESTIONS:
        result = subprocess.run([program, "hardware", "compare", *question, "--json"], capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1) and not result.stderr, (question, result.returncode, result.stderr)
        comparison = json.loads(result.stdout)
        errors = list(schema.iter_errors(comparison))
        for each in comparison["hardware"]:
            errors += report.iter_errors(each["report"]) if each["report"] else []
        for error in errors:
            broken += 1
            print(f"{question}: {error.json_path}: {error.message}")
    # The schema must be able to fail.
    comparison["hardware"][0]["kind"] = "toaster"
    assert not schema.is_valid(comparison), "the schema accepts any kind of hardware"
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""lint_schema_test.py ZPLAN SCHEMA CASES: what `zplan lint … --json` prints is what the schema says, over the reference cases, and
--sarif holds what SARIF 2.1.0 asks for."""

import json
import pathlib
import subprocess
import sys

import jsonschema

PLAN = "--model 0.5B --gpus 4 --mem 80 --seq 1024".split()


def printed(program, *arguments):
    result = subprocess.run([program, "lint", *arguments], capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), (arguments, result.returncode, result.stderr)
    return json.loads(result.stdout)


def check_sarif(log):
    assert log["version"] == "2.1.0", log["version"]
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules)) > 50, rules
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"], result
        assert result["level"] in ("error", "warning", "note"), result
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert region["startLine"] >= 1 and region["startColumn"] >= 1, region
    return len(run["results"])


def main():
    program, schema_path, cases = sys.argv[1:]
    files = sorted(str(path) for path in pathlib.Path(cases).glob("*.json"))
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    reports = [printed(program, *files, "--json"), printed(program, *files, *PLAN, "--json")]
    broken = [(error.json_path, error.message) for report in reports for error in validator.iter_errors(report)]
    for each in broken:
        print(*each)
    assert any(each["plan"] for each in reports[1]["files"]) and not any(each["plan"] for each in reports[0]["files"])
    assert check_sarif(printed(program, *files, "--sarif")) == sum(len(each["findings"]) for each in reports[0]["files"])
    # The schema must be able to fail.
    assert not validator.is_valid({"schema": "zplan.lint/1"}), "the schema accepts an empty report"
    sys.exit(1 if broken else 0)


main()

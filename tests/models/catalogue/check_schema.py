"""Validates every file of the catalogue against its schema: check_schema.py FOLDER"""
import json
import pathlib
import sys

import jsonschema


def complaints(file, validator):
    for error in validator.iter_errors(json.loads(file.read_text())):
        yield f"{file.name}#/{'/'.join(map(str, error.absolute_path))}: {error.message}"


def main():
    folder = pathlib.Path(sys.argv[1])
    schema = json.loads((folder / "catalogue.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    files = [file for file in sorted(folder.glob("*.json")) if file.name != "catalogue.schema.json"]
    found = [complaint for file in files for complaint in complaints(file, validator)]
    print("\n".join(found) or f"{len(files)} files follow the schema")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())

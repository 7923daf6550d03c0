#!/bin/sh
# A wheel in a virtual environment of its own: what is in it, that it answers as the program does, and what stands on it.
# usage: test_wheel.sh WHEEL TARBALL   (exit status 77: no package index)
# The program is the tarball's: the same code by the same compiler. Another's last digits differ (1e-14 of a time).
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(dirname "$(dirname "$here")")
wheel=$(realpath "$1")
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
tar -xzf "$2" -C "$venv"
ZPLAN_PROGRAM=$(echo "$venv"/zplan-*/bin/zplan)
export ZPLAN_PROGRAM PYTHONDONTWRITEBYTECODE=1
python3 -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-index "$wheel"
"$venv/bin/python" "$here/wheel_test.py" "$wheel"
"$venv/bin/python" "$here/api_test.py"
"$venv/bin/python" "$here/watch_test.py"
"$venv/bin/python" -m pip install -q --disable-pip-version-check pandas nbclient ipykernel mypy ruff typing_extensions pandas-stubs || exit 77
"$venv/bin/python" "$here/extras_test.py"
cd "$root"
"$venv/bin/mypy"
"$venv/bin/ruff" check python tests/python

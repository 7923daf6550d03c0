#!/bin/sh
# usage: trainer_test.sh WHEEL PROGRAM PYTHON   (PYTHON has torch for CUDA, transformers and deepspeed; it is left as it is)
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$3" -m pip install -q --disable-pip-version-check --no-index --no-deps --target "$work/package" "$1"
ZPLAN_PROGRAM=$(realpath "$2") PYTHONPATH=$work/package "$3" "$here/trainer_test.py"

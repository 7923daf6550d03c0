#!/usr/bin/env bash
# validate_sample.sh BUILD [--whole | --install]: asks the real DeepSpeed, Trainer, accelerate and launchers about 60 configs of the
# grid, or about all of it, and about every FSDP2 config. Installs them from the package index, once, under build/ (4 GB).
# --install asks nothing. Exit status 0: all accepted; 1: something was refused; 77: not run, since the packages cannot be had here.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=${1:?usage: validate_sample.sh BUILD [--whole | --install]}
sample=60
[ "${2:-}" = --whole ] && sample=0
deepspeed=deepspeed==0.19.8
requirements=tests/deepspeed/requirements.txt
key=$({ cat "$requirements" && echo "$deepspeed" && python3 --version; } | sha256sum | cut -c 1-12)
folder=build/deepspeed-$key
log=build/deepspeed-install.log

not_run() {
  rm -rf "$folder.new"
  echo "not run: $1 (log: $log)"
  exit 77
}

install() {
  rm -rf build/deepspeed-* && mkdir -p build && : >"$log"
  python3 -m venv "$folder.new" >>"$log" 2>&1 || not_run "no virtual environment can be made (python3-venv)"
  local pip=("$folder.new/bin/python" -m pip --disable-pip-version-check -q install --no-compile --no-deps)
  # A small package first: it says in a moment whether there is an index.
  timeout 30 "${pip[@]}" hjson==3.1.0 >>"$log" 2>&1 || not_run "the package index cannot be reached"
  timeout 220 "${pip[@]}" -r "$requirements" >>"$log" 2>&1 || not_run "the packages cannot be installed here"
  DS_ACCELERATOR=cpu DS_BUILD_OPS=0 timeout 60 "${pip[@]}" --no-build-isolation "$deepspeed" >>"$log" 2>&1 ||
    not_run "$deepspeed cannot be installed here"
  DS_ACCELERATOR=cpu "$folder.new/bin/python" -c "import accelerate, deepspeed, transformers" >>"$log" 2>&1 ||
    not_run "what was installed does not load here"
  mv "$folder.new" "$folder"
}

started=$SECONDS
[ -x "$folder/bin/python" ] || install
echo "$deepspeed in $folder ($(du -sh "$folder" | cut -f 1), $((SECONDS - started)) s)"
[ "${2:-}" = --install ] && exit 0
status=0
DS_ACCELERATOR=cpu "$folder/bin/python" tests/deepspeed/validate_grid.py "$build/bin/zplan_emit_grid" --sample "$sample" || status=1
"$folder/bin/python" tests/fsdp/validate_configs.py "$build/bin/zplan_emit_fsdp" || status=1
echo "asked in $((SECONDS - started)) s"
exit $status

#!/usr/bin/env bash
# completion_test.sh ZPLAN SHELL: the script of this shell offers every option that --help lists, and parses where the
# shell is installed; bash's is also run.
set -eu
program=$1 shell=$2
script=$(mktemp)
trap 'rm -f "$script"' EXIT
"$program" completion "$shell" >"$script"

options=$("$program" --help | grep -oE '^  --[a-z-]+' | tr -d ' ')
[ "$(printf '%s\n' "$options" | wc -l)" -gt 30 ] || { echo "too few options in --help"; exit 1; }
for option in $options; do
  wanted=$option
  [ "$shell" = fish ] && wanted="-l ${option#--} "
  grep -qF -- "$wanted" "$script" || { echo "$shell completion lacks $option"; exit 1; }
done

if command -v "$shell" >/dev/null; then "$shell" -n "$script"; fi
[ "$shell" = bash ] || exit 0

# shellcheck disable=SC1090
source "$script"
complete_words() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=(); _zplan; printf '%s\n' "${COMPREPLY[@]}"; }
[ "$(complete_words zplan comp | tr '\n' ' ')" = "compare completion " ] || { echo "commands"; exit 1; }
[ "$(complete_words zplan gu)" = gui ] || { echo "the window"; exit 1; }
complete_words zplan gui "$script" | grep -qx "$script" || { echo "files of the window"; exit 1; }
complete_words zplan --opt | grep -qx -- --optimizer || { echo "options"; exit 1; }
complete_words zplan --gpu H100-S | grep -qx H100-SXM-80GB || { echo "values"; exit 1; }
complete_words zplan --instance p5.4 | grep -qx p5.48xlarge || { echo "cloud shapes"; exit 1; }
complete_words zplan hardware compare H100-S | grep -qx H100-SXM-80GB || { echo "compared hardware"; exit 1; }
complete_words zplan hardware compare --mod | grep -qx -- --model || { echo "options of compared hardware"; exit 1; }
complete_words zplan --method q | grep -qx qlora || { echo "choices"; exit 1; }

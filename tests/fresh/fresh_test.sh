#!/usr/bin/env bash
# What fresh.sh says where no fresh machine can be had: exit status 2 and one line. Making one takes root, a Debian mirror and
# the time of two builds, so that is done by hand (docs/building.md).
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2; cat "$work/err" >&2; exit 1; }
# stand_in NAME TEXT: a program of this name that does this, in place of the system's.
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
# refuses WORDS…: with these words on stderr, on one line.
refuses() {
  local status=0
  PATH=$work/bin:$PATH ZPLAN_NO_INSTALL=1 bash "$here/fresh.sh" >"$work/out" 2>"$work/err" || status=$?
  [ "$status" -eq 2 ] || fail "exit status $status instead of 2"
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line"
  grep -qF "zplan: no fresh machine here: $*" "$work/err" || fail "not said: $*"
  [ ! -s "$work/out" ] || fail "something on stdout"
}

mkdir "$work/bin"
stand_in id 'echo 1000'
refuses "a chroot takes root"
stand_in id 'echo 0'
stand_in unshare 'exit 1'
refuses "mounts of its own are not allowed"
stand_in unshare 'exit 0'
stand_in apt-get 'exit 0'
refuses "apt's configuration names no Debian mirror"
stand_in apt-get 'echo "Debian main bookworm-security file:///security"; echo "Debian main trixie file:///other"
echo "Debian contrib bookworm file:///contrib"; echo "Debian main bookworm file:///mirror"'
stand_in debootstrap 'echo "$*" >'"$work"'/asked; exit 1'
# shellcheck disable=SC2016
stand_in unshare 'while [ "$1" != bash ]; do [ "$1" != true ] || exit 0; shift; done; exec "$@"'
refuses "debootstrap from file:///mirror failed"
grep -q -- '--variant=minbase bookworm .* file:///mirror$' "$work/asked" || fail "debootstrap was asked for $(cat "$work/asked")"

# What it runs is what README says first.
"$here/fresh.sh" --help >"$work/out" 2>"$work/err"
for each in './zplan --model 8B --gpus 5 --mem 44' './test'; do grep -qF "  $each" "$work/out" || fail "not offered: $each"; done
if bash "$here/fresh.sh" --nothing >"$work/out" 2>"$work/err"; then fail "an unknown option is taken"; fi
echo "passed"

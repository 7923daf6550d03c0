#!/usr/bin/env bash
# README's two commands on a bare Debian 12 (docs/building.md): in a chroot made from the Debian mirror that apt is
# set up with, first without /sys, as many containers are, then with it; each command timed.
# Exit status: 0 all commands ended with 0; 1 one did not; 2 no such machine can be had here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
project=$(cd "$here/../.." && pwd -P)
suite=bookworm
# shellcheck source=SCRIPTDIR/../../.ci/packages.sh
. "$project/.ci/packages.sh"

# The first indented block of README.md, a command a line.
commands_of_readme() { awk '/^    / { print substr($0, 5); seen = 1; next } seen { exit }' "$project/README.md"; }

usage() {
  cat <<END
usage: tests/fresh/fresh.sh [--no-sys | --sys] [--keep FOLDER] [--mirror URL] [COMMAND ...]
  --no-sys, --sys  only without /sys, or only with it [first without, then with]
  --keep FOLDER    the chroot stays there, and is taken up again as it is where it exists [a temporary one, removed]
  --mirror URL     a Debian mirror [the one of apt's configuration]
  COMMAND          in place of README's:
$(commands_of_readme | sed 's/^/                     /')
Needs root and a Debian mirror. What is tested is the commit that is checked out. Logs: build/fresh/.
END
}

cannot() { say "no fresh machine here: $*"; exit 2; }

read_words() {
  variants=(no-sys sys) root='' mirror='' commands=()
  while [[ ${1:-} == -* ]]; do
    case $1 in
      --no-sys | --sys) variants=("${1#--}") && shift ;;
      --keep | --mirror) [ $# -ge 2 ] || { usage >&2 && exit 2; }
        if [ "$1" = --keep ]; then root=$2; else mirror=$2; fi
        shift 2 ;;
      -h | --help) usage && exit 0 ;;
      *) usage >&2 && exit 2 ;;
    esac
  done
  commands=("$@")
  [ $# -gt 0 ] || mapfile -t commands < <(commands_of_readme)
}

# The mirror that apt would take main of this suite from; of any suite of Debian's where it has not this one.
mirror_of_apt() {
  has_command apt-get || return 0
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$suite" '$1 == "Debian" && $2 == "main" && $3 !~ /-security/ {
        if (first == "") first = $4
        if ($3 == suite && exact == "") exact = $4
      }
      END { print exact != "" ? exact : first }'
}

# debootstrap has a folder of its own there while it is at work.
is_made() { [ -n "$root" ] && [ -d "$root/usr" ] && [ ! -e "$root/debootstrap" ]; }

check_means() {
  [ "$(id -u)" -eq 0 ] || cannot "a chroot takes root"
  unshare --mount true 2>/dev/null || cannot "mounts of its own are not allowed (a container without CAP_SYS_ADMIN?)"
  if is_made; then return; fi
  [ -n "$mirror" ] || mirror=$(mirror_of_apt)
  [ -n "$mirror" ] || cannot "apt's configuration names no Debian mirror (apt-get update, or --mirror URL)"
  has_command debootstrap || { can_install && apt_install debootstrap >/dev/null 2>&1; } ||
    cannot "debootstrap is missing and cannot be installed"
}

# Copies this machine's way to the mirror: proxies, certificates and apt's settings of them.
carry_network() {
  local each
  for each in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    if [ -e "$each" ]; then mkdir -p "$root${each%/*}" && cp -L "$each" "$root$each"; fi
  done
  mkdir -p "$root/usr/local/share"
  cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/" 2>/dev/null || true
  apt-config dump | grep -E '^Acquire::(http|https|Retries|Check-)' >"$root/etc/apt/apt.conf.d/99network" || true
}

make_machine() {
  local log=$logs/debootstrap.log
  mkdir -p "$root" && chmod 755 "$root"
  debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$log" 2>&1 ||
    { tail -n 3 "$log" >&2 && cannot "debootstrap from $mirror failed (log: $log)"; }
  printf '=== a bare Debian from %s\n' "$mirror"
  carry_network
}

# As from a clone; git asks whose tree it is, and root may clone another's.
clone() {
  rm -rf "$root/srv/zplan"
  GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' git clone -q "$project" "$root/srv/zplan"
}

in_machine() {
  local carried
  mapfile -t carried < <(env | grep -iE '^(https?|no)_proxy=' || true)
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${carried[@]}" sh -c "cd /srv/zplan && $1" </dev/null
}

# run_in VARIANT: the commands, one after the other. They write over what was built before: only the first is from nothing.
run_in() {
  local each log status began number=0
  for each in "${commands[@]}"; do
    number=$((number + 1)) status=0 log=$logs/$1-$number.log began=$(date +%s)
    printf '\n=== %s: %s (log: %s)\n' "$1" "$each" "$log"
    in_machine "$each" >"$log" 2>&1 || status=$?
    tail -n 15 "$log"
    results+=("$(printf '%-7s %5d s, exit status %d: %s' "$1" "$(($(date +%s) - began))" "$status" "$each")")
    if [ "$status" -ne 0 ]; then failed=1; fi
  done
}

# Runs with mounts and processes of its own, which end with it however it ends.
inside() {
  local variant
  results=() failed=0
  is_made || make_machine
  clone
  mount -t proc proc "$root/proc"
  for variant in "${variants[@]}"; do
    if [ "$variant" = sys ]; then mount -t sysfs -o ro sysfs "$root/sys"; fi
    run_in "$variant"
  done
  printf '\n=== Debian %s, %s cores, %s\n' "$(cat "$root/etc/debian_version")" "$(nproc)" "$(git -C "$root/srv/zplan" log -1 --format='%h %s')"
  printf '%s\n' "${results[@]}"
  return "$failed"
}

read_words "$@"
logs=$project/build/fresh
if [ -n "${ZPLAN_FRESH_ROOT:-}" ]; then
  root=$ZPLAN_FRESH_ROOT mirror=${ZPLAN_FRESH_MIRROR:-}
  inside
  exit
fi
check_means
mkdir -p "$logs"
if [ -z "$root" ]; then
  root=$(mktemp -d)
  trap 'rm -rf --one-file-system "$root"' EXIT
fi
# Ends all that runs in the machine, and with it its mounts.
# shellcheck disable=SC2317
stop() {
  kill -KILL "$machine"
  wait "$machine" 2>/dev/null || true
  exit "$1"
}
ZPLAN_FRESH_ROOT=$root ZPLAN_FRESH_MIRROR=$mirror setpriv --pdeathsig KILL \
  unshare --mount --pid --fork --kill-child --propagation private bash "$here/fresh.sh" "$@" &
machine=$!
trap 'stop 130' INT
trap 'stop 143' TERM
status=0
wait "$machine" || status=$?
exit "$status"

# shellcheck shell=sh
# The slow path of ./zplan, sourced by it: $root, $build, $program, $stamp, $targets, $window, missing_target, is_built
# and changed_since_build are its own.
# shellcheck disable=SC2154

# shellcheck source=.ci/packages.sh
. "$root/.ci/packages.sh"

absolute() { (CDPATH='' cd -- "$1" && pwd -P); }

# Everything goes to the log. On a terminal one line counts up; elsewhere a line is written now and then, so that nobody
# takes a build for one that hangs.
show_progress() {
  said=$(date +%s)
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    case $line in \[*\]*) ;; *) continue ;; esac
    step=${line%%\]*}] now=$(date +%s)
    if [ -t 2 ]; then printf '\r\033[Kzplan: building %s %s s' "$step" $((now - began)) >&2
    elif [ $((now - said)) -ge "${ZPLAN_PROGRESS_SECONDS:-20}" ]; then
      said=$now
      say "building $step $((now - began)) s"
    fi
  done
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}

# How many compilers at once: one a core, as far as there is a GiB of memory for each.
job_count() {
  cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
  gib=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null)
  if [ "${gib:-$cores}" -lt "$cores" ]; then cores=$gib; fi
  [ "$cores" -ge 1 ] || cores=1
  echo "$cores"
}

# What the command line takes of one core of a server of 2023, in seconds (docs/building.md).
processor_seconds=290

# "about 2 minutes on 2 cores"
expected_time() {
  minutes=$(((processor_seconds / jobs + 45) / 60))
  case $minutes in 0) minutes='less than a minute' ;; 1) minutes='about a minute' ;; *) minutes="about $minutes minutes" ;; esac
  case $jobs in 1) echo "$minutes on one core" ;; *) echo "$minutes on $jobs cores" ;; esac
}

# A folder that ./test has configured keeps its tests: both build there, and what one has compiled the other finds.
configure() {
  if ! [ -e "$build/CMakeCache.txt" ]; then
    set -- -DCMAKE_BUILD_TYPE=Release -DZPLAN_BUILD_TESTS=OFF -DZPLAN_BUILD_GUI=OFF
    if command -v ninja >/dev/null; then set -- -GNinja "$@"; fi
  fi
  if [ -n "$window" ]; then set -- "$@" -DZPLAN_BUILD_GUI=ON; fi
  cmake -S "$root" -B "$build" "$@" -DZPLAN_BUILD_CLI=ON >>"$log" 2>&1 </dev/null
}

# A build folder that came with a moved or copied checkout belongs to another place.
is_from_elsewhere() {
  [ -e "$build/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"
}

forget_configuration() { rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"; }

# Files with an old date that are new here: build tools compare dates and would miss them.
has_backdated_sources() {
  [ -e "$stamp" ] && [ -n "$(changed_since_build -type f ! -newer "$stamp")" ]
}

compile() {
  {
    # shellcheck disable=SC2086
    cmake --build "$build" --target $targets --parallel "$jobs" "$@" 2>&1 </dev/null
    echo $? >"$build/status"
  } | show_progress
  return "$(cat "$build/status")"
}

# Without Qt 6 there is no such target; the program then says what the window needs.
leave_out_window() {
  if [ -z "$window" ] || cmake --build "$build" --target help 2>/dev/null </dev/null | grep -q 'zplan-gui'; then return; fi
  targets=$(printf '%s' "$targets" | sed 's/ zplan-gui//') window=''
}

announce() {
  if ! [ -x "$program" ]; then say "building the command line, once; this takes $(expected_time) (log: $log)"
  elif [ -n "$(missing_target)" ]; then say "building $(missing_target), once; this takes a few minutes (log: $log)"
  else say "sources changed, building again"; fi
}

build_failed() {
  {
    echo "zplan: could not be built: $1. The end of $log:"
    tail -n 20 "$log" | sed 's/^/  | /'
    echo "zplan: not built; nothing was planned."
  } >&2
  return 1
}

build_under_lock() {
  # Another run may have built it while this one waited.
  if is_built; then return 0; fi
  log=$build/build.log
  : >"$log"
  jobs=$(job_count)
  announce
  began=$(date +%s)
  clean=''
  if is_from_elsewhere; then forget_configuration && clean=--clean-first; fi
  if has_backdated_sources; then clean=--clean-first; fi
  : >"$stamp.next"
  # Where it cannot be installed the benchmark is built without it, and the window not at all.
  for each in bench gui; do
    case $targets in *"zplan-$each"*) provide "$log" "$each" || true ;; esac
  done
  # What is installed is only looked at where configuring fails: the usual case costs nothing.
  if ! { command -v cmake >/dev/null && configure; }; then
    provide "$log" cli || return 1
    forget_configuration
    configure || { build_failed "CMake stopped"; return 1; }
  fi
  leave_out_window
  compile ${clean:+"$clean"} || { build_failed "the compiler stopped"; return 1; }
  mv "$stamp.next" "$stamp"
  say "built in $(($(date +%s) - began)) s"
}

build_command_line() {
  if ! mkdir -p "$build" 2>/dev/null || ! [ -w "$build" ]; then
    say "cannot write $build; set ZPLAN_BUILD_DIR to a folder that you can write"
    return 1
  fi
  root=$(absolute "$root") build=$(absolute "$build") program=$build/bin/zplan stamp=$build/built
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if command -v flock >/dev/null; then
    exec 9>"$build/lock"
    flock -n 9 || { say "waiting for another run that is building"; flock 9; }
    (build_under_lock 9>&-) || { exec 9>&-; return 1; }
    exec 9>&-
  else
    build_under_lock || return 1
  fi
  trap - INT TERM
}

#!/usr/bin/env bash
# launcher_test.sh CASE: one property of ./zplan. The tree it runs on builds a shell script as its program, so
# that a build takes no compiler and no time; each build adds a line to build.count.
set -eu
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
unset ZPLAN_BUILD_DIR CDPATH
export ZPLAN_NO_INSTALL=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree="$work/a tree"  # with a space, as folders have

fail() {
  echo "FAILED: $*" >&2
  for each in "$work/out" "$work/err"; do [ -e "$each" ] && sed "s|^|${each##*/}: |" "$each" >&2; done
  exit 1
}
same() { [ "$2" = "$3" ] || fail "$1: got '$2', expected '$3'"; }
builds() { wc -l <"$tree/build.count" | tr -d ' '; }
# A change in the same tick of the clock as the build's stamp would go unnoticed.
tick() { sleep 0.05; }

make_tree() {
  mkdir -p "$tree/.ci" "$tree/cli" "$tree/models/base" "$tree/planner" "$tree/hardware_profiles" "$tree/gui"
  cp "$source_root/zplan" "$tree/"
  cp "$source_root"/.ci/packages.sh "$source_root"/.ci/build-cli.sh "$tree/.ci/"
  echo "first" >"$tree/models/base/data.json"
  : >"$tree/build.count"
  cat >"$tree/cli/program.sh" <<'END'
#!/bin/sh
if [ "${1:-}" = --exit ]; then exit "$2"; fi
window=$(dirname "$0")/zplan-gui
if [ "${1:-}" = gui ] && [ -x "$window" ]; then shift && exec "$window" "$@"; fi
if [ "${1:-}" = gui ]; then echo "no window" >&2 && exit 2; fi
printf 'data %s\n' "$(cat "$(dirname "$0")/data.json")"
for each in "$@"; do printf '[%s]' "$each"; done
printf '\n'
echo "a message" >&2
END
  cat >"$tree/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(fake LANGUAGES NONE)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/bin/zplan
  COMMAND sh -c "echo built >> '${CMAKE_SOURCE_DIR}/build.count'"
  COMMAND mkdir -p ${CMAKE_BINARY_DIR}/bin
  COMMAND sh -n ${CMAKE_SOURCE_DIR}/cli/program.sh
  COMMAND cp ${CMAKE_SOURCE_DIR}/models/base/data.json ${CMAKE_BINARY_DIR}/bin/data.json
  COMMAND cp ${CMAKE_SOURCE_DIR}/cli/program.sh ${CMAKE_BINARY_DIR}/bin/zplan
  COMMAND chmod +x ${CMAKE_BINARY_DIR}/bin/zplan
  DEPENDS cli/program.sh models/base/data.json VERBATIM)
add_custom_target(zplan DEPENDS ${CMAKE_BINARY_DIR}/bin/zplan)
if(ZPLAN_BUILD_GUI AND EXISTS ${CMAKE_SOURCE_DIR}/qt)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/bin/zplan-gui
    COMMAND cp ${CMAKE_SOURCE_DIR}/gui/window.sh ${CMAKE_BINARY_DIR}/bin/zplan-gui
    COMMAND chmod +x ${CMAKE_BINARY_DIR}/bin/zplan-gui
    DEPENDS gui/window.sh VERBATIM)
  add_custom_target(zplan-gui DEPENDS ${CMAKE_BINARY_DIR}/bin/zplan-gui)
endif()
END
  printf '#!/bin/sh\nprintf "window %%s\\n" "$*"\n' >"$tree/gui/window.sh"
}

# run ARGUMENT…: stdout in $work/out, stderr in $work/err, exit status in $status
run() {
  status=0
  "${launcher:-$tree/zplan}" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}

case_arguments_verbatim() {
  # shellcheck disable=SC1003,SC2016
  local words=('two words' '' '*' '$HOME' $'a\nb' --mem=44 -- '\')
  run "${words[@]}"
  same "exit status" "$status" 0
  same "arguments" "$(tail -n +2 "$work/out")" "$(printf '[%s]' "${words[@]}")"
}

case_stdout_is_the_programs() {
  run one  # builds
  same "stdout of the first run" "$(cat "$work/out")" $'data first\n[one]'
  grep -Eq 'building the command line, once; this takes .*minute.* on (one core|[0-9]+ cores) ' "$work/err" ||
    fail "the first run did not say on stderr that it builds, and for how long"
  run one
  same "stdout of the second run" "$(cat "$work/out")" $'data first\n[one]'
  same "stderr of the second run" "$(cat "$work/err")" "a message"
}

# Without a terminal a line now and then says how far the build is.
case_progress_is_said() {
  ZPLAN_PROGRESS_SECONDS=0 run
  grep -Eq '^zplan: building \[[^]]+\] [0-9]+ s$' "$work/err" || fail "no line says how far the build is"
  grep -q "$(printf '\r')" "$work/err" && fail "a line is written over where there is no terminal"
  same "stdout" "$(head -n 1 "$work/out")" "data first"
}

case_exit_code_passes() {
  for code in 0 1 2 77; do
    run --exit "$code"
    same "exit status" "$status" "$code"
  done
}

case_builds_only_on_change() {
  run && run && run
  same "builds after three runs" "$(builds)" 1
  tick && mkdir -p "$tree/docs" "$tree/tests" && touch "$tree/docs/page.md" "$tree/tests/new_test.cpp" && run
  same "builds after a change of docs and tests" "$(builds)" 1
  grep -q 'building' "$work/err" && fail "a change of docs and tests started a build"
  tick && echo "second" >"$tree/models/base/data.json" && run
  same "builds after a change of a source" "$(builds)" 2
  same "output of the new program" "$(head -n 1 "$work/out")" "data second"
  tick && touch "$tree/planner/new.cpp" && run
  grep -q 'building' "$work/err" || fail "a new file did not start a build"
  tick && rm "$tree/planner/new.cpp" && run
  grep -q 'building' "$work/err" || fail "a removed file did not start a build"
  run
  same "stderr once all is built" "$(cat "$work/err")" "a message"
}

case_window_is_built_when_asked_for() {
  touch "$tree/qt" && run
  [ ! -e "$tree/build/release/bin/zplan-gui" ] || fail "the window was built though nobody asked for it"
  tick && touch "$tree/gui/window.sh" && run
  grep -q 'building' "$work/err" && fail "a change of the window started a build of the command line"
  run gui two words
  same "exit status" "$status" 0
  same "what the window was given" "$(cat "$work/out")" "window two words"
  grep -q 'building zplan-gui' "$work/err" || fail "it does not say that the window is built"
  run gui && grep -q 'building' "$work/err" && fail "a window that is there is built again"
  tick && printf '#!/bin/sh\necho mended\n' >"$tree/gui/window.sh" && run
  grep -q 'building' "$work/err" || fail "a change of a window that was built did not start a build"
  same "builds of the command line" "$(builds)" 1
  run gui
  same "the new window" "$(cat "$work/out")" "mended"
}

# What is missing is named, and the command line works all the same.
case_window_without_qt() {
  run gui
  same "exit status" "$status" 2
  same "stdout" "$(cat "$work/out")" ""
  grep -q 'no window' "$work/err" || fail "the program was not asked for the window"
  run one
  same "stdout of the command line" "$(cat "$work/out")" $'data first\n[one]'
  same "stderr of the command line" "$(cat "$work/err")" "a message"
  touch "$tree/qt" && run gui
  same "stdout once Qt is there" "$(cat "$work/out")" "window "
}

# An archive or rsync lays files with the date they had elsewhere: older than the build, and yet new here.
case_old_dates_are_changes() {
  run
  tick && echo "unpacked" >"$work/data.json" && touch -d '2020-01-01' "$work/data.json"
  cp -p "$work/data.json" "$tree/models/base/data.json"
  run
  same "output" "$(head -n 1 "$work/out")" "data unpacked"
}

case_through_a_symlink() {
  mkdir -p "$work/bin"
  ln -s "../a tree/zplan" "$work/bin/relative"
  ln -s "$work/bin/relative" "$work/bin/zplan"
  cd "$work"
  launcher=bin/zplan run x
  same "stdout through two symlinks" "$(cat "$work/out")" $'data first\n[x]'
  cd "$tree" && launcher=./zplan run x && cd planner && launcher=../zplan run x && cd /
  PATH="$work/bin:$PATH" launcher=zplan run x
  same "stdout by PATH" "$(cat "$work/out")" $'data first\n[x]'
  same "builds" "$(builds)" 1
  ZPLAN_BUILD_DIR="$work/else where" run x
  same "stdout from another build folder" "$(cat "$work/out")" $'data first\n[x]'
  [ -x "$work/else where/bin/zplan" ] || fail "ZPLAN_BUILD_DIR was not used"
}

case_failed_build_is_exit_2() {
  echo 'if then' >"$tree/cli/program.sh"
  run x
  same "exit status" "$status" 2
  same "stdout" "$(cat "$work/out")" ""
  grep -qF "$tree/build/release/build.log" "$work/err" || fail "the message does not name the log"
  grep -q 'not built' "$work/err" || fail "the message does not say that nothing was built"
  tick && printf '#!/bin/sh\necho mended\n' >"$tree/cli/program.sh" && run
  same "stdout once mended" "$(cat "$work/out")" "mended"
  tick && echo 'syntax(error' >"$tree/CMakeLists.txt" && run
  same "exit status with a broken CMakeLists.txt" "$status" 2
}

case_concurrent_first_runs() {
  command -v flock >/dev/null || fail "flock (util-linux) is not installed"
  local pids=() each
  for each in 1 2 3 4 5; do "$tree/zplan" "$each" >"$work/out.$each" 2>/dev/null </dev/null & pids+=($!); done
  for each in "${pids[@]}"; do wait "$each" || fail "one of the concurrent runs failed"; done
  for each in 1 2 3 4 5; do same "stdout of run $each" "$(cat "$work/out.$each")" "data first"$'\n'"[$each]"; done
  same "builds" "$(builds)" 1
}

case_moved_checkout() {
  run
  mv "$tree" "$work/moved" && tree="$work/moved"
  tick && echo "second" >"$tree/models/base/data.json" && run
  same "exit status" "$status" 0
  same "output after the move" "$(head -n 1 "$work/out")" "data second"
}

# ./zplan and ./test build in one folder: what one has compiled must be what the other would compile. Of the project itself,
# which is configured and not built.
case_one_build_for_both() {
  root=$source_root build="$work/both" window='' log="$work/log"
  # shellcheck source=.ci/build-cli.sh
  . "$source_root/.ci/build-cli.sh"
  configure || fail "the launcher's configuration"
  ninja -C "$build" -t commands zplan | grep -F -- ' -c ' >"$work/first" || fail "nothing is compiled"
  (cd "$source_root" && cmake --preset release -B "$build" >"$log") || fail "the tests' configuration"
  ninja -C "$build" -t commands zplan | grep -F -- ' -c ' >"$work/again"
  same "lines in which they differ" "$(diff "$work/first" "$work/again" | grep -c '^[<>]')" 0
}

case_missing_packages_are_named() {
  # A system with the usual small tools and nothing else.
  mkdir "$work/bin"
  for each in sh env find readlink mkdir cat cut sort tr sed awk grep date mv tail rm nproc flock; do
    ln -s "$(command -v "$each")" "$work/bin/$each"
  done
  PATH="$work/bin" run
  same "exit status" "$status" 2
  same "stdout" "$(cat "$work/out")" ""
  for each in CMake C++20 fmt CLI11 Eigen libyaml toml++ libcurl nlohmann-json; do
    grep -q "^  - .*$each" "$work/err" || fail "$each is not named as missing"
  done
  grep -q 'apt-get' "$work/err" && fail "apt-get is named on a system that has none"
  printf '#!/bin/sh\nexit 1\n' >"$work/bin/apt-get" && chmod +x "$work/bin/apt-get"
  PATH="$work/bin" run
  PATH="$work/bin" run gui
  for each in 'Qt 6.4' 'Qt 6 Svg' lrelease; do grep -q "^  - .*$each" "$work/err" || fail "$each is not named as missing"; done
  PATH="$work/bin" run
  grep -qx '  sudo apt-get install cmake g++ libcli11-dev libcurl4-openssl-dev libeigen3-dev libfmt-dev libtomlplusplus-dev libyaml-dev ninja-build nlohmann-json3-dev' "$work/err" ||
    fail "the line to type is not given"
}

make_tree
"case_$1"

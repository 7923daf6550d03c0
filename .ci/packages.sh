# shellcheck shell=sh
# What zplan needs from the system and how it gets there. Sourced by ./zplan, ./test and .ci/run.
# ZPLAN_NO_INSTALL=1: never install, only say what is missing.

say() { printf 'zplan: %s\n' "$*" >&2; }

# One need a line: who needs it, how to tell whether it is there, its Debian package, its name for people.
needs_table() {
  cat <<'END'
cli       cmake                       cmake               CMake 3.25 or newer
cli       compiler                    g++                 a C++20 compiler (g++ 11, clang 14 or newer)
cli       build_tool                  ninja-build         Ninja or make
cli       header:fmt/core.h           libfmt-dev          the fmt library (9 or newer)
cli       header:nlohmann/json.hpp    nlohmann-json3-dev  nlohmann-json 3.11 or newer
cli       header:CLI/CLI.hpp          libcli11-dev        CLI11 2.1 or newer
cli       header:eigen3/Eigen/Core    libeigen3-dev       Eigen 3.4 or newer
cli       header:yaml.h               libyaml-dev         libyaml 0.2 or newer
cli       header:toml++/toml.h        libtomlplusplus-dev toml++ 3 or newer
cli       header:curl/curl.h          libcurl4-openssl-dev headers of libcurl 7.68 or newer
tests     command:ninja               ninja-build         Ninja
tests     header:gtest/gtest.h        libgtest-dev        GoogleTest
tests     header:gmock/gmock.h        libgmock-dev        GoogleMock
tests     header:benchmark/benchmark.h libbenchmark-dev   Google Benchmark
tests     python:jsonschema           python3-jsonschema  Python 3 with jsonschema
bench     command:mpicxx              libopenmpi-dev      Open MPI
bench     command:mpirun              openmpi-bin         mpirun of Open MPI
bench     header:hwloc.h              libhwloc-dev        hwloc
venv      python:ensurepip            python3-venv        Python 3 with venv
gui       command:qmake6              qt6-base-dev        Qt 6.4 or newer (Widgets)
gui       qt:QT_INSTALL_HEADERS/QtSvg/QSvgGenerator libqt6svg6-dev Qt 6 Svg
gui       qt:QT_INSTALL_LIBS/cmake/Qt6LinguistTools qt6-tools-dev Qt 6 LinguistTools
gui       qt:QT_HOST_BINS/qtdiag      qt6-tools-dev-tools Qt 6's tools
gui       qt:QT_HOST_BINS/lrelease    qt6-l10n-tools      lrelease of Qt 6
clang     command:clang++             clang               clang 14 or newer
web       command:emcc                emscripten          emscripten
web       command:node                nodejs              Node 18 or newer
web       file:/usr/share/nodejs/acorn node-acorn         acorn for Node
tidy      command:clang-tidy          clang-tidy          clang-tidy 14 or newer
coverage  command:gcovr               gcovr               gcovr
END
}

has_command() { command -v "$1" >/dev/null 2>&1; }

cxx() {
  for each in "${CXX:-c++}" g++ clang++; do
    if has_command "${each%% *}"; then printf '%s\n' "$each" && return; fi
  done
  return 1
}

# Does the preprocessor accept standard input? $CXX may hold flags, so it is split into words.
preprocesses() {
  compiler=$(cxx) || return 1
  # shellcheck disable=SC2086
  $compiler -std=c++20 -x c++ -E - >/dev/null 2>&1
}

is_met() {
  case $1 in
    cmake)
      has_command cmake && cmake --version | awk '{ split($3, v, "."); exit !(v[1] > 3 || v[1] == 3 && v[2] >= 25) }' ;;
    compiler) printf '#if __cplusplus < 202002L\n#error\n#endif\n' | preprocesses ;;
    build_tool) has_command ninja || has_command make ;;
    header:*) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "${1#*:}" | preprocesses ;;
    command:*) has_command "${1#*:}" ;;
    file:*) [ -e "${1#*:}" ] ;;
    # Below a folder that Qt names itself.
    qt:*) has_command qmake6 && [ -e "$(qmake6 -query "$(expr "$1" : 'qt:\([A-Z_]*\)')")/${1#*/}" ] ;;
    python:*) for each in python3 /usr/bin/python3; do "$each" -c "import ${1#*:}" 2>/dev/null && return; done; false ;;
  esac
}

# unmet GROUP…: the needs of these groups that the system does not meet, as lines "package name for people".
unmet() {
  needs_table | while read -r group probe package words; do
    case " $* " in *" $group "*) is_met "$probe" </dev/null || printf '%s %s\n' "$package" "$words" ;; esac
  done
}

# apt_get WORD…: as root or with sudo, which may ask for a password only on a terminal.
apt_get() {
  set -- env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120 "$@"
  if [ "$(id -u)" -eq 0 ]; then "$@" </dev/null
  elif [ -t 2 ]; then sudo "$@" </dev/null
  else sudo -n "$@" </dev/null; fi
}

can_install() {
  [ -z "${ZPLAN_NO_INSTALL:-}" ] && has_command apt-get && { [ "$(id -u)" -eq 0 ] || has_command sudo; }
}

# The package lists may be missing or old, and a mirror may fail once: update and try again.
apt_install() {
  apt_get install --no-install-recommends "$@" || {
    sleep 1
    apt_get update && apt_get install --no-install-recommends "$@"
  }
}

# provide LOG GROUP…: installs what these groups miss where apt-get can; says what is missing where not.
provide() {
  provide_log=$1
  shift
  provide_missing=$(unmet "$@")
  [ -n "$provide_missing" ] || return 0
  if can_install; then
    provide_packages=$(printf '%s\n' "$provide_missing" | cut -d ' ' -f 1 | sort -u | tr '\n' ' ')
    say "installing with apt-get: $provide_packages"
    # shellcheck disable=SC2086
    apt_install $provide_packages >>"$provide_log" 2>&1 || say "apt-get could not install them (log: $provide_log)"
    provide_missing=$(unmet "$@")
    [ -n "$provide_missing" ] || return 0
    say "its packages are missing or too old here (Debian 12 and Ubuntu 24.04 have new enough ones):"
  else
    say "missing on this system:"
  fi
  printf '%s\n' "$provide_missing" | while read -r package words; do printf '  - %s\n' "$words" >&2; done
  if has_command apt-get && ! can_install; then
    printf 'to install them:\n  sudo apt-get install %s\n' \
      "$(printf '%s\n' "$provide_missing" | cut -d ' ' -f 1 | sort -u | tr '\n' ' ' | sed 's/ $//')" >&2
  fi
  return 1
}

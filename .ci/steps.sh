# shellcheck shell=bash
# The steps of .ci/run, a function each, and what they report with. Sourced by .ci/run.
# A step adds to passed and failed, to broken what failed otherwise, and to not_run what could not be tried here.

passed=0 failed=0 broken=() not_run=() fetching=

title() { printf '\n=== %s (%d s so far)\n' "$1" "$SECONDS"; }

# counted NAME COMMAND…: adds the last line of its output, "N passed, N failed", to the counts.
counted() {
  local name=$1 log last
  shift
  title "$name"
  log=$(mktemp)
  if ! "$@" 2>&1 | tee "$log"; then broken+=("$name"); fi
  last=$(tail -n 1 "$log")
  rm -f "$log"
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  else
    broken+=("$name counted no tests")
  fi
}

# may_skip NAME COMMAND…: a command whose exit status 77 means that it could not be tried here.
may_skip() {
  local name=$1 status=0
  shift
  "$@" || status=$?
  case $status in
    0) ;;
    77) not_run+=("$name") ;;
    *) broken+=("$name") ;;
  esac
}

# Fetches the real DeepSpeed for the step configs while other steps build.
begin_fetching() {
  [ -z "$fetching" ] || return 0
  provide build/packages.log venv || true
  bash tests/deepspeed/validate_sample.sh build/release --install >build/install.log 2>&1 &
  fetching=$!
}

# README's first command, on a machine that may have nothing: installs, builds and runs the command line alone.
step_launcher() {
  title "./zplan --version"
  local version
  version=$(./zplan --version) || broken+=("./zplan --version")
  echo "$version"
  [ -n "$version" ] || broken+=("./zplan --version printed nothing")
}

# Builds on what the launcher has compiled.
step_tests() { counted "./test" bash ./test; }

# Without a package index nothing can be compared with the real DeepSpeed: reported, not counted.
step_configs() {
  local name="emitted configs, validated by the real DeepSpeed and accelerate"
  begin_fetching
  title "$name"
  wait "$fetching" || cat build/install.log
  [ -e build/release/CMakeCache.txt ] || cmake --preset release >build/emit.log 2>&1 || true
  cmake --build build/release --target zplan_emit_grid zplan_emit_fsdp >>build/emit.log 2>&1 || broken+=("the emitters")
  may_skip "$name" bash tests/deepspeed/validate_sample.sh build/release
}

# Without `whole`, runs what reads files of others, plays allocators and schedules, and talks over sockets: the suites that
# compare figures walk through the same code, and the step tests runs them. They, and the window, take four times as long.
# On a machine so slow that the run might not end, says so instead.
step_asan() {
  local reads='^(models\.(base|config|inventory|vision|recorded|architectures)|planner\.(frameworks|model_trace|moments|plan|sharding|simulation)|harness)\.|^cli\.(options|recipes|hub|document|scenarios|bad_input|random_questions|interrupt)'
  if [ -n "$whole" ]; then
    counted "./test asan" bash ./test asan
  elif ((SECONDS > 42 * 60)); then
    not_run+=("./test asan: no time left")
  else
    counted "./test asan, readers, planner and network" env ZPLAN_HEAVY_TESTS=OFF ZPLAN_BUILD_GUI=OFF ZPLAN_BUILD_PYTHON=OFF \
      ZPLAN_TEST_FOLDERS="models;hardware_profiles;planner;harness;cli" bash ./test asan "$reads"
  fi
}

# Another compiler, and each file by itself: joined files do not show what one of them forgets to include.
step_each_file() {
  local name="each file by itself, with clang"
  title "$name"
  if ! provide build/packages.log clang; then broken+=("clang could not be installed")
  elif ! time_for 240; then not_run+=("$name: no time left")
  elif ! { cmake --preset clang -B build/each -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >build/each.log && python3 .ci/each_file.py build/each; }; then
    broken+=("$name")
  fi
}

step_tsan() { counted "./test tsan" bash ./test tsan '^gui\.session|^planner\.|random_questions'; }

step_questions() {
  title "random questions"
  build/release/bin/random_questions --seed 1 --count 2000 || broken+=("2,000 random questions")
  ZPLAN_QUESTIONS=200 ctest --test-dir build/release -R '^python\.api$' --output-on-failure || broken+=("200 random questions of the package")
  build/asan/bin/random_questions --seed 1 --count 300 || broken+=("300 random questions under the sanitizers")
}

# Attacks that take long, and readers of what others write by clang's libFuzzer: minutes each, so only in whole.
step_fuzz() {
  counted "attacks that take long" env ZPLAN_ATTACKS=long python3 tests/hostile/hostile_test.py extremes build/release/bin/zplan
  counted "all attacks through Python" env ZPLAN_ATTACKS=all PYTHONPATH=build/release/python python3 tests/hostile/python_test.py
  counted "attacks in the window" python3 tests/hostile/window_test.py build/release/bin/zplan-gui
  if provide build/packages.log clang; then
    counted "fuzzed readers" bash -c 'cmake --preset fuzz >build/fuzz.log &&
      cmake --build --preset fuzz --target fuzz_{yaml,toml,shell,recipe,json,config,ds_config,snapshot,log,scenarios} >>build/fuzz.log &&
      python3 tests/hostile/fuzz/run.py build/fuzz 600'
  else
    broken+=("clang could not be installed")
  fi
}

step_packages() {
  local name="packages, and the wheel in an environment of its own"
  title "$name"
  if packaging/build-all; then
    may_skip "$name: no package index" sh tests/python/test_wheel.sh build/packages/*.whl build/packages/zplan-*-linux-*.tar.gz
  else
    broken+=("$name")
  fi
}

# The engine for WebAssembly answers as the command line does; in a browser, where there is one.
step_web() {
  local name="the page"
  title "$name"
  if ! provide build/packages.log web; then not_run+=("$name: no emscripten")
  elif ! packaging/build-web; then broken+=("$name could not be built")
  else
    counted "the page's engine, random questions" node tests/web/questions_test.js build/web/bin build/release/bin/zplan
    counted "the page, broken input" node tests/web/bad_input_test.mjs build/web/bin
    may_skip "$name in Chromium: no Playwright" python3 tests/web/browser_test.py build/packages/web
  fi
}

step_fresh() {
  title "a bare Debian"
  bash tests/fresh/fresh.sh || broken+=("tests/fresh/fresh.sh")
}

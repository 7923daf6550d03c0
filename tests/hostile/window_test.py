"""The same attacks in the window, under Xvfb where it is installed: each is a scenario, or a file that is opened.

The window stays, leaves every file as it is, shows no image that a name asks for, and keeps the scenarios in its session. What it
exports and saves, and its tooltips, are tested in tests/gui/window/hostile_test.cpp.

usage: window_test.py ZPLAN-GUI [PART OF A NAME]
"""
import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import attack
import extremes
import formats
import inputs
import names

AT_ONCE = 60  # scenarios of a window
LONGEST = 900  # seconds of a window
MOST = 3 << 30  # bytes of memory
OPENED = ("d.json", "t.log", "s.pickle", "s.zplan", "m/config.json", "r.yaml", "r.sh", "r.toml")


def words_of(row, folder):
    """A scenario's words: files by their whole path."""
    words = shlex.split(row.words.replace("$CARDS", attack.CARDS))
    return [os.path.join(folder, each) if os.path.lexists(os.path.join(folder, each)) else each for each in words]


def used(pid):
    """Seconds of processor time, and bytes of memory."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    tick = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / tick, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")


def waited(process):
    """Waits until the window has nothing to do. Returns what is wrong."""
    begin, before, quiet = time.monotonic(), 0.0, 0
    while quiet < 3:
        time.sleep(1)
        if process.poll() is not None:
            return f"ended with status {process.returncode}"
        seconds, memory = used(process.pid)
        quiet = quiet + 1 if seconds - before < 0.02 and seconds > 0.2 else 0
        before = seconds
        if memory > MOST:
            return f"{memory >> 20} MiB of memory"
        if time.monotonic() - begin > LONGEST:
            return "does not come to rest"
    return ""


def shown(program, home, words, check=lambda: ""):
    """Opens a window, waits until it rests, checks, and ends it. Returns what is wrong and what it printed."""
    server = ["xvfb-run", "-a"] if shutil.which("xvfb-run") else []
    platform = {} if server else {"QT_QPA_PLATFORM": "offscreen"}
    environment = {**attack.environment_of(attack.Attack("", ""), home), **attack.SANITIZERS, **platform, "XDG_DATA_HOME": f"{home}/data",
                   "XDG_CONFIG_HOME": f"{home}/config", "LC_ALL": "C.UTF-8"}
    # The window's own process: xvfb-run's is a shell around it.
    with tempfile.NamedTemporaryFile("r") as number, tempfile.TemporaryFile() as err:
        around = subprocess.Popen([*server, "sh", "-c", 'echo $$ > "$0"; exec "$@"', number.name, program, *words], cwd=home, env=environment,
                                  stdin=subprocess.DEVNULL, stdout=err, stderr=err, start_new_session=True)
        while not (pid := number.read().strip()) and around.poll() is None:
            time.sleep(0.1)
        wrong = waited(Window(int(pid), around)) or check() if pid else "did not start"
        if not wrong:
            os.kill(int(pid), signal.SIGTERM)
        elif around.poll() is None:
            os.killpg(around.pid, signal.SIGKILL)
        around.wait()
        err.seek(0)
        return wrong, err.read().decode("utf-8", "replace")


class Window:
    """The process of a window below xvfb-run."""

    def __init__(self, pid, around):
        self.pid, self.around, self.returncode = pid, around, None

    def poll(self):
        self.returncode = self.around.poll()
        return self.returncode


def called(pipe):
    """Scenarios of names that are markup, formulas and cells. Where the image is read, the window waits at the pipe."""
    for name in (f"<img src='{pipe}'>", f"</td></table><h1><img src='{pipe}'>", names.FORMULA, "a|b|c", "&lt;b&gt;", "n" * 5000):
        yield {"name": name, "arguments": ["--model", "8B", *attack.CARDS.split()]}


def is_read(pipe):
    """True if a process has opened the pipe."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return True
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False


def kept(home):
    """The names of scenarios in the session that the window kept."""
    found = set()
    for folder, _, files in os.walk(f"{home}/data"):
        for each in files:
            with open(os.path.join(folder, each), encoding="utf-8", errors="replace") as file:
                text = file.read()
            if '"scenarios"' in text:
                found |= {one["name"] for one in json.loads(text).get("scenarios", [])}
    return found


def tried(program, rows):
    """Returns what is wrong with a window of these attacks."""
    with tempfile.TemporaryDirectory(prefix="zplan-window-") as around:
        home, pipe, files = f"{around}/home", f"{around}/pipe", []
        os.mkdir(home)
        os.mkfifo(pipe)
        scenarios = list(called(pipe))
        for number, row in enumerate(rows):
            folder = f"{around}/{number}"
            os.mkdir(folder)
            attack.lay_out(row, folder)
            if row.words.startswith("--"):
                words = words_of(row, folder)
                if sum(map(len, words)) < 10000:
                    scenarios.append({"name": f"{number}: {row.name}", "arguments": words})
            files += [os.path.join(folder, each) for each in OPENED if os.path.lexists(os.path.join(folder, each))]
        everything = f"{home}/<h1>all.zplan"
        with open(everything, "w", encoding="utf-8") as file:
            json.dump({"schema": "zplan.scenarios/1", "scenarios": scenarios}, file)
        before = {number: attack.contents(f"{around}/{number}") for number in range(len(rows))}
        wrong, printed = shown(program, home, [everything, *files], lambda: "reads the image of a name" if is_read(pipe) else "")
        if wrong:
            return f"{wrong}: {printed[-600:]}"
        for number, row in enumerate(rows):
            if attack.contents(f"{around}/{number}") != before[number]:
                return f"{row.name}: files changed"
        missing = {each["name"] for each in scenarios} - kept(home)
        return f"not in the session: {sorted(missing)[:3]}" if missing else ""


def without_room(program):
    """A window whose session cannot be kept, as its disk is full, works on, and leaves no part of a file."""
    with tempfile.TemporaryDirectory(prefix="zplan-window-") as around:
        home, data = f"{around}/home", f"{around}/home/data"
        os.makedirs(data)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", data], check=False, capture_output=True).returncode != 0:
            return None
        try:
            scenarios = [{"name": f"{i}" * 4000, "arguments": ["--model", "8B", *attack.CARDS.split()]} for i in range(9)]
            with open(f"{home}/all.zplan", "w", encoding="utf-8") as file:
                json.dump({"schema": "zplan.scenarios/1", "scenarios": scenarios}, file)
            wrong, printed = shown(program, home, [f"{home}/all.zplan"])
            left = [each for _, _, files in os.walk(data) for each in files if each.endswith((".tmp", ".zplan"))]
            return f"{wrong}: {printed[-600:]}" if wrong else f"leaves {left}" if left else ""
        finally:
            subprocess.run(["umount", data], check=False)


def main():
    program, part = os.path.abspath(sys.argv[1]), " ".join(sys.argv[2:])
    groups = (*inputs.GROUPS.values(), *formats.GROUPS.values(), *names.GROUPS.values(), *extremes.GROUPS.values())
    rows = [row for group in groups for row in group if part in row.name and not row.during and not row.as_nobody]
    count = failed = 0
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first:first + AT_ONCE]
        if wrong := tried(program, some):
            print(f"{some[0].name} … {some[-1].name}: {wrong}", flush=True)
            failed += len(some)
        count += len(some)
    if not part and (wrong := without_room(program)) is not None:
        count, failed = count + 1, failed + bool(wrong)
        if wrong:
            print(f"a session on a full disk: {wrong}")
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(1 if failed or not count else 0)


main()

"""Ctrl-C ends every question at once: death by SIGINT, nothing on stdout, no file.

usage: interrupt_test.py ZPLAN TESTS

TESTS: a folder of measurements. A search keeps what it has found: tests/planner/search/explore_test.cpp.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

# Each takes seconds, or waits for a text.
QUESTIONS = [
    "fit --model deepseek-ai/DeepSeek-V3 --gpus 512 --nodes 64 --gpu H100-SXM-80GB",
    "fit --solve model --gpus 8 --mem 24",
    "fit --model 8B --zero 2 --oom -",
    "check {tests}",
]


def listen_to_interrupts():
    """A shell that runs this in the background leaves them ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until_at_work(process):
    """Till the program itself runs and has spent 50 ms of processor time, or sleeps for want of its text."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/cmdline") as file:
            started = "interrupt_test.py" not in file.read()
        with open(f"/proc/{process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        if started and (ticks * 1000 >= 50 * os.sysconf("SC_CLK_TCK") or fields[0] == "S"):
            return
        time.sleep(0.001)


def interrupted(program, words, folder):
    process = subprocess.Popen([program, *words], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, preexec_fn=listen_to_interrupts)
    wait_until_at_work(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    return process.returncode, out, err


def main():
    program = os.path.abspath(sys.argv[1])
    failed = 0
    for question in QUESTIONS:
        with tempfile.TemporaryDirectory() as folder:
            words = question.format(tests=os.path.abspath(sys.argv[2])).split()
            status, out, err = interrupted(program, words, folder)
            left = os.listdir(folder)
        if status == -signal.SIGINT and not out and not left:
            continue
        failed += 1
        print(f"zplan {' '.join(words)}: status {status}, {len(out)} bytes on stdout, files {left}, stderr {err!r}")
    print(f"{len(QUESTIONS) - failed} of {len(QUESTIONS)} questions ended at once")
    sys.exit(1 if failed else 0)


main()

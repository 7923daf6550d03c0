"""Runs a command with limits, and writes what it took as JSON: launch.py RESULT LIMITS COMMAND…

A process of its own, as the memory that a process has counts for what it starts, too. LIMITS: JSON of wall (seconds),
processor (seconds), address_space (bytes or null), resident (bytes) and nobody (whether to be nobody).
"""
import json
import os
import resource
import signal
import sys
import time


def start(words, limits):
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limits["processor"], limits["processor"]))
        if limits["address_space"]:
            resource.setrlimit(resource.RLIMIT_AS, (limits["address_space"], limits["address_space"]))
        if limits["nobody"]:
            os.setgid(65534)
            os.setuid(65534)
        os.execv(words[0], words)
    finally:
        os._exit(127)


def resident(pid):
    """Bytes of memory: a sanitizer's address space has no bound."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def waited_for(pid, seconds, most):
    """Exit status, what was used, and whether it had to be ended."""
    end, pause = time.monotonic() + seconds, 0.001
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), used, False
        if time.monotonic() > end or resident(pid) > most:
            os.kill(pid, signal.SIGKILL)
            _, status, used = os.wait4(pid, 0)
            return os.waitstatus_to_exitcode(status), used, True
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limits = json.loads(sys.argv[2])
    status, used, timed_out = waited_for(start(sys.argv[3:], limits), limits["wall"], limits["resident"])
    with open(sys.argv[1], "w", encoding="ascii") as file:
        json.dump([status, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, timed_out], file)


main()

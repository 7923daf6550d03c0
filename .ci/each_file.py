"""each_file.py BUILD: compiles every source file of the program by itself, as far as errors and warnings show, as
BUILD/compile_commands.json says (a folder configured without unity builds and precompiled headers). Exit status 1: something was said."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

build = os.path.abspath(sys.argv[1])
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("models", "hardware_profiles", "planner", "cli", "harness", "gui")


def wanted(entry):
    place = os.path.relpath(entry["file"], root)
    return place.split(os.sep)[0] in FOLDERS


def check(entry):
    words = shlex.split(entry["command"])
    out = words.index("-o")
    del words[out:out + 2]
    done = subprocess.run([*words, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], done.returncode, done.stderr


entries = [entry for entry in json.load(open(os.path.join(build, "compile_commands.json"))) if wanted(entry)]
bad = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for name, status, said in pool.map(check, entries):
        if status or said.strip():
            bad += 1
            print(f"{os.path.relpath(name, root)}:\n{said}")
print(f"{len(entries)} files, {bad} with errors or warnings")
sys.exit(1 if bad or not entries else 0)

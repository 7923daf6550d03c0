"""Builds the stand-in for a GPU, and runs Python with it."""

import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
MARK = "ZPLAN_STAND_IN"  # set in the environment of a process that runs with the stand-in


class Missing(Exception):
    """What the stand-in needs and this machine lacks."""


def cuda_headers():
    """The folder of CUDA's headers that came with PyTorch, or the toolkit's."""
    spec = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(p) for p in (spec.submodule_search_locations if spec else [])]
    candidates = [r / "cu13" / "include" for r in roots] + [r / "cuda_runtime" / "include" for r in roots]
    candidates.append(pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include")
    for each in candidates:
        if (each / "cuda_runtime_api.h").exists():
            return each
    raise Missing("PyTorch for CUDA (its CPU build cannot take the CUDA path; no GPU is needed), or CUDA's headers")


def folder():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    sources = b"".join((HERE / name).read_bytes() for name in ("runtime.c", "driver.c"))
    headers = str(cuda_headers()).encode()
    return cache / "zplan" / ("stand-in-" + hashlib.sha256(sources + headers).hexdigest()[:16])


def build():
    """The folder with both libraries, made where they are not there yet."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Missing("a C compiler (cc, gcc or clang)")
    target = folder()
    if (target / "libzplanruntime.so").exists() and (target / "libcuda.so.1").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    common = [compiler, "-shared", "-fPIC", "-O1", "-w"]
    made = [
        ([f"-I{cuda_headers()}"], "runtime.c", "libzplanruntime.so"),
        (["-Wl,-soname,libcuda.so.1"], "driver.c", "libcuda.so.1"),
    ]
    for options, source, library in made:
        part = target / f"{library}.{os.getpid()}"
        done = subprocess.run([*common, *options, "-o", part, HERE / source, "-ldl"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"a C compiler that builds {source}: {done.stderr.strip().splitlines()[-1:]}")
        os.replace(part, target / library)
    return target


def environment():
    libraries = build()
    env = dict(os.environ)
    env["LD_PRELOAD"] = str(libraries / "libzplanruntime.so")
    env["LD_LIBRARY_PATH"] = f"{libraries}:{env.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    env.update({MARK: "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "0"})
    env.setdefault("HF_HUB_OFFLINE", "1")
    return env


def is_running():
    return os.environ.get(MARK) == "1"


def run_with(arguments):
    """Runs this Python with the arguments under the stand-in; its exit status."""
    return subprocess.run([sys.executable, *arguments], env=environment(), check=False).returncode

"""Starts the ranks of a run, each in a process of its own, and brings back one row.

The libraries take ten seconds to import, so they are imported once and the ranks are forked. CUDA does not survive a
fork: whatever is imported must not have started the driver, which `check_fork` makes sure of.
"""
import ctypes
import multiprocessing
import os
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Callable

from run import row_of

FORK = multiprocessing.get_context("fork")
MIB = 1 << 20


@dataclass
class Place:
    """Where a rank is. `fake`: this process plays all ranks; `free_bytes` of the GPU before any began, of which
    `sharing` processes take; `meet()` waits for the others."""
    rank: int
    ranks: int
    port: int
    fake: bool
    free_bytes: int
    sharing: int
    meet: Callable[[], object]

    def device_bytes(self):
        """What the device has lost to each process, asked while none of them runs on."""
        import torch
        self.meet()
        taken = self.free_bytes - torch.cuda.mem_get_info()[0]
        self.meet()
        return taken // self.sharing


def free_port():
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def warm():
    """Imports the libraries that the ranks need, without starting the driver: PyTorch looks for a device through NVML."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    os.environ.setdefault("DS_ACCELERATOR", "cuda")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import calls
    calls.watch()
    import deepspeed
    import deepspeed.ops.adam
    import deepspeed.runtime.zero.stage3
    import deepspeed.utils
    import peft  # noqa: F401
    import torch.distributed.fsdp  # noqa: F401
    import training  # noqa: F401
    deepspeed.utils.logger.setLevel("ERROR")


def in_a_fork(function, *arguments, limit=120):
    """What `function` returns in a forked process; raises what it raised there."""
    receive, send = FORK.Pipe(duplex=False)

    def child():
        try:
            send.send((True, function(*arguments)))
        except BaseException as error:  # noqa: B902
            send.send((False, f"{error}\n{traceback.format_exc()[-1500:]}"))

    process = FORK.Process(target=child, daemon=True)
    process.start()
    send.close()
    try:
        if not receive.poll(limit):
            raise RuntimeError(f"no answer within {limit} s")
        right, answer = receive.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    if not right:
        raise RuntimeError(answer)
    return answer


def build_cpu_adam(log, limit=240):
    """Why DeepSpeed's CPU optimizer cannot be built, or nothing. Built once here, so that no run's time is a compiler's."""

    def build():
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        from deepspeed.ops.op_builder import CPUAdamBuilder
        CPUAdamBuilder().load(verbose=False)

    try:
        in_a_fork(build, limit=limit)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None


def card_facts():
    import torch
    torch.zeros(1, device="cuda")
    properties = torch.cuda.get_device_properties(0)
    return {"name": properties.name, "compute_capability": f"{properties.major}.{properties.minor}",
            "total_bytes": torch.cuda.mem_get_info()[1], "multiprocessors": properties.multi_processor_count}


def check_fork():
    """What GPU there is, asked from a fork: where this fails, an import has started the driver."""
    return in_a_fork(card_facts)


def cuda_runtime():
    """The one that PyTorch has loaded."""
    import torch
    loaded = ctypes.CDLL(None)
    return loaded if hasattr(loaded, "cudaMalloc") else ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


class Watcher:
    """A process with a context of its own that says how much of the GPU is free, and that can take some of it, so
    that the GPU is as small as a plan wants it. Its context is there before and during every run."""

    def __init__(self):
        self.ours, theirs = FORK.Pipe()
        self.process = FORK.Process(target=self.serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.free()  # the context is there from now on

    @staticmethod
    def serve(pipe):
        import torch
        torch.cuda.set_device(0)
        torch.cuda.mem_get_info()
        library = cuda_runtime()
        library.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
        library.cudaFree.argtypes = [ctypes.c_void_p]
        held = []
        while True:
            try:
                wanted = pipe.recv()
            except EOFError:
                return
            for pointer in held:
                library.cudaFree(pointer)
            held.clear()
            # Allocates block after block until the free memory is `wanted`, to within a block of the driver.
            while wanted is not None:
                excess = (torch.cuda.mem_get_info()[0] - wanted) // (2 * MIB) * (2 * MIB)
                if excess <= 0:
                    break
                pointer = ctypes.c_void_p()
                if library.cudaMalloc(ctypes.byref(pointer), min(excess, 1024 * MIB)) != 0:
                    break
                held.append(pointer)
            pipe.send(torch.cuda.mem_get_info()[0])

    def free(self, leave=None):
        """Bytes that are free, all of them or, where `leave` is given, no more than about that."""
        self.ours.send(leave)
        return self.ours.recv()

    def close(self):
        self.process.kill()
        self.process.join()


def rank_process(function, place, pipe, log):
    """`function(place, phases)` gives what this rank answers with."""
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    import training
    phases = training.Phases()
    try:
        answer = function(place, phases) | {"outcome": "ran"}
    except BaseException as error:  # noqa: B902
        traceback.print_exc()
        outcome = "out_of_memory" if training.is_out_of_memory(error) else "failed"
        answer = {"outcome": outcome, "failed_in": phases.current, "message": traceback.format_exc()[-1500:]}
    pipe.send(answer)
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # ranks whose peers are gone would wait in destructors


def run_ranks(function, ranks, watcher, log, *, fake=False, leave=None, limit=150):
    """The answers of the ranks that answered, all of them unless one went no further, and the bytes that were free.

    leave: bytes of the GPU that the ranks find free; limit: seconds until they count as failed.
    """
    deadline = time.time() + limit
    free = watcher.free(leave)
    processes = 1 if fake else ranks
    barrier = FORK.Barrier(processes)
    pipes, children, port = [], [], free_port()
    for rank in range(processes):
        receive, send = FORK.Pipe(duplex=False)
        place = Place(rank, ranks, port, fake, free, processes, lambda: barrier.wait(limit))
        child = FORK.Process(target=rank_process, args=(function, place, send, log), daemon=True)
        child.start()
        send.close()
        pipes.append(receive)
        children.append(child)
    answers = collect(pipes, children, deadline)
    for child in children:
        child.kill()
        child.join()
    return answers, free // processes


def collect(pipes, children, deadline):
    """Answers as they come, until all are there or one says that it goes no further."""
    answers, waiting = [], dict(zip(pipes, children))
    while waiting:
        ready = wait(list(waiting), max(0, deadline - time.time()))
        if not ready:
            return answers + [failed("took too long")]
        for pipe in ready:
            answers.append(answer_of(pipe, waiting.pop(pipe)))
        if any(answer["outcome"] != "ran" for answer in answers):
            # A peer may know better why: an out-of-memory error elsewhere shows within a moment.
            for pipe in wait(list(waiting), 1) if waiting else []:
                answers.append(answer_of(pipe, waiting.pop(pipe)))
            return answers
    return answers


def failed(why):
    return {"outcome": "failed", "failed_in": "unknown", "message": why}


def answer_of(pipe, child):
    try:
        return pipe.recv()
    except EOFError:
        child.join(5)
        return failed(f"ended with {child.exitcode}")


def worst_rank(answers):
    """The rank that needs most is the run's answer."""
    last = lambda row: row["measured"][max(row["measured"], key=int)]
    row = max(answers, key=lambda answer: last(answer)["peak_allocated"])
    return row | {"ranks": [{k: last(answer)[k] for k in ("peak_allocated", "peak_reserved")} for answer in answers]}


def measure(run, watcher, log, **settings):
    """One row of a training run; `settings` as of run_ranks."""
    import training
    started = time.time()
    answers, available = run_ranks(lambda place, phases: training.train(run, place, phases), run.ranks, watcher, log, **settings)
    bad = [answer for answer in answers if answer["outcome"] != "ran"]
    # A rank that ran out of memory brings down the others, which fail in other ways.
    bad.sort(key=lambda answer: answer["outcome"] != "out_of_memory")
    row = row_of(run) | bad[0] if bad else worst_rank(answers)
    return row | {"available_bytes": available, "wall_seconds": round(time.time() - started, 1)}

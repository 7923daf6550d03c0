"""zplan-bench on one GPU: every collective between 2, 4 and 8 ranks with its data checked and its bytes counted on the
network interface, and plans replayed call for call."""
import json
import os
import subprocess
import tempfile
from pathlib import Path

RANKS = (2, 4, 8)
# (ranks, arguments): of each a plan is made and its schedule replayed. A plan splits tensors within a node only; to
# NCCL the ranks are hosts all the same.
PLANS = (
    (2, ["--nodes", "2", "--zero", "1", "--grad-accum", "2"]),
    (4, ["--nodes", "4", "--zero", "2"]),
    (4, ["--nodes", "4", "--zero", "3"]),
    (4, ["--nodes", "1", "--zero", "1", "--tp", "2"]),
    (8, ["--nodes", "8", "--zero", "3"]),
)
SOCKETS = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}


def bench(zplan, arguments, output, backend, log, limit):
    """Whether zplan-bench measured all of it; what it printed is in the log."""
    command = [zplan, "bench", *arguments, "--backend", backend, "--output", str(output), "--quiet"]
    if backend == "nccl":
        command.append("--share-gpu")
    log.write(" ".join(command) + "\n")
    log.flush()
    try:
        status = subprocess.run(command, stdout=log, stderr=log, env=os.environ | SOCKETS, timeout=limit, check=False).returncode
    except subprocess.TimeoutExpired:
        log.write(f"ended after {limit} s\n")
        return False
    return status == 0 and output.exists() and json.loads(output.read_text())["complete"]


def plan(zplan, ranks, arguments, gpu):
    """A small model's plan, as JSON."""
    command = [zplan, "--model", "Qwen/Qwen2.5-0.5B", "--gpu", gpu, "--gpus", str(ranks), "--seq", "1024", "--micro-batch", "1", *arguments, "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def measure(zplan, out, gpu, backend, log, seconds):
    """Writes collectives-N.json and replay-I.json; returns what could not be done."""
    missed = []
    each = max(20, int(seconds / (len(RANKS) + len(PLANS))))
    for ranks in RANKS:
        arguments = ["--local", str(ranks), "-b", "8", "-e", "64M", "-f", "8", "-n", "10", "-w", "2", "--budget", f"{each}s"]
        if not bench(zplan, arguments, out / f"collectives-{ranks}.json", backend, log, each + 60):
            missed.append(f"collectives of {ranks} ranks")
    for index, (ranks, arguments) in enumerate(PLANS):
        made = plan(zplan, ranks, arguments, gpu)
        if made.returncode != 0:
            missed.append(f"plan {' '.join(arguments)}: {made.stderr.strip()}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.json"
            path.write_text(json.dumps(json.loads(made.stdout)))
            if not bench(zplan, ["--local", str(ranks), "--plan", str(path), "--steps", "2", "--budget", f"{each}s"],
                         out / f"replay-{index}.json", backend, log, each + 60):
                missed.append(f"replay of {' '.join(arguments)} on {ranks} ranks")
    return missed

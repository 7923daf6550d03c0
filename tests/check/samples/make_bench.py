"""make_bench.py: writes bench_nccl.json and bench_mpi.json beside itself. The results are made up, by a straight line
with a little wave on it, for tests of what reads such results: nothing of them was measured anywhere."""

import json
import math
import os

SIZES = {"float32": 4, "bfloat16": 2}
WIRE = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
        "reduce_scatter": lambda n: (n - 1) / n, "broadcast": lambda n: 1.0}
NOTE = "made up for tests of the reader: measured nowhere"


def quantile(ordered, q):
    at = (len(ordered) - 1) * q
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def statistics(samples):
    ordered = sorted(samples)
    return {"median": quantile(ordered, 0.5), "p10": quantile(ordered, 0.1), "p90": quantile(ordered, 0.9),
            "lowest": ordered[0], "highest": ordered[-1], "mean": sum(ordered) / len(ordered)}


def samples_of(seconds, count=7):
    return [seconds * (1 + 0.02 * math.sin(1 + 2.3 * i)) for i in range(count)]


def collective(operation, group, size, alpha, bus, nodes=1, at_once=1, dtype="float32", stride=1, in_place=False):
    ranks = group[1]
    elements = size // SIZES[dtype]
    samples = samples_of(alpha + size * WIRE[operation](ranks) / bus)
    seconds = statistics(samples)
    once = 2 if operation == "all_reduce" else 1
    wire = size if operation == "broadcast" else (size // ranks * (ranks - 1) + size % ranks * (ranks - 1) // ranks) * once
    return {"operation": operation, "dtype": dtype, "in_place": in_place,
            "group": {"name": group[0], "size": ranks, "stride": stride, "at_once": at_once}, "nodes": nodes,
            "bytes": size, "elements": elements, "iterations": len(samples), "warmup": 5, "seconds": seconds,
            "samples": samples, "mean_over_ranks": 0.97 * seconds["median"],
            "algorithm_bandwidth": size / seconds["median"], "bus_bandwidth": wire / seconds["median"],
            "checked_elements": elements * ranks, "wrong_elements": 0}


def copy(direction, memory, rank, size, rate):
    seconds = statistics(samples_of(size / rate))
    return {"direction": direction, "memory": memory, "rank": rank, "bytes": size, "seconds": seconds,
            "bytes_per_second": size / seconds["median"]}


def call(operation, phase, purpose, elements, times, seconds, dtype="bfloat16", element=2, compute=0.0, exposed=False):
    return {"operation": operation, "group": "data", "group_size": 4, "stride": 1, "phase": phase, "dtype": dtype,
            "element_bytes": element, "purpose": purpose, "elements": elements, "bytes": elements * element,
            "times": times, "seconds": seconds, "compute_seconds": compute, "exposed": exposed}


def replay(scale):
    calls = [call("all_gather", "forward", "layer weights", 4194304, 1, 1e-4 * scale, compute=2e-4, exposed=True),
             call("all_gather", "forward", "layer weights", 4194304, 3, 1e-4 * scale, compute=1e-4),
             call("reduce_scatter", "backward", "gradients", 16777216, 1, 3e-4 * scale, compute=2e-4),
             call("all_gather", "forward", "layer weights", 1048576, 2, 5e-5 * scale),
             call("all_reduce", "step", "gradient norm", 1, 1, 2e-5 * scale, "float32", 4, exposed=True)]
    plan = {"plan": "zero3", "ranks": 4, "tensor_parallel": 1, "data_parallel": 4, "device_memory_bytes": 3000000000,
            "step_seconds": 2e-3 * scale, "communication_seconds": sum(c["times"] * c["seconds"] for c in calls),
            "offload_seconds": 0, "compute_seconds_behind": 1e-4, "calls": calls, "file": "plan.json"}
    counted = {}
    for each in calls:
        key = tuple(each[k] for k in ("operation", "group", "group_size", "stride", "phase", "dtype", "purpose"))
        kind = counted.setdefault(key, {**dict(zip(("operation", "group", "group_size", "stride", "phase", "dtype",
                                                    "purpose"), key)), "count": 0, "elements": 0, "bytes": 0, "seconds": 0})
        kind["count"] += each["times"]
        for figure in ("elements", "bytes", "seconds"):
            kind[figure] += each["times"] * each[figure]
    for kind in counted.values():
        kind["seconds"] *= 1.1
    steps = samples_of(1.15 * plan["communication_seconds"], 5)
    return {"plan": plan, "steps": steps, "seconds": statistics(steps), "compute_stand_in": False,
            "calls": list(counted.values()), "every_rank_alike": True,
            "device_memory": {"planned_bytes": 3000000000, "allocated_bytes": 3000000000, "holds": True}}


def result(backend, hosts, collectives, **more):
    made = {"schema": "zplan.bench/1", "zplan_version": "0.1.0", "command": ["zplan-bench", "--backend", backend],
            "started": "2026-01-01T00:00:00Z", "complete": True, "stopped": None, "backend": backend, "library": None,
            "driver": None, "cuda": None, "ranks": 4, "nodes": 1, "share_gpu": False, "hosts": hosts, "collectives": collectives,
            "copies": [], "storage": [], "compute": [], "replay": None, "notes": [NOTE]}
    made.update(more)
    return made


def nccl():
    gpus = [{"index": i, "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85520809984, "compute_capability": "9.0",
             "pci": f"0000:{i:02x}:00.0", "pcie_generation": 5, "pcie_lanes": 16} for i in range(4)]
    links = [{"from": a, "to": b, "kind": "nvlink", "lanes": 18, "peer_to_peer": True}
             for a in range(4) for b in range(a + 1, 4)]
    hosts = [{"name": "made-up", "ranks": [0, 1, 2, 3], "processor": "none", "cores": 64, "memory_bytes": 0, "gpus": gpus,
              "links": links, "nics": [{"name": "eth0", "bytes_per_second": None}]}]
    world, tensor = ("world", 4), ("tensor", 2)
    sizes = [1024 * 8 ** i for i in range(8)]
    collectives = [collective(o, world, s, a, b) for o, a, b in
                   (("all_reduce", 15e-6, 340e9), ("all_gather", 18e-6, 320e9), ("reduce_scatter", 17e-6, 325e9))
                   for s in sizes]
    collectives += [collective("all_reduce", tensor, s, 12e-6, 300e9, dtype="bfloat16") for s in sizes[:3]]
    collectives.append(collective("all_reduce", tensor, 1048576, 20e-6, 200e9, at_once=2))
    collectives.append(collective("all_gather", world, 1048576, 18e-6, 320e9, in_place=True))
    for each in (c for c in collectives if c["bytes"] == 4194304):
        each.update({"sent_bytes": {"lo": 5000, "mlx5_0:1": 8000}, "sent_calls": each["iterations"]})
    copies = [copy(d, m, 0, s, r) for d, m, r in
              (("host_to_device", "pinned", 54e9), ("device_to_host", "pinned", 51e9), ("host_to_device", "pageable", 9e9))
              for s in (1048576, 268435456)]
    seconds = statistics(samples_of(1.6e-3))
    compute = [{"kind": "matrix_product", "dtype": "bfloat16", "m": 8192, "n": 8192, "k": 8192, "seconds": seconds,
                "flops_per_second": 2 * 8192 ** 3 / seconds["median"]},
               {"kind": "memory", "bytes": 4294967296, "seconds": seconds, "bytes_per_second": 4294967296 / seconds["median"]}]
    storage = [{"path": "/made/up", "direction": "read", "direct": True, "block_bytes": 1048576, "bytes": 1073741824,
                "threads": 4, "seconds": 0.25, "bytes_per_second": 1073741824 / 0.25}]
    return result("nccl", hosts, collectives, library="NCCL 2.28.9", driver="580.65.06", cuda="13.0", copies=copies,
                  compute=compute, storage=storage, replay=replay(1))


def mpi():
    hosts = [{"name": "made-up", "ranks": [0, 1, 2, 3], "processor": "none", "cores": 4, "memory_bytes": 0, "gpus": [],
              "links": [], "nics": []}]
    collectives = [collective(o, ("world", 4), 256 * 16 ** i, 5e-6, 4e9)
                   for o in ("all_reduce", "all_gather", "broadcast") for i in range(5)]
    return result("mpi", hosts, collectives, library="Open MPI 4.1.4", replay=replay(20), complete=False,
                  stopped="the budget of 60 s is used up")


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, made in (("bench_nccl", nccl()), ("bench_mpi", mpi())):
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(made, file, indent=1)
            file.write("\n")


main()

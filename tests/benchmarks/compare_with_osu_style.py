"""compare_with_osu_style.py ZPLAN_BENCH OSU_STYLE [RANKS]: the same operation at the same size by both, turn by turn, and how far
apart their medians are beside how far each is from itself."""

import json
import os
import statistics
import subprocess
import sys

ROUNDS, CALLS, WARMUP = 5, 300, 50


def environment():
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def reference(program, ranks, operation, size):
    command = ["mpirun", "-n", str(ranks), program, operation, str(size), str(CALLS), str(WARMUP)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    return statistics.median(map(float, done.stdout.split()))


def harness(program, ranks, operation, size):
    place = "in" if operation == "broadcast" else "out"
    command = ["mpirun", "-n", str(ranks), program, "--backend", "mpi", "--op", operation, "-b", str(size), "-e", str(size), "-n",
               str(CALLS), "-w", str(WARMUP), "--place", place, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    return json.loads(done.stdout)["collectives"][0]["mean_over_ranks"]


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def main():
    bench, osu = sys.argv[1:3]
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    print(f"| operation | bytes | OSU-style, us | zplan-bench, us | ratio | spread of {ROUNDS} rounds each |")
    print("| --- | --- | --- | --- | --- | --- |")
    for operation in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"):
        for size in (8, 4096, 65536, 1048576, 16777216):
            pairs = [(reference(osu, ranks, operation, size), harness(bench, ranks, operation, size)) for _ in range(ROUNDS)]
            theirs, ours = zip(*pairs)
            ratio = statistics.median(b / a for a, b in pairs)
            print(f"| {operation} | {size} | {statistics.median(theirs) * 1e6:.2f} | {statistics.median(ours) * 1e6:.2f} | {ratio:.3f} | "
                  f"{spread(theirs):.2f}, {spread(ours):.2f} |", flush=True)


main()

"""program_test.py BENCH ZPLAN SCHEMA STAND_INS: zplan-bench --backend nccl as a user runs it: on stand-ins for NVIDIA's libraries,
which serve one process, and on this machine as it is."""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import jsonschema

BENCH, ZPLAN, SCHEMA, STAND_INS = sys.argv[1:5]


def start(*arguments, stand_ins=True, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "ZPLAN_CUDA_PATH"} | variables
    if stand_ins:
        environment["ZPLAN_CUDA_PATH"] = f"{STAND_INS}/cuda:{STAND_INS}/nccl"
    return subprocess.Popen([BENCH, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def end(process):
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run(*arguments, **options):
    return end(start(*arguments, **options))


def has_driver():
    try:
        return bool(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return False


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.result = pathlib.Path(folder.name) / "result.json"

    def measured(self, *arguments):
        done = run("--backend", "nccl", "--local", 1, "--output", self.result, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = json.loads(self.result.read_text())
        jsonschema.validate(found, json.loads(pathlib.Path(SCHEMA).read_text()))
        return found, done

    def test_every_operation_and_type(self):
        found, done = self.measured("-b", 64, "-e", "4K", "-f", 8, "-d", "float32,bfloat16", "-n", 3)
        self.assertEqual(len({row["operation"] for row in found["collectives"]}), 7)
        self.assertTrue(all(row["wrong_elements"] == 0 and row["checked_elements"] > 0 for row in found["collectives"]))
        self.assertEqual((found["backend"], found["cuda"], found["ranks"]), ("nccl", "13.0", 1))
        self.assertIn("driver 999.01.02, CUDA 13.0", done.stdout)

    def test_calibration_becomes_a_profile(self):
        found, _ = self.measured("--calibrate", "--op", "all_reduce", "-e", 64)
        self.assertEqual({(row["direction"], row["memory"]) for row in found["copies"]},
                         {(a, b) for a in ("host_to_device", "device_to_host") for b in ("pinned", "pageable")})
        self.assertEqual({row["kind"] for row in found["compute"]}, {"matrix_product", "memory"})
        profile = self.result.with_name("profile.json")
        done = subprocess.run([ZPLAN, "hardware", "import", str(self.result), "--gpu", "H100-SXM-80GB", "--output", str(profile)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("zplan-bench", json.loads(profile.read_text())["sources"]["pcie_effective_gb_per_s_per_direction"])

    SHARED = "zplan: --backend nccl: ranks 0 and 1 share one GPU, which NCCL refuses"

    def test_ranks_that_it_starts_meet_in_memory(self):
        done = run("--backend", "nccl", "--local", 2, FAKE_CUDA_DEVICES="1")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(self.SHARED, done.stderr)

    def test_ranks_of_a_launcher_meet_in_a_folder(self):
        ranks = [start("--backend", "nccl", "--meet", self.result.parent, "--op", "all_reduce", FAKE_CUDA_DEVICES="1", RANK=str(rank),
                       WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1") for rank in range(2)]
        for rank in ranks:
            done = end(rank)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(self.SHARED, done.stderr)
        self.assertEqual(list(self.result.parent.iterdir()), [])

    def test_a_rank_that_is_alone_names_what_is_missing(self):
        done = run("--backend", "nccl", "--meet", self.result.parent, "--timeout", "500ms", RANK="1", WORLD_SIZE="2")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"^zplan: bench: rank 1 on host .*: no file {self.result.parent}/zplan-bench-.*-none/welcome of rank 0 "
                         "of 2 within 0.5 s: start every rank, and name a folder on a disk that all hosts share .--meet.\n$")

    def test_without_a_driver_it_says_what_to_do(self):
        done = run("--backend", "nccl", "--op", "all_reduce", "-e", "8", stand_ins=False)
        if has_driver():
            self.assertNotIn("no NVIDIA driver", done.stderr)
        else:
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, "zplan: --backend nccl: no NVIDIA driver: libcuda.so.1 was not found; use --backend mpi\n")


unittest.main(argv=sys.argv[:1], verbosity=2)

"""mpi_test.py BENCH ZPLAN COUNTER SCHEMA [SUITE…]: zplan-bench over real MPI on this machine, as a user runs it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema

BENCH, ZPLAN, COUNTER, SCHEMA = (os.path.abspath(path) for path in sys.argv[1:5])
# Models whose step is over in no time.
SMALL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 688,
         "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 2000, "max_position_embeddings": 512,
         "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
MIXTURE = {**SMALL, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "head_dim": 32, "num_experts": 8,
           "num_experts_per_tok": 2, "moe_intermediate_size": 128, "decoder_sparse_step": 1, "norm_topk_prob": True, "mlp_only_layers": []}
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv"]


def run(*arguments, timeout=300, **options):
    return subprocess.run([BENCH, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False, **options)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, *arguments, status=0, **options):
        """What it wrote, and what it said."""
        path = self.folder / "result.json"
        path.unlink(missing_ok=True)
        done = run("--backend", "mpi", "--output", path, *arguments, **options)
        self.assertEqual(done.returncode, status, (arguments, done.stdout, done.stderr))
        if not path.exists():
            return None, done
        found = json.loads(path.read_text())
        jsonschema.validate(found, json.loads(pathlib.Path(SCHEMA).read_text()))
        return found, done

    def plan(self, *arguments, model=None):
        """Of a small model on GPUs of 24 GiB: the file, and what is in it."""
        path, config = self.folder / "plan.json", self.folder / "config.json"
        config.write_text(json.dumps(model or SMALL))
        question = ["--model", config, "--mem", "24", "--seq", "64", "--offload", "none"]
        done = subprocess.run([ZPLAN, *map(str, question), *arguments, "--json"], capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        path.write_text(done.stdout)
        return path, json.loads(done.stdout)


class Collectives(Case):
    def test_every_operation_type_and_group_is_right(self):
        for ranks, groups in ((2, ["world"]), (3, ["world"]), (4, ["world", "tensor", "data"])):
            found, _ = self.bench("--local", ranks, "-b", 60, "-e", "61440", "-f", 32, "-n", 3, "-w", 1, "-d", "all",
                                  "--groups", ",".join(groups), "--tp", 2 if len(groups) > 1 else 1)
            rows = found["collectives"]
            self.assertEqual({row["operation"] for row in rows}, set(OPERATIONS))
            self.assertEqual({row["group"]["name"] for row in rows}, set(groups))
            self.assertEqual(len({row["dtype"] for row in rows}), 8)
            self.assertTrue(all(row["checked_elements"] > 0 and row["wrong_elements"] == 0 for row in rows))
            self.assertTrue(all(row["seconds"]["lowest"] > 0 for row in rows))
            forms = {(row["operation"], row["in_place"]) for row in rows}
            self.assertIn(("all_gather", True), forms)
            self.assertNotIn(("broadcast", False), forms)
            self.assertEqual((found["ranks"], found["nodes"], found["complete"]), (ranks, 1, True))
            self.assertEqual([host["ranks"] for host in found["hosts"]], [list(range(ranks))])

    def test_one_rank_per_mpirun_slot_is_the_same_program(self):
        mpirun = ["mpirun", "--oversubscribe", "-n", "2", BENCH, "--backend", "mpi", "--op", "all_reduce", "-e", "64", "--json"]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run(mpirun, capture_output=True, text=True, timeout=120, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["ranks"], 2)


    def test_what_interfaces_sent_is_counted(self):
        """Over TCP, on this host, where others may send too: at least what the calls must."""
        environment = dict(os.environ, OMPI_MCA_pml="ob1", OMPI_MCA_btl="tcp,self", OMPI_MCA_btl_tcp_if_include="lo")
        found, _ = self.bench("--local", 2, "--op", "send_recv,all_gather", "-b", "4M", "-e", "4M", "-n", 5, "-w", 1,
                              "--place", "out", env=environment)
        if "Open MPI" not in found["library"]:
            self.skipTest("the transport is chosen by Open MPI's own variables")
        self.assertFalse(found["share_gpu"])
        for row in found["collectives"]:
            # Each of both sends all of its part to the other.
            per_call = 2 * (row["bytes"] if row["operation"] == "send_recv" else row["bytes"] // 2)
            self.assertEqual(row["sent_calls"], 5)
            self.assertGreaterEqual(row["sent_bytes"]["lo"], 5 * per_call, row["operation"])
        over_memory, _ = self.bench("--local", 2, "--op", "send_recv", "-b", "4M", "-e", "4M", "-n", 5, "--place", "out")
        self.assertIn("sent_bytes", over_memory["collectives"][0])


class Replay(Case):
    STEPS = 3

    def replay(self, *plan, model=None):
        path, report = self.plan(*plan, model=model)
        ranks = report["cluster"]["gpus"]
        counts = self.folder / "counts"
        environment = dict(os.environ, LD_PRELOAD=COUNTER, COUNT_MPI_CALLS=str(counts))
        found, done = self.bench("--local", ranks, "--plan", path, "--steps", self.STEPS, env=environment)
        by_rank = []
        for rank in range(ranks):
            lines = pathlib.Path(f"{counts}.{rank}").read_text().splitlines()
            by_rank.append({(row["operation"], row["ranks"], row["bytes"]): row["calls"] for row in map(json.loads, lines)})
        return report, found["replay"], by_rank, done

    @staticmethod
    def sent(call, rank):
        """Bytes of one call as MPI's counter sees them on a rank: of uneven exchanges what it sends."""
        if "receive_counts" not in call:
            return call["bytes"]
        counts = call["receive_counts"]
        return counts[rank % len(counts)] * len(counts) * call["element_bytes"]

    def compare_with_the_plan(self, *plan, model=None):
        report, replay, by_rank, _ = self.replay(*plan, model=model)
        sums = {}
        for rank, counted in enumerate(by_rank):
            planned = {}
            for call in report["schedule"]["calls"]:
                key = (call["operation"], call["group_size"], self.sent(call, rank))
                planned[key] = planned.get(key, 0) + call["times"] * self.STEPS
            self.assertGreater(len(planned), 0)
            self.assertEqual(counted, planned)  # MPI's own count
        for call in replay["calls"]:
            key = (call["operation"], call["group"], call["group_size"], call["phase"], call["dtype"], call["purpose"])
            sums[key] = (call["count"], call["elements"], call["bytes"])
        kinds = {}
        for each in report["plans"][0]["communication"]["collectives"]:
            key = (each["operation"], each["group_size"])
            kinds[key] = [a + b for a, b in zip(kinds.get(key, [0, 0]), (each["count"], each["bytes"]))]
        mine = {}
        for (operation, _, size, *_), (count, _, total) in sums.items():
            key = (operation, size)
            mine[key] = [a + b for a, b in zip(mine.get(key, [0, 0]), (count, total))]
        self.assertEqual(mine, kinds)  # the plan's own table
        self.assertTrue(replay["every_rank_alike"])
        self.assertEqual(len(replay["steps"]), self.STEPS)
        return report

    def test_zero3(self):
        self.compare_with_the_plan("--gpus", "4", "--zero", "3", "--tp", "1")

    def test_zero1_with_tensor_parallelism(self):
        self.compare_with_the_plan("--gpus", "4", "--zero", "1", "--tp", "2")

    def test_zero2_with_accumulation(self):
        self.compare_with_the_plan("--gpus", "2", "--zero", "2", "--tp", "1", "--grad-accum", "2")

    def test_sequence_parallelism(self):
        self.compare_with_the_plan("--gpus", "4", "--zero", "3", "--sp", "2")

    def test_context_parallelism(self):
        self.compare_with_the_plan("--gpus", "4", "--framework", "fsdp", "--cp", "2")

    def test_experts_routed_evenly_and_unevenly(self):
        for zero in ("2", "3"):
            for routing in ("balanced", "skew=1.7"):
                question = ["--gpus", "4", "--zero", zero, "--tp", "1", "--ep", "2", "--routing", routing]
                calls = self.compare_with_the_plan(*question, model=MIXTURE)["schedule"]["calls"]
                uneven = [call for call in calls if {"send_counts", "receive_counts"} & set(call)]
                # Of each layer: out and back, forward, again where checkpoints are recomputed, and backward.
                self.assertEqual(len(uneven), 18 if routing != "balanced" else 0)

    def test_memory_of_the_plan_is_taken(self):
        path, report = self.plan("--gpus", "2", "--zero", "3", "--tp", "1")
        found, _ = self.bench("--local", 2, "--plan", path, "--steps", 2, "--allocate", "--compute")
        self.assertEqual(found["replay"]["device_memory"],
                         {"planned_bytes": report["schedule"]["device_memory_bytes"],
                          "allocated_bytes": report["schedule"]["device_memory_bytes"], "holds": True})

    def test_a_plan_for_other_ranks_is_refused(self):
        path, _ = self.plan("--gpus", "4", "--zero", "3")
        _, done = self.bench("--local", 2, "--plan", path, status=2)
        self.assertIn("the plan is for 4 ranks, and 2 run here", done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if line.startswith("zplan:")]), 1, done.stderr)


class Results(Case):
    """From the measurement to the profile, to a plan, to the verdict."""

    def zplan(self, *arguments, status=0):
        done = subprocess.run([ZPLAN, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, (arguments, done.stdout, done.stderr))
        return done

    def test_the_measured_profile_is_read_back(self):
        self.bench("--local", 2, "--place", "out", "-e", "1M", "-f", 4, "-n", 5)
        profile = self.folder / "profile.json"
        self.zplan("hardware", "import", self.folder / "result.json", "--output", profile)
        plan = self.zplan("--model", "0.5B", "--gpus", 2, "--gpu", profile, "--zero", 3, "--json")
        self.assertEqual(json.loads(plan.stdout)["cluster"]["gpus"], 2)
        curves = json.loads(profile.read_text())["collectives"]
        self.assertEqual({curve["operation"] for curve in curves}, set(OPERATIONS) - {"broadcast"})
        check = json.loads(self.zplan("check", self.folder / "result.json", "--gpu", profile, "--json").stdout)
        groups = [group for group in check["groups"] if group["statistic"] == "seconds"]
        self.assertEqual([group["kind"] for group in groups], ["collectives"])
        # A curve of these very measurements predicts them.
        self.assertLess(groups[0]["median_error"], 1e-6)

    def test_one_command_from_machine_to_profile(self):
        profile = self.folder / "profile.json"
        options = ["--backend", "mpi", "--local", 2, "--op", "all_reduce", "-e", 64, "--place", "out"]
        done = self.zplan("bench", *options, "--profile", profile)
        self.assertIn("all_reduce", done.stdout)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["profile.json"])
        self.assertEqual(json.loads(profile.read_text())["collectives"][0]["operation"], "all_reduce")
        self.zplan("bench", *options, f"--profile={profile}", "-o", self.folder / "kept.json")
        self.assertTrue((self.folder / "kept.json").exists())
        self.zplan("bench", "--profile", status=2)
        self.zplan("bench", "--profile", profile, "-b", "lots", status=2)

    def test_a_doctored_result_fails(self):
        path, _ = self.plan("--gpus", "2", "--zero", "3", "--tp", "1")
        found, _ = self.bench("--local", 2, "--plan", path, "--steps", 3)
        result = self.folder / "result.json"
        self.zplan("check", result)

        def doctored(change):
            copy = json.loads(json.dumps(found))
            change(copy["replay"])
            result.write_text(json.dumps(copy))
            return self.zplan("check", result, status=1)

        def more_calls(replay):
            replay["calls"][0]["count"] += 1

        def fewer_bytes(replay):
            replay["calls"][0]["bytes"] -= 2
            replay["calls"][0]["elements"] -= 1

        def lost_kind(replay):
            replay["calls"].pop()

        def faster(replay):
            replay["seconds"]["median"] /= 2

        for change in (more_calls, fewer_bytes, lost_kind, faster):
            doctored(change)


class Faults(Case):
    def ranks_of(self, launcher):
        """Processes that run the program below `launcher`, by rank."""
        found = {}
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == launcher:
                continue
            try:
                variables = dict(item.split("=", 1) for item in (folder / "environ").read_text().split("\0") if "=" in item)
                if os.readlink(folder / "exe") == BENCH and variables.get("ZPLAN_TEST_RUN") == str(self.folder):
                    found[int(variables.get("OMPI_COMM_WORLD_RANK", -1))] = int(folder.name)
            except (OSError, ValueError):
                continue
        return found

    def start(self, *arguments):
        environment = dict(os.environ, ZPLAN_TEST_RUN=str(self.folder))
        process = subprocess.Popen([BENCH, "--backend", "mpi", "--output", self.folder / "result.json", *map(str, arguments)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        # Its first line of the table: it measures.
        for line in process.stdout:
            if line.startswith("all_reduce"):
                break
        return process

    def ends_without_orphans(self, process, within=60):
        ranks = self.ranks_of(process.pid)
        output = process.communicate(timeout=within)
        deadline = time.monotonic() + within
        while self.ranks_of(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual({rank: pid for rank, pid in self.ranks_of(process.pid).items() if rank in ranks}, {})
        return output

    LONG = ("--op", "all_reduce", "-b", "1M", "-e", "1M", "-n", "10000000")
    SHORT_THEN_LONG = ("--op", "all_reduce", "-b", "8", "-e", "1M", "-f", "131072", "-n", "200000", "--place", "out")

    def test_a_killed_rank_ends_the_run(self):
        process = self.start("--local", 3, *self.SHORT_THEN_LONG)
        os.kill(self.ranks_of(process.pid)[1], signal.SIGKILL)
        _, err = self.ends_without_orphans(process)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, "rank 1 .*signal 9")
        self.whole_or_absent()

    def test_a_stopped_rank_is_given_up(self):
        process = self.start("--local", 2, "--timeout", "2s", *self.SHORT_THEN_LONG)
        os.kill(self.ranks_of(process.pid)[1], signal.SIGSTOP)
        _, err = self.ends_without_orphans(process)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("has not ended for 2 s: a rank is gone or hangs", err)
        found = json.loads((self.folder / "result.json").read_text())
        self.assertFalse(found["complete"])
        self.assertEqual(len(found["collectives"]), 1)

    def test_ctrl_c_keeps_what_was_measured(self):
        process = self.start("--local", 2, *self.SHORT_THEN_LONG[:-4], "-n", "2000", "--place", "both")
        process.send_signal(signal.SIGINT)
        _, err = self.ends_without_orphans(process)
        found = json.loads((self.folder / "result.json").read_text())
        self.assertEqual((found["complete"], found["stopped"]), (False, "interrupted"), err)
        self.assertGreaterEqual(len(found["collectives"]), 1)
        self.assertIn("interrupted", err)

    def test_a_killed_launcher_leaves_no_ranks(self):
        process = self.start("--local", 2, *self.SHORT_THEN_LONG)
        ranks = self.ranks_of(process.pid)
        self.assertEqual(set(ranks), {0, 1})
        process.kill()
        self.ends_without_orphans(process)
        self.whole_or_absent()

    def whole_or_absent(self):
        """No file that is cut off, and none that says it is complete."""
        left = sorted(path.name for path in self.folder.iterdir())
        self.assertIn(left, ([], ["result.json"]))
        if left:
            self.assertFalse(json.loads((self.folder / "result.json").read_text())["complete"])

    def test_an_output_that_cannot_be_written_is_said_before_measuring(self):
        for path in ("/nowhere/result.json", "/proc/result.json", str(self.folder)):
            done = run("--backend", "mpi", "--local", 2, "--op", "all_reduce", "-e", "8", "--output", path)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, "^zplan: --output: .*cannot be written")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_full_disk_is_named_and_leaves_nothing(self):
        done = run("--backend", "mpi", "--local", 2, "--op", "all_reduce", "-e", "8", "--output", "/dev/full")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--output: \"/dev/full\" cannot be written: No space left on device", done.stderr)

    def test_ranks_that_were_started_differently_say_so(self):
        common = [BENCH, "--backend", "mpi", "--op", "all_reduce"]
        mpirun = ["mpirun", "--oversubscribe", "-n", "1", *common, "-e", "64", ":", "-n", "1", *common, "-e", "128"]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run(mpirun, capture_output=True, text=True, timeout=120, check=False, env=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 runs with arguments", done.stderr)

    def test_bad_options_are_told_once(self):
        done = run("--backend", "mpi", "--local", 2, "-b", "lots")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    names = sys.argv[5:]
    unittest.main(argv=[sys.argv[0], *names], verbosity=2)

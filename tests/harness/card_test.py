"""The scripts that measure a GPU, as far as they go without one.

usage: card_test.py CARD_FOLDER ZPLAN
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CARD, ZPLAN = Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)
sys.path.insert(0, str(CARD))

import measure  # noqa: E402
from measure import required_bytes  # noqa: E402
from run import (catalogue, ds_config_of, one_rank, options_of, row_of, several_ranks,  # noqa: E402
                 verdict_runs)

ALL = one_rank() + several_ranks() + verdict_runs()
H100 = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "total_bytes": 85_000_000_000}


def step(seconds=1.0):
    peaks = {"peak_requested": 3 << 30, "peak_allocated": 3 << 30, "peak_reserved": 4 << 30}
    return {**peaks, "allocated_before": 1 << 30, "requested_before": 1 << 30, "peak_phase": "step", "phases": {"step": peaks},
            "reserved": 4 << 30, "device_bytes": 5 << 30, "alloc_retries": 0, "seconds": seconds}


def check(document):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.json"
        measure.write(path, document)
        answer = subprocess.run([ZPLAN, "check", str(path), "--json"], capture_output=True, text=True, check=False)
    return answer.returncode, json.loads(answer.stdout) if answer.stdout else answer.stderr


class Runs(unittest.TestCase):
    def test_every_model_is_in_the_catalogue(self):
        known = catalogue()
        self.assertEqual([run.model for run in ALL if run.model not in known], [])

    def test_no_two_have_one_name(self):
        for each in (one_rank() + several_ranks(), verdict_runs()):
            names = [run.id for run in each]
            self.assertEqual(len(names), len(set(names)))

    def test_sixty_runs_at_least(self):
        self.assertGreaterEqual(len(one_rank() + several_ranks()), 60)

    def test_what_deepspeed_is_told_is_what_the_row_says(self):
        for run in ALL:
            if run.framework != "deepspeed":
                continue
            options, config = options_of(run), ds_config_of(run)
            self.assertEqual(config["zero_optimization"]["stage"], options["zero"])
            self.assertEqual("offload_optimizer" in config["zero_optimization"], "optimizer" in options.get("offload", ""))
            self.assertEqual(config["train_micro_batch_size_per_gpu"], options["micro_batch"])

    def test_zplan_judges_every_row(self):
        rows = [row_of(run) | {"measured": {"1": step(), "2": step(), "3": step()}, "outcome": "ran",
                               "available_bytes": (78 << 30) // run.ranks} for run in one_rank() + several_ranks()]
        status, answer = check({"schema": "zplan.runs/1", "card": H100, "rows": rows, "failed": [], "overheads": []})
        self.assertEqual((status, answer["failures"]), (0, []))
        skipped = {record["id"]: record["skipped"] for record in answer["records"] if record["skipped"] and record["statistic"] != "tokens_per_second"}
        self.assertEqual(skipped, {})
        judged = {(record["id"], record["statistic"]) for record in answer["records"]}
        for run in one_rank():
            for statistic in ("allocated", "reserved", "device", "tokens_per_second"):
                self.assertIn((run.id, statistic), judged)

    def test_what_is_required_is_asked_of_zplan(self):
        needed = required_bytes(ZPLAN, verdict_runs(), H100)
        self.assertEqual(set(needed), {run.id for run in verdict_runs()})
        self.assertTrue(all(1 << 30 < value < 80 << 30 for value in needed.values()), needed)


def checked(allocated=0.001, worst=0.002, fails=0, exact=True):
    group = {"kind": "measurement", "statistic": "allocated", "judged": 5, "median_error": allocated, "worst_error": worst}
    return {"groups": [group], "failures": [], "records": [{"statistic": "schedule", "skipped": None, "exact": exact}],
            "fits": {"ran": 1, "ran_and_fits": 1, "failed": 2, "failed_and_fits": fails}}


class Demanded(unittest.TestCase):
    def within(self, **changes):
        return [right for _, _, right in measure.demanded(checked(**changes))]

    def test_all_within(self):
        self.assertTrue(all(self.within()))

    def test_each_that_is_not(self):
        for changes in ({"allocated": 0.011}, {"worst": -0.05}, {"fails": 1}, {"exact": False}):
            self.assertEqual(self.within(**changes).count(False), 1, changes)


class Command(unittest.TestCase):
    def run_with(self, *arguments):
        return subprocess.run([sys.executable, str(CARD / "measure.py"), *arguments], capture_output=True, text=True, check=False)

    def test_bad_usage_is_one_line(self):
        for arguments, named in ((["--out", "x", "--parts", "speed"], "speed"), (["--out", "x", "--zplan", "/no/zplan"], "/no/zplan"),
                                 (["--out", "x", "--budget", "soon"], "soon")):
            answer = self.run_with(*arguments)
            self.assertEqual(answer.returncode, 2)
            self.assertIn(named, answer.stderr.splitlines()[-1])

    def test_a_document_is_written_whole_and_read_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runs.json"
            document = {"schema": "zplan.runs/1", "rows": [{"id": "a"}, {"id": "b"}], "failed": []}
            measure.write(path, document)
            self.assertEqual(json.loads(path.read_text()), document)
            self.assertEqual([each.name for each in Path(folder).iterdir()], ["runs.json"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

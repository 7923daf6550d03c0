"""`watch` on a torch that is made up: what it predicts, measures, compares and writes, without a GPU or torch.

usage: ZPLAN_PROGRAM=zplan PYTHONPATH=FOLDER_OF_PACKAGE python3 watch_test.py
"""
import io
import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import zplan
from support import command_line, document_of
from zplan import watching
from zplan.watching import compare_run, what_differs

GIB = 2**30


class Allocator:
    """PyTorch's counters: `rise` bytes come and go in every step over what is held."""

    def __init__(self, held, rise, reserved):
        self.held, self.rise, self.kept, self.synchronised, self.resets = held, rise, reserved, 0, 0

    def module(self, name, total):
        cuda = types.SimpleNamespace(
            current_device=lambda: 0, get_device_properties=lambda _: types.SimpleNamespace(name=name, total_memory=total, major=9, minor=0),
            mem_get_info=lambda _: (total - self.kept, total), memory_reserved=lambda _: self.kept,
            memory_allocated=lambda _: self.held, max_memory_allocated=lambda _: self.held + self.rise,
            max_memory_reserved=lambda _: self.kept, reset_peak_memory_stats=self.reset, synchronize=self.synchronise)
        return types.SimpleNamespace(cuda=cuda, distributed=types.SimpleNamespace(is_available=lambda: False))

    def reset(self, _):
        self.resets += 1

    def synchronise(self, _):
        self.synchronised += 1


class Runs(unittest.TestCase):
    OPTIONS = {"zero": 2, "micro_batch": 2, "seq": 1024}

    def setUp(self):
        self.plan = zplan.plan("Qwen/Qwen2.5-0.5B", gpu="H100-SXM-80GB", offload="none", **self.OPTIONS).best
        memory = self.plan.memory
        held = memory.timeline[0].bytes
        self.allocator = Allocator(held, memory.peak_allocated - held, memory.peak_reserved)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.rows = os.path.join(folder.name, "runs.json")

    def watch(self, steps=7, name="NVIDIA H100 80GB HBM3", total=80 * GIB, error=None, **changes):
        out = io.StringIO()
        with mock.patch.dict(sys.modules, {"torch": self.allocator.module(name, total)}):
            watched = zplan.watch("Qwen/Qwen2.5-0.5B", row=self.rows, out=out, offload="none", **{**self.OPTIONS, **changes})
            try:
                with watched:
                    for _ in range(steps):
                        watched.step()
                    if error:
                        raise error
            except RuntimeError:
                self.assertIsNotNone(error)
        return watched, out.getvalue()

    def document(self):
        with open(self.rows) as file:
            return json.load(file)

    def test_a_run_as_it_was_planned(self):
        watched, text = self.watch()
        self.assertIn("predicted", text.splitlines()[0])
        self.assertNotIn("will not fit", text)
        memory = [each for each in watched.compared if each.name != "seconds per step"]
        self.assertEqual([each.difference for each in memory], [0] * len(memory))
        status, out, err = command_line("check", self.rows, "--json")
        self.assertEqual(err, "")
        errors = {record["statistic"]: record["error"] for record in document_of(out)["records"] if not record["skipped"]}
        self.assertAlmostEqual(errors["allocated"], 0, delta=0.01)
        self.assertIn("tokens_per_second", errors)
        self.assertEqual(document_of(out)["failures"], [])
        self.assertEqual(status, 0)

    def test_only_the_first_steps_are_watched(self):
        self.watch(steps=500)
        self.assertEqual((self.allocator.synchronised, self.allocator.resets), (5, 5))
        self.assertEqual(sorted(self.document()["rows"][0]["measured"]), ["1", "2", "3", "4", "5"])

    def test_the_part_that_differs_is_named(self):
        self.allocator.rise += 3 * GIB
        self.allocator.kept += 3 * GIB
        _, text = self.watch()
        self.assertIn("what differs: added by a step: 3.00 GiB more than predicted", text)

    def test_too_small_a_gpu_is_warned_of(self):
        self.allocator.kept = 0
        _, text = self.watch(total=6 * GIB, name="Some GPU")
        self.assertIn("warning: it will not fit: ", text.splitlines()[1])

    def test_a_second_run_is_a_second_row(self):
        self.watch()
        self.watch()
        self.watch(seq=512)
        self.assertEqual([row["options"]["seq"] for row in self.document()["rows"]], [1024, 512])
        with self.assertRaisesRegex(ValueError, "not runs on Some GPU"):
            self.watch(name="Some GPU")

    def test_out_of_memory_is_a_row(self):
        _, text = self.watch(steps=1, error=RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
        self.assertEqual(self.document()["rows"][0]["outcome"], "out_of_memory")
        self.assertIn("out of memory in step 2", text)
        _, out, _ = command_line("check", self.rows, "--json")
        self.assertEqual([record["statistic"] for record in document_of(out)["records"]], ["required"])

    def test_too_few_steps_write_nothing(self):
        _, text = self.watch(steps=2)
        self.assertIn("too few", text)
        self.assertFalse(os.path.exists(self.rows))

    def test_other_ranks_do_nothing(self):
        with mock.patch.dict(os.environ, {"RANK": "3", "WORLD_SIZE": "4"}):
            watched, text = self.watch()
        self.assertEqual((text, self.allocator.synchronised, watched.steps), ("", 0, []))

    def test_what_is_left_in_the_loop_costs_nothing(self):
        watched, _ = self.watch(steps=5)
        with mock.patch.object(watching.time, "perf_counter", side_effect=AssertionError):
            for _ in range(1000):
                watched.step()

    def test_steps_that_cannot_be_compared_are_refused(self):
        with self.assertRaisesRegex(ValueError, "steps: "):
            zplan.watch("0.5B", steps=2)


class Differences(unittest.TestCase):
    def test_time_is_named(self):
        plan = zplan.plan("0.5B", mem=24).best
        steps = [watching.Step(number, plan.memory.timeline[0].bytes, plan.memory.peak_allocated, plan.memory.peak_reserved, 3 * plan.time.step)
                 for number in (1, 2, 3)]
        self.assertEqual(what_differs(compare_run(plan, steps)), "a step takes 3 times what is predicted")


if __name__ == "__main__":
    unittest.main()

"""What needs other packages: frames of pandas, the notebook of docs/, and how long importing and planning take.

usage: ZPLAN_PROGRAM=zplan python3 extras_test.py   (zplan, pandas, nbclient and ipykernel installed)
"""
import json
import os
import re
import subprocess
import sys
import timeit
import unittest
from unittest import mock

import zplan
from support import TESTS, command_line
from zplan import _engine

NOTEBOOK = os.path.join(os.path.dirname(TESTS), "docs", "python.ipynb")


class Frames(unittest.TestCase):
    def test_a_line_per_plan_with_the_columns_of_csv(self):
        report = zplan.plan("8B", gpus=5, mem=44)
        frame = report.to_frame()
        _, text, _ = command_line("--model", "8B", "--gpus", "5", "--mem", "44", "--csv")
        columns = text.splitlines()[0].split(",")
        self.assertEqual([each for each in columns if each not in {*frame.columns, "id", "why"}], [])
        self.assertEqual(list(frame.index), [plan.id for plan in report.plans])
        self.assertEqual(frame.loc["zero3", "required"], report.best.memory.required)
        self.assertEqual(frame.loc["zero3", "step_seconds"], report.best.time.step)

    def test_all_answers_have_one(self):
        for answer, lines in ((zplan.fit("8B", gpus=5, mem=44, solve="sequence"), 3), (zplan.models("qwen3"), 5), (zplan.hardware("h100"), 3),
                              (zplan.lint({"zero_optimization": {"stage": 5}}), 1)):
            self.assertGreaterEqual(len(answer.to_frame()), lines)


class Notebook(unittest.TestCase):
    """docs/python.ipynb runs, and what it shows is what stands in it."""

    def shown(self, notebook):
        """Text and HTML of the outputs, without what a run of the kernel decides."""
        found = []
        for cell in notebook["cells"]:
            for output in cell.get("outputs", []):
                data = output.get("data", {"text/plain": output.get("text", "")})
                found.append({kind: re.sub(r"0x[0-9a-f]+", "", "".join(text)) for kind, text in data.items()})
        return found

    def test_it_shows_what_it_did(self):
        import nbclient
        import nbformat

        notebook = nbformat.read(NOTEBOOK, as_version=4)
        before = self.shown(json.loads(nbformat.writes(notebook)))
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
        after = self.shown(json.loads(nbformat.writes(notebook)))
        if os.environ.get("ZPLAN_UPDATE_GOLDEN"):
            for cell in notebook["cells"]:
                cell["metadata"] = {}
            notebook["metadata"].pop("language_info", None)
            nbformat.write(notebook, NOTEBOOK)
        else:
            self.assertEqual(before, after)
            self.assertTrue(any("<svg" in each.get("text/html", "") for each in after))


class Speed(unittest.TestCase):
    """Of the machine's own work, so by the best of many."""

    def test_import(self):
        code = "import time; began = time.perf_counter(); import zplan; print(time.perf_counter() - began)"
        times = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(15)]
        print(f"import: {min(times) * 1e3:.1f} ms")
        self.assertLess(min(times), 0.05)

    def test_what_python_adds_to_a_plan(self):
        """Words, reading the answer, and the way to the engine and back: a refused word takes it nothing."""
        answer = _engine.ask(["plan", "--model=8B", "--gpus=5", "--mem=44", "--json"])
        with mock.patch.object(_engine, "ask", return_value=answer):
            reading = min(timeit.repeat(lambda: zplan.plan("8B", gpus=5, mem=44), number=1, repeat=200))
        way = min(timeit.repeat(lambda: _engine.ask(["--no-such-option"]), number=1, repeat=200))
        print(f"Python adds {(reading + way) * 1e3:.2f} ms: {reading * 1e3:.2f} ms reading, {way * 1e3:.2f} ms to the engine and back")
        self.assertLess(reading + way, 0.001)


if __name__ == "__main__":
    unittest.main()

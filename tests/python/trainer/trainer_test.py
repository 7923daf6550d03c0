"""The callback in a real transformers Trainer with real DeepSpeed, on the stand-in for CUDA's runtime: predicted and measured
peaks, and the row that `zplan check` reads.

usage: ZPLAN_PROGRAM=zplan trainer_test.py   (see trainer_test.sh)
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from zplan.trace import stand_in

HERE = os.path.dirname(os.path.abspath(__file__))


class Trainer(unittest.TestCase):
    def train(self, stage, memory=80 << 30):
        with tempfile.TemporaryDirectory() as folder:
            rows = os.path.join(folder, "runs.json")
            surroundings = {**stand_in.environment(), "ZPLAN_STAND_IN_MEMORY": str(memory), "DS_ACCELERATOR": "cuda",
                            "DS_SKIP_CUDA_CHECK": "1", "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]}
            done = subprocess.run([sys.executable, os.path.join(HERE, "train.py"), rows, str(stage)], capture_output=True, text=True,
                                  check=False, env=surroundings, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            said = "\n".join(line for line in done.stderr.splitlines() if line.startswith(("zplan: ", "  ")))
            check = subprocess.run([os.environ["ZPLAN_PROGRAM"], "check", rows, "--json"], capture_output=True, text=True, check=False)
            self.assertEqual(check.stderr, "")
            return done.stdout, said, json.loads(check.stdout)

    def errors(self, stage):
        figures, said, check = self.train(stage)
        print(f"\nZeRO-{stage}\n{said}")
        compared = {name: list(map(float, values.split())) for name, _, values in
                    (line.partition(": ") for line in figures.splitlines() if line.count(": ") == 1 and line[0] != "{")}
        self.assertEqual(check["failures"], [])
        return {name: measured / predicted - 1 for name, (predicted, measured) in compared.items() if predicted}, check

    def test_peaks_are_as_predicted(self):
        for stage in (1, 2, 3):
            with self.subTest(stage=stage):
                errors, check = self.errors(stage)
                self.assertLess(abs(errors["held between steps"]), 0.001)
                self.assertLess(abs(errors["allocated peak"]), 0.001)
                self.assertLess(abs(errors["reserved peak"]), 0.05)
                judged = {record["statistic"]: record["error"] for record in check["records"] if not record["skipped"]}
                self.assertLess(abs(judged["allocated"]), 0.001)
                self.assertLess(abs(judged["reserved"]), 0.05)

    def test_too_small_a_gpu_is_warned_of(self):
        _, said, _ = self.train(2, memory=12 << 30)
        self.assertIn("near the edge", said)


if __name__ == "__main__":
    unittest.main()

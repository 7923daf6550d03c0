"""What is in a wheel: the package and the engine, and nothing of the machine that built it.

usage: wheel_test.py WHEEL
"""
import os
import pwd
import re
import sys
import unittest
import zipfile

WHEEL = sys.argv.pop(1)
MODULES = {"__init__", "__main__", "_device", "_engine", "_fields", "_html", "_read", "_run_row", "_schema", "_transformers", "_words", "api",
           "options", "results", "watching", "integrations/__init__"}
SCHEMAS = {"catalogue", "check", "fit", "hardware_comparison", "lint", "report"}


class Contents(unittest.TestCase):
    def setUp(self):
        self.wheel = zipfile.ZipFile(WHEEL)
        self.addCleanup(self.wheel.close)
        self.names = [name for name in self.wheel.namelist() if not name.endswith("/")]

    def test_the_files(self):
        package = {name for name in self.names if ".dist-info/" not in name and not name.startswith("zplan/trace/")}
        self.assertEqual(package, {f"zplan/{module}.py" for module in MODULES} | {f"zplan/schema/{name}.schema.json" for name in SCHEMAS} |
                         {"zplan/_fields.pyi", "zplan/py.typed", "zplan/libzplan_engine.so"})
        info = sorted(name.split(".dist-info/")[1] for name in self.names if ".dist-info/" in name)
        self.assertEqual([name for name in info if not name.startswith("sboms/")], ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"])

    def test_it_runs_on_any_python_and_old_systems(self):
        self.assertRegex(WHEEL, r"-py3-none-manylinux[0-9_]+x86_64")
        metadata = self.wheel.read(next(name for name in self.names if name.endswith("/METADATA"))).decode()
        self.assertEqual(re.findall(r"^Requires-Dist: ([^;\n]*)$", metadata, re.MULTILINE), [])

    def test_no_path_of_the_machine(self):
        for name in self.names:
            data = self.wheel.read(name)
            for sign in (os.fsencode(pwd.getpwuid(0).pw_dir) + b"/", b"/home/", b"/build/", b"/usr/include", b"/usr/lib/gcc", b"site-packages"):
                at = data.find(sign)
                self.assertEqual(data[max(0, at - 40): at + 60] if at >= 0 else b"", b"", name)
            # Folders for temporary files are looked up, never built in.
            self.assertNotRegex(data[:1] and data, rb"/tmp/[a-z]", name)

    def test_no_time_of_the_build(self):
        self.assertEqual({info.date_time for info in self.wheel.infolist()}, {self.wheel.infolist()[0].date_time})

    def test_the_engine_looks_for_libraries_nowhere(self):
        engine = self.wheel.read("zplan/libzplan_engine.so")
        self.assertEqual(engine[:4], b"\x7fELF")
        self.assertNotIn(b"$ORIGIN", engine)
        self.assertNotIn(b"libfmt.so", engine)
        self.assertNotIn(b"libstdc++.so", engine)


if __name__ == "__main__":
    unittest.main()

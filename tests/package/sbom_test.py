"""The list of what is inside a package: versions are dpkg's, bytes the same each time, nothing unknown passes.

usage: sbom_test.py SBOM.py
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)


def run(folder, *packages):
    out = os.path.join(folder, "new", "sbom.json")
    done = subprocess.run([sys.executable, SCRIPT, "zplan", "1.2.3", out, *packages], capture_output=True, text=True, check=False,
                          env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000"})
    return done, out


class Bill(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_versions_and_licences(self):
        done, out = run(self.folder.name, "nlohmann-json3-dev", "libc++=19.1:Apache-2.0 WITH LLVM-exception")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(out, encoding="utf-8") as file:
            text = file.read()
        bill = json.loads(text)
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(bill["metadata"]["timestamp"], "2001-09-09T01:46:40Z")
        library, compilers = sorted(bill["components"], key=lambda each: each["name"], reverse=True)
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "nlohmann-json3-dev"], capture_output=True, text=True, check=True)
        self.assertEqual(library["version"], asked.stdout)
        self.assertEqual(library["licenses"], [{"expression": "MIT"}])
        self.assertEqual((compilers["name"], compilers["version"]), ("libc++", "19.1"))
        run(self.folder.name, "libc++=19.1:Apache-2.0 WITH LLVM-exception", "nlohmann-json3-dev")
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)

    def test_names_of_other_releases(self):
        done, out = run(self.folder.name, "zplan-no-such-package|nlohmann-json3-dev")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(out, encoding="utf-8") as file:
            self.assertEqual([each["name"] for each in json.load(file)["components"]], ["nlohmann-json3"])

    def test_what_is_not_installed(self):
        done, out = run(self.folder.name, "zplan-no-such-package")
        self.assertEqual((done.returncode, done.stderr), (1, "sbom.py: zplan-no-such-package is no installed package\n"))
        self.assertFalse(os.path.exists(out))


unittest.main()

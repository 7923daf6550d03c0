"""Holds the order of folders that docs/architecture.md lists: a folder includes only folders that stand before it."""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTION = "## Order of folders"


def listed_folders(root):
    """Returns the folders that docs/architecture.md lists, lowest first."""
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = text.split(SECTION, 1)[1].split("```")[1]
    return [line.split()[0] for line in block.splitlines() if line.strip()]


def sources(root, parts):
    for part in parts:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                yield path


def includes(path):
    return re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)


def strangers(root):
    """Returns a sentence for each include of a framework's header outside its folder, but for the format of DeepSpeed's config."""
    found = []
    for path in sources(root, ("planner", "cli", "gui", "harness", "python")):
        name = path.relative_to(root).as_posix()
        for header in includes(path):
            owner = re.match(r"planner/frameworks/(fsdp|ddp|deepspeed)/", header)
            if owner and not name.startswith(owner[0]) and not header.startswith("planner/frameworks/deepspeed/config/"):
                found.append(f"{name} includes {header}")
    return found


def faults(root):
    """Returns a sentence for each include that runs up, and for each folder that is not listed."""
    folders = listed_folders(root)
    place = {folder: index for index, folder in enumerate(folders)}
    parts = sorted({folder.split("/")[0] for folder in folders})
    found = []
    for path in sources(root, parts):
        folder = path.parent.relative_to(root).as_posix()
        if folder not in place:
            found.append(f"{folder} is not listed in docs/architecture.md")
            continue
        for header in includes(path):
            included = header.rpartition("/")[0]
            if included in place and place[included] > place[folder]:
                found.append(f"{path.relative_to(root).as_posix()} includes {header}, which stands above it")
    return sorted(set(found))


class Folders(unittest.TestCase):
    def test_include_only_what_stands_before_them(self):
        self.assertEqual(faults(ROOT), [])

    def test_frameworks_are_called_through_their_rows(self):
        self.assertEqual(strangers(ROOT), [])

    def test_each_listed_folder_has_sources(self):
        for folder in listed_folders(ROOT):
            with self.subTest(folder):
                self.assertTrue(any(path.suffix in (".h", ".cpp") for path in (ROOT / folder).iterdir()))

    def test_an_include_that_runs_up_is_found(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for folder in ("docs", "engine/low", "engine/high", "engine/new"):
                (root / folder).mkdir(parents=True)
            (root / "docs/architecture.md").write_text(f"{SECTION}\n```\nengine/low\nengine/high\n```\n")
            (root / "engine/low/a.h").write_text('#include "engine/high/b.h"\n')
            (root / "engine/high/b.cpp").write_text('#include "engine/low/a.h"\n')
            (root / "engine/new/c.h").write_text("")
            self.assertEqual(
                faults(root),
                [
                    "engine/low/a.h includes engine/high/b.h, which stands above it",
                    "engine/new is not listed in docs/architecture.md",
                ],
            )


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])

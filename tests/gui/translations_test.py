"""Every text of the window is translated: lupdate over the sources finds none that a language lacks.

translations_test.py LUPDATE SOURCE; exit status 1 with the texts that are missing or whose placeholders differ."""

import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree


def problems(ts):
    for context in ElementTree.parse(ts).getroot().findall("context"):
        for message in context.findall("message"):
            source = message.find("source").text
            translation = message.find("translation")
            texts = [form.text or "" for form in translation.findall("numerusform")] or [translation.text or ""]
            where = f"{context.find('name').text}: {source!r}"
            if translation.get("type") == "unfinished" or not all(texts):
                yield f"{where} is not translated"
            for text in texts:
                of_source, of_text = (collections.Counter(re.findall(r"%n|%\d", each)) for each in (source, text))
                if of_source != of_text and text:
                    yield f"{where} has other placeholders in {text!r}"


def main():
    lupdate, root = sys.argv[1], pathlib.Path(sys.argv[2])
    found = []
    languages = sorted((root / "gui/translations").glob("*.ts"))
    for language in languages:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / language.name
            shutil.copy(language, copy)
            subprocess.run(
                [lupdate, "-silent", "-locations", "none", "-no-obsolete", "-I", root, "-recursive", root / "gui", "-ts", copy],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found += [f"{language.name}: {each}" for each in problems(copy)]
    print("\n".join(found[:40]) or f"{len(languages)} language, nothing missing")
    return 1 if found or not languages else 0


if __name__ == "__main__":
    sys.exit(main())

"""Every text of the window is translated: lupdate over the sources and the table of options finds none that a language lacks.

translations_test.py LUPDATE SOURCE ZPLAN; exit status 1 with the texts that are missing or whose placeholders differ. With
ZPLAN_UPDATE_GOLDEN=1 the languages' files get the texts that they lack, untranslated, and lose those that are gone."""

import collections
import json
import os
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
                of_source, of_text = (collections.Counter(re.findall(r"%n|%\d|\{\}", each)) for each in (source, text))
                if of_source != of_text and text:
                    yield f"{where} has other placeholders in {text!r}"


def verdict_formats(root):
    """Formats of the command line's verdict, which the window lists for lupdate."""
    calls = re.findall(r"\b(?:phrase|needs)\(([^;]*)", (root / "cli/report/brief.cpp").read_text(encoding="utf-8"))
    return {text for call in calls for text in re.findall(r'"((?:[^"\\]|\\.)*)"', call) if re.search("[{]| [a-z]", text)}


def option_texts(zplan):
    """Groups, labels and helps of the table of options, as a source that lupdate reads."""
    table = json.loads(subprocess.run([zplan, "--help", "--json"], check=True, capture_output=True, text=True).stdout)["options"]
    shown = [option for option in table if option["label"]]
    texts = dict.fromkeys(option[key] for key in ("group", "label", "help") for option in shown)
    return "".join(f'QT_TRANSLATE_NOOP("zplan::gui::Options", {json.dumps(text, ensure_ascii=False)})\n' for text in texts if text != "Output")


def main():
    lupdate, root, zplan = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    words = (root / "gui/session/words.cpp").read_text(encoding="utf-8")
    found = [f"words.cpp lacks the format {each!r}" for each in verdict_formats(root) if f'"verdict", "{each}"' not in words]
    languages = sorted((root / "gui/translations").glob("*.ts"))
    for language in languages:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / language.name
            shutil.copy(language, copy)
            options = pathlib.Path(folder) / "options.cpp"
            options.write_text(option_texts(zplan), encoding="utf-8")
            subprocess.run(
                [lupdate, "-silent", "-locations", "none", "-no-obsolete", "-I", root, "-recursive", root / "gui", options, "-ts", copy],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if os.environ.get("ZPLAN_UPDATE_GOLDEN"):
                shutil.copy(copy, language)
            found += [f"{language.name}: {each}" for each in problems(copy)]
    print("\n".join(found[:40]) or f"{len(languages)} language, nothing missing")
    return 1 if found or not languages else 0


if __name__ == "__main__":
    sys.exit(main())

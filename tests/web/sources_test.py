"""The page's sources hold together: scripts parse, texts are translated, nothing is written into the page that its policy forbids, and
shims.h has every algorithm of <ranges> that the engine calls. Needs no emscripten; scripts are parsed where there is a Node."""
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PAGE, ENGINE, TESTS = (os.path.join(ROOT, folder) for folder in ("web/page", "web/engine", "tests/web"))
problems = []


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files(folder, *endings):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(endings)]


def check_scripts_parse():
    node = shutil.which("node")
    for script in (files(PAGE, ".js") + files(ENGINE, ".js") + files(TESTS, ".js", ".mjs")) if node else []:
        done = subprocess.run([node, "--check", script], capture_output=True, text=True)
        if done.returncode:
            problems.append(f"{script}: {done.stderr.strip()}")
    for path in files(PAGE, ".json", ".webmanifest"):
        json.loads(text_of(path))


def window_texts():
    """What the window's translations have, without the marks of keys."""
    import xml.etree.ElementTree as tree

    for message in tree.parse(os.path.join(ROOT, "gui/translations/zplan_zh_CN.ts")).iter("message"):
        yield re.sub(r"\(&[A-Za-z0-9]\)|&(?=\S)", "", message.findtext("source"))


# Names of things that are the same in every language.
SAME = {"GiB", "GiB/GPU", "MFU", "LoRA", "QLoRA", "tokens/s"}


def check_texts_are_translated():
    known = set(json.loads(text_of(os.path.join(PAGE, "zh_CN.json")))) | set(window_texts()) | SAME
    used = set()
    for script in files(PAGE, ".js"):
        used |= {text.replace('\\"', '"') for text in re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', text_of(script))}
    used |= set(re.findall(r'data-t(?:-label)?="([^"]*)"', text_of(os.path.join(PAGE, "index.html"))))
    problems.extend(f"web/page/zh_CN.json: no translation of {text!r}" for text in sorted(used - known))


def cpp_files():
    for folder in ("models", "hardware_profiles", "planner", "cli", "python/engine"):
        for below, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".h", ".cpp")):
                    yield os.path.join(below, name)


def check_sentences_are_the_engines():
    """A translated sentence stands in the engine's sources, so that it matches what the engine says."""
    whole = "\n".join(text_of(path) for path in cpp_files())
    whole = re.sub(r'"\s*\n\s*"', "", whole)
    for name in files(PAGE, ".sentences.json"):
        for sentence, translated in json.loads(text_of(name)).items():
            places = len(re.findall(r"\{#?\}", sentence))
            if any(int(place) > places for place in re.findall(r"%(\d+)", translated)):
                problems.append(f"{name}: more places in the translation than in {sentence!r}")
            for part in re.split(r"\{#?\}", sentence):
                # Where two of its texts meet, the engine has joined them.
                if len(part.split()) >= 3 and part not in whole and not any(part[:i] in whole and part[i:] in whole for i in range(1, len(part))):
                    problems.append(f"{name}: the engine says nowhere {part!r}")


def check_policy():
    page = text_of(os.path.join(PAGE, "index.html"))
    if "unsafe-inline" in page or "'unsafe-eval'" in page:
        problems.append("index.html: its policy allows scripts or styles in the page")
    if re.search(r"<[^>]+\s(?:style|on\w+)=", page) or re.search(r"<script(?![^>]*\ssrc=)", page):
        problems.append("index.html: a style or a script in the page, which its policy forbids")
    for path in files(PAGE, ".js", ".css", ".html"):
        for address in re.findall(r"https?://[^\s\"')]+", text_of(path)):
            if address != "http://www.w3.org/2000/svg":
                problems.append(f"{path}: {address} is loaded from elsewhere")


def check_modules_are_preloaded():
    """A module that only another one names is loaded a round trip later."""
    imported = {name for script in files(PAGE, ".js") for name in re.findall(r'^import .* from "\./([^"]+)"', text_of(script), re.M)}
    preloaded = set(re.findall(r'<link rel="modulepreload" href="([^"]+)">', text_of(os.path.join(PAGE, "index.html"))))
    problems.extend(f"index.html: {name} is {'not preloaded' if name in imported else 'preloaded for nothing'}" for name in sorted(imported ^ preloaded))


# What the C++ library of Debian's emscripten (libc++ 14) has nothing of, and neither has shims.h. Source: libc++'s status page of C++20.
LACKING = (r"std::format\b", r"std::views::", r"std::ranges::views::", r"std::jthread\b", r"std::stop_(token|source|callback)\b", r"std::source_location\b",
           r"std::pmr::", r"std::osyncstream\b", r"std::lexicographical_compare_three_way\b", r"std::execution::", r"std::make_shared<[^<>]*\[\]>",
           r"std::atomic<std::shared_ptr", r"std::unreachable\b", r"std::expected\b", r"std::print\b", r"std::chrono::(year_month_day|zoned_time|time_zone)\b",
           r"std::async\((?!std::launch)")


# What C and C++ libraries do differently. pow, exp, log and their kin are equal in those of GNU and of emscripten; what is rounded to a whole number
# may stand. Heaps are kept differently, so equal elements leave them in another order.
DIFFERING = {
    r"std::(hypot|[lt]gamma|sinh?|cosh?|tanh?|a(?:sin|cos|tan)h?|atan2)\(": "whose last digit differs",
    r"std::((?:ranges::)?(?:push|pop|make|sort)_heap|priority_queue|(?:ranges::)?nth_element)\b": "where the order of equal elements differs",
}


def check_differing():
    for path in cpp_files():
        shown, text = os.path.relpath(path, ROOT), re.sub(r"//.*", "", text_of(path))
        if shown.startswith("planner/calibration/"):
            continue
        for pattern, what in DIFFERING.items():
            problems.extend(f"{shown}: {found}, {what} between the page and the command line" for found in sorted(set(re.findall(pattern, text))))


def check_shims():
    shims = text_of(os.path.join(ENGINE, "shims.h"))
    had = set(re.findall(r"^constexpr \w+ (\w+)\(R&&", shims, re.M)) | {"greater", "less"}
    for path in cpp_files():
        text = re.sub(r"//.*", "", text_of(path))
        problems.extend(f"{os.path.relpath(path, ROOT)}: {re.search(each, text).group()}, which emscripten's C++ library lacks" for each in LACKING if re.search(each, text))
        for called in set(re.findall(r"std::ranges::(\w+)", text)) - had:
            problems.append(f"{os.path.relpath(path, ROOT)}: std::ranges::{called}, which web/engine/shims.h lacks")


for check in (check_scripts_parse, check_texts_are_translated, check_sentences_are_the_engines, check_policy, check_modules_are_preloaded, check_differing, check_shims):
    check()
print("\n".join(problems))
sys.exit(1 if problems else 0)

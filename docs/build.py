"""Builds the site of the pages.

usage: build.py [--pages | --links] [ZPLAN]

Writes build/docs/pages: the pages of docs/, with those that generators write in full, and with README.md as the first page. MkDocs makes
build/docs/site of them if it is installed. --pages stops before MkDocs. --links writes nothing, checks every link of the project's pages and
of the files that name them, and lists pages that the site's contents leave out. ZPLAN is the program, ./zplan unless given."""

import concurrent.futures
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import generated

DOCS = generated.DOCS
ROOT = DOCS.parent
PAGES = ROOT / "build" / "docs" / "pages"
# Pages of other folders, and their names on the site.
MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md", "docs/README.md": "pages.md"}
GENERATORS = {"accuracy": ("generate_accuracy.py",), "advice": ("generate_advice.py", "advice"),
              "what-fits": ("generate_advice.py", "what-fits"), "expert-parallel": ("generate_expert_parallel.py",),
              "longest-context": ("generate_longest_context.py",), "recipes": ("generate_recipes.py",), "which-framework": ("generate_which_framework.py",),
              "which-strategy": ("generate_which_strategy.py",)}
# Stands in docs/lint.md where the site has the table of rules.
LINT_RULES = "<!--lint rules-->"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def name_on_site(path):
    """Returns the site's name of a file of the project, or None if it is not there."""
    relative = path.relative_to(ROOT).as_posix()
    if relative in MOVED:
        return MOVED[relative]
    inside = path.is_relative_to(DOCS) and not relative.endswith(".in.md")
    return path.relative_to(DOCS).as_posix() if inside and path.suffix in (".md", ".png", ".svg") else None


def for_site(text, folder):
    """Points links to the site's names; a link to a file that is not there becomes its text."""
    def link(found):
        target, _, anchor = found[3].partition("#")
        if "://" in target or not target:
            return found[0]
        name = name_on_site((folder / target).resolve())
        return f"{found[1]}[{found[2]}]({name}{'#' + anchor if anchor else ''})" if name else found[2]

    return LINK.sub(link, text)


def generate(program, name):
    script, *words = GENERATORS[name]
    command = [sys.executable, str(DOCS / script), "--site", str(PAGES), *words, program]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{script}: {result.stderr.strip() or result.stdout.strip()}")
    page = PAGES / f"{name}.md"
    page.write_text(for_site(page.read_text(encoding="utf-8"), DOCS), encoding="utf-8")


def lint_rules(program):
    """Returns the table of lint's rules, as its SARIF output lists them."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "ds_config.json")
        config.write_text("{}", encoding="utf-8")
        result = subprocess.run([program, "lint", str(config), "--sarif"], capture_output=True, text=True, check=False)
    rules = json.loads(result.stdout)["runs"][0]["tool"]["driver"]["rules"]
    rows = [f"| `{each['id']}` | {each['defaultConfiguration']['level']} | {each['shortDescription']['text']} | {each['help']['text']} |"
            for each in rules]
    return "\n".join(["| rule | severity | what | source |", "| --- | --- | --- | --- |", *rows])


def copy_pages(program):
    sources = [path for path in DOCS.glob("*.md") if not path.name.endswith(".in.md") and path.stem not in GENERATORS]
    for path in [*sources, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        text = for_site(path.read_text(encoding="utf-8"), path.parent)
        if LINT_RULES in text:
            text = text.replace(LINT_RULES, lint_rules(program))
        (PAGES / name_on_site(path)).write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "images", PAGES / "images")
    shutil.copy(DOCS / "site.css", PAGES)


def anchors_of(path):
    """Returns the anchors of a page's headings as both GitHub and MkDocs make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", LINK.sub(r"\2", each).lower()).strip().replace(" ", "-") for each in headings}


def project_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def faults():
    """Returns a line for every link that leads nowhere."""
    found = []
    files = project_files()
    for path in (each for each in files if each.suffix == ".md"):
        for _, _, link in LINK.findall(path.read_text(encoding="utf-8")):
            target, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            there = (path.parent / target).resolve() if target else path
            if not there.exists():
                found.append(f"{path.relative_to(ROOT)}: {link}: no such file")
            elif anchor and there.suffix == ".md" and anchor not in anchors_of(there):
                found.append(f"{path.relative_to(ROOT)}: {link}: no such heading")
    code = (each for each in files if each.suffix in (".h", ".cpp", ".py", ".json", ".txt", ".sh") and "reference" not in each.parts)
    for path in code:
        for page, anchor in re.findall(r"(?<![\w/.])docs/(?!PAGE|NAME)([\w-]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8", errors="replace")):
            if "tests" in path.relative_to(ROOT).parts:
                continue
            if not (DOCS / page).exists():
                found.append(f"{path.relative_to(ROOT)}: docs/{page}: no such page")
            elif anchor and anchor not in anchors_of(DOCS / page):
                found.append(f"{path.relative_to(ROOT)}: docs/{page}#{anchor}: no such heading")
    contents = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [name_on_site(each) for each in files if each.parent == DOCS and each.suffix == ".md"]
    found += [f"docs/mkdocs.yml: {name} is not listed" for name in pages if name and name != "pages.md" and f": {name}\n" not in contents]
    return found


def main():
    words = sys.argv[1:]
    if "--links" in words:
        found = faults()
        print("\n".join(found))
        sys.exit(1 if found else 0)
    program = os.path.abspath(next((word for word in words if not word.startswith("--")), ROOT / "zplan"))
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    copy_pages(program)
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        list(pool.map(lambda name: generate(program, name), GENERATORS))
    print(f"pages: {PAGES.relative_to(ROOT)}")
    if "--pages" in words:
        return
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        sys.exit("MkDocs is not installed: python3 -m venv build/venv && build/venv/bin/pip install mkdocs-material, then run build/venv/bin/python docs/build.py")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "-f", str(DOCS / "mkdocs.yml")], check=True)
    print(f"site: {(PAGES.parent / 'site' / 'index.html').relative_to(ROOT)}")


main()

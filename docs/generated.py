"""What the generators of pages share: templates, and where a page is written.

docs/NAME.in.md is the template of a generated page. What stands in it between the lines <!--site--> and <!--/site--> is only on the page of
the site, which docs/build.py builds; the rest is docs/NAME.md too: a summary with the same figures."""

import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent
NAMES = ("accuracy", "advice", "expert-parallel", "longest-context", "recipes", "what-fits", "which-framework", "which-strategy")
MORE = "\nTables, commands and single rows are on the site's page: `python3 docs/build.py` builds it ([how](README.md#the-site)).\n"


def template(name):
    return (DOCS / f"{name}.in.md").read_text(encoding="utf-8")


def whole(text):
    """Returns the site's page."""
    return re.sub(r"^<!--/?site-->\n", "", text, flags=re.MULTILINE)


def summary(text):
    """Returns the page of the tree."""
    kept = re.sub(r"^<!--site-->\n.*?^<!--/site-->\n", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\n{3,}", "\n\n", kept).rstrip("\n") + "\n" + (MORE if kept != text else "")


def arguments():
    """Splits the command line in --check, the folder that --site names, and all others."""
    words = sys.argv[1:]
    check = "--check" in words
    folder = pathlib.Path(words[words.index("--site") + 1]) if "--site" in words else None
    others = [word for word in words if word not in ("--check", "--site") and word != str(folder)]
    return check, folder, others


def finish(name, text, check, folder):
    """Writes the page into the site's folder, if there is one, or the summary into docs/; with `check` ends the program where that differs."""
    target = DOCS / f"{name}.md"
    if folder:
        (folder / f"{name}.md").write_text(whole(text), encoding="utf-8")
    elif not check:
        target.write_text(summary(text), encoding="utf-8")
    elif target.read_text(encoding="utf-8") != summary(text):
        sys.exit(f"docs/{name}.md is not what {pathlib.Path(sys.argv[0]).name} writes")

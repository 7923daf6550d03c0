"""Names are data: they neither write to the terminal, nor become formulas, markup or commands."""
import csv
import io
import json
import os
import re
import shlex

from attack import BAD_INPUT, PLANNED, Attack
from formats import MEGATRON
from inputs import CONFIG, DS, RECIPE, TITAN

ESCAPES = "\x1b]0;PWN\x07\x1b[31mRED\x9b1m\u202eevil\u2066\nzplan: forged"
HTML = "<img src=x onerror=alert(1)>"
FORMULA = "=HYPERLINK(1)"
REFUSED = (BAD_INPUT,)


def named(name, text, words="--model m $CARDS", **more):
    """A model that calls itself so."""
    return Attack(name, words, {"m/config.json": CONFIG[:-1] + ',"_name_or_path":' + json.dumps(text) + "}"}, status=PLANNED, **more)


def scenario_file(*names):
    return json.dumps({"schema": "zplan.scenarios/1", "scenarios": [
        {"name": each, "arguments": ["--model", "8B", "--gpus", "8", "--gpu", "A100-SXM-80GB"]} for each in names]})


def no_formula(_folder, done):
    for row in csv.reader(io.StringIO(done.out)):
        for cell in row:
            if cell[:1] in tuple("=@\t\r") and cell:
                return f"a formula: {cell!r}"
    return None


def no_element(_folder, done):
    return "an element: <img" if "<img" in done.out else None


def no_element_in(file):
    def check(folder, _done):
        with open(os.path.join(folder, file), encoding="utf-8") as page:
            return "an element: <img" if "<img" in page.read() else None
    return check


def is_json(file):
    def check(folder, _done):
        with open(os.path.join(folder, file), encoding="utf-8") as text:
            try:
                json.load(text)
                return None
            except ValueError as error:
                return f"{file}: {error}"
    return check


def pasted(word):
    """Each line that is printed to be pasted has the name as one word of a shell."""
    def check(_folder, done):
        for line in re.sub(r"\\\n\s*", "", done.out + done.err).splitlines():
            if found := re.search(r"(zplan (?:--|fit|search|lint).*)", line):
                try:
                    words = shlex.split(found.group(1))
                except ValueError as error:
                    if word.split(" ")[0] in line:
                        return f"{error}: {line!r}"
                    continue
                if "PWNED;" in words or ("touch" in words and word not in words):
                    return f"not quoted: {line!r}"
        return None
    return check


NAMES = [
    named("escapes in a model's name", ESCAPES),
    named("escapes in a model's name, in the whole answer", ESCAPES, "--model m $CARDS --verbose --explain"),
    named("escapes in a model's name, as Markdown", ESCAPES, "--model m $CARDS --markdown"),
    named("escapes in a model's name, as CSV", ESCAPES, "--model m $CARDS --csv"),
    named("a model's name of a megabyte", "n" * (1 << 20), mebibytes=400, check=lambda _f, done: "a long report" if len(done.out) > 100000 else None),
    named("an element in a model's name, as Markdown", HTML, "--model m $CARDS --markdown", check=no_element),
    named("an element in a model's name, as a page", HTML, "--model m $CARDS --html page.html", changes=("page.html",), check=no_element_in("page.html")),
    named("the end of a script in a model's name, as a page", "</script><img src=x onerror=alert(1)>", "--model m $CARDS --html page.html",
          changes=("page.html",), check=no_element_in("page.html")),
    named("a formula as a model's name", FORMULA, "--model m $CARDS --csv", check=no_formula),
    named("pipes in a model's name, as Markdown", "a|b|c\n| d |", "--model m $CARDS --markdown"),
    Attack("escapes in a recipe's key", "--recipe r.yaml $CARDS --verbose", {"r.yaml": RECIPE + '"bad\\e]0;t\\a\\u202e": 1\n'}, status=PLANNED + REFUSED),
    Attack("a recipe's key of a megabyte", "--recipe r.yaml $CARDS --verbose", {"r.yaml": RECIPE + "? " + "k" * (1 << 20) + "\n: 1\n"}, status=PLANNED,
           check=lambda _f, done: "a long report" if len(done.out + done.err) > 100000 else None),
    Attack("escapes in a recipe's value", "--recipe r.yaml $CARDS", {"r.yaml": RECIPE.replace("Qwen/Qwen3-8B", '"Q\\e[31m\\u202e"')}, says="base_model"),
    Attack("escapes in a script's flag", "--recipe r.sh $CARDS", {"r.sh": "swift sft --model Qwen/Qwen3-8B --bad\x1b[31m 1 --max_length '\x1b]0;t\x07'\n"},
           status=PLANNED + REFUSED),
    Attack("escapes in a ds_config's key", "lint d.json", {"d.json": '{"bad\\u001b]0;t\\u0007\\u202e\\u009b\\n":1,"train_batch_size":8}'}, status=(0, 1)),
    Attack("escapes in a ds_config's value", "lint d.json", {"d.json": '{"train_batch_size":"\\u001b]0;t\\u0007"}'}, status=(0, 1)),
    Attack("a ds_config's key of a megabyte", "lint d.json", {"d.json": '{"' + "k" * (1 << 20) + '":1,"train_batch_size":8}'}, status=(0, 1),
           check=lambda _f, done: "a long report" if len(done.out + done.err) > 100000 else None),
    Attack("a file's name with escapes", "lint 'no\x1b[31m\n.json'", says="no"),
    Attack("a file's name with escapes, repaired", "lint 'no\x1b[31m\n.json' --fix", {"no\x1b[31m\n.json": '{"train_bach_size":8}'}, status=(0, 1),
           changes=("no\x1b[31m\n.json", "no\x1b[31m\n.json.orig")),
    Attack("a file's name with escapes, in a folder", "check .", {"no\x1b[31m\n.json": "{}"}, status=REFUSED + (0, 1)),
    Attack("a file's name with escapes, written", "--model 8B $CARDS --zero 3 --emit 'x\x1b[31m.json'", status=PLANNED, changes=("x\x1b[31m.json",)),
    Attack("a GPU's name with escapes", "--model 8B --gpus 8 --gpu '\x1b[31m\u202eA100'", says="--gpu"),
    Attack("a scenario's name with escapes", "compare s.zplan", {"s.zplan": scenario_file("a\x1b[31m", "b")}, says="name"),
    Attack("a scenario's name with marks of direction", "compare s.zplan", {"s.zplan": scenario_file("a\u202eb\x9b1m", "b")}, status=PLANNED + REFUSED),
    Attack("a scenario's name as an element, as Markdown", "compare s.zplan --markdown", {"s.zplan": scenario_file(HTML, "b")}, status=PLANNED, check=no_element),
    Attack("a scenario's name as a formula", "compare s.zplan --csv", {"s.zplan": scenario_file(FORMULA, "@SUM(1)")}, status=PLANNED, check=no_formula),
    Attack("a file's name as a formula", "compare --model 8B $CARDS =1+1.json zero3 --csv", {"=1+1.json": DS}, status=PLANNED, check=no_formula),
    Attack("a file's name as an element", f"compare --model 8B $CARDS '{HTML}.json' zero3 --markdown", {f"{HTML}.json": DS}, status=PLANNED, check=no_element),
    Attack("a folder's name as a command", "--model 'a; touch PWNED; b' $CARDS", {"a; touch PWNED; b/config.json": CONFIG}, status=PLANNED,
           check=pasted("a; touch PWNED; b")),
    Attack("a recipe's name as a command", "--recipe '$(touch PWNED).yaml' $CARDS", {"$(touch PWNED).yaml": RECIPE}, status=PLANNED,
           check=pasted("$(touch PWNED).yaml")),
    Attack("a folder's name as a command, under Megatron-Core", "--model 'a; touch PWNED; b' $CARDS --framework megatron --verbose",
           {"a; touch PWNED; b/config.json": CONFIG}, status=PLANNED, check=pasted("a; touch PWNED; b")),
    Attack("a folder's name as a command, under torchtitan", "--model 'a; touch PWNED; b' $CARDS --framework torchtitan --verbose",
           {"a; touch PWNED; b/config.json": CONFIG}, status=PLANNED, check=pasted("a; touch PWNED; b")),
    Attack("a torchtitan config's name as a command", "--recipe '$(touch PWNED).toml' $CARDS --verbose", {"$(touch PWNED).toml": TITAN}, status=PLANNED,
           check=pasted("$(touch PWNED).toml")),
    Attack("a Megatron script's name as a command", "--recipe '`touch PWNED`.sh' $CARDS --verbose", {"`touch PWNED`.sh": MEGATRON + "\n"}, status=PLANNED,
           check=pasted("`touch PWNED`.sh")),
    Attack("quotes in a model's name, as a trace", "--model m $CARDS --framework megatron --trace t.json",
           {"m/config.json": CONFIG[:-1] + ',"_name_or_path":' + json.dumps(ESCAPES + '"\\') + "}"}, status=PLANNED, changes=("t.json",), check=is_json("t.json")),
    Attack("a file that is named as an option", "lint ./--fix", {"--fix": '{"train_bach_size":8}'}, status=(0, 1)),
    Attack("a saved report with escapes", "compare s.zplan", {
        "s.zplan": json.dumps({"schema": "zplan.scenarios/1", "scenarios": [{"name": "x", "report": "r.json"}]}),
        "r.json": '{"schema":"zplan.report/1\\u001b[31m","model":{"name":"\\u001b]0;x\\u0007"}}'}, says=""),
    Attack("a ds_config's name in a shell's line", "lint '`touch PWNED`.json'", {"`touch PWNED`.json": '{"train_bach_size":8}'}, status=(0, 1),
           check=pasted("`touch PWNED`.json")),
]
GROUPS = {"names": NAMES}

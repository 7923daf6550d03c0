"""What the package's tests share. ZPLAN_PROGRAM: the command line that answers are compared with."""
import json
import os
import subprocess

PROGRAM = os.environ["ZPLAN_PROGRAM"]
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def command_line(*words):
    """Exit status, stdout and stderr of `zplan WORDS…`."""
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def words_of(options):
    """As one would type them, by the words' own rules and not the package's."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        else:
            words += [option, ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return words


def differences(document, answer, place=""):
    """Places at which an answer is not what the document says, field by field."""
    if isinstance(document, dict) and not isinstance(answer, dict):
        found = []
        for key, value in document.items():
            if not hasattr(answer, key):
                found.append(f"{place}.{key} is missing")
            else:
                found += differences(value, getattr(answer, key), f"{place}.{key}")
        return found
    if isinstance(document, dict):
        keys = [] if document.keys() == answer.keys() else [f"{place}: other keys"]
        return keys + [each for key in document.keys() & answer.keys() for each in differences(document[key], answer[key], f"{place}.{key}")]
    if isinstance(document, list):
        if not isinstance(answer, (list, tuple)) or len(document) != len(answer):
            return [f"{place}: {len(document)} items are not there"]
        return [each for i, pair in enumerate(zip(document, answer)) for each in differences(*pair, f"{place}[{i}]")]
    return [] if document == answer and type(document) is type(answer) else [f"{place}: {document!r} is {answer!r}"]


def document_of(text):
    return json.loads(text)

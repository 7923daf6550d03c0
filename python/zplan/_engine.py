"""The command line's library, opened with ctypes: words in, JSON and messages out."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import List, NoReturn, Sequence, Tuple

VERSION = 1  # of its interface: ZPLAN_ENGINE_VERSION
FITS, NOTHING_FITS, BAD_INPUT, STOPPED = 0, 1, 2, 130


class EngineError(RuntimeError):
    """The engine failed, which is its fault and not the question's."""


class Question(ctypes.Structure):
    """zplan_question, whose inside is not ours."""


_POINTER = ctypes.POINTER(Question)


def _open() -> ctypes.CDLL:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libzplan_engine.so")
    library = ctypes.CDLL(path)  # a call into it releases the interpreter's lock
    words = ctypes.POINTER(ctypes.c_char_p)
    length = ctypes.POINTER(ctypes.c_size_t)
    for name, result, arguments in (
        ("zplan_question_new", _POINTER, []),
        ("zplan_question_delete", None, [_POINTER]),
        ("zplan_question_ask", ctypes.c_int, [_POINTER, words, ctypes.c_size_t]),
        ("zplan_question_page", ctypes.c_int, [_POINTER, ctypes.c_char_p, ctypes.c_size_t]),
        ("zplan_question_write", ctypes.c_int, [_POINTER, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
        ("zplan_question_stop", None, [_POINTER]),
        ("zplan_question_output", ctypes.c_void_p, [_POINTER, length]),
        ("zplan_question_messages", ctypes.c_void_p, [_POINTER, length]),
        ("zplan_main", ctypes.c_int, [words, ctypes.c_size_t]),
        ("zplan_engine_version", ctypes.c_int, []),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.zplan_engine_version() != VERSION:
        raise ImportError(f"{path} is of another release of zplan")
    return library


_library = _open()


def _as_c(words: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [word.encode("utf-8", "surrogateescape") for word in words]
    for word in encoded:
        if b"\0" in word:
            raise ValueError(f"{word!r}: a zero byte in an option; accepted: none")
    return (ctypes.c_char_p * len(encoded))(*encoded)


def _bytes(question: ctypes._Pointer[Question], what: str) -> bytes:
    length = ctypes.c_size_t()
    data = getattr(_library, what)(question, ctypes.byref(length))
    return ctypes.string_at(data, length.value)


def _ask_here(question: ctypes._Pointer[Question], words: ctypes.Array[ctypes.c_char_p]) -> int:
    status: int = _library.zplan_question_ask(question, words, len(words))
    return status


def _ask_listening(question: ctypes._Pointer[Question], words: ctypes.Array[ctypes.c_char_p]) -> int:
    """On a thread of its own, so that this one hears Ctrl-C, which only the main thread does."""
    status: List[int] = []
    worker = threading.Thread(target=lambda: status.append(_ask_here(question, words)), name="zplan", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(0.1)
    except BaseException:
        _library.zplan_question_stop(question)
        worker.join()
        raise
    return status[0]


def ask(words: Sequence[str]) -> Tuple[int, bytes, str]:
    """What `zplan WORDS…` answers: its exit status, stdout in UTF-8, and stderr. Releases the GIL while it plans."""
    given = _as_c(words)
    question = _library.zplan_question_new()
    if not question:
        raise MemoryError
    try:
        on_main = threading.current_thread() is threading.main_thread()
        status = _ask_listening(question, given) if on_main else _ask_here(question, given)
        messages = _bytes(question, "zplan_question_messages").decode("utf-8", "replace")
        if status not in (FITS, NOTHING_FITS, BAD_INPUT):
            raise EngineError(messages)
        return status, _bytes(question, "zplan_question_output"), messages
    finally:
        _library.zplan_question_delete(question)


def page(report: bytes) -> bytes:
    """The page that `--html` makes of a report's JSON."""
    question = _library.zplan_question_new()
    if not question:
        raise MemoryError
    try:
        status: int = _library.zplan_question_page(question, report, len(report))
        if status != FITS:
            raise EngineError(_bytes(question, "zplan_question_messages").decode("utf-8", "replace"))
        return _bytes(question, "zplan_question_output")
    finally:
        _library.zplan_question_delete(question)


def write(path: bytes, text: bytes) -> str:
    """Writes a file as the command line does. Returns the sentence that says why that is not possible; "" where it is written."""
    question = _library.zplan_question_new()
    if not question:
        raise MemoryError
    try:
        status: int = _library.zplan_question_write(question, path, text, len(text))
        messages = _bytes(question, "zplan_question_messages").decode("utf-8", "replace")
        if status not in (FITS, BAD_INPUT):
            raise EngineError(messages)
        return messages
    finally:
        _library.zplan_question_delete(question)


def run_command_line(words: Sequence[str]) -> NoReturn:
    """Is the command line from here on."""
    sys.exit(_library.zplan_main(_as_c(words), len(words)))

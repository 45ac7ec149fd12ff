"""Notes for an instructor's eye: things in a submission that an honest answer seldom needs.

They are found by reading the text, never by running it, and change no point.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from infralens.examiner.candidate.submission import Submission
from infralens.report import Note

MODULES = {
    "ctypes": "imports ctypes, which reaches into memory",
    "gc": "imports gc, which finds other objects",
    "importlib": "imports importlib",
    "infralens": "imports the grader",
    "inspect": "imports inspect, which reads frames and sources",
    "multiprocessing": "starts processes",
    "pickle": "imports pickle",
    "pytest": "imports pytest",
    "signal": "imports signal",
    "socket": "imports socket",
    "subprocess": "starts processes",
    "threading": "starts threads",
}
CALLS = {
    "__import__": "imports by name",
    "compile": "compiles text",
    "eval": "evaluates text",
    "exec": "runs text",
    "open": "opens a file",
    "os._exit": "ends the process",
    "os.fork": "starts a process",
    "os.kill": "sends a signal",
    "os.killpg": "sends a signal",
    "os.system": "runs a command",
    "sys._getframe": "walks frames",
    "sys.settrace": "traces calls",
    "sys.setprofile": "traces calls",
    "torch.hub.load": "loads code from a hub",
    "torch.load": "loads a pickle",
}
ATTRIBUTES = {
    "__bases__": "walks classes",
    "__builtins__": "reaches for builtins",
    "__code__": "reads code objects",
    "__globals__": "reads another function's globals",
    "__mro__": "walks classes",
    "__subclasses__": "walks classes",
    "__torch_function__": "overrides tensor functions",
    "f_back": "walks frames",
    "f_globals": "walks frames",
    "f_locals": "walks frames",
    "modules": "reads sys.modules",
    "tb_frame": "walks frames",
}
TEXTS = {
    "/proc/": "names /proc",
    "wrong.yaml": "names the suite's files",
    "sitecustomize": "names sitecustomize",
    "solutions/": "names the solutions",
    "conftest": "names conftest.py",
}
MOST = 50


def notes_on(submission: Submission, masked: tuple[str, ...], stub: Path) -> tuple[Note, ...]:
    """At most 50 notes, by line; none for a text that is no Python, nor for the stub's imports."""
    try:
        given = (
            ast.parse(stub.read_text(encoding="utf-8")) if stub.is_file() else ast.Module([], [])
        )
        tree = ast.parse(submission.text)
        found = {note for node in ast.walk(tree) for note in _noted(node, masked)}
        imports = (n for n in ast.walk(given) if isinstance(n, ast.Import | ast.ImportFrom))
        ours = {note.text for node in imports for note in _noted(node, masked)}
        found = {note for note in found if note.text not in ours}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    first = sorted(found, key=lambda note: (note.line, note.text))[:MOST]
    return tuple(_placed(note, submission) for note in first)


def _placed(note: Note, submission: Submission) -> Note:
    line, cell = submission.place(note.line)
    return Note(line, note.text, cell)


def _noted(node: ast.AST, masked: tuple[str, ...]) -> Iterator[Note]:
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _imported(alias.name, line, masked)
    elif isinstance(node, ast.ImportFrom):
        yield from _imported(node.module or "", line, masked)
    elif isinstance(node, ast.Call):
        name = _dotted(node.func)
        if name in CALLS:
            yield Note(line, f"{CALLS[name]} ({name})")
        if name == "getattr" and _reaches(node):
            yield Note(line, "getattr with a computed name, or on another getattr")
    elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
        if node.attr != "modules" or _dotted(node) == "sys.modules":
            yield Note(line, f"{ATTRIBUTES[node.attr]} ({node.attr})")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for text, what in TEXTS.items():
            if text in node.value:
                yield Note(line, what)
    elif isinstance(node, ast.FunctionDef) and node.name in ATTRIBUTES:
        yield Note(line, f"{ATTRIBUTES[node.name]} ({node.name})")


def _imported(name: str, line: int, masked: tuple[str, ...]) -> Iterator[Note]:
    top = name.split(".")[0]
    if any(name == mask or name.startswith(mask + ".") for mask in masked):
        yield Note(line, f"imports {name}, which this lab masks")
    elif top in MODULES:
        yield Note(line, MODULES[top])


def _reaches(call: ast.Call) -> bool:
    if len(call.args) < 2:
        return False
    computed = not isinstance(call.args[1], ast.Constant)
    return computed or (
        isinstance(call.args[0], ast.Call) and _dotted(call.args[0].func) == "getattr"
    )


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""

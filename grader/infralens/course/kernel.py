"""`%load_ext infralens` in a learner's notebook: check("3.3"), %grade, %hint, %read and %infralens.

A check replays what this kernel has run, in order, in a process of its own, and shows the verdict.
The kernel itself decides nothing: it is the learner's.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from IPython.display import Markdown, display
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from infralens.course.record import TELLS, TELLS_NAME, Tells
from infralens.course.telling import told
from infralens.labs import BadLabError, Lab, UnknownLabError, find_lab, find_labs, find_todo
from infralens.pages import with_figures_told
from infralens.passages import passage_of
from infralens.report import Report
from infralens.show.rendering import handbook_text
from infralens.show.terminal import show_report

LABS = "INFRALENS_LABS"
PROGRAM = "%infralens"
GRADER = ("-m", "infralens.course.warm")
COLUMNS = 100
MOST_CELLS = 900  # of the thousand that a notebook may have
PAGE = '<pre style="white-space: pre-wrap; line-height: 1.35; margin: 0">{code}</pre>'
OURS = ("check", "%grade", "%hint", "%read", "%infralens")


class NoVerdictError(RuntimeError):
    """There is no verdict; the text says why."""


class Warm:
    """The process that keeps an examiner: started at the first question, ended with the kernel."""

    def __init__(self, program: Sequence[str] = GRADER) -> None:
        self.program = program
        self.process: subprocess.Popen[str] | None = None
        self.errors: IO[bytes] | None = None

    def ask(self, question: dict[str, Any]) -> Report:
        """The report. NoVerdictError when there is none; an interrupt ends the process."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps(question) + "\n")
                self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BaseException:  # its answer would be taken for the next one's
            self.close()
            raise
        if not line:
            raise NoVerdictError(f"The grader ended: {self._last_words()}")
        answer = json.loads(line)
        if "refused" in answer:
            raise NoVerdictError(answer["refused"])
        return Report.from_json(answer["report"])

    def _start(self) -> None:
        self.close()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self.process = subprocess.Popen(
            [sys.executable, "-P", *self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # an interrupt of the kernel comes to us alone
        )

    def _last_words(self) -> str:
        assert self.errors is not None
        self.errors.seek(0)
        lines = self.errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it does not say why"

    def close(self) -> None:
        """End it; it ends its examiner."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        for stream in (process.stdin, process.stdout, self.errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


class Extension:
    """What a kernel has while the extension is loaded."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.warm = Warm()
        self.hinted: dict[str, int] = {}
        self.names: dict[int, str] = {}  # of executed cells: what the notebook calls them
        self.last: Lab | None = None

    # What the learner calls

    def check(self, todo: str) -> int | None:
        """Grade one todo with the cells that were run up to now, and show the verdict.

        0 unless it passed: nbgrader's Validate takes a cell without a number for full marks.
        """
        with self._sentences():
            lab, chosen = find_todo(str(todo), _labs())
            absent = [name for name in chosen.names if name not in self.shell.user_ns]
            if absent:
                raise NoVerdictError(f"Run the cell that defines `{absent[0]}` first.")
            if self._graded(lab, (chosen.id,)).passed:
                return None
        return 0

    def grade(self, line: str) -> None:
        """%grade lab-03: grade a whole lab with the cells that were run; without LAB the last."""
        with self._sentences():
            if not line.strip() and self.last is None:
                raise NoVerdictError("Name the lab, as in %grade lab-03.")
            lab = find_lab(line, _labs()) if line.strip() else self.last
            assert lab is not None
            self._graded(lab, [todo.id for todo in lab.todos])

    def hint(self, line: str) -> None:
        """%hint 3.3: the next of the three hints for a todo."""
        with self._sentences():
            lab, todo = find_todo(line, _labs())
            key = f"{lab.track}/{todo.id}"
            self.hinted[key] = seen = min(self.hinted.get(key, 0) + 1, len(todo.hints))
            rows = [f"{number}. {text}" for number, text in enumerate(todo.hints[:seen], 1)]
            display(Markdown("\n".join(rows) or f"{todo.id} has no hints."))

    def read(self, line: str) -> None:
        """%read PAGE: a page of the handbook, a part of one, or of a lab or a todo."""
        name, mark, part = line.strip().removeprefix("handbook/").partition("#")
        labs = _labs()
        page = f"handbook/{name.removesuffix('.md')}.md{mark}{part}"
        with self._sentences():
            found = (handbook_text(root, page) for root in {lab.place.exercises: 0 for lab in labs})
            text = next((text for text in found if text is not None), None)
            if text is None:
                text = passage_of(line.strip(), labs).text
            display(Markdown(with_figures_told(text)))

    def infralens(self, line: str) -> None:
        """%infralens COMMAND …: as in a terminal; read, hint and grade answer here."""
        command, _, rest = line.strip().partition(" ")
        here = {"read": self.read, "hint": self.hint, "grade": self.grade}
        if command in here:
            here[command](rest)
            return
        if command == "debug":
            print("A notebook has its own debugger: run the call in a cell, then %debug.")
            return
        done = subprocess.run(
            [sys.executable, "-m", "infralens", *line.split()],
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            check=False,
        )
        print(done.stdout + done.stderr)

    # What was run

    def note(self, info: Any) -> None:
        """Before each cell: what the notebook calls the one that now gets the next number."""
        if info.store_history and info.cell_id:
            self.names[self.shell.execution_count] = str(info.cell_id)

    def cells(self) -> list[dict[str, Any]]:
        """What was run, as cells of a notebook: cell 12 is what Jupyter shows as [12]."""
        texts = list(self.shell.history_manager.input_hist_raw)[1:]
        run = [(n, text) for n, text in enumerate(texts, 1) if not is_check(text)]
        if len(texts) > MOST_CELLS:  # of a cell that was run often, the last run counts
            latest = {self.names.get(n, str(n)): n for n, _ in run}
            run = [(n, text) for n, text in run if latest[self.names.get(n, str(n))] == n]
            return [_cell(text, self.names.get(n, "")) for n, text in run[-MOST_CELLS:]]
        cells = [_cell("", "") for _ in texts]
        for n, text in run:
            cells[n - 1] = _cell(text, self.names.get(n, ""))
        return cells

    # How it is judged and shown

    def _graded(self, lab: Lab, todos: Sequence[str]) -> Report:
        self.last = lab
        tells = self._tells()
        notebook = {"cells": self.cells(), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        with tempfile.TemporaryDirectory(prefix="infralens-kernel-") as folder:
            path = Path(folder).resolve() / f"{Path(lab.file).stem}.ipynb"
            path.write_text(json.dumps(notebook), encoding="utf-8")
            question = {"lab": lab.id, "file": str(path), "todos": list(todos), "tells": tells}
            report = self.warm.ask({**question, "labs": _folders()})
        display(_pictured(told(report, tells), lab), raw=True)
        return report

    def _tells(self) -> Tells:
        wished = self.shell.user_ns.get(TELLS_NAME)
        return next((known for known in TELLS if known == wished), "everything")

    @contextlib.contextmanager
    def _sentences(self) -> Any:
        """One sentence where there is no verdict, and no traceback of ours."""
        try:
            yield
        except (NoVerdictError, UnknownLabError, BadLabError, OSError) as error:
            print(f"infralens: {error}")


def is_check(text: str) -> bool:
    """Whether a cell does nothing but ask for a verdict, a hint or a page."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and all(line.startswith(OURS[1:]) for line in lines):
        return True
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(statements) and all(map(_calls_check, statements))


def _calls_check(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return isinstance(called, ast.Name) and called.id == OURS[0]


def _cell(source: str, name: str) -> dict[str, Any]:
    marks = {"nbgrader": {"grade_id": name}} if re.fullmatch(r"answer-[\w-]{1,60}", name) else {}
    outputs: dict[str, Any] = {"outputs": [], "execution_count": None}
    return {"cell_type": "code", "metadata": marks, "source": source, **outputs}


def _folders() -> list[str]:
    """Folders of labs beside the kit's own, as INFRALENS_LABS names them."""
    return [folder for folder in os.environ.get(LABS, "").split(os.pathsep) if folder]


def _labs() -> tuple[Lab, ...]:
    return find_labs(map(Path, _folders()))


def _pictured(report: Report, lab: Lab) -> dict[str, str]:
    """The report as Jupyter shows it, and as plain text."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        force_jupyter=False,  # it would show by itself what it prints
        highlight=False,
        emoji=False,
        markup=False,
    )
    show_report(report, console, lab.short, PROGRAM, replays=False)
    page = console.export_html(
        theme=DEFAULT_TERMINAL_THEME, code_format=PAGE, inline_styles=True, clear=False
    )
    return {"text/html": page, "text/plain": console.export_text()}


def load(shell: Any) -> None:
    """Give a kernel check, %grade, %hint, %read and %infralens."""
    extension = Extension(shell)
    shell.user_ns["check"] = extension.check
    own = (extension.grade, extension.hint, extension.read, extension.infralens)
    magics: tuple[Callable[[str], None], ...] = own
    for magic in magics:
        shell.register_magic_function(magic, "line", magic.__name__)
    shell.events.register("pre_run_cell", extension.note)


def unload(shell: Any) -> None:
    """Take away what `load` gave, and end the examiner."""
    extension = getattr(shell.user_ns.pop("check", None), "__self__", None)
    if isinstance(extension, Extension):
        shell.events.unregister("pre_run_cell", extension.note)
        extension.warm.close()

"""`infralens watch`: one warm examiner, one loop over saves and keys."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from watchfiles import watch

from infralens import workspace
from infralens.examiner.candidate.submission import MAX_BYTES, Submission
from infralens.examiner.errors import UnreadableError
from infralens.examiner.service.log import HERE, VARIABLE, as_wished
from infralens.grading import Examiner, examiner, grade
from infralens.labs import Lab, find_todo
from infralens.regular import read_regular
from infralens.report import Report
from infralens.show.terminal import first_failure, qualified, show_report
from infralens.workspace import Workspace

SETTLE_MS = 50  # editors write a file in several steps
KEYS_MS = 100  # so often keys are looked for
KEYS = "h hint · r read · n next lab · q quit"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
MARKS = {"passed": "✔", "failed": "✘", "error": "✘"}


@dataclass(frozen=True)
class Wanted:
    """What is watched: todos of a lab (all where none are named), in a file, with what seed."""

    lab: Lab
    path: Path
    todos: tuple[str, ...] = ()
    seed: int | None = None
    counts: bool = True

    @property
    def whole(self) -> bool:
        return not self.todos


@dataclass
class Watch:
    """The state of a watch: what was graded last, and what is on the screen."""

    wanted: Wanted
    here: Workspace
    console: Console
    warm: Examiner
    program: str
    following: Callable[[Lab], Lab | None]
    read: Callable[[str], None]
    text: str = ""
    report: Report | None = None
    news: str = ""
    said: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)  # by the examiner, where that is to be seen

    def grade(self) -> None:
        """Grade the todos whose functions changed, show them, then the rest."""
        before, self.text = self.text, _text(self.wanted.path)
        lab = self.wanted.lab
        asked = self.wanted.todos or tuple(todo.id for todo in lab.todos)
        first = tuple(id_ for id_ in asked if id_ in changed_todos(lab, before, self.text))
        parts = [part for part in (first, tuple(id_ for id_ in asked if id_ not in first)) if part]
        self.said = []
        self.printed.clear()
        reports: list[Report] = []
        try:
            for todos in parts:
                reports.append(self._graded_todos(todos, reports))
        except UnreadableError as error:
            self.report = None
            said = str(error)
            self._draw(lambda console: console.print(said))
            return
        self.report = together(reports, lab)
        if self.wanted.counts and self.wanted.seed is None:
            complaint = workspace.record(self.here, self.report)
            self.said += [complaint] if complaint else []
        self.show()

    def _graded_todos(self, todos: tuple[str, ...], shown: Sequence[Report]) -> Report:
        states: dict[str, str] = dict.fromkeys(todos, "…")
        if self.console.is_terminal:
            self._draw(lambda console: self._interim(console, shown, states))

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "check" and self.console.is_terminal:
                mark = MARKS.get(event["status"], "·")
                if states.get(event["todo"]) in ("…", "✔"):
                    states[event["todo"]] = mark
                self._draw(lambda console: self._interim(console, shown, states))

        wanted = self.wanted
        return grade(
            wanted.lab,
            wanted.path,
            todos=todos,
            seed=shown[0].seed if shown else wanted.seed,  # one seed for the whole report
            isolation="auto",
            on_event=on_event,
            using=self.warm,
        )

    def _interim(self, console: Console, shown: Sequence[Report], states: dict[str, str]) -> None:
        lab = self.wanted.lab
        if shown:
            show_report(together(shown, lab), console, lab.short, self.program)
        console.print()
        for id_, mark in states.items():
            console.print(f"  {mark}  {id_}  {lab.todo(id_).title}", style="dim")

    def show(self) -> None:
        """The whole picture: the report, what was asked for by keys, and the keys."""
        self._draw(self._whole)

    def _whole(self, console: Console) -> None:
        if self.news:
            console.print(self.news, style="bold green")
        if self.report is not None:
            show_report(self.report, console, self.wanted.lab.short, self.program)
        for text in self.printed:
            console.print(text, end="", style="dim")
        for line in self.said:
            console.print(line)
        if console.is_terminal:
            console.print(f"\n{KEYS}", style="dim")
        console.print(f"\nwatching {self.wanted.path.name}; Ctrl-C ends", style="dim")

    def _draw(self, paint: Callable[[Console], None]) -> None:
        """Paint over the last picture, line by line: a cleared screen would flicker."""
        if not self.console.is_terminal:
            paint(self.console)
            return
        picture = io.StringIO()
        paint(
            Console(
                file=picture,
                force_terminal=True,
                width=self.console.width,
                color_system="standard",
                highlight=False,
                markup=False,
                emoji=False,
            )
        )
        lines = picture.getvalue().splitlines()
        drawn = HOME + "".join(f"{line}{REST_OF_LINE}\n" for line in lines) + REST_OF_SCREEN
        self.console.file.write(drawn)
        self.console.file.flush()

    def press(self, key: str) -> bool:
        """Do what a key asks for. False when it asks to end."""
        if key in ("q", "\x04"):
            return False
        if key == "h":
            self._hint()
        elif key == "r":
            self.read(self._page())
            self.show()
        elif key == "n":
            self.go_on()
        return True

    def go_on(self, news: str = "") -> None:
        """Watch the next lab, if there is one here."""
        lab = self.following(self.wanted.lab)
        if lab is None:
            self.said.append("There is no other lab here to go on with.")
            self.show()
            return
        self.wanted = Wanted(lab, self.here.file(lab))
        self.text, self.news = "", news
        self.grade()
        self.news = ""  # told once

    def _failing(self) -> Any:
        return first_failure(self.report) if self.report is not None else None

    def _page(self) -> str:
        found = self._failing()
        reads = found[1].detail.reads if found and found[1].detail else None
        return reads if reads and found[0].status != "not_started" else self.wanted.lab.short

    def _hint(self) -> None:
        found = self._failing()
        if found is None or self.report is None:
            self.said.append("Nothing fails: there is nothing to hint at.")
        else:
            lab, todo = find_todo(qualified(self.report, found[0]), [self.wanted.lab])
            key = f"{lab.track}/{todo.id}"
            try:
                with workspace.updating(self.here) as holder:
                    seen = min(holder[0].hints.get(key, 0) + 1, len(todo.hints))
                    holder[0] = holder[0].hinted(key, seen)
            except OSError as error:
                self.said.append(f"This hint was not noted: {error.strerror or error}.")
                seen = 1
            self.said += [f"\n{todo.id}, hint {seen}/{len(todo.hints)}: {todo.hints[seen - 1]}"]
        self.show()

    @property
    def complete(self) -> bool:
        """Full marks in the whole lab, in the learner's own file."""
        report, wanted = self.report, self.wanted
        return bool(report and report.passed and wanted.whole and wanted.counts)


def watch_lab(
    wanted: Wanted,
    here: Workspace,
    console: Console,
    *,
    program: str = "infralens",
    following: Callable[[Lab], Lab | None] = lambda lab: None,
    read: Callable[[str], None] = lambda page: None,
) -> None:
    """Grade the learner's file now and after every save, until Ctrl-C or q.

    `following` gives the lab to go on with, `read` shows a page.
    """
    printed: list[str] = []

    def on_print(text: str) -> None:
        if os.environ.get(VARIABLE) == HERE:
            printed.append(text)  # drawn with the picture, which would hide it
        else:
            as_wished(text)

    with examiner(serve=True, on_print=on_print) as warm, contextlib.suppress(KeyboardInterrupt):
        watching = Watch(wanted, here, console, warm, program, following, read, printed=printed)
        if console.is_terminal:
            console.clear()
        going = True
        while going:
            going = _watch_one(watching)


def _watch_one(watching: Watch) -> bool:
    """Watch one file. True when another is to be watched now."""
    path = watching.wanted.path
    if not path.parent.is_dir():
        raise UnreadableError(f"There is no folder {path.parent}.")
    if watching.report is None:
        watching.grade()
    with _keys() as pressed:
        for changes in watch(
            path.parent, debounce=SETTLE_MS, step=20, rust_timeout=KEYS_MS, yield_on_timeout=True
        ):
            for key in pressed():
                if not watching.press(key):
                    return False
            if any(Path(name).name == path.name for _, name in changes):
                watching.grade()
                if watching.complete and watching.following(watching.wanted.lab) is not None:
                    done = watching.wanted.lab
                    watching.go_on(f"{done.short}: full marks, {done.max_score} points. Going on:")
            if watching.wanted.path != path:
                return True
    return False


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """A function that gives the keys pressed since it was asked last; none without a terminal."""
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except Exception:  # no termios, no descriptor, no terminal: termios.error is no OSError
        yield lambda: ""
        return

    def pressed() -> str:
        if not select.select([descriptor], [], [], 0)[0]:
            return ""
        return os.read(descriptor, 64).decode("utf-8", "ignore") or "q"  # the terminal is gone

    tty.setcbreak(descriptor)
    try:
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def changed_todos(lab: Lab, before: str, now: str) -> frozenset[str]:
    """The todos whose functions, or what these mention, are not as they were; none at first."""
    if not before:
        return frozenset()
    old, new = Submission(before, ""), Submission(now, "")
    changed = {
        name
        for name in old.sources.keys() | new.sources.keys()
        if old.sources.get(name) != new.sources.get(name)
    }
    return frozenset(
        todo.id
        for todo in lab.todos
        if any(name in changed or new.uses(name) & changed for name in todo.names)
    )


def together(reports: Sequence[Report], lab: Lab) -> Report:
    """Reports of different todos of one lab as one, the todos in the lab's order."""
    first = reports[0]
    found = {todo.id: todo for report in reports for todo in report.todos}
    todos = tuple(found[todo.id] for todo in lab.todos if todo.id in found)
    faults = [report.grader_error for report in reports if report.grader_error is not None]
    return replace(
        first,
        todos=todos,
        score=0 if faults else sum(todo.score for todo in todos),
        max_score=sum(todo.points for todo in todos),
        passed=not faults and all(report.passed for report in reports),
        seconds=round(sum(report.seconds for report in reports), 3),
        grader_error=faults[0] if faults else None,
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
    )


def _text(path: Path) -> str:
    try:
        return read_regular(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""

"""For what comes after a lab: source, interview."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infralens.cli.choosing import (
    all_labs,
    complete_labs,
    program,
    terminal,
    todo_argument,
)
from infralens.cli.group import UsageError, main
from infralens.labs import Lab, Todo, UnknownLabError, find_lab, find_todo

if TYPE_CHECKING:
    from rich.text import Text


GAP = 3  # between the library's lines and the learner's, where a terminal has room for both
MOST_FILE_BYTES = 4 << 20


@main.command()
@todo_argument
@click.option("--give-up", is_flag=True, help="Show it although the todo is not passed.")
def source(todo: str, give_up: bool) -> None:
    """Show the library's own function for a passed TODO.

    Beside yours, as it is installed, with one question about the difference.
    """
    from importlib.metadata import PackageNotFoundError, version

    from rich.table import Table

    from infralens import workspace
    from infralens.library_source import NoSourceError, excerpt

    try:
        lab, chosen = find_todo(todo, all_labs())
    except UnknownLabError as error:
        raise UsageError(str(error)) from None
    if chosen.source is None:
        raise UsageError(f"{todo} names no function of a library.")
    here = workspace.find_workspace(Path.cwd())
    progress = workspace.read_progress(here)[0] if here else workspace.Progress()
    if progress.points(lab, chosen.id) < chosen.points and not give_up:
        raise UsageError(
            f"{todo} is not passed yet. The library's function is shown after full marks, "
            "or with --give-up."
        )
    package = chosen.source.name.split(".")[0]
    try:
        taken = excerpt(chosen.source)
        release = version(package)
    except NoSourceError as error:
        raise UsageError(f"{error}; another version was read when this was written.") from None
    except PackageNotFoundError:
        release = "of no known version"
    console = terminal()
    console.print(f"{chosen.id}  {chosen.title}", style="bold")
    console.print(f"\n{package} {release}: {'.'.join(_last_parts(chosen.source.name))}")
    console.print(f"{taken.path}, lines {taken.first} to {taken.last}", soft_wrap=True, style="dim")
    mine = _own(lab, chosen, here.file(lab) if here else None)
    widest = max(map(len, (*taken.text.splitlines(), *mine.splitlines())))
    if mine and 2 * (widest + GAP) <= console.width:
        beside = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        beside.add_column("the library's", ratio=1)
        beside.add_column("yours", ratio=1)
        beside.add_row(_code(taken.text), _code(mine))
        console.print(beside)
    else:
        console.print(_code(taken.text), crop=False, no_wrap=True, overflow="ignore")
        if mine:
            console.print(f"\nyours: {lab.file}")
            console.print(_code(mine), crop=False, no_wrap=True, overflow="ignore")
    console.print(f"\n{chosen.source.asks}")


def _code(text: str) -> Text:
    """Coloured code whose lines are never broken or cut: they can be copied."""
    from rich.syntax import Syntax

    coloured = Syntax(text, "python", theme="ansi_dark").highlight(text)
    coloured.rstrip()
    coloured.no_wrap, coloured.overflow = True, "ignore"
    return coloured


def _last_parts(name: str) -> Iterator[str]:
    """The class and function at the end of a dotted name: `Class.function`, or the function."""
    parts = name.split(".")
    yield from parts[-2:] if parts[-2][:1].isupper() or parts[-2][:2] == "_K" else parts[-1:]


def _own(lab: Lab, todo: Todo, path: Path | None) -> str:
    """The learner's functions of a todo, without docstrings. Empty where there is nothing to read.

    It is read and not run.
    """
    from infralens.regular import read_regular
    from infralens.stubs import definitions

    if path is None:
        return ""
    try:
        text = read_regular(path, MOST_FILE_BYTES, follow=False).decode("utf-8-sig")
        return _without_docstrings(definitions(text, todo.names)).rstrip()
    except (OSError, ValueError, SyntaxError, RecursionError):
        return ""


def _without_docstrings(text: str) -> str:
    from infralens.stubs import lines_of

    lines = lines_of(text)
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or len(node.body) < 2:
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            dropped.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return "\n".join(line for number, line in enumerate(lines, start=1) if number not in dropped)


@main.command()
@click.argument("what", metavar="[LAB|PAGE]", required=False, shell_complete=complete_labs)
def interview(what: str | None) -> None:
    """Practise for an interview, with points to tick.

    A question, your answer, then a model answer. No grade is given. An empty line ends an answer;
    without a terminal all is printed. A page has its own questions and those of the labs it serves.
    """
    from infralens.curriculum import read_curriculum
    from infralens.interview import about_page, practice

    labs = all_labs()
    every = practice(labs)
    if what is not None:
        try:
            lab = find_lab(what, labs).id
            every = tuple(one for one in every if one.about == lab)
        except UnknownLabError as error:
            page = what.removeprefix("handbook/").removesuffix(".md")
            paths = [read_curriculum(place) for place in dict.fromkeys(lab.place for lab in labs)]
            served = [step.name for path in paths for step in path.served(page)]
            every = about_page(page, served, every)
            if not every and not any(path.step(page) for path in paths):
                raise UsageError(str(error)) from None
    if not every:
        raise UsageError(f"There are no interview questions about {what or 'these labs'}.")
    console, ticked, told = terminal(), 0, 0
    lines = _Lines()
    for number, one in enumerate(every, start=1):
        console.print(f"\n{number}/{len(every)}  {one.asks}", style="bold")
        lines.answer()
        console.print(f"\n{one.answer}\n")
        for name, point in one.points:
            said = lines.ticks(f"{name}: {point}")
            ticked, told = ticked + said, told + 1
        if lines.stopped:
            break
    if lines.asked:
        click.echo(f"\nYou ticked {ticked} of {told} points. Nobody graded them but you.")
    else:
        click.echo(f"\nPractise in a terminal: {program()} interview {what or ''}".rstrip())


class _Lines:
    """What is typed. Where nobody types, what would be asked is printed and counts as unsaid."""

    def __init__(self) -> None:
        self.ended = False
        self.stopped = False
        self.asked = False

    def answer(self) -> None:
        """Lines up to an empty one. They are the learner's own, and kept nowhere."""
        if not self.ended and sys.stdin.isatty():
            click.echo("Your answer; an empty line ends it.")
        while (self._line() or "").strip():
            pass

    def ticks(self, point: str) -> bool:
        """Whether the learner says that the point was in the answer."""
        if self.ended:
            click.echo(f"  [ ] {point}")
            return False
        click.echo(f"  {point}")
        click.echo("  Did you say so? [y/N] ", nl=False)
        given = self._line()
        if not sys.stdin.isatty():  # nobody's Enter has ended the line
            click.echo((given or "").strip())
        return (given or "").strip().lower() in ("y", "yes")

    def _line(self) -> str | None:
        if self.ended:
            return None
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            line, self.stopped = "", True
            click.echo()
        self.ended = not line
        self.asked = self.asked or bool(line)
        return line or None

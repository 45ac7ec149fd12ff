"""What a check cell says of its todo, as `infralens grade` words it; no line of a suite."""

from __future__ import annotations

import io

from rich.console import Console

from infralens import __version__
from infralens.report import Report, TodoResult
from infralens.show.harmless import one_line
from infralens.show.terminal import show_todo

COLUMNS = 88
ACTIVE = {
    "sandbox": "graded in a sandbox",
    "process": "graded without a sandbox, in a process of its own",
}


def explanation(todo: TodoResult, report: Report, score: float, most: float) -> str:
    """A todo's verdict as plain text: points, what is wrong, and how it was graded."""
    head = f"{todo.id} · {todo.title}: {score:g} of {most:g} points"
    if todo.status == "not_started":
        head += " (not started)"
    return "\n".join([head, *_wrong(todo, report), "", _graded(report)])


def unread(reason: str) -> str:
    """What stands in every check cell of a file that is not read as a notebook."""
    return (
        f"What was handed in is not read as a notebook: {one_line(reason)}. "
        "Mend that in Jupyter, and hand it in again."
    )


def _wrong(todo: TodoResult, report: Report) -> list[str]:
    if todo.status == "passed":
        return []
    # No colour, no link, no page: whatever shows this escapes it as plain text.
    console = Console(
        width=COLUMNS, file=io.StringIO(), highlight=False, emoji=False, markup=False, no_color=True
    )
    with console.capture() as captured:
        show_todo(todo, report, console)
    return ["", *(line.rstrip() for line in captured.get().strip("\n").split("\n"))]


def _graded(report: Report) -> str:
    environment = report.environment
    how = ACTIVE[environment.isolation]
    return f"{how} · infralens {__version__} · diffusers {environment.diffusers}"

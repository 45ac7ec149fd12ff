"""A Report as terminal text: a line a todo, then the first check that failed, explained."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infralens.report import CheckResult, Report, TodoResult
from infralens.show.harmless import excerpt, harmless, one_line

MARKS = {
    "passed": ("✔", "green"),
    "failed": ("✘", "red"),
    "error": ("✘", "red"),
    "not_started": ("·", "dim"),
}
INDENT = 2
LEAST_TITLE = 16
PLAIN_MARKS = {"✔": "+", "✘": "x", "·": "-"}
WORDS = {"passed": "", "failed": "", "error": "stopped", "not_started": "not started"}


def show_report(report: Report, console: Console, short: str) -> None:
    """Print the report. `short` is the lab's name as commands take it."""
    console.print()
    console.print(_heading(report, short))
    console.print()
    if report.grader_error is not None:
        console.print(Text("The grader failed; your answers were not judged.", "bold red"))
        console.print(_indented(Text(harmless(report.grader_error))))
        return
    console.print(_indented(_todos(report, console)))
    console.print()
    total = f"{report.score} of {report.max_score} points"
    console.print(_indented(Text(total, "bold green" if report.passed else "bold")))
    first = first_failure(report)
    if first is not None:
        console.print()
        console.print(_explained(*first, report, short))


def _heading(report: Report, short: str) -> Text:
    environment = report.environment
    facts = f"seed {report.seed} · {environment.device} · {report.seconds:.1f} s"
    return Text.assemble((f"{short} · {report.title}", "bold"), ("   " + facts, "dim"))


def _todos(report: Report, console: Console) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    # On a narrow terminal the words give way first, then the titles.
    titles = max(cell_len(todo.title) for todo in report.todos)
    words = max(cell_len(_word(todo)) for todo in report.todos)
    room = console.width - INDENT - cell_len("✔  3.1    10/10  ")
    worded = room - words >= min(titles, LEAST_TITLE)
    table.add_column(width=max(min(titles, room - words * worded), 8))
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    unicode = console.encoding.lower().startswith("utf")
    for todo in report.todos:
        mark, style = MARKS[todo.status]
        shown = mark if unicode else PLAIN_MARKS[mark]
        points = f"{todo.score}/{todo.points}"
        row = (
            Text(shown, style),
            todo.id,
            todo.title,
            points,
            Text(_word(todo) if worded else "", "dim"),
        )
        table.add_row(*row)
    return table


def _word(todo: TodoResult) -> str:
    """What is said beside a todo: the mistake by name, or how far it came."""
    named = next((check.misconception for check in todo.checks if check.misconception), None)
    return named if named is not None else WORDS[todo.status]


def first_failure(report: Report) -> tuple[TodoResult, CheckResult] | None:
    """The first check that did not pass, of a todo that was begun if there is one."""
    for wanted in (("failed", "error"), ("not_started",)):
        for todo in report.todos:
            if todo.status in wanted:
                for check in todo.checks:
                    if check.status != "passed":
                        return todo, check
    return None


def _explained(todo: TodoResult, check: CheckResult, report: Report, short: str) -> RenderableType:
    parts: list[RenderableType] = []
    if todo.status == "not_started":
        parts.append(Text.assemble(("next  ", "bold"), f"{todo.id} {todo.title}"))
        parts.append(_facts([("read", f"infralens read {short}"), ("hint", _hint(report, todo))]))
        return Group(*parts)
    parts.append(Text.assemble((f"{todo.id}  ", "bold red"), (check.title, "bold")))
    parts.append(_indented(Text(_clipped(check.message))))
    detail = check.detail
    if detail is None:
        return Group(*parts)
    facts = [
        ("call", detail.call),
        ("expected", detail.expected),
        ("yours", detail.yours),
        ("", detail.where),
    ]
    rows = [(name, one_line(value)) for name, value in facts if value is not None]
    rows += [(f"line {frame.line}", one_line(frame.code)) for frame in detail.frames[-4:]]
    parts += [Text(), _facts(rows)] if rows else []
    if detail.output:
        parts += [Text(), Text("  Your code printed:", "dim")]
        parts += [_indented(Text(line), 4) for line in excerpt(detail.output, 12)]
    if detail.explanation:
        parts += [Text(), _indented(Text(detail.explanation, "yellow"))]
        parts.append(_indented(Text(f"({check.misconception})", "dim")))
    leaning = _leaning(todo, report)
    if leaning:
        parts += [Text(), _indented(Text(leaning, "yellow"))]
    again = [("hint", _hint(report, todo))]
    if detail.reads:
        again.insert(0, ("read", f"infralens read {detail.reads}"))
    if detail.call:
        again.append(("debug", f"infralens debug {_qualified(report, todo)} --seed {report.seed}"))
    parts += [Text(), _facts(again)]
    return Group(*parts)


def _leaning(todo: TodoResult, report: Report) -> str:
    """Which functions of other todos it calls that have not passed, or were not graded now."""
    status = {other.id: other.status for other in report.todos}
    shaky = [f"{name} ({of})" for name, of in todo.uses if status.get(of, "passed") != "passed"]
    unseen = [f"{name} ({of})" for name, of in todo.uses if of not in status]
    if shaky:
        return f"It calls your {' and '.join(shaky)}: make sure of that first."
    return f"It calls your {' and '.join(unseen)}, not graded in this run." if unseen else ""


def _indented(content: RenderableType, by: int = 2) -> Padding:
    return Padding(content, (0, 0, 0, by), expand=False)


def _clipped(text: str) -> str:
    lines = excerpt(text, 6)
    return "\n".join(lines)


def _qualified(report: Report, todo: TodoResult) -> str:
    track = report.lab.split("/")[0]
    return todo.id if track == "diffusers" else f"{track}/{todo.id}"


def _hint(report: Report, todo: TodoResult) -> str:
    return f"infralens hint {_qualified(report, todo)}"


def _facts(rows: list[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return _indented(table)

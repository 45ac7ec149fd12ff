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
INDENT = GAP = 2
SAID = "bold"  # yellow cannot be read on white, nor blue on black
LEAST_TITLE = 16
PLAIN_MARKS = {"✔": "+", "✘": "x", "·": "-"}
WORDS = {"passed": "", "failed": "", "error": "stopped", "not_started": "not started"}


def show_report(
    report: Report,
    console: Console,
    short: str,
    program: str = "infralens",
    *,
    replays: bool = True,
) -> None:
    """Print the report. `short` is the lab's name as commands take it; `program` begins them.

    `replays`: whether the one that makes the failing call again is among them.
    """
    console.print()
    console.print(_heading(report, short))
    console.print()
    if report.grader_error is not None:
        console.print(Text("The grader failed; your answers were not judged.", "bold red"))
        console.print(_indented(Text(harmless(report.grader_error))))
        return
    told = _does_not_load(report)
    if told is None:
        console.print(_indented(_todos(report, console)))
    else:
        console.print(_indented(Text.assemble((_mark("error", console), "red"), "  ", told)))
    console.print()
    total = f"{report.score} of {report.max_score} points"
    console.print(_indented(Text(total, "bold green" if report.passed else "bold")))
    first = first_failure(report)
    if first is not None and told is not None:
        frames = first[1].detail.frames if first[1].detail else ()
        output = first[1].detail.output if first[1].detail else None
        rows = [(frame.place, one_line(frame.code)) for frame in frames[-4:]]
        console.print(Group(Text(), _facts(rows)) if rows else "")
        for line in excerpt(output or "", 12):
            console.print(_indented(Text(line), 4))
    elif first is not None:
        console.print()
        # What is to be copied is never split: a terminal wraps it by itself.
        explained = _explained(*first, report, program, replays=replays)
        console.print(explained, crop=False)
        others = _other_failures(first[0], report)
        if others:
            console.print()
            console.print(_facts(others))


def show_todo(todo: TodoResult, report: Report, console: Console) -> None:
    """Print why one todo of the report has no points. What would replay its inputs is left out."""
    check = next((check for check in todo.checks if check.status != "passed"), None)
    if check is not None:
        console.print(_explained(todo, check, report, "infralens", replays=False))


def _does_not_load(report: Report) -> str | None:
    """The one sentence for a file that does not run at all: no todo of it was judged."""
    said = {check.message for todo in report.todos for check in todo.checks}
    errors = all(todo.status == "error" for todo in report.todos)
    calls = any(check.detail and check.detail.call for t in report.todos for check in t.checks)
    if not (errors and len(said) == 1 and len(report.todos) > 1) or calls:
        return None
    return _clipped(said.pop())


def _mark(status: str, console: Console) -> str:
    mark = MARKS[status][0]
    return mark if console.encoding.lower().startswith("utf") else PLAIN_MARKS[mark]


def _heading(report: Report, short: str) -> Text:
    environment = report.environment
    facts = f"seed {report.seed} · {environment.device} · {report.seconds:.1f} s"
    return Text.assemble((f"{short} · {report.title}", "bold"), ("   " + facts, "dim"))


def _todos(report: Report, console: Console) -> Table:
    table = Table.grid(padding=(0, GAP))
    ids = max(cell_len(todo.id) for todo in report.todos)
    paid = max(cell_len(_points(todo)) for todo in report.todos)
    table.add_column(no_wrap=True, min_width=1)
    table.add_column(no_wrap=True, min_width=ids)
    # On a narrow terminal the words give way first, then the titles.
    titles = max(cell_len(todo.title) for todo in report.todos)
    words = max(cell_len(_word(todo)) for todo in report.todos)
    room = console.width - INDENT - (1 + ids + paid + 3 * GAP)
    worded = room - words - GAP >= min(titles, LEAST_TITLE)
    table.add_column(width=max(min(titles, room - (words + GAP) * worded), 1), overflow="fold")
    table.add_column(no_wrap=True, justify="right", min_width=paid)
    if worded:
        table.add_column(no_wrap=True)
    for todo in report.todos:
        style = MARKS[todo.status][1]
        shown = _mark(todo.status, console)
        row = (Text(shown, style), todo.id, todo.title, _points(todo))
        table.add_row(*row, *([Text(_word(todo), "dim")] if worded else []))
    return table


def _points(todo: TodoResult) -> str:
    return f"{todo.score}/{todo.points}"


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


def _other_failures(explained: TodoResult, report: Report) -> list[tuple[str, str]]:
    """A line for each other todo that failed: what it follows from, or what was wrong first."""
    rows = []
    for todo in report.todos:
        if todo is explained or todo.status not in ("failed", "error"):
            continue
        first = next((check for check in todo.checks if check.status != "passed"), None)
        said = one_line(first.message) if first else WORDS[todo.status]
        rows.append((todo.id, follows_from(todo, report) or said))
    return rows


def follows_from(todo: TodoResult, report: Report) -> str:
    """Which failed todos a failed one calls, in words; "" where it calls none."""
    if todo.status not in ("failed", "error"):
        return ""
    failed = {other.id for other in report.todos if other.status in ("failed", "error")}
    wrong = sorted({of for _, of in todo.uses if of in failed})
    verb = "is" if len(wrong) == 1 else "are"
    return f"calls your {' and '.join(wrong)}, which {verb} wrong" if wrong else ""


def _explained(
    todo: TodoResult,
    check: CheckResult,
    report: Report,
    program: str,
    *,
    replays: bool = True,
) -> RenderableType:
    parts: list[RenderableType] = []
    if todo.status == "not_started":
        parts.append(Text.assemble(("next  ", "bold"), f"{todo.id} {todo.title}"))
        parts.append(
            _commands(
                [
                    ("read", f"{program} read {qualified(report, todo)}"),
                    ("hint", _hint(report, todo, program)),
                ]
            )
        )
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
    rows += [(frame.place, one_line(frame.code)) for frame in detail.frames[-4:]]
    parts += [Text(), _facts(rows)] if rows else []
    if detail.output:
        parts += [Text(), Text("  Your code printed:", "dim")]
        parts += [_indented(Text(line), 4) for line in excerpt(detail.output, 12)]
    if detail.explanation:
        parts += [Text(), _indented(Text(detail.explanation, SAID))]
        parts.append(_indented(Text(f"({check.misconception})", "dim")))
    leaning = _leaning(todo, report)
    if leaning:
        parts += [Text(), _indented(Text(leaning, SAID))]
    again = [("hint", _hint(report, todo, program))]
    if detail.reads:
        again.insert(0, ("read", f"{program} read {detail.reads}"))
    if detail.call and replays:
        again.append(("debug", f"{program} debug {qualified(report, todo)} --seed {report.seed}"))
    parts += [Text(), _commands(again)]
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


def qualified(report: Report, todo: TodoResult) -> str:
    """The todo's name as commands take it."""
    track = report.lab.split("/")[0]
    return todo.id if track == "diffusers" else f"{track}/{todo.id}"


def _hint(report: Report, todo: TodoResult, program: str) -> str:
    return f"{program} hint {qualified(report, todo)}"


def _commands(rows: list[tuple[str, str]]) -> Text:
    """Commands to be copied, each on a line of its own, however narrow the terminal is."""
    width = max(len(name) for name, _ in rows)
    lines = [
        Text.assemble(" " * INDENT, (name.ljust(width), "dim"), "  ", command)
        for name, command in rows
    ]
    text = Text("\n").join(lines)
    text.no_wrap, text.overflow = True, "ignore"
    return text


def _facts(rows: list[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return _indented(table)

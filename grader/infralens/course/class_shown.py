"""How a class stands, as text for a terminal, as CSV and as a page that stands alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infralens.course.cells import csv_text
from infralens.course.class_report import Standing, TodoStanding
from infralens.show.harmless import harmless, one_line

MOST_NAMES = 6
MOST_MISTAKES = 12
NO_VERDICT = ("refused", "grader failed")


def show_class(standings: Sequence[Standing], console: Console) -> None:
    """Print how the class stands, an assignment at a time."""
    for standing in standings:
        console.print()
        console.print(Text(f"{one_line(standing.assignment)} · {standing.lab}", "bold"))
        console.print(_indented(Text(_facts(standing))))
        if standing.todos:
            console.print()
            console.print(_indented(_todos(standing)))
        for title, content in _parts(standing):
            console.print()
            console.print(_indented(Text(title, "bold")))
            console.print(Padding(content, (0, 0, 0, 4)))


def _facts(standing: Standing) -> str:
    handed_in, graded = len(standing.rows), len(standing.graded)
    facts = f"{handed_in} handed in"
    for state in NO_VERDICT:
        count = sum(row.state == state for row in standing.rows)
        facts += f" · {count} {state}" if count else ""
    if not graded:
        return facts
    return (
        f"{facts} · mean {standing.mean:.1f}, median {standing.median:g} of "
        f"{standing.max_score} points · {standing.full} with full marks · "
        f"{standing.seconds:.1f} s a grade"
    )


def _todos(standing: Standing) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column()
    for _ in range(4):
        table.add_column(justify="right")
    heads = ("todo", "", "mean", "passed", "failed", "not started")
    table.add_row(*(Text(head, "dim") for head in heads))
    for todo in standing.todos:
        table.add_row(
            Text(todo.todo),
            Text(todo.title),
            Text(f"{todo.mean:.1f}/{todo.points}"),
            Text(str(todo.passed), "green" if todo.passed else "dim"),
            Text(str(todo.failed), "red" if todo.failed else "dim"),
            Text(str(todo.not_started), "dim"),
        )
    return table


def _parts(standing: Standing) -> Iterator[tuple[str, Table]]:
    mistakes = sorted(
        (mistake for todo in standing.todos for mistake in todo.mistakes),
        key=lambda mistake: (-mistake.count, mistake.todo, mistake.name),
    )
    if mistakes:
        table = _rows(
            (f"{m.count}×", m.todo, Text.assemble(one_line(m.says), (f"  ({m.name})", "dim")))
            for m in mistakes[:MOST_MISTAKES]
        )
        more = len(mistakes) - MOST_MISTAKES
        if more > 0:
            table.add_row("", "", Text(f"… and {more} more; --html shows all", "dim"))
        yield "Mistakes, and how many made them", table
    if standing.teach:
        yield "Teach again", _rows((todo.todo, teach_line(todo)) for todo in standing.teach)
    if standing.alike:
        yield "Alike", _rows((names(alike.learners), alike.how) for alike in standing.alike)
    for state, title in (*((s, s.capitalize()) for s in NO_VERDICT), ("graded", "Look at")):
        rows = [row for row in standing.rows if row.state == state and row.said]
        if rows:
            yield title, _rows((one_line(row.learner, 40), one_line(row.said)) for row in rows)


def _rows(rows: Iterable[Sequence[str | Text]]) -> Table:
    """The rows as a grid: what is long is broken beneath itself."""
    table = Table.grid(padding=(0, 2))
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def teach_line(todo: TodoStanding) -> str:
    """Why a todo is to be taught again."""
    line = f"{todo.title}: {todo.passed} of the {todo.begun} who began it passed"
    if todo.mistakes:
        first = todo.mistakes[0]
        line += f"; {first.count} made {first.name}"
    return line


def names(learners: Sequence[str]) -> str:
    """Some names on one line, and how many more there are."""
    shown = ", ".join(one_line(learner, 40) for learner in learners[:MOST_NAMES])
    more = len(learners) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _indented(content: Table | Text) -> Padding:
    return Padding(content, (0, 0, 0, 2))


def class_csv(standings: Sequence[Standing]) -> str:
    """A row a learner and assignment, a column a todo of every assignment."""
    todos = [(each.assignment, todo.todo) for each in standings for todo in each.todos]
    head = ("learner", "assignment", "points", "of", "state", "seconds", "misconceptions")
    titles = [f"{assignment} {todo}" for assignment, todo in todos]
    rows = (
        (
            *(row.learner, row.assignment, row.score, row.max_score, row.state, row.seconds),
            " ".join(row.mistakes),
            *_scores(row.assignment, {mark.todo: mark.score for mark in row.marks}, todos),
        )
        for standing in standings
        for row in standing.rows
    )
    return csv_text([one_line(title) for title in (*head, *titles)], rows)


def _scores(
    assignment: str, scores: dict[str, int], todos: Sequence[tuple[str, str]]
) -> Iterator[object]:
    for of, todo in todos:
        yield scores.get(todo, "") if of == assignment else ""


def class_html(standings: Sequence[Standing], title: str) -> str:
    """A page without script or request. What learners wrote is made harmless, then escaped."""
    environment = Environment(
        loader=PackageLoader("infralens.course", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"harmless": harmless, "one_line": one_line, "teach": teach_line}
    template = environment.get_template("class.html.jinja")
    return template.render(standings=standings, title=title)

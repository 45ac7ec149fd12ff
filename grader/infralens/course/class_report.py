"""What a class knows: points a todo, mistakes by name, what to teach again, whose work is alike."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infralens.course.assigned import Assigned
from infralens.course.batch.run import RESULTS
from infralens.course.results import REPORTS, Result, read_results
from infralens.course.tally import Row, row_of

TEACH_SHARE = 0.6  # a todo that fewer than so many passed is worth another lesson
LIKE = 2  # different mistakes that two learners must share in the same places to be told of


@dataclass(frozen=True)
class Mistake:
    """A misconception: how many made it, and what it is."""

    todo: str
    name: str
    count: int
    says: str


@dataclass(frozen=True)
class TodoStanding:
    """How a class stands with one todo. `begun` left out who never started it."""

    todo: str
    title: str
    points: int
    passed: int
    failed: int
    not_started: int
    mistakes: tuple[Mistake, ...]

    @property
    def begun(self) -> int:
        return self.passed + self.failed

    @property
    def mean(self) -> float:
        """Points, over all who handed in."""
        handed_in = self.begun + self.not_started
        return self.points * self.passed / handed_in if handed_in else 0.0

    @property
    def share(self) -> float:
        """How many passed, of those who began it."""
        return self.passed / self.begun if self.begun else 0.0


@dataclass(frozen=True)
class Alike:
    """Learners whose work is the same in some way, and in which."""

    how: str
    learners: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """How a class stands with one assignment."""

    assignment: str
    lab: str
    rows: tuple[Row, ...]
    todos: tuple[TodoStanding, ...]
    alike: tuple[Alike, ...]

    @property
    def graded(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.state == "graded")

    @property
    def max_score(self) -> int:
        return sum(todo.points for todo in self.todos)

    @property
    def mean(self) -> float:
        return statistics.fmean(row.score for row in self.graded) if self.graded else 0.0

    @property
    def median(self) -> float:
        return statistics.median(row.score for row in self.graded) if self.graded else 0.0

    @property
    def full(self) -> int:
        return sum(row.score == row.max_score for row in self.graded)

    @property
    def seconds(self) -> float:
        """Of grading, for one submission: the median."""
        return statistics.median(row.seconds for row in self.graded) if self.graded else 0.0

    @property
    def teach(self) -> tuple[TodoStanding, ...]:
        """The todos to teach again, the one that fewest passed first."""
        weak = [todo for todo in self.todos if todo.failed >= 1 and todo.share < TEACH_SHARE]
        return tuple(sorted(weak, key=lambda todo: (todo.share, -todo.failed)))


@dataclass
class _Gathered:
    """One assignment while its results are read: nothing of a report is kept but this."""

    rows: list[Row] = field(default_factory=list)
    says: dict[tuple[str, str], str] = field(default_factory=dict)


def results_in(folder: Path) -> Path:
    """Where the results lie of what `batch` wrote or of a course that nbgrader graded."""
    own = folder / RESULTS
    return own if own.is_dir() else folder / REPORTS


def standings(folder: Path, assigned: Iterable[Assigned]) -> tuple[Standing, ...]:
    """How the class stands with each assignment that has results in this folder."""
    points = {each.name: each.points for each in assigned}
    gathered: dict[str, _Gathered] = defaultdict(_Gathered)
    for result in read_results(results_in(folder)):
        one = gathered[result.assignment]
        one.rows.append(row_of(result, points.get(result.assignment, {})))
        one.says |= dict(_sentences(result))
    return tuple(_standing(name, one) for name, one in sorted(gathered.items()))


def _sentences(result: Result) -> Iterable[tuple[tuple[str, str], str]]:
    for todo in result.report.todos if result.report else ():
        for check in todo.checks:
            if check.misconception and check.detail and check.detail.explanation:
                yield (todo.id, check.misconception), check.detail.explanation


def _standing(name: str, gathered: _Gathered) -> Standing:
    rows = tuple(gathered.rows)
    graded = [row for row in rows if row.state == "graded"]
    return Standing(
        assignment=name,
        lab=rows[0].lab,
        rows=rows,
        todos=_todos(graded, gathered.says),
        alike=tuple(_alike(graded)),
    )


def _todos(rows: Sequence[Row], says: Mapping[tuple[str, str], str]) -> tuple[TodoStanding, ...]:
    marks = defaultdict(list)
    for row in rows:
        for mark in row.marks:
            marks[mark.todo].append(mark)
    found = []
    for todo, these in marks.items():
        # A learner makes a mistake once, however many checks show it.
        made = Counter(name for mark in these for name in {name for _, name in mark.mistakes})
        found.append(
            TodoStanding(
                todo=todo,
                title=these[0].title,
                points=these[0].points,
                passed=sum(mark.status == "passed" for mark in these),
                failed=sum(mark.status in ("failed", "error") for mark in these),
                not_started=sum(mark.status == "not_started" for mark in these),
                mistakes=tuple(
                    Mistake(todo, name, count, says.get((todo, name), ""))
                    for name, count in sorted(made.items(), key=lambda each: (-each[1], each[0]))
                ),
            )
        )
    return tuple(found)


def _alike(rows: Sequence[Row]) -> Iterable[Alike]:
    """Whose work is the same file, else the same code, else wrong in the same ways.

    Untouched stubs are all alike, and say nothing.
    """
    begun = [row for row in rows if row.begun]
    told: set[frozenset[str]] = set()
    kinds = (
        ("the same file", lambda row: row.sha256),
        ("the same code, but for comments and blanks", lambda row: row.code),
        ("the same mistakes in the same places", _mistakes),
    )
    for how, sign in kinds:
        groups: dict[object, list[str]] = defaultdict(list)
        for row in begun:
            if sign(row):
                groups[sign(row)].append(row.learner)
        for learners in groups.values():
            members = frozenset(learners)
            if len(members) > 1 and not any(members <= known for known in told):
                told.add(members)
                yield Alike(how, tuple(sorted(members)))


def _mistakes(row: Row) -> object:
    """The mistakes and the checks they showed in; nothing where they are too few to mean much."""
    names = {(mark.todo, name) for mark in row.marks for _, name in mark.mistakes}
    if len(names) < LIKE:
        return None
    return frozenset((mark.todo, *mistake) for mark in row.marks for mistake in mark.mistakes)

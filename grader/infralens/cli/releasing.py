"""For instructors: release."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infralens.cli.choosing import (
    all_labs,
    complete_labs,
    lab_argument,
    lab_named,
    require_writable,
)
from infralens.cli.group import POINTS_MISSING, UsageError, main, say
from infralens.labs import Lab, UnknownLabError, find_todo, own_place, place_at

if TYPE_CHECKING:
    from infralens.course.gradescope import Visibility
    from infralens.course.record import Tells

TOLD = {"everything": "everything", "name": "the name of a mistake", "points": "the points alone"}


@main.group()
def release() -> None:
    """For instructors: make what a course hands out."""


@release.command("repo")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--grader-source",
    metavar="SOURCE",
    help="What pip installs the kit from: a path, a package, a git address.",
)
@click.option(
    "--labs-source",
    metavar="SOURCE",
    help="What git clones the folder of --labs from, where the labs are not the kit's.",
)
@click.option("--with-solutions", is_flag=True, help="Add a branch solutions, of its own history.")
def repo(
    folder: Path, grader_source: str | None, labs_source: str | None, with_solutions: bool
) -> None:
    """Make a git repository for learning alone.

    It holds the labs, their pages and what grades every push. Run again with the same FOLDER, it
    adds a commit: what learners did there is kept.
    """
    from infralens.course.audit import Auditor
    from infralens.course.plumbing import GitError
    from infralens.course.repository import LeakError, UnfitFolderError, release_repository

    for source in (grader_source, labs_source):
        if source is not None and (
            not source.isprintable() or "${{" in source or source[:1] == "-"
        ):
            raise UsageError(f"{source!r} is no source: name a path, a package or an address.")
    extra = click.get_current_context().obj or []
    labs = all_labs()
    try:
        done = release_repository(
            folder,
            labs,
            [own_place(), *(place_at(path) for path in extra)],
            auditor=Auditor(labs),
            source=grader_source,
            labs_source=labs_source,
            with_solutions=with_solutions,
        )
    except (UnfitFolderError, GitError) as error:
        raise UsageError(str(error)) from None
    except LeakError as error:
        raise UsageError(
            f"Nothing is released, for it would give an answer away: {error}"
        ) from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    said = f"commit {done.main[:10]}" if done.main else "nothing is new"
    say(f"{folder}, branch main: {done.files} files, {said}.")
    for name in done.kept:
        say(f"kept: {name} was changed there, and is newer in the kit")
    if with_solutions:
        said = f"commit {done.solutions[:10]}" if done.solutions else "nothing is new"
        say(f"{folder}, branch solutions: {said}.")


@release.command("nbgrader")
@click.argument("course", metavar="COURSE_DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("labs", metavar="[LAB]...", nargs=-1, shell_complete=complete_labs)
@click.option(
    "--tells",
    type=click.Choice(["everything", "name", "points"]),
    help="How much a check tells of a wrong answer; at first everything.",
)
@click.option("--points", "points", multiple=True, metavar="TODO=N", help="Points of a todo.")
@click.option(
    "--explain-points",
    type=click.IntRange(0, 10_000),
    help="Points of the explanation, which you grade yourself; at first 0: you only comment.",
)
def nbgrader_command(
    course: Path,
    labs: tuple[str, ...],
    tells: Tells | None,
    points: tuple[str, ...],
    explain_points: int | None,
) -> None:
    """Make or update an nbgrader course in COURSE_DIR with an assignment for each LAB.

    Without LAB: those that the course has, or every lab in a new one. Seeds and points are kept in
    COURSE_DIR/infralens.json; edit the points there and release again, or give --points 3.3=4.
    """
    from infralens.course.record import RecordError

    try:
        from infralens.course.assigned import assignment_name
        from infralens.course.nbgrader import ReleaseError, Wanted, release_labs
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name} is not installed: `pip install 'infralens-labs[course]'` installs it."
        ) from None
    chosen = _chosen(course, labs)
    wanted = Wanted(tells=tells, explain=explain_points, points=_points(points, chosen))
    own = click.get_current_context().obj or []
    begun, stuck = time.monotonic(), []
    try:
        for done in release_labs(course, chosen, wanted, own):
            if not done.released:
                stuck.append(done.assignment)
            line, decided = f"{done.assignment}  {done.lab.title}", done.decided
            if done.released:
                worth = sum(decided.points.values()) + decided.explain
                told = f"before the deadline a check tells {TOLD[decided.tells]}"
                click.echo(f"released  {line}: {worth} points; {told}")
            else:
                click.echo(f"unchanged  {line}")
            for remark in done.remarks:
                click.echo(f"    {remark}")
    except (RecordError, ReleaseError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        place = error.filename or course  # a disk that is full names none
        raise UsageError(f"{place} cannot be written: {error.strerror}.") from None
    count = len(chosen) - len(stuck)
    click.echo(f"{count} of {len(chosen)} assignments in {time.monotonic() - begun:.0f} s.")
    say(f"Learners get what lies in {course / 'release'}.")
    name = shlex.quote(str(course))
    say(f"Next: when work came in, `cd {name} && nbgrader autograde {assignment_name(chosen[0])}`.")
    if stuck:
        click.get_current_context().exit(POINTS_MISSING)


def _chosen(course: Path, names: tuple[str, ...]) -> tuple[Lab, ...]:
    """The labs that are named, else those of the course, else all. Each must have a solution."""
    from infralens.course.record import RecordError, read_record

    if names:
        chosen = tuple(dict.fromkeys(lab_named(name) for name in names))
    else:
        try:
            record = read_record(course)
        except RecordError as error:
            raise UsageError(str(error)) from None
        known = [entry.lab for entry in record.assignments.values()] if record else []
        chosen = tuple(lab_named(name) for name in known) or all_labs()
    for lab in chosen:
        if lab.solution is None or not lab.solution.is_file():
            raise UsageError(f"{lab.short} has no solution here; a release is made from it.")
    return chosen


def _points(given: tuple[str, ...], chosen: tuple[Lab, ...]) -> dict[str, dict[str, int]]:
    """The points given with --points, by lab and todo."""
    found: dict[str, dict[str, int]] = {}
    for entry in given:
        name, _, number = entry.partition("=")
        if not re.fullmatch(r"\d{1,4}", number.strip()):
            raise UsageError(f"--points {entry}: write TODO=N, as in --points 3.3=4.")
        try:
            lab, todo = find_todo(name, chosen)
        except UnknownLabError as error:
            raise UsageError(f"--points {entry}: {error}") from None
        found.setdefault(lab.id, {})[todo.id] = int(number)
    return found


@release.command("gradescope")
@lab_argument
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default="autograder.zip")
@click.option(
    "--tells",
    type=click.Choice(["everything", "name", "points"]),
    default="everything",
    show_default=True,
    help="How much a learner is told of a wrong answer.",
)
@click.option(
    "--visibility",
    type=click.Choice(["visible", "after_due_date", "after_published", "hidden"]),
    default="visible",
    show_default=True,
    help="When learners see their results.",
)
def gradescope_command(lab: str, output: Path, tells: Tells, visibility: Visibility) -> None:
    """Make the autograder of a Gradescope assignment.

    The zip holds the suite and the solution of the lab: it is for Gradescope, never for learners.
    """
    from infralens.course.gradescope import Configuration, autograder
    from infralens.regular import write_out

    chosen = lab_named(lab)
    require_writable(output)
    write_out(output, autograder(chosen, Configuration(chosen.id, tells, visibility)))
    size = output.stat().st_size / 2**20
    say(f"{output}: {size:.1f} MiB; the assignment has {chosen.max_score} points.")
    click.echo("Learners hand in " + chosen.file + ", or a notebook of that name.")
    click.echo(
        "A Gradescope container seldom allows a sandbox: there submissions are graded at process "
        "level, and can read what is installed. Its output tells which level a grade had."
    )

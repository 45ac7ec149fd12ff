"""For instructors: batch, class-report."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infralens.cli.choosing import (
    all_labs,
    complete_labs,
    lab_named,
    program,
    require_a_grader,
    require_writable,
    terminal,
    verbose_option,
)
from infralens.cli.group import (
    GRADER_FAILED,
    NO_ROOM,
    PASSED,
    POINTS_MISSING,
    UsageError,
    main,
    say,
)

if TYPE_CHECKING:
    from infralens.course.assigned import Assigned
    from infralens.course.batch.finding import Found
    from infralens.course.batch.run import Judged, Plan
    from infralens.course.batch.sources import Source
    from infralens.course.results import Result
    from infralens.course.tally import Row
    from infralens.labs import Lab

INTERRUPTED = 128 + signal.SIGINT
MOST_TOLD = 10
BYTES_OF_A_JOB = 2**30  # measured: an examiner, its candidate and the next one take 0.6 to 0.8 GiB
ON_ONE_GPU = 2  # examiner and candidate each hold a context there
STATES = ("graded", "refused", "grader failed")
folder_argument = click.Path(file_okay=False, path_type=Path)


@main.command()
@click.argument("submissions", type=click.Path(path_type=Path))
@click.option(
    "--output", "out", required=True, type=folder_argument, help="The folder for the results."
)
@click.option("--lab", "name", shell_complete=complete_labs, help="All of it is of this lab.")
@click.option("--jobs", type=click.IntRange(1, 256), help="How many are graded at once.")
@click.option("--cluster", metavar="ADDRESS", help="Grade through this scheduler of Dask's.")
@click.option(
    "--isolation",
    type=click.Choice(["sandbox", "process"]),
    default="sandbox",
    show_default=True,
    help="How a submission is kept apart; process is for files that you trust.",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="The seed of the whole class.")
@verbose_option
@click.pass_context
def batch(
    ctx: click.Context,
    submissions: Path,
    out: Path,
    name: str | None,
    jobs: int | None,
    cluster: str | None,
    isolation: str,
    device: str,
    seed: int | None,
) -> None:
    """Grade what a whole class handed in.

    SUBMISSIONS is a folder, a zip or a course of nbgrader's. A folder (lab-03, diffsynth-lab-04)
    or the file's name tells the assignment; the first other folder, or the rest of the file's name,
    the learner. Run again, it goes on where it stopped, and grades anew what was changed.

    Exit code: 0 every submission has its verdict, 1 some could not be read, 2 wrong usage, 3 the
    grader failed at one of them.
    """
    from infralens.course.batch.run import BusyError, alone, carry_out, fix_seeds, plan, sum_up
    from infralens.course.batch.sources import UnfitSourceError, source_at
    from infralens.course.record import RecordError
    from infralens.examiner.errors import UnavailableError

    labs, interrupted = all_labs(), False
    only = None if name is None else lab_named(name)
    _require_apart(submissions, out)
    try:
        with source_at(_handed_in(submissions)) as source, alone(out):
            found = _found(source, _assigned(submissions, labs, only), only, submissions)
            seeds = fix_seeds(out, found, labs, seed)
            work = plan(found, seeds, out, isolation, device)
            if cluster is None:
                _require_gradable(work, isolation)
            try:
                if work.waiting:
                    with _bar(work) as (on_result, tell):
                        carry_out(work, out, _judged(jobs, cluster, device, tell), on_result)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                rows = sum_up(out, labs, found.left)
    except (UnfitSourceError, BusyError, RecordError, UnavailableError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        if not _is_of(error, out):
            raise
        raise UsageError(
            f"{out} cannot be written: {error.strerror}. "
            "What was graded stays; where there is room, the same command goes on."
        ) from None
    _tell(rows, found, out)
    if interrupted:
        click.echo("Stopped. The same command goes on where it stopped.", err=True)
        ctx.exit(INTERRUPTED)
    states = {row.state for row in rows}
    failed, refused = "grader failed" in states, "refused" in states
    ctx.exit(GRADER_FAILED if failed else POINTS_MISSING if refused else PASSED)


def _is_of(error: OSError, out: Path) -> bool:
    """Whether it says that the output cannot be written; a disk that is full names no file."""
    if error.errno in NO_ROOM:
        return True
    named = Path(os.fsdecode(error.filename)) if error.filename else None
    return named is not None and (named == out or named in out.parents or out in named.parents)


def _handed_in(path: Path) -> Path:
    """What was handed in: of a whole course of nbgrader's, the folder that it collects into."""
    return path / "submitted" if (path / "submitted").is_dir() else path


def _require_apart(submissions: Path, out: Path) -> None:
    """UsageError where results would lie among submissions, or over a course's own record."""
    from infralens.regular import real

    handed_in, there = real(_handed_in(submissions)), real(out)
    if there == handed_in or handed_in in there.parents or there in handed_in.parents:
        raise UsageError(f"{out} holds the submissions; choose an --output of its own.")


def _assigned(submissions: Path, labs: Sequence[Lab], only: Lab | None) -> Sequence[Assigned]:
    """What the class was set: as its course's record says, else every lab by its own name."""
    from infralens.course.assigned import assigned_by_name, assigned_in

    for folder in (submissions, submissions.resolve().parent):
        if folder.is_dir():
            recorded = assigned_in(folder, labs)
            if recorded and (only is None or any(each.lab == only for each in recorded)):
                return recorded
    return assigned_by_name(labs)


def _found(
    source: Source, assigned: Sequence[Assigned], only: Lab | None, submissions: Path
) -> Found:
    from infralens.course.batch.finding import find

    one = next((each for each in assigned if each.lab == only), None)
    found = find(source, assigned, one)
    if not found.submissions:
        wanted = "a file" if one is None else f"a file of {one.name}"
        raise UsageError(
            f"{submissions} holds no submission: {wanted} such as ada/lab-03/scheduler.py or "
            "ada_scheduler.py. --lab LAB says which lab it is, where names do not."
        )
    return found


def _require_gradable(work: Plan, isolation: str) -> None:
    """What stands in the way of every grade, told before the first."""
    require_a_grader(*{job.lab.id: job.lab for job in work.jobs}.values())
    from infralens.examiner.isolation.bubblewrap import unavailable

    if isolation == "sandbox" and (reason := unavailable()) is not None:
        raise UsageError(
            f"There is no sandbox here ({reason}), and other people's files are graded in one. "
            "--isolation process grades without, where you trust them."
        )


def _judged(
    jobs: int | None, cluster: str | None, device: str, tell: Callable[[str], None]
) -> Judged:
    """Who judges: this machine, or those of a cluster."""
    if cluster is None:
        from infralens.course.batch.local import judged_here

        return partial(judged_here, at_once=jobs or _at_once(device))
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise UsageError("--cluster needs Dask: pip install 'infralens-labs[cluster]'.")
    from infralens.course.batch.cluster import judged_there

    extra = click.get_current_context().obj or ()
    return partial(judged_there, address=cluster, extra=extra, at_once=jobs, tell=tell)


def _at_once(device: str) -> int:
    """How many this machine grades at once: a core and a gigabyte each, or a few on one GPU."""
    if device == "cuda":
        return ON_ONE_GPU
    from psutil import virtual_memory

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, virtual_memory().available // BYTES_OF_A_JOB))


@contextmanager
def _bar(work: Plan) -> Iterator[tuple[Callable[[Result], None], Callable[[str], None]]]:
    """How far the class is, and the time left, where a person is watching.

    Gives what is called with each result, and what prints a sentence above the bar.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from infralens.show.harmless import one_line

    console = terminal(stderr=True)
    columns = (
        *(BarColumn(), MofNCompleteColumn(), TextColumn("submissions"), TimeElapsedColumn()),
        *(TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.description}")),
    )
    # The mean of ten minutes: submissions of several labs take unlike times.
    with Progress(
        *columns, console=console, disable=not console.is_terminal, speed_estimate_period=600
    ) as progress:
        total = sum(len(handed) for handed in work.waiting.values())
        task = progress.add_task("", total=total)

        def on_result(result: Result) -> None:
            name = one_line(f"{result.learner} {result.assignment}", 40)
            progress.update(task, advance=1, description=name)
            done = round(progress.tasks[0].completed)
            if not console.is_terminal and done * 10 // total > (done - 1) * 10 // total:
                tell(f"{done} of {total}")  # where nobody watches, a line each tenth

        def tell(sentence: str) -> None:
            progress.console.print(one_line(sentence))

        yield on_result, tell


def _tell(rows: Sequence[Row], found: Found, out: Path) -> None:
    """What came of it, in a few lines; what needs a look is named."""
    from infralens.show.harmless import one_line

    counts = {state: sum(row.state == state for row in rows) for state in STATES}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    say(f"In {out}: {told}")
    bad = [f"{row.learner} {row.assignment} {row.state}: {row.said}" for row in rows if row.said]
    for line in bad[:MOST_TOLD]:
        click.echo(f"  {one_line(line)}")
    if len(bad) > MOST_TOLD:
        click.echo(f"  … and {len(bad) - MOST_TOLD} more, in summary.csv")
    if found.left:
        click.echo(f"Left out: {len(found.left)}")
        for file, reason in found.left[:MOST_TOLD]:
            click.echo(f"  {one_line(f'{file}: {reason}')}")
        if len(found.left) > MOST_TOLD:
            click.echo(f"  … and {len(found.left) - MOST_TOLD} more, in summary.json")
    say(f"written: {out / 'summary.csv'}, {out / 'summary.json'}")
    say(f"Next: `{program()} class-report {shlex.quote(str(out))}` shows what the class knows.")


@main.command("class-report")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--csv", "table", type=click.Path(dir_okay=False, path_type=Path), help="Write CSV.")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write HTML.")
def class_report(folder: Path, table: Path | None, page: Path | None) -> None:
    """Show how a class stands.

    FOLDER is what `batch` wrote, or a course that nbgrader graded. You see points a todo, mistakes
    and how many made them, what to teach again, and whose work is alike.
    """
    from infralens.course.assigned import assigned_in
    from infralens.course.class_report import standings
    from infralens.course.class_shown import class_csv, class_html, show_class
    from infralens.course.record import RecordError
    from infralens.regular import write_out

    for output in (table, page):
        if output is not None:
            require_writable(output)
    try:
        found = standings(folder, assigned_in(folder, all_labs()) or ())
    except RecordError as error:
        raise UsageError(str(error)) from None
    if not found:
        raise UsageError(
            f"{folder} holds no results: name what `infralens batch` wrote, or a course that "
            "`nbgrader autograde` went over."
        )
    show_class(found, terminal())
    for output, text in (
        (table, class_csv(found)),
        (page, class_html(found, folder.resolve().name)),
    ):
        if output is not None:
            try:
                write_out(output, text)
            except OSError as error:
                raise UsageError(f"{output} cannot be written: {error.strerror}.") from None
            say(f"written: {output}")

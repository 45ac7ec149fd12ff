"""For answers: grade, debug, watch."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infralens.labs import (
    Lab,
    UnknownLabError,
    find_todo,
    todo_name,
)

if TYPE_CHECKING:
    from infralens.grading import Examiner
    from infralens.report import Report
    from infralens.workspace import Workspace

from infralens.cli.choosing import (
    all_labs,
    complete_labs,
    file_option,
    lab_named,
    next_lab,
    program,
    require_a_grader,
    require_no_link,
    require_readable,
    require_writable,
    terminal,
    todo_argument,
    todo_ids,
    verbose_option,
    workspace_or_usage,
)
from infralens.cli.group import (
    GRADER_FAILED,
    PASSED,
    POINTS_MISSING,
    UsageError,
    main,
)
from infralens.cli.learning import read


@main.command("grade")
@click.argument("lab", required=False, shell_complete=complete_labs)
@click.option("--all", "every", is_flag=True, help="Grade every lab that you have begun.")
@click.option("--todo", "todos", multiple=True, help="Grade only this todo (again for more).")
@file_option("Grade this file: Python, or a notebook.")
@click.option("--ref", help="Grade the file as it stands at this git revision.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")
@click.option("--isolation", type=click.Choice(["auto", "process", "sandbox"]), default="auto")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Replay the inputs of a run.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit", "html"]), default="text"
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it here.")
@verbose_option
@click.pass_context
def grade_command(
    ctx: click.Context,
    lab: str | None,
    every: bool,
    todos: tuple[str, ...],
    file: Path | None,
    ref: str | None,
    device: str,
    isolation: str,
    seed: int | None,
    form: str,
    output: Path | None,
) -> None:
    """Grade LAB, or the next one, and explain the first mistake.

    Exit code: 0 full marks, 1 points missing, 2 wrong usage, 3 the grader failed.
    """
    from infralens import workspace

    here = workspace.find_workspace(Path.cwd())
    if output is not None:
        require_writable(output)
    if every:
        if lab or todos or file or ref or output or form != "text":
            raise UsageError("--all grades every lab that you have begun: it takes no other name.")
        ctx.exit(_grade_all(workspace_or_usage(here, workspace), seed, device, isolation))
    if lab is None and file is not None:
        raise UsageError("Name the lab that --file belongs to.")
    chosen = next_lab(workspace_or_usage(here, workspace)) if lab is None else lab_named(lab)
    ids = todo_ids(chosen, todos)
    with _submission(chosen, here, file, ref) as path:
        watched = form == "text" and output is None
        report = _graded_file(chosen, path, ids, seed, device, isolation, watched=watched)
    if ref is not None:
        report = replace(report, submission=f"{ref}:{chosen.file}")
    _deliver(report, chosen, form, output)
    if file is None and ref is None and seed is None and here is not None:  # a drawn seed only
        complaint = workspace.record(here, report)
        if complaint:
            click.echo(complaint, err=True)
    ctx.exit(_exit_code(report))


def _grade_all(here: Workspace, seed: int | None, device: str, isolation: str) -> int:
    """Grade every file that is no stub any more, in one examiner. The worst exit code."""
    from infralens import workspace
    from infralens.grading import examiner
    from infralens.show.terminal import show_report

    begun = [lab for lab in all_labs() if _is_begun(here.file(lab), lab)]
    if not begun:
        raise UsageError(f"No file in {here.root} has been changed yet; there is nothing to grade.")
    worst = PASSED
    console = terminal()
    with examiner(serve=True) as warm:
        for lab in begun:
            path = here.file(lab)
            report = _graded_file(lab, path, (), seed, device, isolation, watched=True, using=warm)
            show_report(report, console, lab.short, program())
            complaint = workspace.record(here, report) if seed is None else None
            if complaint:
                click.echo(complaint, err=True)
            worst = max(worst, _exit_code(report))
    return worst


def _is_begun(path: Path, lab: Lab) -> bool:
    from infralens.examiner.candidate.submission import MAX_BYTES
    from infralens.regular import read_regular

    try:
        return read_regular(path, MAX_BYTES) != lab.stub.read_bytes()
    except OSError:
        return os.path.lexists(path) and not path.is_dir()  # the grade says what is wrong with it


def _exit_code(report: Report) -> int:
    if report.grader_error is not None:
        return GRADER_FAILED
    return PASSED if report.passed else POINTS_MISSING


@contextmanager
def _submission(
    lab: Lab, here: Workspace | None, file: Path | None, ref: str | None
) -> Iterator[Path]:
    from infralens import workspace

    if ref is None:
        yield (file or workspace_or_usage(here, workspace).file(lab)).absolute()
        return
    from infralens.revisions import MOST_FILE_BYTES, RevisionError, file_at

    path = (file or workspace_or_usage(here, workspace).file(lab)).absolute()
    require_no_link(path)  # behind it may be another repository, such as the one of the solutions
    try:
        data = file_at(path.resolve(), ref, most_bytes=MOST_FILE_BYTES)
    except RevisionError as error:
        raise UsageError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="infralens-ref-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(data)
        yield copy


def _graded_file(
    lab: Lab,
    path: Path,
    todos: tuple[str, ...],
    seed: int | None,
    device: str,
    isolation: str,
    *,
    watched: bool,
    using: Examiner | None = None,
) -> Report:
    from infralens.examiner.errors import UnavailableError, UnreadableError
    from infralens.grading import examiner, grade

    require_readable(path)
    try:
        with nullcontext(using) if using else examiner() as started:
            require_a_grader(lab)  # and what shows a report is imported, while it starts
            with _progress(watched) as on_event:
                return grade(
                    lab,
                    path,
                    todos=todos,
                    seed=seed,
                    device=device,
                    isolation=isolation,
                    on_event=on_event,
                    using=started,
                )
    except (UnreadableError, UnavailableError) as error:
        raise UsageError(str(error)) from None


@contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A line on stderr that says how far the grade is, where a person is watching."""
    console = terminal(stderr=True)
    if not (wanted and console.is_terminal):
        yield lambda event: None
        return
    done = total = 0
    with console.status("starting torch and diffusers …") as status:

        def on_event(event: dict[str, Any]) -> None:
            nonlocal done, total
            if event["event"] == "planned":
                total = event["checks"]
            elif event["event"] == "check":
                done += 1
                status.update(f"{done} of {total} checks")

        yield on_event


def _after(report: Report, lab: Lab) -> str:
    """The command for what comes once all that was graded is right."""
    if report.max_score == lab.max_score:
        return f"quiz {lab.short}"
    last = [todo.id for todo in lab.todos].index(report.todos[-1].id)
    following = lab.todos[last + 1 : last + 2]
    return f"read {todo_name(lab, following[0])}" if following else f"grade {lab.short}"


def _deliver(report: Report, lab: Lab, form: str, output: Path | None) -> None:
    from infralens.regular import write_out
    from infralens.show.terminal import show_report

    if form == "text" and output is None:
        show_report(report, terminal(), lab.short, program())
        if report.passed:
            click.echo(f"\n  next  {program()} {_after(report, lab)}")
        return
    if form == "text":
        console = terminal(record=True, width=100, file=io.StringIO())
        show_report(report, console, lab.short, program())
        text = console.export_text()
    else:
        from infralens.report import Report
        from infralens.show.html import to_html
        from infralens.show.junit import to_junit

        forms: dict[str, Callable[[Report], str]] = {
            "json": Report.to_json,
            "junit": to_junit,
            "html": partial(to_html, program=program()),
        }
        text = forms[form](report)
    if output is None:
        click.echo(text)
        return
    try:
        write_out(output, text + "\n")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.") from None


@main.command()
@todo_argument
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="The seed of the failing grade.")
@file_option("Debug this file.")
@click.pass_context
def debug(ctx: click.Context, todo: str, seed: int | None, file: Path | None) -> None:
    """Make the failing call of TODO again, and stop in pdb.

    It is made in this very process, on the inputs of the grade with this seed; pdb stops at the
    first line of your function. The exit code is 1 when the todo fails.
    """
    from infralens import workspace
    from infralens.show.terminal import first_failure

    try:
        lab, chosen = find_todo(todo, all_labs())
    except UnknownLabError as error:
        raise UsageError(str(error)) from None
    here = workspace.find_workspace(Path.cwd())
    path = file or workspace_or_usage(here, workspace).file(lab)
    click.echo(f"Looking for the call of {chosen.id} that fails …", err=True)
    report = _graded_file(lab, path, (chosen.id,), seed, "cpu", "auto", watched=False)
    found = first_failure(report)
    if report.grader_error is not None:
        raise click.ClickException(report.grader_error)
    if found is None:
        click.echo(f"{chosen.id} passes with seed {report.seed}; there is nothing to debug.")
        return
    detail = found[1].detail
    if detail is None or detail.call_index is None or detail.case is None:
        from infralens.show.harmless import harmless

        click.echo(f"There is no call to debug: {harmless(found[1].message)}.")
        ctx.exit(POINTS_MISSING)
    from infralens.debugging import debug_call

    click.echo(f"{found[1].title}\n{detail.call}\nn: next line, p NAME: show, c: go on, q: quit")
    said = debug_call(
        lab,
        path,
        case=detail.case,
        call_index=detail.call_index,
        seed=report.seed,
        round_=detail.round,
    )
    click.echo(said)
    ctx.exit(POINTS_MISSING)


@main.command()
@click.argument("lab", required=False, shell_complete=complete_labs)
@click.option("--todo", "todos", multiple=True, help="Grade only this todo (again for more).")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Grade with this seed every time.")
@file_option("Watch this file.")
@verbose_option
def watch(lab: str | None, todos: tuple[str, ...], seed: int | None, file: Path | None) -> None:
    """Grade LAB (or the next one) again on every save. Ctrl-C ends it.

    What you changed is graded first. In a terminal: h gives a hint, r shows what to read, n goes on
    with the next lab, q ends it.
    """
    from infralens import workspace
    from infralens.examiner.errors import UnreadableError
    from infralens.watching import Wanted, watch_lab

    here = workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace)
    if lab is None and file is not None:
        raise UsageError("Name the lab that --file belongs to.")
    chosen = next_lab(here) if lab is None else lab_named(lab)
    path = (file or here.file(chosen)).absolute()
    if file is not None:
        require_readable(path)
    wanted = Wanted(chosen, path, todo_ids(chosen, todos), seed, counts=file is None)

    def following(lab: Lab) -> Lab | None:
        progress, _ = workspace.read_progress(here)
        labs = [other for other in all_labs() if here.file(other).is_file()]
        open_ = [other for other in labs if progress.score(other) < other.max_score]
        later = [other for other in open_ if labs.index(other) > labs.index(lab)]
        return next((other for other in (*later, *open_) if other.id != lab.id), None)

    def show(page: str) -> None:
        click.get_current_context().invoke(read, what=page)

    try:
        watch_lab(wanted, here, terminal(), program=program(), following=following, read=show)
    except UnreadableError as error:
        raise UsageError(str(error)) from None

"""The command line. Every command calls one function and shows its result; torch stays out."""

from __future__ import annotations

import errno
import io
import math
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infralens import __version__
from infralens.labs import (
    BadLabError,
    Lab,
    UnknownLabError,
    find_lab,
    find_labs,
    find_todo,
    missing_module,
    place_at,
)

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console

    from infralens.grading import Examiner
    from infralens.quiz import Answer, Question
    from infralens.report import Report
    from infralens.workspace import Workspace

PASSED, POINTS_MISSING, WRONG_USAGE, GRADER_FAILED = 0, 1, 2, 3


class UsageError(click.ClickException):
    """Wrong usage: one sentence, exit code 2."""

    exit_code = WRONG_USAGE

    def show(self, file: Any = None) -> None:
        click.echo(f"infralens: {_harmless(self.message)}", err=True)


class BrokenKitError(click.ClickException):
    """Something of ours is broken: one sentence, exit code 3."""

    exit_code = GRADER_FAILED

    def show(self, file: Any = None) -> None:
        click.echo(f"infralens: {_harmless(self.message)}", err=True)


def _harmless(text: str) -> str:
    """A sentence that may name a path or a word of somebody else's."""
    from infralens.show.harmless import harmless

    return harmless(text)


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Commands(click.Group):
    """The group of all commands; knows their order and suggests the nearest name."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; where there is no room for its output, or no current folder, say so."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            problem = _unfit_place(error)
            if problem is None:
                raise
            click.echo(f"infralens: {problem}", err=True)
            sys.exit(WRONG_USAGE)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            near = difflib.get_close_matches(args[0], self.commands, n=1)
            advice = f" Did you mean {near[0]}?" if near else " See `infralens --help`."
            raise UsageError(f"There is no command {args[0]!r}.{advice}") from None


def _unfit_place(error: OSError) -> str | None:
    """One sentence about the place a command runs in, where that is why it failed."""
    try:
        Path.cwd()
    except OSError:
        return "The current folder is not there any more: go to another one."
    if error.errno in NO_ROOM:
        return f"The output cannot be written: {error.strerror}."
    return None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="infralens")
@click.option(
    "--labs",
    "extra",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with further labs (suites/, exercises/, solutions/).",
)
@click.pass_context
def main(ctx: click.Context, extra: tuple[Path, ...]) -> None:
    """Self-grading labs about diffusion inference, judged against the live diffusers library."""
    ctx.obj = [path.resolve() for path in extra]
    # An exception, so that examiners are closed; the code is what shells say of such an end.
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)  # Windows has only the first
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def all_labs() -> tuple[Lab, ...]:
    extra = click.get_current_context().obj or []
    try:
        return find_labs(extra)
    except BadLabError as error:
        raise UsageError(str(error)) from None


def lab_named(name: str) -> Lab:
    try:
        return find_lab(name, all_labs())
    except UnknownLabError as error:
        raise UsageError(str(error)) from None


def _complete_labs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [lab.short for lab in find_labs() if lab.short.startswith(incomplete)]


def _complete_todos(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    ids = (todo.id for lab in find_labs() for todo in lab.todos)
    return [todo for todo in ids if todo.startswith(incomplete)]


def program() -> str:
    """How this command was called, for the commands that it prints: they can be pasted."""
    import shlex

    folders = click.get_current_context().obj or []
    shown = [str(path) for path in folders]
    return " ".join(["infralens", *(f"--labs {shlex.quote(path)}" for path in shown)])


def _once(ctx: click.Context, param: click.Parameter, values: tuple[Path, ...]) -> Path | None:
    if len(values) > 1:
        raise UsageError(f"--{param.name} was given {len(values)} times; give it once.")
    return values[0] if values else None


def file_option(help_: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    kind: Any = click.Path(path_type=Path)
    return click.option("--file", type=kind, multiple=True, callback=_once, help=help_)


lab_argument = click.argument("lab", shell_complete=_complete_labs)
todo_argument = click.argument("todo", shell_complete=_complete_todos)


LEAST_COLUMNS, DEFAULT_COLUMNS = 10, 80


def _console(**options: Any) -> Console:
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False, **options)
    if console.width < LEAST_COLUMNS:  # COLUMNS=0, as some terminals say before they are drawn
        console.width = DEFAULT_COLUMNS
    return console


@main.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def init(folder: Path) -> None:
    """Make a workspace with the exercises in FOLDER, or here."""
    from infralens import workspace

    try:
        places = [place_at(extra) for extra in click.get_current_context().obj or []]
        _, written, kept = workspace.init(folder, places)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    kept_note = f"; {kept} that were there are kept" if kept else ""
    click.echo(f"{written} files written to {folder}{kept_note}.")
    first = "" if folder.resolve() == Path.cwd() else f"`cd {folder}`, then "
    click.echo(f"Next: {first}`{program()} list` shows the labs.")


FILE_COLUMNS = 84
PIPED_COLUMNS = 200  # for a program that reads a table: a line is a lab


@main.command("list")
def list_labs() -> None:
    """Show the labs, your points so far, and what is next."""
    from rich.table import Table
    from rich.text import Text

    from infralens import workspace

    here = workspace.find_workspace(Path.cwd())
    progress, damage = workspace.read_progress(here) if here else (workspace.Progress(), None)
    if damage:
        click.echo(damage, err=True)
    console = _console()
    if not console.is_terminal:
        console.width = PIPED_COLUMNS
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    labs = all_labs()
    table.add_column(no_wrap=True, min_width=max((len(lab.short) for lab in labs), default=0))
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True, justify="right")
    roomy = console.width >= FILE_COLUMNS  # where it is narrow, titles need the room of the files
    if roomy:
        table.add_column(no_wrap=True)
    upcoming = None
    for lab in labs:
        score = progress.score(lab)
        done = score == lab.max_score
        upcoming = upcoming or (None if done else lab)
        style = "green" if done else ""
        quizzed = progress.quizzes.get(lab.id)
        row: list[str | Text] = [
            Text(lab.short, "bold"),
            f"{lab.title} (quiz {quizzed[0]}/{quizzed[1]})" if quizzed else lab.title,
            Text(f"{score}/{lab.max_score}", style),
            lab.file,
        ]
        table.add_row(*row[: 4 if roomy else 3])
    console.print(table)
    if upcoming is not None:
        click.echo(f"\nNext: {program()} read {upcoming.short}")


@main.command()
@click.argument("what", metavar="LAB|PAGE", shell_complete=_complete_labs)
def read(what: str) -> None:
    """Show the page of a lab, or one of the handbook.

    A lab's page comes with its handbook section; `process` and handbook/process.md are one page.
    """
    from infralens.labs import own_place
    from infralens.show.reading import handbook_text, show_page, show_text

    console = _console()
    with _paged(console):
        in_handbook = what.startswith("handbook/")
        name, mark, part = what.removeprefix("handbook/").partition("#")
        page = f"handbook/{name.removesuffix('.md')}.md{mark}{part}"
        text = handbook_text(own_place().exercises, page)
        if text is not None:
            page_path = own_place().exercises / page.partition("#")[0]
            show_text(text, console, page_path, program())
            return
        if in_handbook:
            raise UsageError(f"The handbook has no {what.removeprefix('handbook/')[:60]}.")
        chosen = lab_named(what)
        if not chosen.page.is_file():
            raise UsageError(f"{chosen.short} has no page yet.")
        show_page(chosen, console, program())


@contextmanager
def _paged(console: Console) -> Iterator[None]:
    """A pager where a person is reading; plain output elsewhere."""
    from infralens.show.paging import letting_styles_through

    if not console.is_terminal:
        yield
        return
    with letting_styles_through() as styled, console.pager(styles=styled, links=styled):
        yield


@main.command()
@click.argument("lab", required=False, shell_complete=_complete_labs)
@click.option("--all", "every", is_flag=True, help="Grade every lab that you have begun.")
@click.option("--todo", "todos", multiple=True, help="Grade only this todo (again for more).")
@file_option("Grade this file.")
@click.option("--ref", help="Grade the file as it stands at this git revision.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")
@click.option("--isolation", type=click.Choice(["auto", "process", "sandbox"]), default="auto")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Replay the inputs of a run.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit", "html"]), default="text"
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it here.")
@click.pass_context
def grade(
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
        _require_writable(output)
    if every:
        if lab or todos or file or ref or output or form != "text":
            raise UsageError("--all grades every lab that you have begun: it takes no other name.")
        ctx.exit(_grade_all(_workspace_or_usage(here, workspace), seed, device, isolation))
    if lab is None and file is not None:
        raise UsageError("Name the lab that --file belongs to.")
    chosen = lab_named(lab) if lab else _next_lab(_workspace_or_usage(here, workspace))
    ids = _todo_ids(chosen, todos)
    with _submission(chosen, here, file, ref) as path:
        watched = form == "text" and output is None
        report = _graded(chosen, path, ids, seed, device, isolation, watched=watched)
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
    console = _console()
    with examiner(serve=True) as warm:
        for lab in begun:
            path = here.file(lab)
            report = _graded(lab, path, (), seed, device, isolation, watched=True, using=warm)
            show_report(report, console, lab.short, program())
            complaint = workspace.record(here, report) if seed is None else None
            if complaint:
                click.echo(complaint, err=True)
            worst = max(worst, _exit_code(report))
    return worst


def _is_begun(path: Path, lab: Lab) -> bool:
    try:
        return path.read_bytes() != lab.stub.read_bytes()
    except OSError:
        return False


def _exit_code(report: Report) -> int:
    if report.grader_error is not None:
        return GRADER_FAILED
    return PASSED if report.passed else POINTS_MISSING


def _require_writable(output: Path) -> None:
    """UsageError for a file that could not be written, before anything is started for it."""
    import os

    if not output.name:
        raise UsageError("--output needs the name of a file.")
    nearest = output.resolve().parent
    if not nearest.is_dir():
        raise UsageError(f"{output} cannot be written: there is no folder {nearest}.")
    if not os.access(nearest, os.W_OK) or (output.exists() and not os.access(output, os.W_OK)):
        raise UsageError(f"{output} cannot be written: Permission denied.")


def _require_readable(path: Path) -> None:
    """UsageError where there is no file to grade. The examiner reads it once more, itself."""
    from infralens.examiner.submission import UnreadableError, read_submission

    try:
        read_submission(path)
    except UnreadableError as error:
        raise UsageError(str(error)) from None


def _todo_ids(lab: Lab, names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(lab.todo(name).id for name in names)
    except UnknownLabError as error:
        raise UsageError(str(error)) from None


@contextmanager
def _submission(
    lab: Lab, here: Workspace | None, file: Path | None, ref: str | None
) -> Iterator[Path]:
    from infralens import workspace

    if ref is None:
        yield (file or _workspace_or_usage(here, workspace).file(lab)).absolute()
        return
    from infralens.revisions import MOST_FILE_BYTES, RevisionError, file_at

    path = (file or _workspace_or_usage(here, workspace).file(lab)).resolve()
    try:
        data = file_at(path, ref, most_bytes=MOST_FILE_BYTES)
    except RevisionError as error:
        raise UsageError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="infralens-ref-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(data)
        yield copy


def _workspace_or_usage(here: Workspace | None, workspace: Any) -> Workspace:
    if here is not None:
        return here
    try:
        found: Workspace = workspace.require_workspace(Path.cwd())
    except workspace.NoWorkspaceError as error:
        raise UsageError(str(error)) from None
    return found


def _graded(
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
    from infralens.doctor import complaints
    from infralens.grading import UnavailableError, UnreadableError
    from infralens.grading import grade as grade_submission

    _require_readable(path)
    missing = missing_module(lab)
    if missing is not None:
        raise BrokenKitError(f"{lab.short} loads {missing}, which is not installed here.")
    for sentence, fatal in complaints():
        click.echo(f"infralens: {sentence}", err=True)
        if fatal:
            click.get_current_context().exit(GRADER_FAILED)

    with _progress(watched) as on_event:
        try:
            return grade_submission(
                lab,
                path,
                todos=todos,
                seed=seed,
                device=device,
                isolation=isolation,
                on_event=on_event,
                using=using,
            )
        except (UnreadableError, UnavailableError) as error:
            raise UsageError(str(error)) from None


@contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A line on stderr that says how far the grade is, where a person is watching."""
    console = _console(stderr=True)
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


def _deliver(report: Report, lab: Lab, form: str, output: Path | None) -> None:
    from infralens.regular import write_out
    from infralens.report import Report
    from infralens.show.html import to_html
    from infralens.show.junit import to_junit
    from infralens.show.terminal import show_report

    if form == "text" and output is None:
        show_report(report, _console(), lab.short, program())
        if report.passed and report.max_score == lab.max_score:
            click.echo(f"\n  next  {program()} quiz {lab.short}")
        return
    if form == "text":
        console = _console(record=True, width=100, file=io.StringIO())
        show_report(report, console, lab.short, program())
        text = console.export_text()
    else:
        text = {"json": Report.to_json, "junit": to_junit, "html": to_html}[form](report)
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
    path = file or _workspace_or_usage(here, workspace).file(lab)
    click.echo(f"Looking for the call of {chosen.id} that fails …", err=True)
    report = _graded(lab, path, (chosen.id,), seed, "cpu", "auto", watched=False)
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
@click.argument("lab", required=False, shell_complete=_complete_labs)
@click.option("--todo", "todos", multiple=True, help="Grade only this todo (again for more).")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Grade with this seed every time.")
@file_option("Watch this file.")
def watch(lab: str | None, todos: tuple[str, ...], seed: int | None, file: Path | None) -> None:
    """Grade LAB (or the next one) again on every save. Ctrl-C ends it.

    What you changed is graded first. In a terminal: h gives a hint, r shows what to read, n goes on
    with the next lab, q ends it.
    """
    from infralens import workspace
    from infralens.grading import UnreadableError
    from infralens.watching import Wanted, watch_lab

    here = _workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace)
    if lab is None and file is not None:
        raise UsageError("Name the lab that --file belongs to.")
    chosen = lab_named(lab) if lab else _next_lab(here)
    path = (file or here.file(chosen)).absolute()
    if file is not None:
        _require_readable(path)
    wanted = Wanted(chosen, path, _todo_ids(chosen, todos), seed, counts=file is None)

    def following(lab: Lab) -> Lab | None:
        progress, _ = workspace.read_progress(here)
        labs = [other for other in all_labs() if here.file(other).is_file()]
        open_ = [other for other in labs if progress.score(other) < other.max_score]
        later = [other for other in open_ if labs.index(other) > labs.index(lab)]
        return next((other for other in (*later, *open_) if other.id != lab.id), None)

    def show(page: str) -> None:
        click.get_current_context().invoke(read, what=page)

    try:
        watch_lab(wanted, here, _console(), program=program(), following=following, read=show)
    except UnreadableError as error:
        raise UsageError(str(error)) from None


def _next_lab(here: Workspace) -> Lab:
    from infralens import workspace

    progress, _ = workspace.read_progress(here)
    labs = all_labs()
    return next((lab for lab in labs if progress.score(lab) < lab.max_score), labs[0])


@main.command()
@todo_argument
@click.option("--again", is_flag=True, help="Show the hints seen so far, and no new one.")
def hint(todo: str, again: bool) -> None:
    """Give the next of the three hints for TODO.

    Where to look, the idea, almost the line.
    """
    from infralens import workspace

    try:
        lab, chosen = find_todo(todo, all_labs())
    except UnknownLabError as error:
        raise UsageError(str(error)) from None
    here = workspace.find_workspace(Path.cwd())
    key = f"{lab.track}/{chosen.id}"
    progress = workspace.read_progress(here)[0] if here else workspace.Progress()
    seen = min(progress.hints.get(key, 0) + (not again), len(chosen.hints))
    if here is not None and not again:
        try:
            with workspace.updating(here) as holder:
                holder[0] = holder[0].hinted(key, seen)
        except OSError as error:
            click.echo(f"This hint was not noted: {error.strerror or error}.", err=True)
    console = _console()
    for number, text in enumerate(chosen.hints[:seen], start=1):
        console.print(
            f"{number}/{len(chosen.hints)}  {text}",
            style="" if number == seen else "dim",
        )
    if seen == len(chosen.hints):
        click.echo("That was the last hint.")


def _no_nan(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """NaN is in every range of click's, since no comparison finds it outside."""
    if math.isnan(value):
        raise click.BadParameter("nan is no number.", ctx, param)
    return value


def picture_options(command: Callable[..., None]) -> Callable[..., None]:
    """PROMPT and how to draw it."""
    options = [
        click.argument("prompt"),
        click.option("--negative-prompt", default="", help="What the picture is to be away from."),
        click.option(
            "--guidance-scale",
            default=4.0,
            show_default=True,
            type=click.FloatRange(0, 100),
            callback=_no_nan,
        ),
        click.option("--steps", default=25, show_default=True, type=click.IntRange(1, 1000)),
        click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1)),
        click.option("--enlarge", default=8, show_default=True, type=click.IntRange(1, 64)),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def out_option(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--out",
        default=default,
        show_default=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="The PNG file to write.",
    )


@main.command()
@picture_options
@out_option("picture.png")
def generate(
    prompt: str,
    negative_prompt: str,
    guidance_scale: float,
    steps: int,
    seed: int,
    enlarge: int,
    out: Path,
) -> None:
    """Draw PROMPT with a tiny Stable Diffusion.

    For one: "a large yellow star on navy background". The model was trained for this kit on
    pictures of 32 x 32 pixels, and is small enough to lie in it. --enlarge 8 makes each pixel a
    square of eight.
    """
    from infralens import shapes

    _before_drawing(prompt, negative_prompt, out)
    (picture,) = shapes.generate(
        prompt,
        negative_prompt=negative_prompt,
        steps=steps,
        guidance_scale=guidance_scale,
        seed=seed,
    )
    _write_picture(out, picture, enlarge)


@main.command("try")
@picture_options
@out_option("mine.png")
@file_option("Draw with this file.")
@click.pass_context
def try_(
    ctx: click.Context,
    file: Path | None,
    prompt: str,
    negative_prompt: str,
    guidance_scale: float,
    steps: int,
    seed: int,
    enlarge: int,
    out: Path,
) -> None:
    """Draw PROMPT with your own lab 06, and compare.

    StableDiffusionPipeline draws it too. Both are given the kit's tiny Stable Diffusion; the
    library's picture has "-library" in its name.
    """
    from infralens import workspace

    path = file or _workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace).file(
        lab_named("lab-06")
    )
    if _is_not_started(path, "generate"):
        click.echo("Nothing is drawn: 6.5 (generate) is not started.", err=True)
        ctx.exit(POINTS_MISSING)
    _before_drawing(prompt, negative_prompt, out)
    from infralens.examiner.submission import UnreadableError
    from infralens.shapes.sampling import Request
    from infralens.show.harmless import one_line
    from infralens.trying import TryError, try_out

    request = Request(steps=steps, guidance_scale=guidance_scale)
    try:
        tried = try_out(path, prompt, negative_prompt, request, seed)
    except UnreadableError as error:
        raise UsageError(str(error)) from None
    except TryError as error:
        click.echo(one_line(str(error)), err=True)
        ctx.exit(POINTS_MISSING)
    beside = out.with_stem(f"{out.stem}-library")
    _write_picture(out, tried.mine, enlarge)
    _write_picture(beside, tried.library, enlarge)
    if not tried.wrong_pixels:
        click.echo("StableDiffusionPipeline draws the same with this prompt and seed.")
        return
    click.echo(
        f"{tried.wrong_pixels} of {tried.mine.width * tried.mine.height} pixels are not as "
        f"StableDiffusionPipeline draws them: compare {beside}. "
        f"`{program()} grade lab-06 --todo 6.5` looks for the reason."
    )
    ctx.exit(POINTS_MISSING)


def _is_not_started(path: Path, name: str) -> bool:
    """Whether the file still has the stub's line there: told before torch is imported."""
    from infralens.examiner.submission import UnreadableError, read_submission

    try:
        return read_submission(path).is_not_started(name)
    except UnreadableError as error:
        raise UsageError(str(error)) from None


def _before_drawing(prompt: str, negative_prompt: str, out: Path) -> None:
    """UsageError for a file that is no PNG or a missing library; a word about what is not read."""
    from infralens import shapes

    if out.suffix.lower() != ".png":
        raise UsageError(f"{out} does not end in .png, the one format that is written.")
    _require_writable(out)
    try:
        f"{prompt}{negative_prompt}".encode()
    except UnicodeEncodeError:
        raise UsageError("The prompt is not UTF-8 text.") from None
    _require_whole_model()
    try:
        shapes.quiet()
    except ImportError as error:
        missing = error.name or error
        raise UsageError(f"{missing} is needed for this; see `infralens doctor`.") from None
    for text in (prompt, negative_prompt):
        _tell_what_is_not_read(text)


def _require_whole_model() -> None:
    """BrokenKitError when a file of the shipped model is missing or damaged."""
    from infralens import shapes
    from infralens.shapes.manifest import damages

    try:
        found = damages(shapes.MANIFEST.parent)
    except (OSError, ValueError) as error:
        found = [f"{shapes.MANIFEST.name} cannot be read: {error}"]
    if found:
        raise BrokenKitError(f"The kit's model is damaged ({found[0]}): install infralens again.")


WORDS_TOLD, LETTERS_TOLD = 5, 30


def _tell_what_is_not_read(text: str) -> None:
    """Words that the model was never shown, and where a text is too long for it."""
    from infralens import shapes
    from infralens.show.harmless import one_line

    unknown = shapes.unknown_words(text)
    if unknown:
        told = [repr(one_line(word, LETTERS_TOLD)) for word in unknown[:WORDS_TOLD]]
        told += [f"{len(unknown) - WORDS_TOLD} more words"] * (len(unknown) > WORDS_TOLD)
        click.echo(
            f"The model was never shown {' or '.join(told)}. It knows {shapes.KNOWN}.", err=True
        )
    read = shapes.part_that_is_read(text)
    if read is not None:
        click.echo(f"It is too long: the model reads only {one_line(read)!r}.", err=True)


def _write_picture(out: Path, picture: Image, enlarge: int) -> None:
    from infralens import shapes
    from infralens.regular import write_out

    try:
        write_out(out, shapes.as_png(picture, enlarge))
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}.") from None
    click.echo(f"{out}: {picture.width * enlarge} x {picture.height * enlarge} pixels")


@main.command()
@lab_argument
def quiz(lab: str) -> None:
    """Ask the reading checkpoints of a lab, one by one."""
    from infralens import workspace
    from infralens.quiz import explained, questions_of

    chosen = lab_named(lab)
    console, waiting = _console(), _console(stderr=True)
    with waiting.status("working out the answers with diffusers …"):
        questions = questions_of(chosen)
        answers = [question.answer() for question in questions]
    if not questions:
        raise UsageError(f"{chosen.short} has no checkpoints.")
    click.echo("An empty line passes a question over.")
    right = 0
    for number, (question, answer) in enumerate(zip(questions, answers, strict=True), start=1):
        console.print(f"\n{number}/{len(questions)}  {question.text}")
        for letter, choice in zip("abcdefgh", question.choices, strict=False):
            console.print(f"  {letter}) {choice}")
        try:
            tries = _answered(question, answer)
        except click.Abort:
            click.echo(f"\nStopped. {right} of {number - 1} right so far.")
            return
        right += tries == 1
        word = {0: "Passed over", 1: "Right", 2: "Right now"}.get(tries, "No")
        console.print(f"{word}: {explained(question, answer)}")
    click.echo(f"\n{right} of {len(questions)} right at once.")
    here = workspace.find_workspace(Path.cwd())
    if here is not None:
        try:
            with workspace.updating(here) as holder:
                holder[0] = holder[0].quizzed(chosen, right, len(questions))
        except OSError as error:
            click.echo(f"This record was not kept: {error.strerror or error}.", err=True)


def _answered(question: Question, answer: Answer) -> int:
    """Ask until the answer is right, twice at most. Which try was right; 0 passed, 3 none was."""
    from infralens.quiz import expects, is_an_answer, is_right

    form = expects(answer, question.choices)
    for attempt in (1, 2):
        given = click.prompt(f"your answer ({form})", default="", show_default=False)
        while not is_an_answer(given, answer, question.choices):
            click.echo("That is no answer of this kind.")
            given = click.prompt(f"your answer ({form})", default="", show_default=False)
        if not given.strip():
            return 0
        if is_right(given, answer, question.choices):
            return attempt
        if attempt == 1:
            click.echo("Not yet. One more try:")
    return 3


MOST_BACKED_UP = 64 * 2**20


@main.command()
@lab_argument
def reset(lab: str) -> None:
    """Put the stub of LAB back. Your file is kept beside it as a backup."""
    from infralens import workspace
    from infralens.regular import read_regular, refuse_links, write_below, write_new

    chosen = lab_named(lab)
    here = _workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace)
    path = here.file(chosen)
    if path.resolve() == chosen.stub.resolve():
        raise UsageError(
            f"{path} is the stub itself. Work in a workspace of your own: `infralens init DIR`."
        )
    try:
        stub = chosen.stub.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise BrokenKitError(f"{chosen.short} has no stub to put back: {chosen.stub}.") from None
    try:
        refuse_links(here.root, path)
        if path.is_file():
            mine = read_regular(path, MOST_BACKED_UP, follow=False)
            if mine != stub.encode():
                backup = workspace.backup_of(path)
                write_new(here.root, backup, mine)
                click.echo(f"Your file is kept as {backup}.")
        write_below(here.root, path, stub)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with workspace.updating(here) as holder:
            holder[0] = holder[0].begun_again(chosen)
    except OSError as error:
        click.echo(f"Your points of {chosen.short} stay: {error.strerror or error}.", err=True)
    click.echo(f"{path} is the stub again.")


@main.command()
@click.argument("lab", metavar="LAB|TODO", shell_complete=_complete_labs)
@click.option("--give-up", is_flag=True, help="Show it although points are missing.")
@click.option("--ref", help="A git revision that holds the solutions.")
def solution(lab: str, give_up: bool, ref: str | None) -> None:
    """Show the solution of LAB or of one TODO, after full marks or with --give-up."""
    from infralens import workspace
    from infralens.stubs import definitions

    todo = None
    with suppress(UnknownLabError):
        chosen, todo = find_todo(lab, all_labs())
    if todo is None:
        chosen = lab_named(lab)
    here = workspace.find_workspace(Path.cwd())
    progress = workspace.read_progress(here)[0] if here else workspace.Progress()
    score = progress.score(chosen) if todo is None else progress.points(chosen, todo.id)
    most = chosen.max_score if todo is None else todo.points
    if score < most and not give_up:
        raise UsageError(
            f"You have {score} of {most} points in {todo.id if todo else chosen.short}. "
            f"The solution is shown after full marks, or with --give-up."
        )
    text = _solution_text(chosen, ref)
    if text is None:
        raise UsageError(
            f"No solution of {chosen.short} is within reach: installed packages hold none. "
            "Use a checkout of the project, or name a branch with --ref."
        )
    click.echo(text if todo is None else definitions(text, todo.names), nl=False)


def _solution_text(lab: Lab, ref: str | None) -> str | None:
    if ref is None:
        path = lab.solution
        return path.read_text(encoding="utf-8") if path is not None and path.is_file() else None
    from infralens.revisions import MOST_FILE_BYTES, RevisionError, file_at, top_of

    try:
        path = top_of(Path.cwd()) / "solutions" / lab.track / lab.folder / lab.file
        data = file_at(path, ref, most_bytes=MOST_FILE_BYTES)
    except RevisionError as error:
        raise UsageError(str(error)) from None
    return data.decode("utf-8", "replace")


@main.command()
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Say what is installed, which device and which isolation."""
    from rich.table import Table
    from rich.text import Text

    from infralens.doctor import examine

    table = Table.grid(padding=(0, 2))
    findings = examine()
    for finding in findings:
        mark = Text("ok", "green") if finding.good else Text("!!", "red")
        table.add_row(mark, finding.name, finding.value, Text(finding.advice, "dim"))
    _console().print(table)
    ctx.exit(PASSED if all(finding.good for finding in findings) else POINTS_MISSING)


@main.command()
@click.option(
    "--lab",
    "names",
    multiple=True,
    shell_complete=_complete_labs,
    help="Only this lab.",
)
@click.option("--ref", help="Take the solutions from this git revision.")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Seeds for the solution; each misconception has one in five of them.",
)
@click.option("--jobs", type=click.IntRange(1), help="Labs proven at the same time.")
@click.option("--margins", is_flag=True, help="Print the margins of every check.")
@click.option("--write", is_flag=True, help="Write the stubs anew from the solutions first.")
@click.pass_context
def check(
    ctx: click.Context,
    names: tuple[str, ...],
    ref: str | None,
    seeds: int,
    jobs: int | None,
    margins: bool,
    write: bool,
) -> None:
    """For authors: prove every lab. One line a fault; exit code 1 when there is one."""
    from infralens.authoring.checking import (
        SolutionsUnavailableError,
        check_labs,
        write_stubs,
    )
    from infralens.authoring.table import show_proofs

    labs = tuple(lab_named(name) for name in names) or all_labs()
    if write:
        for path in write_stubs(labs):
            click.echo(f"written: {path}")
    try:
        proofs = check_labs(labs, ref=ref, seeds=seeds, jobs=jobs, console=_console(stderr=True))
    except SolutionsUnavailableError as error:
        raise UsageError(str(error)) from None
    show_proofs(proofs, _console(), margins=margins)
    ctx.exit(PASSED if not any(proof.faults for proof in proofs) else POINTS_MISSING)


@main.command()
@click.argument("track")
@click.argument("lab")
@click.argument("title")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder of labs of your own; by default this checkout.",
)
def new(track: str, lab: str, title: str, into: Path | None) -> None:
    """For authors: write the files of a new LAB, with this TITLE."""
    import shlex

    from infralens.authoring.beginning import BadNameError, begin_lab

    try:
        written = begin_lab(track, lab, title, into)
    except BadNameError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}.") from None
    for path in written:
        click.echo(f"written: {path}")
    where = f" --labs {shlex.quote(str(into))}" if into else ""
    click.echo(
        f"Next: fill them in; `infralens{where} check --lab {track}/{lab}` says what is left."
    )


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    To use it: eval "$(infralens completion bash)".
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "infralens", "_INFRALENS_COMPLETE").source())


if __name__ == "__main__":
    main()
